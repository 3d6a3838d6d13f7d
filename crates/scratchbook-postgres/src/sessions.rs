//! Title, labels and lists of sessions.

use std::collections::HashMap;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::lease::Lease;
use super::locks::KeyOwner;
use super::read::{column, log_position, metadata, seconds, sql_limit};
use scratchbook_core::error::Result;
use scratchbook_core::plan::query::{ListPosition, ListQuery};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::{described, stored_key};
use scratchbook_core::plan::sql::text::TextMetadata;
use scratchbook_core::plan::update::PreparedUpdate;
use scratchbook_core::session::{ListSessionsResponse, LogPositions, Session, SessionKey, SessionMetadata};
use scratchbook_core::state::{Scope, ScopeMap, StateMap};
pub(crate) use scratchbook_database::{Attempt, RowRoom, Sessions};

#[async_trait]
impl Sessions for Postgres {
    async fn list_sessions(&self, app: &str, query: &ListQuery, room: RowRoom) -> Attempt<ListSessionsResponse> {
        let after = query.start();
        let limit = sql_limit(query.scan_limit());
        let now = self.now();
        let ListPosition { micros, user_id, session_id } = &after;
        let statements = self.statements.list.of(query.user_id.as_deref(), query.order);
        let picks = !query.filter.is_empty();
        let lease = self.connections.lease_to_read().await?;
        let (statement, found) = if picks { (&statements.scan, RowRoom::WHOLE) } else { (&statements.page, room) };
        // In a list of one user, every page has that user's state, like the app's state.
        let kinds: &[&str] = if query.user_id.is_some() { &["session"] } else { &["session", "user"] };
        let is_of_item = |row: &Row| row.try_get(0).is_ok_and(|kind: &str| kinds.contains(&kind));
        let params: [&(dyn ToSql + Sync); 6] = [&app, micros, user_id, session_id, &limit, &now];
        let rows = lease.query_within(statement, &params, found, is_of_item).await?;
        if !picks {
            drop(lease);
            let (page, token) = query.pick(sorted(sessions(app, &rows)?, query), Session::metadata);
            return Ok(response(page, token));
        }
        let (page, token) = query.pick(scanned(app, &rows)?, |metadata| metadata);
        if page.is_empty() {
            return Ok(ListSessionsResponse::new(Vec::new(), token));
        }
        let (users, ids): (Vec<_>, Vec<_>) =
            page.iter().map(|(place, _)| (place.user_id.as_str(), place.session_id.as_str())).unzip();
        let params: [&(dyn ToSql + Sync); 4] = [&app, &users, &ids, &now];
        let rows = lease.query_within(&self.statements.list.of_keys, &params, room, is_of_item).await?;
        drop(lease);
        let mut page = sorted(sessions(app, &rows)?, query);
        // A session that was changed in the meantime may not match the filter any more.
        page.retain(|(_, session)| query.filter.matches(session.metadata()));
        Ok(response(page, token))
    }

    async fn users_with(&self, app: &str, session: &str) -> Attempt<Vec<String>> {
        let rows = self.read(&self.statements.users_with, &[&app, &self.now(), &session]).await?;
        let user = |row| column(row, 0, || format!("the user of a session {session} of {app}"));
        Ok(rows.iter().map(user).collect::<Result<_>>()?)
    }

    async fn update_session(&self, key: &SessionKey, update: &PreparedUpdate) -> Attempt<bool> {
        let owner = KeyOwner::of_session(key);
        let now = self.now();
        let lease = self.connections.lease().await?;
        let lock = owner.fields(self, &now);
        let locked = lease.begin_with(&[lock]).await?.pop().unwrap_or_default();
        let Some(row) = locked.first() else {
            return Ok(false);
        };
        self.update_last(&lease, key, &updated(row, key, update)?).await?;
        Ok(true)
    }
}

impl Postgres {
    /// Writes a session's updated fields as the last statement of a transaction, and commits.
    pub(super) async fn update_last(
        &self,
        lease: &Lease<'_>,
        key: &SessionKey,
        (TextMetadata { title, labels }, expires): &(TextMetadata, Option<i64>),
    ) -> Attempt<()> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let fields: [&(dyn ToSql + Sync); 6] = [&app, &user, &session, title, labels, expires];
        lease.last(&self.statements.list.update, &fields).await.map(drop)
    }
}

