//! What a read reads: one statement, one snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::Postgres;
use super::changes::owner;
use super::lease::Lease;
use super::statements::Keys;
use crate::error::Result;
use crate::event::Event;
use crate::session::{
    ListSessionsResponse, LogPositions, Session, SessionKey, StateChange, StateOwner, seconds_of_micros,
};
use crate::state::{Scope, ScopeMap, StateMap};
use crate::store::database::Attempt;
use crate::store::query::{EventQuery, ListPosition, ListQuery, StateQuery, since_bounds};
use crate::store::rows::{self, damaged, described, stored_key};

impl Postgres {
    pub(super) async fn read_session(
        &self,
        key: &SessionKey,
        events: EventQuery,
        state: &StateQuery,
    ) -> Attempt<Option<Session>> {
        self.read_session_on(&self.connections.lease().await?, key, events, state).await
    }

    /// The same on a connection that may be in a transaction.
    pub(super) async fn read_session_on(
        &self,
        lease: &Lease<'_>,
        key: &SessionKey,
        events: EventQuery,
        state: &StateQuery,
    ) -> Attempt<Option<Session>> {
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let names = |scope| state.names(scope).map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        let [of_session, of_user, of_app] = [Scope::Session, Scope::User, Scope::App].map(names);
        let keys = if of_session.is_some() { Keys::Some } else { Keys::All };
        let Bounds { number, limit, seconds, many, far } = Bounds::new(events);
        let statement = self.statements.session(events, keys);
        let rows = lease
            .query(
                statement,
                &[
                    &app,
                    &user,
                    &session,
                    &number,
                    &limit,
                    &seconds,
                    &many,
                    &far,
                    &of_session.unwrap_or_default(),
                    &of_user.unwrap_or_default(),
                    &of_app.unwrap_or_default(),
                    &self.now(),
                ],
            )
            .await?;
        Ok(assemble(key, &rows)?)
    }

    pub(super) async fn list(&self, app: &str, query: &ListQuery) -> Attempt<ListSessionsResponse> {
        let start = ListPosition { micros: i64::MIN, user_id: String::new(), session_id: String::new() };
        let after = query.after.as_ref().unwrap_or(&start);
        let (limit, now) = (sql_limit(query.limit), self.now());
        let lease = self.connections.lease().await?;
        let rows = match &query.user_id {
            None => {
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                    [&app, &after.micros, &after.user_id, &after.session_id, &limit, &now];
                lease.query(&self.statements.list_of_app, &params).await?
            }
            Some(user) => {
                // A page token of another user's stands before or after all of this user's with its time.
                let (micros, id) = match after.user_id.as_str().cmp(user) {
                    std::cmp::Ordering::Less => (after.micros, ""),
                    std::cmp::Ordering::Equal => (after.micros, after.session_id.as_str()),
                    std::cmp::Ordering::Greater => (after.micros.saturating_add(1), ""),
                };
                lease.query(&self.statements.list_of_user, &[&app, &micros, user, &id, &limit, &now]).await?
            }
        };
        drop(lease);
        Ok(page(app, query, &rows)?)
    }

    pub(super) async fn read_state(&self, of: &StateOwner) -> Attempt<Map<String, Value>> {
        let [app, user, _] = owner(of);
        let lease = self.connections.lease().await?;
        let rows = match of {
            StateOwner::User { .. } => lease.query(&self.statements.user_state, &[&app, &user]).await?,
            StateOwner::App { .. } => lease.query(&self.statements.app_state, &[&app]).await?,
        };
        drop(lease);
        let scope = scope_of(of);
        let mut values = Map::new();
        for row in &rows {
            let name: String = column(row, 0, || format!("a key of {app}/{user}"))?;
            let place = || format!("the value of key '{}' of {app}/{user}", scope.key(&name));
            let value = rows::json(column(row, 1, place)?, place)?;
            values.insert(name, value);
        }
        Ok(values)
    }

    pub(super) async fn read_log(&self, of: &StateOwner, after: u64, limit: usize) -> Attempt<Vec<StateChange>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let ([app, user, _], scope) = (owner(of), scope_of(of));
        let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), sql_limit(limit));
        let lease = self.connections.lease().await?;
        let rows = lease.query(&self.statements.state_changes, &[&app, &scope.as_str(), &user, &after, &limit]).await?;
        drop(lease);
        Ok(rows.iter().map(|row| change(row, app, user, scope)).collect::<Result<_>>()?)
    }
}

/// The parameters that say which events.
#[derive(Default)]
struct Bounds {
    number: i64,
    limit: i64,
    seconds: f64,
    many: i64,
    far: i64,
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
            EventQuery::Since(seconds, Some(count)) => {
                // Where all are wanted, there are never many more.
                let (many, far) = since_bounds(count).unwrap_or((usize::MAX, 0));
                Self { seconds, limit: sql_limit(count), many: sql_limit(many), far: sql_limit(far), number: 0 }
            }
        }
    }
}

