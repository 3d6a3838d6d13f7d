//! Authentication and authorization: identifies the caller and checks its rights.

mod account;
mod caller;
mod identify;
mod jwt;
mod login;
mod new_token;
mod tokens;

use std::sync::Arc;

use axum::http::HeaderMap;

pub(crate) use account::{Account, LoginName};
pub(crate) use caller::Caller;
pub use caller::Right;
pub(crate) use identify::{Identity, SentToken, identify, require_caller};
pub use login::Login;
pub(crate) use login::{LoginError, LoginGate};
pub use new_token::{MadeToken, NewToken};

/// The path at which people log in with a browser.
pub(crate) const LOGIN: &str = "/login";
/// The path at which people log out.
pub(crate) const LOGOUT: &str = "/logout";

/// The paths that need no login: the health checks, which show no data, and the login itself.
const OPEN_TO_ALL: [&str; 4] = ["/health", "/health/ready", LOGIN, LOGOUT];

/// Returns whether a path needs no login.
pub(crate) fn is_open_to_all(path: &str) -> bool {
    OPEN_TO_ALL.contains(&path)
}

/// The callers that the server accepts.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Everybody, without a login and with all rights. This is for a server on your own machine.
    Open,
    /// Callers with a token.
    Login(Arc<LoginGate>),
}

impl Access {
    /// Returns the caller that sent these headers.
    ///
    /// # Errors
    ///
    /// The reason why the login with these headers fails.
    pub(crate) fn caller(&self, headers: &HeaderMap, now: f64) -> Result<Caller, LoginError> {
        match self {
            Self::Open => Ok(Caller::anyone()),
            Self::Login(gate) => gate.caller(headers, now),
        }
    }
}
