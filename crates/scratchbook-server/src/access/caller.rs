//! A caller: its rights, and the app and the user that it is restricted to.

use std::str::FromStr;
use std::sync::Arc;

use scratchbook::error::KeyWriter;
use scratchbook::{Error, ErrorKind, Result, Scope, StateDelta};

use super::account::{Account, LoginName};

/// An operation that a caller may perform on the data within its reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Right {
    /// Read sessions, state, events and artifacts.
    Read,
    /// Change sessions, state, events and artifacts, and run agents.
    Write,
    /// Write keys of the whole app.
    App,
    /// Administer: erase users, list all users of an app.
    Admin,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::App, Self::Admin];

    /// Returns the right's name, as it is written in tokens and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::App => "app",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Right {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|right| right.as_str() == name).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("there is no right '{name}'; there are {all}"))
        })
    }
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    login: LoginName,
    /// The only app within reach; `None` for all.
    app: Option<String>,
    /// The only user within reach; `None` for all.
    user: Option<String>,
    rights: Vec<Right>,
}

impl Caller {
    /// Returns the caller on a server that requires no login. This caller has all rights.
    pub(crate) fn anyone() -> Self {
        Self::new(LoginName::Anyone, Right::ALL.into())
    }

    /// Returns a caller that reaches everything.
    pub(crate) fn new(login: LoginName, rights: Vec<Right>) -> Self {
        Self { login, app: None, user: None, rights }
    }

    /// Returns the same caller, restricted to an app and to a user, if they are given.
    pub(crate) fn held_to(self, app: Option<&str>, user: Option<&str>) -> Self {
        Self { app: app.map(str::to_owned), user: user.map(str::to_owned), ..self }
    }

    /// Returns the name of the caller's token or the subject of its JWT, which is no secret.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.login.as_str()
    }

    /// Returns how the caller logged in.
    pub(crate) fn login(&self) -> &LoginName {
        &self.login
    }

    /// Returns the account for which the caller's requests count. Its user is the one that the caller is restricted to,
    /// or else the one that the request names.
    pub(crate) fn account(&self, user_id: Option<&str>) -> Account {
        Account::new(self.login.clone(), self.user.as_deref().or(user_id))
    }

    /// Returns the caller's own account, whatever the request names. `None` if the server requires no login, because
    /// callers cannot be told apart then.
    pub(crate) fn own_account(&self) -> Option<Account> {
        self.name().is_some().then(|| self.account(None))
    }

    /// Returns the only user within reach, or `None` if all users are.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns whether a user of an app is within reach. Without a user, returns whether the whole app is.
    pub(crate) fn reaches(&self, app_name: &str, user_id: Option<&str>) -> bool {
        self.app.as_deref().is_none_or(|app| app == app_name)
            && self.user.as_deref().is_none_or(|user| Some(user) == user_id)
    }

    /// Returns whether anything of an app is within reach, even if it is only one user's data.
    pub(crate) fn reaches_app(&self, app_name: &str) -> bool {
        self.app.as_deref().is_none_or(|app| app == app_name)
    }

    /// Returns the writer, without the names of its session if that session is out of this caller's reach.
    pub(crate) fn known_writer(&self, writer: KeyWriter, app_name: &str) -> KeyWriter {
        match &writer.session {
            Some((user_id, _)) if !self.reaches(app_name, Some(user_id)) => {
                KeyWriter::new(writer.author).with_time(writer.time)
            }
            _ => writer,
        }
    }

    /// Returns whether the caller has a right, within its reach.
    pub(crate) fn may(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    /// # Errors
    ///
    /// `PermissionDenied` names the right that is missing.
    pub(crate) fn check(&self, right: Right) -> Result<()> {
        if self.may(right) {
            return Ok(());
        }
        let name = right.as_str();
        Err(Error::new(ErrorKind::PermissionDenied, format!("this takes the right '{name}', which your token lacks")))
    }

    /// Checks that the caller has a right over all apps and users.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` names the right that is missing, or says that the token is restricted to an app or a user.
    pub(crate) fn check_of_all(&self, right: Right) -> Result<()> {
        self.check(right)?;
        if self.app.is_none() && self.user.is_none() {
            return Ok(());
        }
        let message = "this concerns all apps and users, and your token is held to some";
        Err(Error::new(ErrorKind::PermissionDenied, message))
    }

    /// Checks that the caller may make these changes. Agents may write `app:` keys; a client needs the right `app`.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` names the keys that the caller may not write.
    pub(crate) fn check_delta(&self, delta: &StateDelta) -> Result<()> {
        self.check_app_keys(delta.iter().map(|(key, _)| key))
    }

    /// Does the same as [`check_delta`](Self::check_delta) for keys with their prefixes.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` names the `app:` keys that the caller may not write.
    pub(crate) fn check_app_keys<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Result<()> {
        if self.may(Right::App) {
            return Ok(());
        }
        let keys = keys.filter(|key| Scope::split(key).0 == Scope::App);
        let keys: Vec<_> = keys.map(|key| format!("'{key}'")).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let keys = keys.join(", ");
        let message = format!("writing {keys} takes the right 'app', which your token lacks");
        Err(Error::new(ErrorKind::PermissionDenied, message))
    }
}
