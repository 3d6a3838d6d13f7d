//! Accounts, for which limits are counted. An account is a login together with the user that it acts for.

use std::sync::Arc;

/// How a caller logged in. A token and a JWT of the same name are two logins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LoginName {
    /// The server requires no login.
    Anyone,
    /// The caller sent a token with this name.
    Token(Arc<str>),
    /// The caller sent a JWT with this subject.
    Subject(Arc<str>),
}

/// The account that a request, a run or a stream counts for.
///
/// A service that acts for many users logs in once, and each of its users has a separate share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    login: LoginName,
    /// The user that the login acts for; `None` if the request names no user.
    user_id: Option<Arc<str>>,
}

impl LoginName {
    /// Returns the login's name, which is no secret, or `None` if the server requires no login.
    pub(crate) fn as_str(&self) -> Option<&Arc<str>> {
        match self {
            Self::Anyone => None,
            Self::Token(name) | Self::Subject(name) => Some(name),
        }
    }
}

impl Account {
    pub(super) fn new(login: LoginName, user_id: Option<&str>) -> Self {
        Self { login, user_id: user_id.map(Arc::from) }
    }
}
