//! Limits on sizes and numbers.

use serde_json::Value;

use super::commit::KeyChange;
use crate::error::{Error, ErrorKind, Result};
use crate::json::text_length;
use crate::state::{Change, REMOVED, Scope, StateDelta};

/// Limits on sizes and numbers in a store. A write that exceeds a size is refused as `PayloadTooLarge`, and one that
/// exceeds a number as `ResourceExhausted`. The error names the limit, the amount and the key, and nothing is changed.
///
/// Sizes are in bytes of JSON text. Existing data stays readable whatever the limits are: a lowered limit only refuses
/// writes that add data.
///
/// ```
/// use scratchbook::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sessions = InMemorySessionService::new().with_limits(Limits::default().with_value_bytes(10));
/// let session = sessions.create_session("app", "alice", Default::default()).await?;
/// let delta = StateDelta::new().with("note", "a long story")?;
/// let event = Event::new("agent").with_state_delta(delta);
/// let error = sessions.append(session.key(), event, AppendOptions::default()).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::PayloadTooLarge);
/// assert!(error.to_string().contains("value_bytes"));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the value of one key; the default is 4 MiB.
    pub value_bytes: u64,
    /// Bytes of one delta, or of a session's initial state; the default is 8 MiB.
    pub delta_bytes: u64,
    /// Bytes of one event; the default is 16 MiB.
    pub event_bytes: u64,
    /// Bytes of one version of an artifact with its metadata. The default is 16 MiB, which is 12 MiB of data: JSON
    /// makes data a third longer.
    pub artifact_bytes: u64,
    /// Bytes of the MIME type and the custom metadata of one version of an artifact. The default is 64 KiB, because
    /// lists of versions show them. No parameter of a URI changes it.
    pub artifact_metadata_bytes: u64,
    /// Keys of one session, of one user of an app, and of one app, each counted separately; the default is 10,000.
    /// Removed keys do not count.
    pub keys_per_scope: u64,
    /// Events of one session, pruned events included. `None` for no limit; the default is 1,000,000.
    pub events_per_session: Option<u64>,
    /// A quota on the bytes of all sessions and artifacts of one user of an app: the sum of
    /// [`Session::stored_bytes`](crate::session::Session::stored_bytes), and the JSON of every version of an artifact
    /// with its metadata. `None`, the default of all quotas, means no quota.
    ///
    /// Quotas are checked against totals, and no write locks a total: the totals are read every few seconds, and each
    /// process adds its own writes since its last read. If several processes write for one owner at the same time,
    /// slightly more than the quota may be stored. Expired sessions are deleted before a write is refused because of a
    /// quota.
    pub user_bytes: Option<u64>,
    /// A quota on the sessions of one user of an app.
    pub user_sessions: Option<u64>,
    /// A quota on the artifacts of one user of an app; each version counts.
    pub user_artifacts: Option<u64>,
    /// A quota on the bytes of all users of an app together.
    pub app_bytes: Option<u64>,
    /// A quota on the sessions of all users of an app together.
    pub app_sessions: Option<u64>,
    /// A quota on the artifacts of all users of an app together; each version counts.
    pub app_artifacts: Option<u64>,
}

/// The initial value of [`Limits::unlimited`].
const UNLIMITED: Limits = Limits {
    value_bytes: u64::MAX,
    delta_bytes: u64::MAX,
    event_bytes: u64::MAX,
    artifact_bytes: u64::MAX,
    artifact_metadata_bytes: u64::MAX,
    keys_per_scope: u64::MAX,
    events_per_session: None,
    user_bytes: None,
    user_sessions: None,
    user_artifacts: None,
    app_bytes: None,
    app_sessions: None,
    app_artifacts: None,
};

impl Default for Limits {
    fn default() -> Self {
        Self {
            value_bytes: 4 << 20,
            delta_bytes: 8 << 20,
            event_bytes: 16 << 20,
            artifact_bytes: 16 << 20,
            artifact_metadata_bytes: 64 << 10,
            keys_per_scope: 10_000,
            events_per_session: Some(1_000_000),
            ..UNLIMITED
        }
    }
}

