//! Imports google-adk's databases.
//!
//! - `location.rs` parses the source, `layout.rs` checks its tables.
//! - `rows.rs` has the trait that reads a database; `sqlite.rs` and `postgres.rs` implement it.
//! - `values.rs` and `event.rs` convert state and events; `camel_case.rs` converts field names, `typescript.rs` what
//!   ADK for TypeScript stores differently.
//! - `session.rs` imports a session with its events and its initial state.

mod camel_case;
mod event;
mod layout;
mod location;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "without_postgres.rs"]
mod postgres;
mod rows;
mod session;
mod sqlite;
mod typescript;
mod values;

use async_trait::async_trait;
use scratchbook::session::{StateChange, StateOwner};
use scratchbook::{Error, ErrorKind, Event, SessionKey};
use serde_json::Map;

use super::owner_state::{OwnerState, SourceChanges, name_of};
use super::report::{ImportReport, RefusedRow};
use super::source::PAGE;
use super::untrusted::AdkState;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use location::DatabaseLocation;
use values::Values;

pub(super) use layout::Layout;
pub(super) use rows::AdkDatabase;

/// Opens a database and checks its layout.
pub(super) async fn open(source: &str, layout: Layout) -> Result<Box<dyn AdkDatabase>, CommandFailure> {
    Ok(match DatabaseLocation::read(source, layout)? {
        DatabaseLocation::File(path) => Box::new(sqlite::Sqlite::open(&path, layout)?),
        DatabaseLocation::Postgres(uri) => Box::new(postgres::AdkPostgres::open(&uri).await?),
    })
}

/// Reads the JSON of an event.
pub(super) fn read_event(text: &str) -> Result<Event, Error> {
    event::read(rows::AdkEventRow { id: String::new(), data: Ok(text.to_owned()), time: None, columns: None })
}

/// Reads the JSON of a session's state.
pub(super) fn read_state(text: &str) -> Result<AdkState, Error> {
    Ok(Values::of_session(text)?.into_parts())
}

/// Imports everything: app by app, user by user, session by session.
pub(super) async fn import(
    source: &dyn AdkDatabase,
    database: &OpenDatabase,
    report: &mut ImportReport,
) -> Result<(), CommandFailure> {
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
    for row in source.unnamed() {
        report.refuse(RefusedRow::new(row, Error::invalid("a name or an id in it is no text")));
    }
    Ok(())
}

async fn import_user(
    source: &dyn AdkDatabase,
    database: &OpenDatabase,
    app: &str,
    user: &str,
    report: &mut ImportReport,
) -> Result<(), CommandFailure> {
    let shared = begin(source, database, StateOwner::user(app, user), app, Some(user), report).await?;
    let mut after = None;
    loop {
        let sessions = source.sessions(app, user, after.as_deref(), PAGE).await?;
        let Some(last) = sessions.last() else { break };
        after = Some(last.id.clone());
        for session in sessions {
            let name = format!("session {app}/{user}/{}", session.id);
            match session::import(source, database, (app, user), session, report).await {
                Err(CommandFailure::Refused(why)) if is_about_the_row(&why) => {
                    report.refuse(RefusedRow::new(name, why));
                }
                done => done?,
            }
        }
    }
    if let Some(shared) = shared {
        shared.settle(database, report).await?;
    }
    Ok(())
}

/// Reads the state of a user or an app; `None` if its name is invalid here.
async fn begin(
    source: &dyn AdkDatabase,
    database: &OpenDatabase,
    owner: Result<StateOwner, Error>,
    app: &str,
    user: Option<&str>,
    report: &mut ImportReport,
) -> Result<Option<OwnerState>, CommandFailure> {
    let text = source.state(app, user).await?;
    let owner = match owner {
        Ok(owner) => owner,
        Err(why) => {
            if text.is_some() {
                let row = user.map_or_else(|| format!("app {app}"), |user| format!("user {app}/{user}"));
                report.refuse(RefusedRow::new(row, why));
            }
            return Ok(None);
        }
    };
    let values = match text.map(|text| Values::of_owner(&text?, &owner)) {
        None => Map::new(),
        Some(Ok(values)) => values.report(&name_of(&owner), report),
        Some(Err(why)) => {
            report.refuse(RefusedRow::new(name_of(&owner), why));
            return Ok(None);
        }
    };
    OwnerState::begin(database, owner, Some(values), &InDatabase(source), report).await.map(Some)
}

/// Returns whether an error concerns a single row. The import then continues.
fn is_about_the_row(why: &Error) -> bool {
    let is_limit = why.kind() == ErrorKind::ResourceExhausted && !why.is_for_operator();
    is_limit || matches!(why.kind(), ErrorKind::InvalidArgument | ErrorKind::AlreadyExists | ErrorKind::PayloadTooLarge)
}

/// Finds changes in the source database.
struct InDatabase<'a>(&'a dyn AdkDatabase);

#[async_trait]
impl SourceChanges for InDatabase<'_> {
    async fn has_event(&self, session: &SessionKey, id: &str) -> Result<bool, CommandFailure> {
        Ok(self.0.has_event(session, id).await?)
    }

    fn has_put(&self, _: &StateChange) -> bool {
        // google-adk changes state only by events.
        false
    }
}