fn assemble(key: &SessionKey, rows: &[Row]) -> Result<Option<Session>> {
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let (mut place, mut logs) = (None, LogPositions::default());
    let [mut own, mut of_user, mut of_app] = [const { None }; 3].map(|_: Option<()>| ScopeMap::new());
    let mut events: Vec<(i64, Arc<Event>)> = Vec::new();
    for row in rows {
        let damaged_row = || format!("a row of the session {key}");
        let kind: &str = column(row, 0, damaged_row)?;
        let (values, scope, owner) = match kind {
            "event" => {
                let seq = column(row, 1, damaged_row)?;
                let text = column(row, 4, || format!("the event {seq} of {key}"))?;
                events.push((seq, Arc::new(rows::event(seq, text, key)?)));
                continue;
            }
            "place" => {
                let described = || format!("the session {key}");
                let seq = rows::number(column(row, 1, described)?, described)?;
                place = Some((seq, column(row, 2, described)?, column(row, 5, described)?));
                continue;
            }
            "logs" => {
                logs = LogPositions::new(log_position(row, 1, key)?, log_position(row, 2, key)?);
                continue;
            }
            "session" => (&mut own, Scope::Session, &[app, user, session][..]),
            "user" => (&mut of_user, Scope::User, &[app, user][..]),
            _ => (&mut of_app, Scope::App, &[app][..]),
        };
        rows::insert(values, scope, owner, column(row, 3, damaged_row)?, column(row, 4, damaged_row)?)?;
    }
    let Some((seq, micros, expires)) = place else {
        return Ok(None);
    };
    events.sort_by_key(|(seq, _)| *seq);
    let events = events.into_iter().map(|(_, event)| event).collect();
    let session = described(key.clone(), StateMap::new(own, of_user, of_app), micros, seq);
    Ok(Some(session.with_events(events).with_log_positions(logs).with_expire_time(seconds(expires))))
}

fn seconds(micros: Option<i64>) -> Option<f64> {
    micros.map(seconds_of_micros)
}

/// The last position of a log; an empty one has none.
fn log_position(row: &Row, index: usize, of: impl std::fmt::Display) -> Result<u64> {
    let place = || format!("a position in the logs of {of}");
    column::<Option<i64>>(row, index, place)?.map_or(Ok(0), |position| rows::number(position, place))
}

fn page(app: &str, query: &ListQuery, rows: &[Row]) -> Result<ListSessionsResponse> {
    let mut places = Vec::new();
    let mut of_app = ScopeMap::new();
    let mut of_users = HashMap::<&str, ScopeMap>::new();
    let mut own = HashMap::<&str, HashMap<&str, ScopeMap>>::new();
    let (mut app_log, mut user_logs) = (0, HashMap::<&str, u64>::new());
    for row in rows {
        let damaged_row = || format!("a row of the sessions of {app}");
        let kind: &str = column(row, 0, damaged_row)?;
        let (user, session): (&str, &str) = (column(row, 1, damaged_row)?, column(row, 2, damaged_row)?);
        let (values, scope, owner) = match kind {
            "place" => {
                let described = || format!("the session {app}/{user}/{session}");
                let seq = rows::number(column(row, 4, described)?, described)?;
                let (user_id, session_id) = (user.to_owned(), session.to_owned());
                let micros = column(row, 3, described)?;
                places.push((ListPosition { micros, user_id, session_id }, seq, column(row, 7, described)?));
                continue;
            }
            "user log" => {
                user_logs.insert(user, log_position(row, 3, app)?);
                continue;
            }
            "app log" => {
                app_log = log_position(row, 3, app)?;
                continue;
            }
            "session" => {
                (own.entry(user).or_default().entry(session).or_default(), Scope::Session, &[app, user, session][..])
            }
            "user" => (of_users.entry(user).or_default(), Scope::User, &[app, user][..]),
            _ => (&mut of_app, Scope::App, &[app][..]),
        };
        rows::insert(values, scope, owner, column(row, 5, damaged_row)?, column(row, 6, damaged_row)?)?;
    }
    places.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let more = places.len() > query.limit;
    places.truncate(query.limit);
    let token = places.last().filter(|_| more).map(|(last, ..)| last.to_token());
    let mut sessions = Vec::with_capacity(places.len());
    for (ListPosition { micros, user_id, session_id }, seq, expires) in places {
        let own = own.get_mut(user_id.as_str()).and_then(|of_user| of_user.remove(session_id.as_str()));
        let of_user = of_users.get(user_id.as_str()).cloned().unwrap_or_default();
        let state = StateMap::new(own.unwrap_or_default(), of_user, of_app.clone());
        let logs = LogPositions::new(user_logs.get(user_id.as_str()).copied().unwrap_or_default(), app_log);
        let session = described(stored_key(app, &user_id, &session_id)?, state, micros, seq);
        sessions.push(session.with_log_positions(logs).with_expire_time(seconds(expires)));
    }
    Ok(ListSessionsResponse::new(sessions, token))
}

pub(super) fn change(row: &Row, app: &str, user: &str, scope: Scope) -> Result<StateChange> {
    let of_log = || format!("the log of {app}/{user}");
    let (position, name): (i64, String) = (column(row, 0, of_log)?, column(row, 1, of_log)?);
    let place = || format!("the log of {}key '{name}' of {app}/{user} at position {position}", scope.prefix());
    let value: Option<&str> = column(row, 3, place)?;
    let (session_user, session): (Option<&str>, Option<&str>) = (column(row, 4, place)?, column(row, 5, place)?);
    let origin = match session_user.zip(session) {
        Some((user, session)) => Some((stored_key(app, user, session)?, rows::number(column(row, 6, place)?, place)?)),
        None => None,
    };
    Ok(StateChange {
        position: rows::number(position, place)?,
        version: rows::number(column(row, 2, place)?, place)?,
        value: value.map(|text| rows::json(text, place)).transpose()?,
        origin,
        event_id: column(row, 7, place)?,
        author: column(row, 8, place)?,
        time: column(row, 9, place)?,
        name,
    })
}

pub(super) fn scope_of(owner: &StateOwner) -> Scope {
    match owner {
        StateOwner::User { .. } => Scope::User,
        StateOwner::App { .. } => Scope::App,
    }
}

/// A column of a row; one that holds what is never written names its row.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize, place: impl Fn() -> String) -> Result<T> {
    row.try_get(index).map_err(|_| damaged(place()))
}

pub(super) fn sql_limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