impl Limits {
    /// Creates limits that never refuse a write.
    #[must_use]
    pub fn unlimited() -> Self {
        UNLIMITED
    }

    /// Sets the maximum bytes of the value of one key.
    #[must_use]
    pub fn with_value_bytes(mut self, bytes: u64) -> Self {
        self.value_bytes = bytes;
        self
    }

    /// Sets the maximum bytes of one delta.
    #[must_use]
    pub fn with_delta_bytes(mut self, bytes: u64) -> Self {
        self.delta_bytes = bytes;
        self
    }

    /// Sets the maximum bytes of one event.
    #[must_use]
    pub fn with_event_bytes(mut self, bytes: u64) -> Self {
        self.event_bytes = bytes;
        self
    }

    /// Sets the maximum bytes of one version of an artifact.
    #[must_use]
    pub fn with_artifact_bytes(mut self, bytes: u64) -> Self {
        self.artifact_bytes = bytes;
        self
    }

    /// Sets the maximum number of keys of one session, user or app.
    #[must_use]
    pub fn with_keys_per_scope(mut self, keys: u64) -> Self {
        self.keys_per_scope = keys;
        self
    }

    /// Sets the maximum number of events of one session.
    #[must_use]
    pub fn with_events_per_session(mut self, events: u64) -> Self {
        self.events_per_session = Some(events);
        self
    }

    /// Sets a quota on the bytes of one user.
    #[must_use]
    pub fn with_user_bytes(mut self, bytes: u64) -> Self {
        self.user_bytes = Some(bytes);
        self
    }

    /// Sets a quota on the sessions of one user.
    #[must_use]
    pub fn with_user_sessions(mut self, sessions: u64) -> Self {
        self.user_sessions = Some(sessions);
        self
    }

    /// Sets a quota on the versions of artifacts of one user.
    #[must_use]
    pub fn with_user_artifacts(mut self, artifacts: u64) -> Self {
        self.user_artifacts = Some(artifacts);
        self
    }

    /// Sets a quota on the bytes of an app.
    #[must_use]
    pub fn with_app_bytes(mut self, bytes: u64) -> Self {
        self.app_bytes = Some(bytes);
        self
    }

    /// Sets a quota on the sessions of an app.
    #[must_use]
    pub fn with_app_sessions(mut self, sessions: u64) -> Self {
        self.app_sessions = Some(sessions);
        self
    }

    /// Sets a quota on the versions of artifacts of an app.
    #[must_use]
    pub fn with_app_artifacts(mut self, artifacts: u64) -> Self {
        self.app_artifacts = Some(artifacts);
        self
    }

