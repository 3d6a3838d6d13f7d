//! The state that a user's sessions share: the user's and the app's keys, with their prefixes.

use scratchbook::{Result, Scope, SessionService, SessionServiceExt};
use serde_json::{Map, Value};

/// Reads the keys of a user and the app.
pub(crate) async fn shared_state(sessions: &dyn SessionService, app: &str, user: &str) -> Result<Map<String, Value>> {
    let of = |scope: Scope, state: Map<String, Value>| {
        state.into_iter().map(move |(name, value)| (scope.key(&name).into_owned(), value))
    };
    let of_user = of(Scope::User, sessions.get_user_state(app, user).await?);
    Ok(of_user.chain(of(Scope::App, sessions.get_app_state(app).await?)).collect())
}
