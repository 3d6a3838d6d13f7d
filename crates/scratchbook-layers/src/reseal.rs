//! Encrypts again, with the current key, the data that was encrypted with old keys.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::codec::{Encoded, Location, marked};
use super::encryption::{Encryption, WithEncryption, key_id};
use scratchbook_core::error::{ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, GetSessionConfig, ListStateConfig, PutStateOptions, SessionKey, SessionService, StateOwner,
    no_session,
};
use scratchbook_core::state::{Change, Operation, Scope, StateDelta};

/// The author of the commits.
const AUTHOR: &str = "scratchbook";
const PAGE: usize = 100;
/// The maximum number of bytes of encrypted values in one commit, because other writes wait for it.
const COMMIT_BYTES: u64 = 1 << 20;
/// How many times a page is retried if another writer changes it.
const TRIES: usize = 100;

impl<S> WithEncryption<S> {
    /// Returns the id of the key that encrypts new data.
    #[must_use]
    pub fn current_key(&self) -> &str {
        self.coder.0.keys.current()
    }
}

impl<S: SessionService> WithEncryption<S> {
    /// Encrypts values of a user's or an app's state with the current key: those that other keys have encrypted, and
    /// those that are not encrypted. Returns the number of values that were written. A value that another writer
    /// changes in the meantime is left alone.
    ///
    /// These are ordinary commits, which appear in the log with the author `scratchbook`. After an interruption,
    /// call this again. Events and existing entries of the log cannot be encrypted again: keep the old keys as long as
    /// you keep this data.
    ///
    /// ```
    /// use scratchbook::prelude::*;
    /// use scratchbook::layer::{Keyring, WithEncryption};
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
    /// `FailedPrecondition` if a key is not in the keyring; `DataCorrupted` names a value that cannot be decrypted.
    pub async fn reseal_state(&self, owner: &StateOwner) -> Result<u64> {
        let (mut count, mut tries) = (0, 0);
        let mut config = ListStateConfig::default().with_page_size(PAGE);
        'pages: loop {
            let page = self.service.list_state(owner, &config).await?;
            let open = |name: &str, value: &Value| {
                self.coder.decode_value(value, &Location::owned(owner, name)).map(Cow::into_owned)
            };
            for delta in self.resealed(page.values, open)? {
                let keys = delta.len() as u64;
                match self.put_state(owner, delta, PutStateOptions::by(AUTHOR)).await {
                    Ok(_) => count += keys,
                    // Another writer has changed one of the values first, and thereby encrypted it with the current
                    // key.
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

    /// Does the same as [`reseal_state`](Self::reseal_state) for a session's own keys. The values are written by events
    /// without content.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such session; `Conflict` if other writers keep changing it; otherwise as
    /// [`reseal_state`](Self::reseal_state).
    pub async fn reseal_session(&self, key: &SessionKey) -> Result<u64> {
        let (mut count, mut tries) = (0, 0);
        'reads: loop {
            let session = self.service.get_session(key, &GetSessionConfig::state_only()).await?;
            let session = session.ok_or_else(|| no_session(key))?;
            let own = session.state().to_map().into_iter().filter(|(name, _)| Scope::split(name).0 == Scope::Session);
            let open = |name: &str, value: &Value| {
                let location = Location::value(key.app_name(), key.user_id(), name);
                self.coder.decode_value(value, &location).map(Cow::into_owned)
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

    /// Returns changes that set each value that has to be encrypted again to its present value, with a guard that this
    /// value is still stored. The changes are split into deltas of permitted size.
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
            // The length of an encrypted text is an upper bound for its contents. A value that is not a text is not
            // encrypted.
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
