//! Scopes of keys, given by prefix.

use std::borrow::Cow;

use crate::error::{Error, Result};

/// The maximum length of a key including its prefix, in bytes of UTF-8.
#[doc(hidden)]
pub const MAX_KEY_BYTES: usize = 1024;

/// The sessions that share a key: one session, all sessions of a user, all sessions of an app, or one invocation.
///
/// ```
/// use scratchbook::Scope;
///
/// assert_eq!(Scope::split("user:theme"), (Scope::User, "theme"));
/// assert_eq!(Scope::split("weird:q"), (Scope::Session, "weird:q"));
/// assert_eq!(Scope::App.key("tax_rate"), "app:tax_rate");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// No prefix: this session.
    Session,
    /// `user:`: every session of one user of one app.
    User,
    /// `app:`: every session of every user of one app.
    App,
    /// `temp:`: one invocation; never stored.
    Temp,
}

impl Scope {
    /// Every scope, in the order in which stores lock them, `temp:` last.
    pub const ALL: [Self; 4] = [Self::Session, Self::User, Self::App, Self::Temp];

    /// Returns the prefix that puts a key into this scope; empty for the session's.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Session => "",
            Self::User => "user:",
            Self::App => "app:",
            Self::Temp => "temp:",
        }
    }

    /// Splits a key into its scope and its name without prefix. Only one prefix is removed.
    #[must_use]
    pub fn split(key: &str) -> (Self, &str) {
        for scope in [Self::User, Self::App, Self::Temp] {
            if let Some(name) = key.strip_prefix(scope.prefix()) {
                return (scope, name);
            }
        }
        (Self::Session, key)
    }

    /// Returns the key with this name in this scope: the inverse of [`split`](Self::split).
    #[must_use]
    pub fn key(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Session => Cow::Borrowed(name),
            _ => Cow::Owned(format!("{}{name}", self.prefix())),
        }
    }

    /// Returns the scope's name: `session`, `user`, `app` or `temp`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::User => "user",
            Self::App => "app",
            Self::Temp => "temp",
        }
    }
}

/// Refuses a key that not every store can hold.
#[doc(hidden)]
pub fn check_key(key: &str) -> Result<()> {
    if key.len() > MAX_KEY_BYTES {
        let start: String = key.chars().take(40).collect();
        return Err(Error::invalid(format!(
            "the key '{start}...' has {} bytes; a key has at most {MAX_KEY_BYTES}",
            key.len()
        )));
    }
    if key.contains('\0') {
        return Err(Error::invalid(format!("the key {key:?} contains U+0000, which no key may")));
    }
    Ok(())
}