/// Returns the title, the labels and the expiry time after an update of a session. `row` is the session's locked row.
pub(super) fn updated(row: &Row, key: &SessionKey, update: &PreparedUpdate) -> Result<(TextMetadata, Option<i64>)> {
    let of = || format!("the session {key}");
    let (metadata, expires) = update.apply(&metadata(row, [0, 1], of)?, column(row, 2, of)?)?;
    Ok((TextMetadata::new(metadata)?, expires))
}

fn response(page: Vec<(ListPosition, Session)>, token: Option<String>) -> ListSessionsResponse {
    ListSessionsResponse::new(page.into_iter().map(|(_, session)| session).collect(), token)
}

/// Reads the candidates for a filtered page, in the list's order.
fn scanned(app: &str, rows: &[Row]) -> Result<Vec<(ListPosition, SessionMetadata)>> {
    let place = |row: &Row| {
        let of_app = || format!("a row of the sessions of {app}");
        let user_id: String = column(row, 1, of_app)?;
        let session_id: String = column(row, 2, of_app)?;
        let of = || format!("the session {app}/{user_id}/{session_id}");
        let micros = column(row, 0, of)?;
        let metadata = metadata(row, [5, 6], of)?;
        Ok((ListPosition { micros, user_id, session_id }, metadata))
    };
    rows.iter().map(place).collect()
}

/// Sorts the sessions of a page into the list's order.
fn sorted(mut page: Vec<(ListPosition, Session)>, query: &ListQuery) -> Vec<(ListPosition, Session)> {
    query.sort(&mut page);
    page
}

/// Builds sessions from the rows of a page, in no particular order.
pub(super) fn sessions(app: &str, rows: &[Row]) -> Result<Vec<(ListPosition, Session)>> {
    let mut places = Vec::new();
    let mut of_app = ScopeMap::new();
    let mut of_users = HashMap::<&str, ScopeMap>::new();
    let mut own = HashMap::<&str, HashMap<&str, ScopeMap>>::new();
    let (mut app_log, mut user_logs) = (0, HashMap::<&str, u64>::new());
    let mut sizes = HashMap::<(&str, &str), u64>::new();
    for row in rows {
        let damaged_row = || format!("a row of the sessions of {app}");
        let kind: &str = column(row, 0, damaged_row)?;
        let user: &str = column(row, 1, damaged_row)?;
        let session: &str = column(row, 2, damaged_row)?;
        let (values, scope, owner) = match kind {
            "place" => {
                let described = || format!("the session {app}/{user}/{session}");
                let seq = rows::number(column(row, 4, described)?, described)?;
                let user_id = user.to_owned();
                let session_id = session.to_owned();
                let micros = column(row, 3, described)?;
                let metadata = metadata(row, [5, 6], described)?;
                let expires = column(row, 7, described)?;
                let made = column(row, 8, described)?;
                places.push((ListPosition { micros, user_id, session_id }, (seq, made, metadata, expires)));
                continue;
            }
            "size" => {
                let described = || format!("the size of the session {app}/{user}/{session}");
                sizes.insert((user, session), rows::number(column(row, 3, described)?, described)?);
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
    let session =
        |(place, (seq, made, metadata, expires)): (ListPosition, (u64, i64, SessionMetadata, Option<i64>))| {
            let user_id = place.user_id.as_str();
            let session_id = place.session_id.as_str();
            let own = own.get_mut(user_id).and_then(|of_user| of_user.remove(session_id));
            let of_user = of_users.get(user_id).cloned().unwrap_or_default();
            let state = StateMap::new(own.unwrap_or_default(), of_user, of_app.clone());
            let logs = LogPositions::new(user_logs.get(user_id).copied().unwrap_or_default(), app_log);
            let session = described(stored_key(app, user_id, session_id)?, state, (made, place.micros), seq);
            let session = session.with_metadata(metadata).with_log_positions(logs).with_expire_time(seconds(expires));
            let bytes = sizes.get(&(user_id, session_id)).copied().unwrap_or_default();
            let session = session.with_stored_bytes(bytes);
            Ok((place, session))
        };
    places.into_iter().map(session).collect()
}
