//! Writes with all contents as text, built before a store is involved: what the SQL stores send.

use crate::environment::Deadline;
use crate::error::Result;
use crate::json;
use crate::session::{IdScope, SessionKey, SessionMetadata};
use crate::state::Scope;

use crate::plan::commit::{KeyChange, Prepared, PreparedSession};
use crate::plan::limits::Limits;

/// A change to a stored key, with its value as text.
#[derive(Clone, Debug)]
pub struct TextChange {
    pub scope: Scope,
    /// The key without its prefix.
    pub name: String,
    /// The JSON text; `None` for a removal.
    pub value: Option<String>,
}

impl TextChange {
    pub fn all(changes: &[KeyChange]) -> Result<Vec<Self>> {
        let text =
            |change: &KeyChange| Ok(Self { scope: change.scope, name: change.name.clone(), value: change.text()? });
        changes.iter().map(text).collect()
    }

    /// Returns about how many bytes are written.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.value.as_ref().map_or(0, String::len)
    }
}

/// An event ready to be written.
#[derive(Debug)]
pub struct NewEvent {
    pub prepared: Prepared,
    /// The changes, by scope (session, user, app) and within a scope by name.
    pub changes: Vec<TextChange>,
}

impl NewEvent {
    pub fn new(prepared: Prepared) -> Result<Self> {
        let changes = TextChange::all(&prepared.changes)?;
        Ok(Self { prepared, changes })
    }

    /// Returns about how many bytes are written.
    pub fn bytes(&self) -> usize {
        self.prepared.text.len() + self.changes.iter().map(TextChange::bytes).sum::<usize>()
    }
}

/// The title and labels as in a session's row.
#[derive(Debug)]
pub struct TextMetadata {
    pub title: Option<String>,
    /// A JSON object; `None` without labels.
    pub labels: Option<String>,
}

impl TextMetadata {
    pub fn new(metadata: SessionMetadata) -> Result<Self> {
        let SessionMetadata { title, labels, .. } = metadata;
        let labels = (!labels.is_empty()).then(|| json::to_text(&labels, "the labels")).transpose()?;
        Ok(Self { title, labels })
    }

    /// Whether there is neither a title nor a label.
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.labels.is_none()
    }
}

/// A session ready to be written.
#[derive(Debug)]
pub struct NewSession {
    pub key: SessionKey,
    pub id_scope: IdScope,
    pub metadata: TextMetadata,
    /// The initial state as one object; `own` has it key by key.
    pub initial: Option<String>,
    pub own: Vec<TextChange>,
    /// The changes to the user's and the app's keys, by name.
    pub shared: Vec<TextChange>,
    /// The creation time, in microseconds since 1970.
    pub created: i64,
    /// The expiry time, in microseconds since 1970.
    pub expires: Option<i64>,
    pub events: Vec<NewEvent>,
    pub limits: Limits,
    /// The time by which the caller wants an answer. Loops over many events end with it.
    pub deadline: Deadline,
}

impl NewSession {
    pub fn new(prepared: PreparedSession) -> Result<Self> {
        let PreparedSession {
            key,
            id_scope,
            initial,
            shared,
            metadata,
            created,
            expires,
            events: prepared_events,
            limits,
            deadline,
            ..
        } = prepared;
        let mut events = Vec::with_capacity(prepared_events.len());
        for (step, event) in prepared_events.into_iter().enumerate() {
            deadline.check_at(step)?;
            events.push(NewEvent::new(event)?);
        }
        let own = initial.iter().map(|(name, value)| {
            Ok(TextChange { scope: Scope::Session, name: name.clone(), value: Some(json::to_text(value, "a value")?) })
        });
        Ok(Self {
            key,
            id_scope,
            metadata: TextMetadata::new(metadata)?,
            own: own.collect::<Result<_>>()?,
            initial: (!initial.is_empty()).then(|| json::to_text(&initial, "the state")).transpose()?,
            shared: TextChange::all(&shared)?,
            created,
            expires,
            limits,
            deadline,
            events,
        })
    }

    /// Returns about how many bytes are written.
    pub fn bytes(&self) -> usize {
        self.initial.as_ref().map_or(0, String::len) + self.events.iter().map(NewEvent::bytes).sum::<usize>()
    }
}

/// Returns the smallest text after all texts with a prefix; `None` if there is no such text. Texts are compared by
/// their bytes, which gives the same order as comparing characters.
pub fn prefix_end(prefix: &str) -> Option<String> {
    let mut rest = prefix.chars();
    while let Some(last) = rest.next_back() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            return Some(format!("{}{next}", rest.as_str()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn a_prefix_ends_before_the_next_text_that_has_it_not() {
        for (prefix, end) in [
            ("", None),
            ("a", Some("b")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
            ("x\u{d7ff}", Some("x\u{e000}")),
            ("cart:", Some("cart;")),
            ("\u{7f}", Some("\u{80}")),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
            assert!(end.is_none_or(|end| prefix < end), "{prefix:?}");
        }
    }
}
