//! What is shown to nobody: values of secret keys, and secrets of credentials.

use std::borrow::Cow;

use scratchbook::Session;
use scratchbook::session::SecretKeys;
use serde_json::Value;

use crate::answers::value_without_secrets;

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

    /// The value of a key, given with its prefix, as it may be shown.
    pub(super) fn of_key<'v>(&self, key: &str, value: &'v Value) -> Cow<'v, Value> {
        if self.secret.contains(key) { Cow::Owned(HIDDEN.into()) } else { value_without_secrets(key, value) }
    }

    /// Whether a key's values are hidden.
    pub(super) fn hides(&self, key: &str) -> bool {
        self.secret.contains(key)
    }
}
