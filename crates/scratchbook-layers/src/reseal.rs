//! What old keys have sealed, sealed by the current one.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::codec::{Encoded, Place, marked};
use super::encryption::{Encryption, WithEncryption, key_id};
use scratchbook_core::error::{ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, GetSessionConfig, ListStateConfig, PutStateOptions, SessionKey, SessionService, StateOwner,
    no_session,
};
use scratchbook_core::state::{Change, Operation, Scope, StateDelta};

/// Whose name the commits have.
const AUTHOR: &str = "scratchbook";
const PAGE: usize = 100;
/// How many bytes of sealed values go in one commit: others want to write as well.
const COMMIT_BYTES: u64 = 1 << 20;
/// How often a page is tried again that somebody else writes to.
const TRIES: usize = 100;

impl<S> WithEncryption<S> {
    /// The id of the key that seals what is written.
    #[must_use]
    pub fn current_key(&self) -> &str {
        self.coder.0.keys.current()
    }
}

impl<S: SessionService> WithEncryption<S> {
    /// Seals by the current key what other keys have sealed, and what is in the clear, of the state of a user or an app.
    /// Returns the number of values that were written; a value that somebody changes meanwhile is left to them.
    ///
    /// These are commits like any other: the log has them, with the author `scratchbook`. What was interrupted is done by
    /// doing it again. What the log already has, and events, cannot be sealed again: keep old keys as long as they are kept.
    ///
    /// ```
    /// use scratchbook::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let store = std::sync::Arc::new(InMemorySessionService::new());
    /// let app = StateOwner::app("shop")?;
    /// let before = WithEncryption::new(store.clone(), Keyring::new("2026-05", [3; 32])?);
    /// before.put_state(&app, StateDelta::new().with("token", "s3cret")?, "admin".into()).await?;
    ///
    /// let keys = Keyring::new("2026-11", [7; 32])?.with_old("2026-05", [3; 32])?;
    /// let sessions = WithEncryption::new(store.clone(), keys);
    /// assert_eq!(sessions.reseal_state(&app).await?, 1);
    /// assert_eq!(sessions.reseal_state(&app).await?, 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if a key is not in the ring; `DataCorrupted` names a value that cannot be opened.
    pub async fn reseal_state(&self, owner: &StateOwner) -> Result<u64> {
        let (mut count, mut tries) = (0, 0);
        let mut config = ListStateConfig::default().with_page_size(PAGE);
        'pages: loop {
            let page = self.service.list_state(owner, &config).await?;
            let open = |name: &str, value: &Value| {
                self.coder.decode_value(value, &Place::owned(owner, name)).map(Cow::into_owned)
            };
            for delta in self.resealed(page.values, open)? {
                let keys = delta.len() as u64;
                match self.put_state(owner, delta, PutStateOptions::by(AUTHOR)).await {
                    Ok(_) => count += keys,
                    // Somebody wrote one of them first, and sealed it by the current key.
                    Err(error) if error.kind() == ErrorKind::Conflict && tries < TRIES => {
                        tries += 1;
                        continue 'pages;
                    }
                    Err(error) => return Err(error),
                }
            }
            match page.next {
                Some(next) => config.after = Some(next),
                None => return Ok(count),
            }
        }
    }

    /// The same for the session's own keys, by events without content.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such session; `Conflict` if others write all the time; as
    /// [`reseal_state`](Self::reseal_state).
    pub async fn reseal_session(&self, key: &SessionKey) -> Result<u64> {
        let (mut count, mut tries) = (0, 0);
        'reads: loop {
            let session = self.service.get_session(key, &GetSessionConfig::state_only()).await?;
            let session = session.ok_or_else(|| no_session(key))?;
            let own = session.state().to_map().into_iter().filter(|(name, _)| Scope::split(name).0 == Scope::Session);
            let open = |name: &str, value: &Value| {
                let place = Place::value(key.app_name(), key.user_id(), name);
                self.coder.decode_value(value, &place).map(Cow::into_owned)
            };
            for delta in self.resealed(own.collect(), open)? {
                let keys = delta.len() as u64;
                let event = Event::new(AUTHOR).with_state_delta(delta);
                match self.append(key, event, AppendOptions::default()).await {
                    Ok(_) => count += keys,
                    Err(error) if error.kind() == ErrorKind::Conflict && tries < TRIES => {
                        tries += 1;
                        continue 'reads;
                    }
                    Err(error) => return Err(error),
                }
            }
            return Ok(count);
        }
    }

    /// Each value that is to be sealed again, set as it is with the guard that it still is; in deltas that are no larger
    /// than a delta may be.
    fn resealed(
        &self,
        values: Map<String, Value>,
        open: impl Fn(&str, &Value) -> Result<Value>,
    ) -> Result<Vec<StateDelta>> {
        let most = (self.limits().delta_bytes / 2).min(COMMIT_BYTES);
        let (mut deltas, mut delta, mut bytes) = (Vec::new(), StateDelta::new(), 0);
        for (name, stored) in values {
            if self.is_current(&stored) {
                continue;
            }
            // What is sealed is longer than what is in it; only a plain value may be of another type than a text.
            let length = stored.as_str().map_or_else(|| stored.to_string().len(), str::len) as u64;
            if !delta.is_empty() && (bytes + length > most || delta.len() == PAGE) {
                deltas.push(std::mem::take(&mut delta));
                bytes = 0;
            }
            bytes += length;
            let value = open(&name, &stored)?;
            let set = vec![Operation::Expect(value.clone()), Operation::Set(value)];
            delta.insert(name, Change::Apply(set))?;
        }
        deltas.extend((!delta.is_empty()).then_some(delta));
        Ok(deltas)
    }

    fn is_current(&self, stored: &Value) -> bool {
        let encoded = marked::<Encryption>(stored).and_then(Encoded::from_text);
        encoded.as_ref().and_then(key_id) == Some(self.coder.0.keys.current())
    }
}
