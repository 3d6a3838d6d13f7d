//! The owner of a state: a session, a user or an app.

use std::fmt;

use scratchbook::session::StateOwner;
use scratchbook::{Error, Scope, SessionKey, StateDelta};

use crate::address::resolve;
use crate::args::{Address, AddressArgs};
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;

/// The owner of a state on the command line. A session is an [`Address`] until the database has been searched.
pub(super) enum StateTarget<S = SessionKey> {
    /// A session. Its keys have prefixes, and writing appends an event.
    Session(S),
    /// A user or an app. Its keys have no prefix.
    Owner(StateOwner),
}

impl StateTarget<Address> {
    pub(super) fn new(args: &AddressArgs) -> Result<Self, Error> {
        Ok(match (args.session()?, &args.app, &args.user) {
            (Some(session), ..) => Self::Session(session),
            (None, Some(app), Some(user)) => Self::Owner(StateOwner::user(app, user)?),
            (None, Some(app), None) => Self::Owner(StateOwner::app(app)?),
            (None, None, _) => {
                let message = "this needs an owner of the state: a session (-s SESSION or --last), a user (--app APP \
                    --user USER) or an app (--app APP); a word without an option is read as a key";
                return Err(Error::invalid(message));
            }
        })
    }

    pub(super) async fn resolve(self, database: &OpenDatabase) -> Result<StateTarget, CommandFailure> {
        Ok(match self {
            Self::Session(address) => StateTarget::Session(resolve(&address, database).await?),
            Self::Owner(owner) => StateTarget::Owner(owner),
        })
    }
}

impl<S> StateTarget<S> {
    /// Returns the scope of a key without prefix.
    pub(super) fn scope(&self) -> Scope {
        match self {
            Self::Owner(owner) if owner.user_id().is_some() => Scope::User,
            Self::Owner(_) => Scope::App,
            Self::Session(_) => Scope::Session,
        }
    }

    /// Adds the prefixes that a session uses to a delta.
    pub(super) fn with_prefixes(&self, delta: &StateDelta) -> Result<StateDelta, Error> {
        let mut prefixed = StateDelta::new();
        for (key, change) in delta.iter() {
            prefixed.insert(self.scope().key(key).into_owned(), change.clone())?;
        }
        Ok(prefixed)
    }

    /// Refuses a key whose prefix does not fit the target.
    pub(super) fn check(&self, key: &str) -> Result<(), Error> {
        let (scope, name) = Scope::split(key);
        let message = match self {
            Self::Session(_) if scope == Scope::Temp => {
                format!("'{key}' lives within one run of an agent and is never stored; leave out 'temp:'")
            }
            Self::Owner(_) if scope != Scope::Session => {
                format!(
                    "without --session a key has no prefix; write '{name}', and name whose it is by --app and --user"
                )
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(message))
    }
}

impl fmt::Display for StateTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(key) => write!(f, "the session {key}"),
            Self::Owner(owner) => match owner.user_id() {
                Some(user_id) => write!(f, "the user {}/{user_id}", owner.app_name()),
                None => write!(f, "the app {}", owner.app_name()),
            },
        }
    }
}
