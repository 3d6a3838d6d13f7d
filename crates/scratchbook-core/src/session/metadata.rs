//! What a session is called and labelled, beside its state, and how that is changed.

use std::collections::BTreeMap;

use super::key::check_text;
use crate::error::{Error, Result};

const MAX_TITLE_BYTES: usize = 2048;
const MAX_LABELS: usize = 64;
const MAX_LABEL_NAME_BYTES: usize = 256;
const MAX_LABEL_VALUE_BYTES: usize = 512;
/// Names and values of all labels: they stand in the session's row, which every append writes anew.
const MAX_LABELS_BYTES: usize = 16 << 10;

/// A session's title and labels. They are no state: no event tells of them, and they move no time and no number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionMetadata {
    /// What people know it by; never empty.
    pub title: Option<String>,
    /// Names and values, which programs find it by.
    pub labels: BTreeMap<String, String>,
}

impl SessionMetadata {
    /// How many bytes it has.
    #[doc(hidden)]
    pub fn bytes(&self) -> u64 {
        let labels = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        (self.title.as_ref().map_or(0, String::len) + labels) as u64
    }

    /// A title, where it is not empty, and labels; for stores, yours among them.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a title over 2,048 bytes; for more than 64 labels, an empty name, names over 256 and values
    /// over 512 bytes, and over 16 KiB of them all; for control characters anywhere.
    pub fn new(title: Option<String>, labels: BTreeMap<String, String>) -> Result<Self> {
        let metadata = Self { title: title.filter(|title| !title.is_empty()), labels };
        metadata.title.iter().try_for_each(|title| check_title(title))?;
        metadata.labels.iter().try_for_each(|(name, value)| check_label(name, value))?;
        let count = metadata.labels.len();
        let bytes: usize = metadata.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        if count > MAX_LABELS {
            return Err(Error::invalid(format!("{count} labels; a session has at most {MAX_LABELS}")));
        }
        if bytes > MAX_LABELS_BYTES {
            return Err(Error::invalid(format!(
                "labels of {bytes} bytes; all of them have at most {MAX_LABELS_BYTES}"
            )));
        }
        Ok(metadata)
    }

    /// Whether there is neither.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.labels.is_empty()
    }

    /// What an update makes of it.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn updated(&self, update: &SessionUpdate) -> Result<Self> {
        let title = update.title.clone().or_else(|| self.title.clone());
        let mut labels = match update.other_labels {
            OtherLabels::Keep => self.labels.clone(),
            OtherLabels::Remove => BTreeMap::new(),
        };
        for (name, value) in &update.labels {
            match value {
                Some(value) => labels.insert(name.clone(), value.clone()),
                None => labels.remove(name),
            };
        }
        Self::new(title, labels)
    }
}

/// What is changed of a session's title and labels; what is not named stays as it is.
///
/// ```
/// use scratchbook::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sessions = InMemorySessionService::new();
/// let config = CreateSessionConfig::default().with_title("Lost parcel").with_label("team", "support");
/// let session = sessions.create_session("shop", "alice", config).await?;
///
/// let update = SessionUpdate::default().with_title("Parcel found").with_label("status", "closed").without_label("team");
/// sessions.update_session(session.key(), update).await?;
///
/// let closed = ListSessionsConfig::default().with_label("status", "closed").with_title_containing("PARCEL");
/// let found = sessions.list_sessions("shop", &closed).await?.sessions;
/// assert_eq!(found[0].title(), Some("Parcel found"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionUpdate {
    /// The new title; an empty one removes it, and absent it stays.
    pub title: Option<String>,
    /// Labels that are set, and, with `None`, those that are removed.
    pub labels: BTreeMap<String, Option<String>>,
    /// What becomes of the labels that are not named.
    pub other_labels: OtherLabels,
}

/// What becomes of the labels that an update does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherLabels {
    /// They stay.
    #[default]
    Keep,
    /// They are removed.
    Remove,
}

impl SessionUpdate {
    /// With a new title; an empty one removes it.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Without title.
    #[must_use]
    pub fn without_title(self) -> Self {
        self.with_title("")
    }

    /// With a label, new or with a new value.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), Some(value.into()));
        self
    }

    /// Without a label.
    #[must_use]
    pub fn without_label(mut self, name: impl Into<String>) -> Self {
        self.labels.insert(name.into(), None);
        self
    }

    /// Without all labels that it does not set.
    #[must_use]
    pub fn without_other_labels(mut self) -> Self {
        self.other_labels = OtherLabels::Remove;
        self
    }

    /// Refuses what no session could have. Every service calls this first.
    ///
    /// # Errors
    ///
    /// As [`SessionMetadata::new`], for what is named.
    pub fn check(&self) -> Result<()> {
        self.labels.keys().try_for_each(|name| check_label(name, ""))?;
        SessionMetadata::default().updated(self).map(drop)
    }
}

/// Which titles are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TitleFilter {
    /// This one, to the byte; where it is empty, none at all.
    Is(String),
    /// Those with this text in them, in upper or lower case.
    Containing(String),
}

/// No message quotes a title: it may be what the user has said.
fn check_title(title: &str) -> Result<()> {
    check_text("a title", title, MAX_TITLE_BYTES)
}

fn check_label(name: &str, value: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid("a label without a name; name it"));
    }
    check_text("the name of a label", name, MAX_LABEL_NAME_BYTES)?;
    check_text("the value of a label", value, MAX_LABEL_VALUE_BYTES).map_err(|e| e.context(format!("label '{name}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_keeps_what_it_does_not_name() {
        let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let before = SessionMetadata::new(Some("t".into()), labels(&[("a", "1"), ("b", "2")])).unwrap();
        let update = SessionUpdate::default().with_label("a", "3").without_label("none");
        let after = before.updated(&update).unwrap();
        assert_eq!((after.title.as_deref(), after.labels), (Some("t"), labels(&[("a", "3"), ("b", "2")])));
        let after = before.updated(&update.without_title().without_other_labels()).unwrap();
        assert_eq!((after.title, after.labels), (None, labels(&[("a", "3")])));
    }
}
