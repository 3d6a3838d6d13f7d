//! The state of a user and an app before a scenario, which the scenario must find unchanged.

use scratchbook::{Scope, SessionService, SessionServiceExt};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// The prefixed keys of a user and the app that an earlier run left.
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

    /// The existing value, or else the scenario's.
    pub(super) fn or(&self, key: &str, given: impl Into<Value>) -> Value {
        self.get(key).cloned().unwrap_or_else(|| given.into())
    }

    /// The existing number, or else 0.
    pub(super) fn count(&self, key: &str) -> u64 {
        self.get(key).and_then(Value::as_u64).unwrap_or(0)
    }
}
