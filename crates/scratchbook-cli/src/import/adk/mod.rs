//! The databases of google-adk.
//!
//! # Layout
//!
//! - `place.rs`: which database is meant; `layout.rs`: whether it has the tables that were said to be there.
//! - `rows.rs`: what is read of a database; `sqlite.rs`, `postgres.rs`: reading it there.
//! - `values.rs`, `event.rs`: what google-adk has stored, as values and events of ours, or why not; `names.rs`: as it
//!   spells them; `typescript.rs`: what ADK for TypeScript stores in another way.
//! - `session.rs`: a session with its events, and the state that it must have had at the beginning.

mod camel_case;
mod event;
mod layout;
mod location;
mod postgres;
mod rows;
mod session;
mod sqlite;
mod tls;
mod typescript;
mod values;

use async_trait::async_trait;
use scratchbook::{Error, ErrorKind, SessionKey, StateChange, StateOwner};
use serde_json::Map;

use super::owner_state::{Known, Shared, name_of};
use super::report::{Refusal, Report};
use super::source::PAGE;
use crate::database::Database;
use crate::failure::Failure;
use location::Place;
use values::Values;

pub(super) use layout::Layout;
pub(super) use rows::Rows;

/// Opens a database of google-adk's and sees that it has the layout that was said.
pub(super) async fn open(source: &str, layout: Layout) -> Result<Box<dyn Rows>, Failure> {
    Ok(match Place::read(source, layout)? {
        Place::File(path) => Box::new(sqlite::Sqlite::open(&path, layout)?),
        Place::Postgres(uri) => Box::new(postgres::Postgres::open(&uri).await?),
    })
}

/// Brings everything over: app by app, user by user, session by session.
pub(super) async fn import(source: &dyn Rows, database: &Database, report: &mut Report) -> Result<(), Failure> {
    report.progress.of(source.count_events().await?);
    for app in source.apps().await? {
        let shared = begin(source, database, StateOwner::app(&app), &app, None, report).await?;
        let mut after = None;
        loop {
            let users = source.users(&app, after.as_deref(), PAGE).await?;
            let Some(last) = users.last() else { break };
            after = Some(last.clone());
            for user in users {
                import_user(source, database, &app, &user, report).await?;
            }
        }
        if let Some(shared) = shared {
            shared.settle(database, report).await?;
        }
    }
    Ok(())
}

async fn import_user(
    source: &dyn Rows,
    database: &Database,
    app: &str,
    user: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let shared = begin(source, database, StateOwner::user(app, user), app, Some(user), report).await?;
    let mut after = None;
    loop {
        let sessions = source.sessions(app, user, after.as_deref(), PAGE).await?;
        let Some(last) = sessions.last() else { break };
        after = Some(last.id.clone());
        for session in sessions {
            let name = format!("session {app}/{user}/{}", session.id);
            match session::import(source, database, (app, user), &session, report).await {
                Err(Failure::Refused(why)) if is_about_the_row(&why) => report.refuse(Refusal::new(name, why)),
                done => done?,
            }
        }
    }
    if let Some(shared) = shared {
        shared.settle(database, report).await?;
    }
    Ok(())
}

/// Reads the state of a user or an app; nothing to settle where our rules refuse the name.
async fn begin(
    source: &dyn Rows,
    database: &Database,
    owner: Result<StateOwner, Error>,
    app: &str,
    user: Option<&str>,
    report: &mut Report,
) -> Result<Option<Shared>, Failure> {
    let text = source.state(app, user).await?;
    let owner = match owner {
        Ok(owner) => owner,
        Err(why) => {
            if text.is_some() {
                let row = user.map_or_else(|| format!("app {app}"), |user| format!("user {app}/{user}"));
                report.refuse(Refusal::new(row, why));
            }
            return Ok(None);
        }
    };
    let values = match text.as_deref().map(|text| Values::of_owner(text, &owner)) {
        None => Map::new(),
        Some(Ok(values)) => values.report(&name_of(&owner), report),
        Some(Err(why)) => {
            report.refuse(Refusal::new(name_of(&owner), why));
            return Ok(None);
        }
    };
    Shared::begin(database, owner, Some(values), &Source(source), report).await.map(Some)
}

/// Whether an error says what is wrong with a row, not with the database: then the rest is gone on with.
fn is_about_the_row(why: &Error) -> bool {
    matches!(why.kind(), ErrorKind::InvalidArgument | ErrorKind::AlreadyExists)
}

/// The database that is read, for changes that may have come from it.
struct Source<'a>(&'a dyn Rows);

#[async_trait]
impl Known for Source<'_> {
    async fn has_event(&self, session: &SessionKey, id: &str) -> Result<bool, Failure> {
        Ok(self.0.has_event(session, id).await?)
    }

    fn has_put(&self, _: &StateChange) -> bool {
        // google-adk changes state by events alone.
        false
    }
}
