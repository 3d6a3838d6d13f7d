//! Finding a session by id alone, and ids unique within an app.

use crate::error::{Error, ErrorKind, Result};
use crate::session::{IdScope, SessionKey, check_id, check_session_id};

use crate::store::taken;

/// A search for a session among all users of an app.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LocateQuery {
    /// The app's name.
    pub app_name: String,
    /// The session's id, trimmed as at creation.
    pub session_id: String,
}

impl LocateQuery {
    /// Validates the ids.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for ids that no session can have.
    pub fn new(app_name: &str, session_id: &str) -> Result<Self> {
        check_id("app name", app_name)?;
        Ok(Self { app_name: app_name.to_owned(), session_id: check_session_id(session_id)?.to_owned() })
    }

    /// Returns the session, given the users of the app who have an unexpired session with this id. Passing two of these
    /// users is enough.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if there are several, without naming their users; `InvalidArgument` for an invalid user id.
    pub fn pick<U: AsRef<str>>(&self, users: impl IntoIterator<Item = U>) -> Result<Option<SessionKey>> {
        let mut users = users.into_iter();
        let Some(user_id) = users.next() else {
            return Ok(None);
        };
        if users.next().is_some() {
            let message = format!(
                "several users of the app '{}' have a session '{}'; address it in full, with its user",
                self.app_name, self.session_id
            );
            return Err(Error::new(ErrorKind::FailedPrecondition, message));
        }
        SessionKey::new(&self.app_name, user_id.as_ref(), &self.session_id).map(Some)
    }
}

/// Returns the error for a session id in use within the scope in which it has to be unique. The error does not say
/// which user has the id.
pub fn taken_within(scope: IdScope, key: &SessionKey) -> Error {
    if scope == IdScope::User {
        return taken(key);
    }
    let message = format!(
        "session already exists: the app '{}' has a session '{}'; use another id",
        key.app_name(),
        key.session_id()
    );
    Error::new(ErrorKind::AlreadyExists, message)
}
