//! A session's title and labels, and updates of a session.

use std::collections::BTreeMap;

use super::Expiry;
use super::key::check_text;
use crate::error::{Error, Result};

const MAX_TITLE_BYTES: usize = 2048;
const MAX_LABELS: usize = 64;
const MAX_LABEL_NAME_BYTES: usize = 256;
const MAX_LABEL_VALUE_BYTES: usize = 512;
/// The limit on the bytes of all label names and values together. They are in the session's row, which every append
/// rewrites.
const MAX_LABELS_BYTES: usize = 16 << 10;

/// A session's title and labels. They are not part of the state: changing them appends no event and does not change the
/// session's update time or number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionMetadata {
    /// The title shown to people; never empty.
    pub title: Option<String>,
    /// The labels that programs search by: names and values.
    pub labels: BTreeMap<String, String>,
}

impl SessionMetadata {
    /// Returns the size, in bytes.
    #[doc(hidden)]
    pub fn bytes(&self) -> u64 {
        let labels = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        (self.title.as_ref().map_or(0, String::len) + labels) as u64
    }

    /// Creates metadata from a title and labels; an empty title counts as no title. For store implementations,
    /// including your own.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a title over 2,048 bytes; for more than 64 labels, an empty name, names over 256 bytes,
    /// values over 512 bytes, and more than 16 KiB in total; and for control characters anywhere.
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

    /// Whether there is neither a title nor a label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.labels.is_empty()
    }

    /// Applies an update's title and labels.
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

/// An update of a session's title, labels and expiry; everything it does not name stays unchanged.
///
/// [`update_session`](super::SessionService::update_session) commits it alone, and an append
/// [with an update](super::AppendOptions::with_update) commits it together with its event.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::session::{ListSessionsConfig, SessionUpdate};
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
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionUpdate {
    /// The new title; an empty one removes the title, `None` keeps it.
    pub title: Option<String>,
    /// Labels to set; labels with `None` are removed.
    pub labels: BTreeMap<String, Option<String>>,
    /// How the other labels are treated.
    pub other_labels: OtherLabels,
    /// The new expiry. `Some(None)` means that the session never expires; `None` keeps the present expiry.
    pub expiry: Option<Option<Expiry>>,
}

/// How an update treats the labels that it does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherLabels {
    /// They are kept.
    #[default]
    Keep,
    /// They are removed.
    Remove,
}

impl SessionUpdate {
    /// Sets a new title; an empty one removes the title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Removes the title.
    #[must_use]
    pub fn without_title(self) -> Self {
        self.with_title("")
    }

    /// Sets a label.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes a label.
    #[must_use]
    pub fn without_label(mut self, name: impl Into<String>) -> Self {
        self.labels.insert(name.into(), None);
        self
    }

    /// Removes all labels that this update does not set.
    #[must_use]
    pub fn without_other_labels(mut self) -> Self {
        self.other_labels = OtherLabels::Remove;
        self
    }

    /// Sets when the session expires; `None` for never. An expired session behaves as if it were
    /// deleted.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use scratchbook::prelude::*;
    /// use scratchbook::session::{Expiry, SessionUpdate};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let sessions = InMemorySessionService::new();
    /// let session = sessions.create_session("shop", "alice", Default::default()).await?;
    /// let update = SessionUpdate::default().with_expiry(Expiry::After(Duration::from_secs(3600)));
    /// sessions.update_session(session.key(), update).await?;
    /// sessions.update_session(session.key(), SessionUpdate::default().with_expiry(None)).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_expiry(mut self, expiry: impl Into<Option<Expiry>>) -> Self {
        self.expiry = Some(expiry.into());
        self
    }

    /// Whether the update changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses a title or labels that no session can have.
    ///
    /// # Errors
    ///
    /// As [`SessionMetadata::new`], for the named title and labels.
    pub fn check(&self) -> Result<()> {
        self.labels.keys().try_for_each(|name| check_label(name, ""))?;
        SessionMetadata::default().updated(self).map(drop)
    }
}

/// Selects sessions by title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TitleFilter {
    /// Sessions with exactly this title; an empty one selects sessions without a title.
    Is(String),
    /// Sessions whose title contains this text, ignoring case.
    Containing(String),
}

/// Errors never quote a title: it may contain a user's words.
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
