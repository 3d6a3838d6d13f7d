//! What a user and an app had before a scenario wrote anything: what it must find there.

use scratchbook::{Scope, SessionService, SessionServiceExt};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// The keys of a user and of the app, with their prefixes, as an earlier run has left them.
pub(super) struct StateBefore {
    keys: Map<String, Value>,
}

impl StateBefore {
    pub(super) async fn read(sessions: &dyn SessionService, app_name: &str, user_id: &str) -> Result<Self, Failure> {
        let mut keys = Map::new();
        for (scope, values) in [
            (Scope::User, sessions.get_user_state(app_name, user_id).await?),
            (Scope::App, sessions.get_app_state(app_name).await?),
        ] {
            keys.extend(values.into_iter().map(|(name, value)| (scope.key(&name).into_owned(), value)));
        }
        Ok(Self { keys })
    }

    pub(super) fn keys(&self) -> &Map<String, Value> {
        &self.keys
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key)
    }

    /// The value that carries on, or else the one the scenario gives.
    pub(super) fn or(&self, key: &str, given: impl Into<Value>) -> Value {
        self.get(key).cloned().unwrap_or_else(|| given.into())
    }

    /// The number that carries on, or else none.
    pub(super) fn count(&self, key: &str) -> u64 {
        self.get(key).and_then(Value::as_u64).unwrap_or(0)
    }
}
