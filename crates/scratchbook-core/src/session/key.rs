//! Addresses of sessions and of the owners of shared state.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::state::Scope;

/// The maximum length of an app name, user id, session id or event id, in bytes of UTF-8.
const MAX_ID_BYTES: usize = 512;

/// The full address of a session. The same session id under another user or app is a different session.
///
/// ```
/// use scratchbook::SessionKey;
///
/// let key = SessionKey::new("my_app", "alice", "  session1 ")?;
/// assert_eq!(key.session_id(), "session1");
/// assert_eq!(key.to_string(), "my_app/alice/session1");
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    app_name: Arc<str>,
    user_id: Arc<str>,
    session_id: Arc<str>,
}

impl SessionKey {
    /// Creates an address. The session id is trimmed; app name and user id are compared byte by byte.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an id over 512 bytes or with a control character, and for an empty session id.
    pub fn new(app_name: &str, user_id: &str, session_id: &str) -> Result<Self> {
        check_owner(app_name, user_id)?;
        let session_id = check_session_id(session_id)?;
        Ok(Self { app_name: app_name.into(), user_id: user_id.into(), session_id: session_id.into() })
    }

    /// Returns the app's name.
    #[must_use]
    pub fn app_name(&self) -> &str {
        &self.app_name
    }

    /// Returns the user's id.
    #[must_use]
    pub fn user_id(&self) -> &str {
        &self.user_id
    }

    /// Returns the user as the owner of `user:` keys.
    #[must_use]
    pub fn user(&self) -> StateOwner {
        StateOwner::User { app_name: Arc::clone(&self.app_name), user_id: Arc::clone(&self.user_id) }
    }

    /// Returns the app as the owner of `app:` keys.
    #[must_use]
    pub fn app(&self) -> StateOwner {
        StateOwner::App { app_name: Arc::clone(&self.app_name) }
    }

    /// Returns the session's id, unique within its user.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.session_id
    }
}

impl SessionKey {
    /// Refuses an address at which nothing can be created, as [`check_nameable`] does.
    pub(crate) fn check_nameable(&self) -> Result<()> {
        check_nameable("app name", &self.app_name)?;
        check_nameable("user id", &self.user_id)?;
        check_nameable("session id", &self.session_id)
    }

    /// Returns the user's and the session's id, shared with this address.
    pub(crate) fn shared_ids(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.user_id), Arc::clone(&self.session_id))
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.app_name, self.user_id, self.session_id)
    }
}

/// The owner of state outside of any session: a user of an app, or the app.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StateOwner {
    /// The keys written as `user:NAME` in sessions of this user.
    User {
        /// The app's name.
        app_name: Arc<str>,
        /// The user's id.
        user_id: Arc<str>,
    },
    /// The keys written as `app:NAME` in any session of this app.
    App {
        /// The app's name.
        app_name: Arc<str>,
    },
}

/// An app comes before its users; names are compared byte by byte.
impl Ord for StateOwner {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.app_name(), self.user_id()).cmp(&(other.app_name(), other.user_id()))
    }
}

impl PartialOrd for StateOwner {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl StateOwner {
    /// Creates the owner for a user of an app.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an id over 512 bytes or with a control character.
    pub fn user(app_name: &str, user_id: &str) -> Result<Self> {
        check_owner(app_name, user_id)?;
        Ok(Self::User { app_name: app_name.into(), user_id: user_id.into() })
    }

    /// Creates the owner for an app.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an id over 512 bytes or with a control character.
    pub fn app(app_name: &str) -> Result<Self> {
        check_id("app name", app_name)?;
        Ok(Self::App { app_name: app_name.into() })
    }

    /// Returns the app's name.
    #[must_use]
    pub fn app_name(&self) -> &str {
        match self {
            Self::User { app_name, .. } | Self::App { app_name } => app_name,
        }
    }

    /// Returns the user's id, if the owner is a user.
    #[must_use]
    pub fn user_id(&self) -> Option<&str> {
        match self {
            Self::User { user_id, .. } => Some(user_id),
            Self::App { .. } => None,
        }
    }

    /// Returns the scope of its keys.
    #[doc(hidden)]
    pub fn scope(&self) -> Scope {
        if self.user_id().is_some() { Scope::User } else { Scope::App }
    }
}

/// Trims a session's id. Refuses an empty id, and an id that not every store can hold.
#[doc(hidden)]
pub fn check_session_id(session_id: &str) -> Result<&str> {
    let session_id = session_id.trim();
    check_id("session id", session_id)?;
    if session_id.is_empty() {
        return Err(Error::invalid("the session id is empty; name the session"));
    }
    Ok(session_id)
}

/// Refuses an app name or user id that not every store can hold.
#[doc(hidden)]
pub fn check_owner(app_name: &str, user_id: &str) -> Result<()> {
    check_id("app name", app_name)?;
    check_id("user id", user_id)
}

/// Refuses a text that is too long or that not every store can hold. The error does not quote the text.
pub(super) fn check_text(what: &str, text: &str, most: usize) -> Result<()> {
    if text.len() > most {
        return Err(Error::invalid(format!("{what} has {} bytes; it has at most {most}", text.len())));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(Error::invalid(format!("{what} contains the control character {c:?}"))),
        None => Ok(()),
    }
}

/// Refuses an id that not every store can hold; `what` is its name in the message.
///
/// # Errors
///
/// `InvalidArgument` if it has more than 512 bytes or a control character.
pub fn check_id(what: &str, id: &str) -> Result<()> {
    if id.len() > MAX_ID_BYTES {
        let start: String = id.chars().take(40).collect();
        let len = id.len();
        return Err(Error::invalid(format!("the {what} '{start}...' has {len} bytes; it has at most {MAX_ID_BYTES}")));
    }
    // Nearly every id is ASCII without control characters, and its bytes are checked faster than its characters.
    if id.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    match id.chars().find(|c| c.is_control()) {
        Some(c) => Err(Error::invalid(format!("the {what} {id:?} contains the control character {c:?}"))),
        None => Ok(()),
    }
}

/// Refuses `.` and `..` as the id of something that is created; `what` is its name in the message.
///
/// In a URL, these two are steps to another place, in whatever form a client writes them. So a request for such an id
/// would reach something else. What has such an id from before can still be read and removed.
///
/// # Errors
///
/// `InvalidArgument`.
pub fn check_nameable(what: &str, id: &str) -> Result<()> {
    match id {
        "." | ".." => {
            Err(Error::invalid(format!("the {what} must not be '.' or '..', which no URL can name, got '{id}'")))
        }
        _ => Ok(()),
    }
}
