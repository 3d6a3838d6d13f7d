//! The apps and users of a database, and the newest session of each.

use scratchbook::session::{Capability, ListSessionsConfig, StateOwner};
use scratchbook::{Error, ErrorKind, Session, SessionKey};

use crate::database::OpenDatabase;
use crate::failure::CommandFailure;

/// The greatest character. A user's id has at most 512 bytes, so the greatest id consists of this character only.
const GREATEST: &str = "\u{10ffff}";
const ID_BYTES: usize = 512;

/// Returns the apps of a database, in byte order. This takes one read for each app, however many users the app has.
pub(crate) async fn apps(database: &OpenDatabase) -> Result<Vec<String>, CommandFailure> {
    check(database)?;
    let mut apps: Vec<String> = Vec::new();
    let last_user = GREATEST.repeat(ID_BYTES / GREATEST.len());
    loop {
        let after = apps.last().map(|app| StateOwner::user(app, &last_user)).transpose()?;
        let Some(next) = database.sessions.list_owners(after.as_ref(), 1).await?.into_iter().next() else {
            return Ok(apps);
        };
        apps.push(next.app_name().to_owned());
    }
}

/// Lists at most `limit` users of an app or of all apps, after the given user.
pub(crate) async fn users(
    database: &OpenDatabase,
    app: Option<&str>,
    after: Option<StateOwner>,
    limit: usize,
) -> Result<Vec<StateOwner>, CommandFailure> {
    check(database)?;
    let mut after = after.map_or_else(|| app.map(StateOwner::app).transpose(), |after| Ok(Some(after)))?;
    let (mut users, page) = (Vec::new(), limit.clamp(1, 1_000));
    loop {
        let owners = database.sessions.list_owners(after.as_ref(), page).await?;
        let is_end = owners.len() < page;
        after = owners.last().cloned();
        for owner in owners {
            if app.is_some_and(|app| app != owner.app_name()) || users.len() == limit {
                return Ok(users);
            }
            if owner.user_id().is_some() {
                users.push(owner);
            }
        }
        if is_end {
            return Ok(users);
        }
    }
}

/// Returns the session with the newest event in an app, or of a user if a user is given; `None` if there is no session.
pub(crate) async fn newest(
    database: &OpenDatabase,
    app: &str,
    user: Option<&str>,
) -> Result<Option<Session>, CommandFailure> {
    let mut config = ListSessionsConfig::default().with_page_size(1).newest_first();
    config.user_id = user.map(str::to_owned);
    Ok(database.sessions.list_sessions(app, &config).await?.sessions.pop())
}

/// Refuses a store that cannot list its apps.
fn check(database: &OpenDatabase) -> Result<(), Error> {
    if database.sessions.capabilities().has(Capability::Owners) {
        return Ok(());
    }
    let message = "this store does not list its apps and users; name the app with --app";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Returns a session key for access to a user's artifacts. Every session sees these, so the session need not exist.
pub(crate) fn any_session(app: &str, user: &str) -> Result<SessionKey, Error> {
    SessionKey::new(app, user, "-")
}
