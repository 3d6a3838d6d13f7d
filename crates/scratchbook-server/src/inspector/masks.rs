//! Hides what nobody may see: the values of secret keys, and the secrets in credentials.

use std::borrow::Cow;

use scratchbook::session::SecretKeys;
use scratchbook::{Error, Event, Result, Session};
use serde_json::Value;

use crate::answers::{value_without_secrets, without_secrets};

/// Shown instead of a secret value.
const HIDDEN: &str = "[secret]";

/// Masks the values of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Masks {
    secret: SecretKeys,
}

impl Masks {
    pub(super) fn of(session: &Session) -> Self {
        Self { secret: session.secret_keys().clone() }
    }

    /// Returns the value of a key as it may be shown. The key is given with its prefix.
    pub(super) fn of_key<'v>(&self, key: &str, value: &'v Value) -> Cow<'v, Value> {
        if self.secret.contains(key) { Cow::Owned(HIDDEN.into()) } else { value_without_secrets(key, value) }
    }

    /// Returns whether a key's values are hidden.
    pub(super) fn hides(&self, key: &str) -> bool {
        self.secret.contains(key)
    }

    /// Returns an event as it may be shown.
    ///
    /// # Errors
    ///
    /// `Internal` if the event cannot be written as JSON.
    pub(super) fn of_event(&self, event: &Event) -> Result<Event> {
        let wrong = |e| Error::internal("an event cannot be written as JSON").with_source(e);
        let text = serde_json::to_vec(event).map_err(wrong)?;
        let mut event = match without_secrets(&text).map_err(wrong)? {
            Some(text) => Event::from_json(&String::from_utf8_lossy(&text))?,
            None => event.clone(),
        };
        let delta = &mut event.actions.state_delta;
        let set = delta.iter().filter(|(key, change)| self.hides(key) && change.value().is_some());
        let hidden: Vec<String> = set.map(|(key, _)| key.to_owned()).collect();
        for key in hidden {
            delta.set(key, HIDDEN)?;
        }
        Ok(event)
    }
}