    /// Refuses a new event whose number is above the limit. A store calls this when it knows the number and knows that
    /// the event is not a retry.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted`.
    pub fn check_seq(&self, seq: u64) -> Result<()> {
        match self.events_per_session {
            Some(limit) if seq > limit => Err(exhausted(format!(
                "the event would be number {seq} of its session, and events_per_session is {limit}; go on in a new \
                 session, or raise the limit"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a commit after which a scope has more keys than before and more than the limit. A store calls this in a
    /// commit that sets keys that were absent before; `name` is one of these keys, without prefix.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted` names the key.
    pub fn check_keys(&self, scope: Scope, name: &str, before: u64, after: u64) -> Result<()> {
        let limit = self.keys_per_scope;
        if after <= limit || after <= before {
            return Ok(());
        }
        let (owner, key) = (scope.as_str(), scope.key(name));
        Err(exhausted(format!(
            "with '{key}' there would be {after} keys in the {owner}'s state, and keys_per_scope is {limit}; remove \
             some, keep many things in one map, or raise the limit"
        )))
    }

    /// Checks as [`check_keys`](Self::check_keys) does, for a store that always knows the keys of a scope and their
    /// number.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted` names the key.
    pub fn check_changes(
        &self,
        scope: Scope,
        changes: &[KeyChange],
        count: usize,
        has: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let of_scope = || changes.iter().filter(|change| change.scope == scope);
        let count = count as u64;
        // Usually there is room for all changed keys, whether they are new or not.
        if count.saturating_add(of_scope().count() as u64) <= self.keys_per_scope {
            return Ok(());
        }
        let (mut after, mut new) = (count, "");
        for KeyChange { name, change, .. } in of_scope() {
            match (change, has(name)) {
                (Change::Set(_), false) => (after, new) = (after + 1, name),
                (Change::Remove, true) => after -= 1,
                _ => {}
            }
        }
        self.check_keys(scope, new, count, after)
    }

    /// Checks the bytes of an artifact's MIME type and metadata.
    pub(crate) fn check_artifact_metadata(&self, filename: &str, bytes: u64) -> Result<()> {
        let limit = self.artifact_metadata_bytes;
        if bytes <= limit {
            return Ok(());
        }
        let message = format!(
            "the MIME type and the custom metadata of the artifact '{filename}' have {bytes} bytes of JSON, and they may \
             have {limit}; keep what is large in the artifact itself"
        );
        Err(Error::new(ErrorKind::PayloadTooLarge, message))
    }

    /// Checks the bytes of an artifact with its metadata.
    pub(crate) fn check_artifact(&self, filename: &str, bytes: u64) -> Result<()> {
        let limit = self.artifact_bytes;
        if bytes <= limit {
            return Ok(());
        }
        Err(too_large(format!(
            "the artifact '{filename}' has {bytes} bytes of JSON, and artifact_bytes is {limit}; keep it elsewhere and \
             save its URI, or raise the limit"
        )))
    }

    /// Checks an event whose text has this length, and the values in its delta.
    pub(crate) fn check_event(&self, id: &str, bytes: u64, delta: &StateDelta) -> Result<()> {
        // No part of a text is longer than the text, so this check is enough for nearly every event.
        if bytes <= self.value_bytes.min(self.delta_bytes).min(self.event_bytes) {
            return Ok(());
        }
        if bytes > self.event_bytes {
            return Err(too_large(format!(
                "the event {id} has {bytes} bytes of JSON, and event_bytes is {}; keep large content as an artifact, \
                 or raise the limit",
                self.event_bytes
            )));
        }
        self.check_delta(delta.iter())
    }

    /// Checks the values of keys, individually and in total; operations are checked when they are resolved.
    pub(crate) fn check_delta<'a>(&self, changes: impl Iterator<Item = (impl AsRef<str>, &'a Change)>) -> Result<()> {
        // The braces.
        let (mut all, mut largest) = (2, (0, String::new()));
        for (key, change) in changes {
            let key = key.as_ref();
            let bytes = match change {
                Change::Set(value) => text_length(value, "a value")?,
                Change::Remove => REMOVED.len() as u64 + 2,
                Change::Apply(_) => continue,
            };
            if bytes > self.value_bytes && change.value().is_some() {
                return Err(too_large(format!(
                    "the value of '{key}' has {bytes} bytes of JSON, and value_bytes is {}; keep it as an artifact, \
                     split it, or raise the limit",
                    self.value_bytes
                )));
            }
            // A colon and, except for the first, a comma.
            all += text_length(key, "a key")? + bytes + 1 + u64::from(all > 2);
            if bytes >= largest.0 {
                largest = (bytes, key.to_owned());
            }
        }
        if all <= self.delta_bytes {
            return Ok(());
        }
        let (bytes, key) = largest;
        Err(too_large(format!(
            "the delta has {all} bytes of JSON, {bytes} of them in '{key}', and delta_bytes is {}; write it in \
             several events, or raise the limit",
            self.delta_bytes
        )))
    }

    /// Checks changes to stored keys, whose names have no prefix.
    pub(crate) fn check_key_changes(&self, changes: &[KeyChange]) -> Result<()> {
        self.check_delta(changes.iter().map(|change| (change.scope.key(&change.name), &change.change)))
    }

    /// Reads a parameter of a URI; returns `false` if the parameter is not a limit.
    pub fn read_parameter(&mut self, name: &str, value: &str) -> Result<bool> {
        let number = || {
            let message = format!("{name}={value}; it is a whole number");
            value.parse().map_err(|_| Error::invalid(message))
        };
        match name {
            "value_bytes" => self.value_bytes = number()?,
            "delta_bytes" => self.delta_bytes = number()?,
            "event_bytes" => self.event_bytes = number()?,
            "artifact_bytes" => self.artifact_bytes = number()?,
            "keys_per_scope" => self.keys_per_scope = number()?,
            "events_per_session" => self.events_per_session = Some(number()?),
            "user_bytes" => self.user_bytes = Some(number()?),
            "user_sessions" => self.user_sessions = Some(number()?),
            "user_artifacts" => self.user_artifacts = Some(number()?),
            "app_bytes" => self.app_bytes = Some(number()?),
            "app_sessions" => self.app_sessions = Some(number()?),
            "app_artifacts" => self.app_artifacts = Some(number()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The parameters of a URI that are limits.
    pub const PARAMETERS: [&str; 12] = [
        "value_bytes",
        "delta_bytes",
        "event_bytes",
        "artifact_bytes",
        "keys_per_scope",
        "events_per_session",
        "user_bytes",
        "user_sessions",
        "user_artifacts",
        "app_bytes",
        "app_sessions",
        "app_artifacts",
    ];
}

fn exhausted(message: String) -> Error {
    Error::new(ErrorKind::ResourceExhausted, message)
}

fn too_large(message: String) -> Error {
    Error::new(ErrorKind::PayloadTooLarge, message)
}

/// Returns the length of a session's initial state as JSON text; 0 if it is empty.
pub(crate) fn state_bytes<'a>(state: impl Iterator<Item = (&'a str, &'a Value)>) -> Result<u64> {
    let mut bytes = 0;
    for (name, value) in state {
        // A colon, and a comma or the closing brace.
        bytes += text_length(name, "a key")? + text_length(value, "a value")? + 2;
    }
    // The opening brace.
    Ok(if bytes == 0 { 0 } else { bytes + 1 })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delta() -> StateDelta {
        let mut delta = StateDelta::new().with("a \"b\"", [1, 2]).unwrap().with("user:n", "\u{1f4da}\n").unwrap();
        delta.remove("gone").unwrap();
        delta
    }

    #[test]
    fn the_bytes_of_a_delta_are_those_of_its_text() {
        let bytes = serde_json::to_string(&delta()).unwrap().len() as u64;
        let limits = |bytes| Limits::unlimited().with_delta_bytes(bytes);
        limits(bytes).check_delta(delta().iter()).unwrap();
        let error = limits(bytes - 1).check_delta(delta().iter()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PayloadTooLarge);
        assert!(error.to_string().contains(&bytes.to_string()), "{error}");
        let empty = StateDelta::new();
        limits(2).check_delta(empty.iter()).unwrap();
    }

    #[test]
    fn the_bytes_of_a_state_are_those_of_its_text() {
        for state in [json!({}), json!({"a": 1}), json!({"a \"b\"": [1, 2], "n": "\u{1f4da}\n", "x": null})] {
            let text = if state == json!({}) { 0 } else { state.to_string().len() as u64 };
            let entries = state.as_object().unwrap().iter().map(|(name, value)| (name.as_str(), value));
            assert_eq!(state_bytes(entries).unwrap(), text, "{state}");
        }
    }

    #[test]
    fn a_removal_is_no_value() {
        let limits = Limits::unlimited().with_value_bytes(0);
        let mut delta = StateDelta::new();
        delta.remove("gone").unwrap();
        limits.check_delta(delta.iter()).unwrap();
    }

    #[test]
    fn only_what_makes_more_keys_is_refused() {
        let limits = Limits::default().with_keys_per_scope(2);
        for (before, after, fits) in [(0, 2, true), (2, 3, false), (5, 5, true), (5, 4, true), (5, 6, false)] {
            assert_eq!(limits.check_keys(Scope::User, "k", before, after).is_ok(), fits, "{before} to {after}");
        }
        let set = |name: &str| KeyChange::new(Scope::User, name, Change::Set(json!(1)));
        let changes = [set("new"), KeyChange::new(Scope::User, "old", Change::Remove), set("known")];
        let has = |name: &str| name != "new";
        limits.check_changes(Scope::User, &changes, 7, has).unwrap();
        let error = limits.check_changes(Scope::User, &changes[..1], 7, has).unwrap_err();
        assert!(error.to_string().contains("'user:new'") && error.to_string().contains('8'), "{error}");
    }
}
