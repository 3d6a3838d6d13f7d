//! Finds the session that the command line names.

use scratchbook::session::ListSessionsConfig;
use scratchbook::{Error, ErrorKind, GetSessionConfig, Session, SessionKey};

use crate::args::{Address, Within};
use crate::database::Database;
use crate::failure::{CANDIDATES, Failure};
use crate::owners::{apps, newest};

/// The length of an id that a store makes.
const MADE: usize = 36;

/// How much of it takes the place of the whole in `chat`, which makes sessions by name.
const SHORTEST: usize = 8;

/// How many sessions are read at once to find the beginning of an id.
const PAGE: usize = 1_000;

/// Finds a session. A whole address is returned as it is, whether there is such a session or not.
///
/// # Errors
///
/// `NotFound` if there is no such session, and [`Failure::Ambiguous`] if there are several.
pub(crate) async fn resolve(address: &Address, database: &Database) -> Result<SessionKey, Failure> {
    match address {
        Address::Whole(key) => Ok(key.clone()),
        Address::Beginning(within, id) => by_id(database, within, id).await,
        Address::Last(within) => last(database, within).await,
    }
}

/// The session with this whole id, or else the only one whose id begins so.
async fn by_id(database: &Database, within: &Within, id: &str) -> Result<SessionKey, Failure> {
    let apps = searched(database, within).await?;
    let mut found = Vec::new();
    for app in &apps {
        found.extend(exactly(database, app, within.user.as_deref(), id).await?);
    }
    if found.is_empty() {
        for app in &apps {
            found.extend(beginning_with(database, app, within.user.as_deref(), id).await?);
        }
    }
    only(found, id)?.ok_or_else(|| {
        let of = in_words(within);
        let message =
            format!("there is no session{of} whose id is '{id}' or begins so; see: scratchbook sessions list");
        Error::not_found(message).into()
    })
}

/// The only one of the sessions found; `None` if there is none.
fn only(mut found: Vec<SessionKey>, id: &str) -> Result<Option<SessionKey>, Failure> {
    if found.len() > 1 {
        found.truncate(CANDIDATES + 1);
        return Err(Failure::Ambiguous { id: id.to_owned(), candidates: found });
    }
    Ok(found.pop())
}

async fn last(database: &Database, within: &Within) -> Result<SessionKey, Failure> {
    let mut last: Option<Session> = None;
    for app in searched(database, within).await? {
        let newest = newest(database, &app, within.user.as_deref()).await?;
        let is_newer =
            |session: &Session| last.as_ref().is_none_or(|last| last.last_update_time() < session.last_update_time());
        if let Some(newer) = newest.filter(is_newer) {
            last = Some(newer);
        }
    }
    let none = || Error::not_found(format!("there is no session{} yet", in_words(within)));
    Ok(last.ok_or_else(none)?.key().clone())
}

/// The session of a user that has this id or, if none has, the only one whose id begins so and is one of those that the
/// store makes. `None` if there is no such session, and a new one may get the id.
pub(crate) async fn known(database: &Database, key: &SessionKey) -> Result<Option<SessionKey>, Failure> {
    let (app, user, id) = (key.app_name(), Some(key.user_id()), key.session_id());
    if exists(database, key).await? {
        return Ok(Some(key.clone()));
    }
    if id.len() < SHORTEST || !begins_made_id(id) {
        return Ok(None);
    }
    let mut found = beginning_with(database, app, user, id).await?;
    found.retain(|key| key.session_id().len() == MADE && begins_made_id(key.session_id()));
    only(found, id)
}

/// Whether a text is an id as stores make them, such as `019aa3b2-5d1c-7f00-8a6e-0123456789ab`, or the beginning of one.
fn begins_made_id(text: &str) -> bool {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let fits = |(at, c): (usize, char)| if DASHES.contains(&at) { c == '-' } else { c.is_ascii_hexdigit() };
    text.len() <= MADE && text.chars().enumerate().all(fits)
}

/// The apps to search.
async fn searched(database: &Database, within: &Within) -> Result<Vec<String>, Failure> {
    match &within.app {
        Some(app) => Ok(vec![app.clone()]),
        None => apps(database).await,
    }
}

async fn exactly(database: &Database, app: &str, user: Option<&str>, id: &str) -> Result<Vec<SessionKey>, Failure> {
    if let Some(user) = user {
        let key = SessionKey::new(app, user, id)?;
        return Ok(if exists(database, &key).await? { vec![key] } else { Vec::new() });
    }
    match database.sessions.locate_session(app, id).await {
        Ok(found) => Ok(found.into_iter().collect()),
        // Several users have a session with this id.
        Err(error) if error.kind() == ErrorKind::FailedPrecondition => {
            search(database, app, None, |session| session.id() == id).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn beginning_with(
    database: &Database,
    app: &str,
    user: Option<&str>,
    id: &str,
) -> Result<Vec<SessionKey>, Failure> {
    search(database, app, user, |session| session.id().starts_with(id)).await
}

/// The newest sessions that match, one more than an error lists.
async fn search(
    database: &Database,
    app: &str,
    user: Option<&str>,
    matches: impl Fn(&Session) -> bool,
) -> Result<Vec<SessionKey>, Failure> {
    let mut config = ListSessionsConfig::default().with_page_size(PAGE).newest_first();
    config.user_id = user.map(str::to_owned);
    let mut found = Vec::new();
    loop {
        let page = database.sessions.list_sessions(app, &config).await?;
        found.extend(page.sessions.iter().filter(|session| matches(session)).map(|session| session.key().clone()));
        config.page_token = page.next_page_token;
        if config.page_token.is_none() || found.len() > CANDIDATES {
            return Ok(found);
        }
    }
}

async fn exists(database: &Database, key: &SessionKey) -> Result<bool, Failure> {
    let config = GetSessionConfig::state_only().without_state();
    Ok(database.sessions.get_session(key, &config).await?.is_some())
}

fn in_words(Within { app, user }: &Within) -> String {
    let part = |what: &str, name: &Option<String>| name.as_ref().map(|name| format!(" of {what} '{name}'"));
    [part("user", user), part("app", app)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::begins_made_id;

    #[test]
    fn ids_that_stores_make_differ_from_names() {
        for id in ["019aa3b2", "019aa3b2-5d1c-7", "019AA3B2-5d1c-7f00-8a6e-0123456789ab"] {
            assert!(begins_made_id(id), "{id}");
        }
        for name in ["20261123-notes", "s1", "019aa3b25", "019aa3b2-5d1c-7f00-8a6e-0123456789ab0"] {
            assert!(!begins_made_id(name), "{name}");
        }
    }
}
