//! Reading a session: one statement, one snapshot.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use super::Postgres;
use super::lease::Lease;
use super::statements::KeySelection;
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;
use scratchbook_core::plan::query::{EventQuery, StateQuery};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::{damaged, described};
use scratchbook_core::session::{LogPositions, Session, SessionKey, SessionMetadata, seconds_of_micros};
use scratchbook_core::state::{Scope, ScopeMap, StateMap};
pub(crate) use scratchbook_database::{Attempt, Reads, RowRoom};

#[async_trait]
impl Reads for Postgres {
    async fn session(
        &self,
        key: &SessionKey,
        events: EventQuery,
        state: &StateQuery,
        room: RowRoom,
    ) -> Attempt<Option<Session>> {
        self.read_session_on(&self.connections.lease_to_read().await?, key, events, state, room).await
    }
}

impl Postgres {
    /// Reads a session on a connection that may be in a transaction.
    pub(super) async fn read_session_on(
        &self,
        lease: &Lease<'_>,
        key: &SessionKey,
        events: EventQuery,
        state: &StateQuery,
        room: RowRoom,
    ) -> Attempt<Option<Session>> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let names = |scope| state.names(scope).map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        let [of_session, of_user, of_app] = [Scope::Session, Scope::User, Scope::App].map(names);
        let keys = if of_session.is_some() { KeySelection::Some } else { KeySelection::All };
        let [own, of_user, of_app] = [of_session, of_user, of_app].map(Option::unwrap_or_default);
        let Bounds { number, limit, seconds } = Bounds::new(events);
        let statement = self.statements.session(events, keys);
        let now = self.now();
        let params: [&(dyn ToSql + Sync); 10] =
            [&app, &user, &session, &number, &limit, &seconds, &own, &of_user, &of_app, &now];
        let is_event = |row: &Row| row.try_get(0).is_ok_and(|kind: &str| kind == "event");
        let mut rows = SessionRows::new(key);
        lease.for_each_within(statement, &params, room, is_event, |row| rows.take(&row)).await?;
        Ok(rows.session())
    }
}

/// The parameters that select the events.
#[derive(Default)]
struct Bounds {
    number: i64,
    limit: i64,
    seconds: f64,
}

impl Bounds {
    fn new(query: EventQuery) -> Self {
        let all = Self { limit: i64::MAX, ..Self::default() };
        match query {
            EventQuery::None | EventQuery::All => all,
            EventQuery::Last(count) => Self { number: i64::MAX, limit: sql_limit(count), ..all },
            EventQuery::After(seq, limit) | EventQuery::Before(seq, limit) => {
                Self { number: i64::try_from(seq).unwrap_or(i64::MAX), limit: sql_limit(limit), ..all }
            }
            EventQuery::Since(seconds, None) => Self { seconds, ..all },
            EventQuery::Since(seconds, Some(count)) => Self { seconds, limit: sql_limit(count), ..all },
        }
    }
}

/// A session that is assembled from the rows of its statement.
struct SessionRows<'a> {
    key: &'a SessionKey,
    place: Option<SessionPlace>,
    logs: LogPositions,
    bytes: u64,
    own: ScopeMap,
    of_user: ScopeMap,
    of_app: ScopeMap,
    events: Vec<(i64, Arc<Event>)>,
}

/// The contents of the session's row.
struct SessionPlace {
    seq: u64,
    /// The times of creation and of the last update, in microseconds since 1970.
    times: (i64, i64),
    metadata: SessionMetadata,
    expires: Option<i64>,
}

impl<'a> SessionRows<'a> {
    fn new(key: &'a SessionKey) -> Self {
        Self {
            key,
            place: None,
            logs: LogPositions::default(),
            bytes: 0,
            own: ScopeMap::new(),
            of_user: ScopeMap::new(),
            of_app: ScopeMap::new(),
            events: Vec::new(),
        }
    }

    fn take(&mut self, row: &Row) -> Result<()> {
        let key = self.key;
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let damaged_row = || format!("a row of the session {key}");
        let kind: &str = column(row, 0, damaged_row)?;
        let (values, scope, owner) = match kind {
            "event" => {
                let seq = column(row, 1, damaged_row)?;
                let text = column(row, 4, || format!("the event {seq} of {key}"))?;
                self.events.push((seq, rows::event(seq, text, key)?));
                return Ok(());
            }
            "place" => {
                let described = || format!("the session {key}");
                let seq = rows::number(column(row, 1, described)?, described)?;
                let metadata = metadata(row, [3, 4], described)?;
                let times = (column(row, 6, described)?, column(row, 2, described)?);
                self.place = Some(SessionPlace { seq, times, metadata, expires: column(row, 5, described)? });
                return Ok(());
            }
            "size" => {
                let described = || format!("the size of the session {key}");
                self.bytes = rows::number(column(row, 1, described)?, described)?;
                return Ok(());
            }
            "logs" => {
                self.logs = LogPositions::new(log_position(row, 1, key)?, log_position(row, 2, key)?);
                return Ok(());
            }
            "session" => (&mut self.own, Scope::Session, &[app, user, session][..]),
            "user" => (&mut self.of_user, Scope::User, &[app, user][..]),
            _ => (&mut self.of_app, Scope::App, &[app][..]),
        };
        rows::insert(values, scope, owner, column(row, 3, damaged_row)?, column(row, 4, damaged_row)?)
    }

    /// Returns the session, if there was a row of it.
    fn session(mut self) -> Option<Session> {
        let SessionPlace { seq, times, metadata, expires } = self.place?;
        self.events.sort_by_key(|(seq, _)| *seq);
        let events = self.events.into_iter().map(|(_, event)| event).collect();
        let session = described(self.key.clone(), StateMap::new(self.own, self.of_user, self.of_app), times, seq);
        let session = session.with_events(events).with_log_positions(self.logs).with_expire_time(seconds(expires));
        Some(session.with_metadata(metadata).with_stored_bytes(self.bytes))
    }
}

/// Reads the title and labels from two columns of a row.
pub(super) fn metadata(row: &Row, columns: [usize; 2], of: impl Fn() -> String) -> Result<SessionMetadata> {
    let [title, labels] = columns;
    rows::metadata(column(row, title, &of)?, column(row, labels, &of)?, &of)
}

pub(super) fn seconds(micros: Option<i64>) -> Option<f64> {
    micros.map(seconds_of_micros)
}

/// Reads the last position of a log; an empty log has none.
pub(super) fn log_position(row: &Row, index: usize, of: impl std::fmt::Display) -> Result<u64> {
    let place = || format!("a position in the logs of {of}");
    column::<Option<i64>>(row, index, place)?.map_or(Ok(0), |position| rows::number(position, place))
}

/// Reads a column of a row. If it contains a value that we never write, the error names the row.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize, place: impl Fn() -> String) -> Result<T> {
    row.try_get(index).map_err(|_| damaged(place()))
}

pub(super) fn sql_limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
