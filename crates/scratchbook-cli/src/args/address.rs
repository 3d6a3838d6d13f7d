//! How the command line names a session, and the user or the app that it belongs to.

use clap::Args;
use scratchbook::{Error, Result, SessionKey};

use super::named;

/// The options that name a session, a user or an app.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AddressArgs {
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// The user
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// The session: APP/USER/SESSION or its id, of which the beginning is enough. With both --app and --user, the id must
    /// be complete
    #[arg(long, short, value_parser = named)]
    pub(crate) session: Option<String>,
    /// Use the most recently updated session of --app and --user, or of all apps and users without these options
    #[arg(long, conflicts_with = "session")]
    pub(crate) last: bool,
}

/// A session, named by an argument or by options.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The session: APP/USER/SESSION or its id, of which the beginning is enough
    #[arg(value_name = "SESSION", value_parser = named, conflicts_with_all = ["session", "last"])]
    pub(crate) named: Option<String>,
    #[command(flatten)]
    pub(crate) options: AddressArgs,
}

/// The address of a session on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// The session's app, user and whole id.
    Whole(SessionKey),
    /// The session's id, or the beginning of its id. With an app and a user it was written as APP/USER/SESSION.
    Beginning(Within, String),
    /// The most recently updated session.
    Last(Within),
}

/// The app and the user whose sessions are searched; without them, all sessions are searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Within {
    pub(crate) app: Option<String>,
    pub(crate) user: Option<String>,
}

impl AddressArgs {
    /// Returns the session; `None` if the options name no session.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for ids that no session can have, and for an address that contradicts the options.
    pub(crate) fn session(&self) -> Result<Option<Address>> {
        match &self.session {
            Some(text) => self.parse(text).map(Some),
            None => Ok(self.last.then(|| Address::Last(self.within()))),
        }
    }

    /// Returns the session, which has to be named.
    pub(crate) fn required(&self) -> Result<Address> {
        self.session()?.ok_or_else(|| {
            Error::invalid("name the session: APP/USER/SESSION or its id, of which the beginning is enough; --last is the one with the newest event")
        })
    }

    /// Parses the name of a session. With the options for app and user, the text is the whole id, so that a script never
    /// finds another session whose id only begins with the text.
    pub(crate) fn parse(&self, text: &str) -> Result<Address> {
        if let (Some(app), Some(user)) = (&self.app, &self.user) {
            return SessionKey::new(app, user, text).map(Address::Whole);
        }
        let Some([app, user, session]) = parts(text) else {
            return Ok(Address::Beginning(self.within(), text.trim().to_owned()));
        };
        for (option, given, part) in [("--app", &self.app, app), ("--user", &self.user, user)] {
            if let Some(given) = given.as_deref().filter(|given| *given != part) {
                return Err(Error::invalid(format!(
                    "'{text}' is of another {} than '{given}'; give {option} {part}",
                    option.trim_start_matches('-')
                )));
            }
        }
        let within = Within { app: Some(app.to_owned()), user: Some(user.to_owned()) };
        Ok(Address::Beginning(within, session.to_owned()))
    }

    /// Returns the app, if the options name it.
    pub(crate) fn app(&self) -> Option<&str> {
        let of_session = || Some(parts(self.session.as_deref()?)?[0]);
        self.app.as_deref().or_else(of_session)
    }

    fn within(&self) -> Within {
        Within { app: self.app.clone(), user: self.user.clone() }
    }
}

impl SessionArgs {
    /// Returns the session.
    pub(crate) fn address(&self) -> Result<Address> {
        self.named.as_deref().map_or_else(|| self.options.required(), |text| self.options.parse(text))
    }

    /// Returns the app, if the arguments name it.
    pub(crate) fn app(&self) -> Option<&str> {
        let of_argument = || Some(parts(self.named.as_deref()?)?[0]);
        self.options.app().or_else(of_argument)
    }
}

/// Splits `APP/USER/SESSION` into its parts.
pub(crate) fn parts(text: &str) -> Option<[&str; 3]> {
    let parts: Vec<_> = text.split('/').collect();
    <[&str; 3]>::try_from(parts).ok().filter(|parts| parts.iter().all(|part| !part.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(app: &str, user: &str) -> AddressArgs {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        AddressArgs { app: given(app), user: given(user), ..AddressArgs::default() }
    }

    fn whole(app: &str, user: &str, session: &str) -> Address {
        Address::Whole(SessionKey::new(app, user, session).unwrap())
    }

    fn beginning(app: &str, user: &str, session: &str) -> Address {
        Address::Beginning(args(app, user).within(), session.to_owned())
    }

    #[test]
    fn three_parts_are_an_address_and_anything_else_an_id() {
        let none = args("", "");
        assert_eq!(none.parse("shop/alice/s1").unwrap(), beginning("shop", "alice", "s1"));
        for text in ["s1", "alice/s1", "a/b/c/d", "shop//s1", "/", "shop/alice/"] {
            assert_eq!(none.parse(text).unwrap(), beginning("", "", text), "{text}");
        }
    }

    #[test]
    fn with_app_and_user_an_id_is_taken_as_it_is() {
        let both = args("shop", "alice");
        assert_eq!(both.parse("s1").unwrap(), whole("shop", "alice", "s1"));
        assert_eq!(both.parse("a/b/c").unwrap(), whole("shop", "alice", "a/b/c"));
        let app = args("shop", "");
        assert_eq!(app.parse("s1").unwrap(), beginning("shop", "", "s1"));
        assert_eq!(app.parse("shop/bob/s1").unwrap(), beginning("shop", "bob", "s1"));
        let contradiction = app.parse("store/bob/s1").unwrap_err().to_string();
        assert!(contradiction.contains("give --app store"), "{contradiction}");
    }

    #[test]
    fn the_app_is_known_from_either_form() {
        let named = SessionArgs { named: Some("shop/alice/s1".to_owned()), options: AddressArgs::default() };
        assert_eq!(named.app(), Some("shop"));
        assert_eq!(args("shop", "").app(), Some("shop"));
        assert_eq!(AddressArgs { session: Some("s1".to_owned()), ..AddressArgs::default() }.app(), None);
        assert!(AddressArgs::default().required().is_err());
        let last = AddressArgs { last: true, ..args("shop", "") };
        assert_eq!(last.required().unwrap(), Address::Last(last.within()));
    }
}
