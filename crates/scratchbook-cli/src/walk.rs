//! Walks through the apps, users and sessions of a database, page by page.

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use scratchbook::session::{ListSessionsConfig, StateOwner};
use scratchbook::{Error, ErrorKind, Session, SessionKey};

use crate::address::resolve;
use crate::args::AddressArgs;
use crate::database::OpenDatabase;
use crate::failure::{CommandFailure, no_session};

/// The page size for owners and sessions. A page of sessions contains all their state.
const PAGE: usize = 100;

/// The selected part of a database.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    Everything,
    /// An app and its users.
    App(StateOwner),
    User(StateOwner),
    Session(SessionKey),
}

impl Selection {
    /// Selects by the given parts of an address.
    pub(crate) fn new(app: Option<&str>, user: Option<&str>) -> Result<Self, Error> {
        match (app, user) {
            (Some(app), Some(user)) => Ok(Self::User(StateOwner::user(app, user)?)),
            (Some(app), None) => Ok(Self::App(StateOwner::app(app)?)),
            (None, None) => Ok(Self::Everything),
            (None, Some(user)) => Err(Error::invalid(format!("name the app of the user '{user}' with --app"))),
        }
    }

    /// Selects what the options of a command name.
    pub(crate) async fn of(args: &AddressArgs, database: &OpenDatabase) -> Result<Self, CommandFailure> {
        match args.session()? {
            Some(address) => Ok(Self::Session(resolve(&address, database).await?)),
            None => Ok(Self::new(args.app.as_deref(), args.user.as_deref())?),
        }
    }

    /// Returns the error if the selection does not exist.
    pub(crate) fn not_found(&self) -> Error {
        let message = match self {
            Self::Everything => "there is nothing in this database".to_owned(),
            Self::App(app) => format!("there is no app '{}'", app.app_name()),
            Self::User(user) => {
                format!("the app '{}' has no user '{}'", user.app_name(), user.user_id().unwrap_or_default())
            }
            Self::Session(key) => return no_session(key),
        };
        Error::not_found(message)
    }
}

/// The depth of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    Owners,
    Sessions,
}

/// An entry of a walk.
#[derive(Debug)]
pub(crate) enum WalkEntry {
    /// A user or an app. It comes before its sessions.
    Owner(StateOwner),
    /// A listed session, without events.
    Session(Box<Session>),
    /// The selected session, which may not exist.
    Named(SessionKey),
    /// A user whose sessions cannot all be listed.
    Unlisted(StateOwner, Error),
}

/// Streams the entries of a selection: each owner, followed by a user's sessions if `depth` includes them.
pub(crate) fn walk<'a>(
    database: &'a OpenDatabase,
    selection: &Selection,
    depth: Depth,
) -> impl Stream<Item = Result<WalkEntry, CommandFailure>> + 'a {
    let next = match selection {
        Selection::Everything => WalkStep::Owners { after: None, app: None },
        Selection::App(app) => WalkStep::App(app.clone()),
        Selection::User(user) => WalkStep::User(user.clone()),
        Selection::Session(key) => WalkStep::Named(key.clone()),
    };
    let walker = Walker { database, depth, todo: vec![next] };
    let pages = stream::try_unfold(walker, |mut walker| async {
        Ok::<_, CommandFailure>(walker.page().await?.map(|page| (page, walker)))
    });
    pages.map_ok(|page| stream::iter(page).map(Ok)).try_flatten()
}

/// The remaining steps of a walk. The last step in `todo` comes next.
struct Walker<'a> {
    database: &'a OpenDatabase,
    depth: Depth,
    todo: Vec<WalkStep>,
}

enum WalkStep {
    /// Owners in order, of one app or of all apps.
    Owners {
        after: Option<StateOwner>,
        app: Option<StateOwner>,
    },
    App(StateOwner),
    User(StateOwner),
    Sessions(StateOwner, ListSessionsConfig),
    Named(SessionKey),
}

impl Walker<'_> {
    async fn page(&mut self) -> Result<Option<Vec<WalkEntry>>, CommandFailure> {
        let Some(next) = self.todo.pop() else { return Ok(None) };
        Ok(Some(match next {
            WalkStep::App(app) => {
                self.todo.push(WalkStep::Owners { after: Some(app.clone()), app: Some(app.clone()) });
                vec![WalkEntry::Owner(app)]
            }
            WalkStep::User(user) => {
                let config = ListSessionsConfig::default().with_user_id(user.user_id().unwrap_or_default());
                if self.depth == Depth::Sessions {
                    self.todo.push(WalkStep::Sessions(user.clone(), config.with_page_size(PAGE)));
                }
                vec![WalkEntry::Owner(user)]
            }
            WalkStep::Owners { after, app } => self.owners(after, app).await?,
            WalkStep::Sessions(user, config) => self.sessions(user, config).await?,
            WalkStep::Named(key) => vec![WalkEntry::Named(key)],
        }))
    }

    async fn owners(
        &mut self,
        after: Option<StateOwner>,
        app: Option<StateOwner>,
    ) -> Result<Vec<WalkEntry>, CommandFailure> {
        let page = self.database.sessions.list_owners(after.as_ref(), PAGE).await?;
        let wanted = |owner: &StateOwner| app.as_ref().is_none_or(|app| app.app_name() == owner.app_name());
        let is_end = page.len() < PAGE || !page.last().is_some_and(wanted);
        if !is_end {
            self.todo.push(WalkStep::Owners { after: page.last().cloned(), app: app.clone() });
        }
        // Users become steps of their own, so that a user's sessions are read right after the user.
        let mut found: Vec<_> = page.into_iter().filter(wanted).collect();
        let apps = found.iter().filter(|owner| owner.user_id().is_none()).cloned().map(WalkEntry::Owner).collect();
        found.retain(|owner| owner.user_id().is_some());
        self.todo.extend(found.into_iter().rev().map(WalkStep::User));
        Ok(apps)
    }

    /// Reads a page of a user's sessions. If a row is damaged, the sessions before it are read one by one.
    async fn sessions(
        &mut self,
        user: StateOwner,
        mut config: ListSessionsConfig,
    ) -> Result<Vec<WalkEntry>, CommandFailure> {
        match self.database.sessions.list_sessions(user.app_name(), &config).await {
            Ok(page) => {
                config.page_token = page.next_page_token;
                if config.page_token.is_some() {
                    self.todo.push(WalkStep::Sessions(user, config));
                }
                Ok(page.sessions.into_iter().map(Box::new).map(WalkEntry::Session).collect())
            }
            Err(error) if error.kind() == ErrorKind::DataCorrupted && config.page_size > 1 => {
                self.todo.push(WalkStep::Sessions(user, config.with_page_size(1)));
                Ok(Vec::new())
            }
            Err(error) if error.kind() == ErrorKind::DataCorrupted => Ok(vec![WalkEntry::Unlisted(user, error)]),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the name of an owner in messages.
pub(crate) fn name_of(owner: &StateOwner) -> String {
    match owner.user_id() {
        Some(user_id) => format!("the user {}/{user_id}", owner.app_name()),
        None => format!("the app {}", owner.app_name()),
    }
}
