//! What old keys have sealed, sealed by the current one.

use serde_json::{Map, Value};

use super::codec::{Encoded, Place, marked};
use super::encryption::{Encryption, WithEncryption, key_id};
use crate::error::{ErrorKind, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, GetSessionConfig, ListStateConfig, PutStateOptions, SessionKey, SessionService, StateOwner,
    no_session,
};
use crate::state::{Change, Operation, Scope, StateDelta};

/// Whose name the commits have.
const AUTHOR: &str = "scratchbook";
const PAGE: usize = 100;
/// How often a page is tried again that somebody else writes to.
const TRIES: usize = 100;

impl<S: SessionService> WithEncryption<S> {
    /// Seals by the current key what other keys have sealed, and what is in the clear, of the state of a user or an app.
    /// Gives the number of values that were written; a value that somebody changes meanwhile is left to them.
    ///
    /// These are commits like any other: the log has them, with the author `scratchbook`. What the log already has, and
    /// events, cannot be written anew: keep old keys as long as they are kept.
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
    /// `FailedPrecondition` where a key is not in the ring; `DataCorrupted` names a value that cannot be opened.
    pub async fn reseal_state(&self, owner: &StateOwner) -> Result<u64> {
        let (mut count, mut tries) = (0, 0);
        let mut config = ListStateConfig::default().with_page_size(PAGE);
        loop {
            let page = self.service.list_state(owner, &config).await?;
            let delta = self.resealed(page.values, |name, value| {
                Ok(self.coder.decode_value(value, &Place::owned(owner, name))?.into_owned())
            })?;
            let changed = delta.len() as u64;
            let put = match changed {
                0 => Ok(0),
                _ => self.put_state(owner, delta, PutStateOptions::by(AUTHOR)).await,
            };
            match put {
                // Somebody was faster on one of them, and has sealed it by the current key.
                Err(error) if error.kind() == ErrorKind::Conflict && tries < TRIES => {
                    tries += 1;
                    continue;
                }
                put => drop(put?),
            }
            count += changed;
            match page.next {
                Some(next) => config.after = Some(next),
                None => return Ok(count),
            }
        }
    }

    /// The same for the session's own keys, by an event without content.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such session; `Conflict` where others write all the time; as
    /// [`reseal_state`](Self::reseal_state).
    pub async fn reseal_session(&self, key: &SessionKey) -> Result<u64> {
        let session = self.service.get_session(key, &GetSessionConfig::state_only()).await?;
        let session = session.ok_or_else(|| no_session(key))?;
        let own = session.state().to_map().into_iter().filter(|(name, _)| Scope::split(name).0 == Scope::Session);
        let delta = self.resealed(own.collect(), |name, value| {
            let place = Place::value(key.app_name(), key.user_id(), name);
            Ok(self.coder.decode_value(value, &place)?.into_owned())
        })?;
        let changed = delta.len() as u64;
        if changed > 0 {
            self.append(key, Event::new(AUTHOR).with_state_delta(delta), AppendOptions::default()).await?;
        }
        Ok(changed)
    }

    /// Each value that is to be sealed anew, set as it is with the guard that it still is.
    fn resealed(&self, values: Map<String, Value>, open: impl Fn(&str, &Value) -> Result<Value>) -> Result<StateDelta> {
        let mut delta = StateDelta::new();
        for (name, stored) in values {
            if self.is_current(&stored) {
                continue;
            }
            let value = open(&name, &stored)?;
            let set = vec![Operation::Expect(value.clone()), Operation::Set(value)];
            delta.insert(name, Change::Apply(set))?;
        }
        Ok(delta)
    }

    fn is_current(&self, stored: &Value) -> bool {
        let encoded = marked::<Encryption>(stored).and_then(Encoded::from_text);
        encoded.as_ref().and_then(key_id) == Some(self.coder.0.keys.current())
    }
}
