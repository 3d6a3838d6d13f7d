//! Sessions that are created together: one statement, and the read that shows the sessions, in one round trip.

use std::collections::{HashMap, HashSet};

use futures_util::future::join;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::changes::Added;
use super::lease::Lease;
use super::read::column;
use super::sessions::sessions;
use scratchbook_core::session::{Session, SessionKey};
use scratchbook_database::{Attempt, CreationOutcome, NewCreation};

/// A session is read with its creation only if its initial state, its user's state and its app's state have at most this
/// many bytes each, and its user and its app at most this many keys each.
const SMALL_STATE: i64 = 16 << 10;
const FEW_KEYS: i64 = 50;

impl Postgres {
    /// Creates the sessions whose ids are free, and returns the outcome of each.
    pub(super) async fn create_all(&self, batch: &[&NewCreation]) -> Attempt<Vec<CreationOutcome>> {
        let mut sorted = batch.to_vec();
        sorted.sort_by(|a, b| a.session.key.cmp(&b.session.key));
        let columns = SessionColumns::new(&sorted);
        let statements = &self.statements;
        let lease = self.connections.lease().await?;
        // Both statements are prepared before the first one runs, so that they are sent in this order.
        lease.prepare([&statements.create_many, &statements.list.made]).await?;
        let params = columns.params();
        let (created, mut read) =
            join(lease.query(&statements.create_many, &params), self.read_made(&lease, &columns)).await;
        let created = created?;
        let mut made = HashSet::with_capacity(batch.len());
        for row in &created {
            made.insert(column::<&str>(row, 0, || "the token of a session just made".to_owned())?);
        }
        if let Some(row) = created.first() {
            self.learn_listeners(row, 1);
        }
        let mut outcomes = Vec::with_capacity(batch.len());
        for new in batch {
            outcomes.push(if made.contains(new.token.as_str()) {
                CreationOutcome::Created(read.remove(&new.session.key).map(Box::new))
            } else {
                CreationOutcome::NotCreated
            });
        }
        Ok(outcomes)
    }

    /// Reads the small sessions of a batch, if all are of one app. What cannot be read here, its caller reads again.
    async fn read_made(&self, lease: &Lease<'_>, columns: &SessionColumns<'_>) -> HashMap<SessionKey, Session> {
        let Some(app) = columns.apps.first().filter(|app| columns.apps.iter().all(|other| other == *app)) else {
            return HashMap::new();
        };
        let small = columns.states.iter().map(|state| state.is_none_or(|state| state.len() as i64 <= SMALL_STATE));
        let addresses = columns.users.iter().zip(&columns.ids).zip(&columns.tokens).zip(small);
        let addresses = addresses.filter(|(_, small)| *small).map(|(address, _)| address);
        let ((users, ids), tokens): ((Vec<&str>, Vec<&str>), Vec<&str>) = addresses.unzip();
        let params: [&(dyn ToSql + Sync); 6] = [app, &users, &ids, &FEW_KEYS, &SMALL_STATE, &tokens];
        let rows = lease.query(&self.statements.list.made, &params).await;
        let read = rows.and_then(|rows| Ok(sessions(app, &rows)?));
        let read = read.inspect_err(|failure| tracing::debug!(error = %failure.error, "new sessions were not read"));
        read.unwrap_or_default().into_iter().map(|(_, session)| (session.key().clone(), session)).collect()
    }
}

/// The sessions of a batch in columns, sorted by address, and their keys.
#[derive(Default)]
struct SessionColumns<'a> {
    apps: Vec<&'a str>,
    users: Vec<&'a str>,
    ids: Vec<&'a str>,
    tokens: Vec<&'a str>,
    created: Vec<i64>,
    expires: Vec<Option<i64>>,
    titles: Vec<Option<&'a str>>,
    labels: Vec<Option<&'a str>>,
    key_counts: Vec<i64>,
    bytes: Vec<i64>,
    states: Vec<Option<&'a str>>,
    state_bytes: Vec<i64>,
    /// The session of each key, by its place in the other columns, from 1.
    ords: Vec<i64>,
    names: Vec<&'a str>,
    values: Vec<Option<&'a str>>,
}

impl<'a> SessionColumns<'a> {
    fn new(sorted: &[&'a NewCreation]) -> Self {
        let mut columns = Self::default();
        for (NewCreation { session: new, token }, ord) in sorted.iter().zip(1..) {
            let initial = new.initial.as_deref();
            columns.apps.push(new.key.app_name());
            columns.users.push(new.key.user_id());
            columns.ids.push(new.key.session_id());
            columns.tokens.push(token);
            columns.created.push(new.created);
            columns.expires.push(new.expires);
            columns.titles.push(new.metadata.title.as_deref());
            columns.labels.push(new.metadata.labels.as_deref());
            let mut added = Added::default();
            new.own.iter().for_each(|change| added.add(change));
            columns.key_counts.push(added.keys);
            columns.state_bytes.push(added.bytes);
            columns.bytes.push(initial.map_or(0, str::len) as i64);
            columns.states.push(initial);
            for change in &new.own {
                columns.ords.push(ord);
                columns.names.push(&change.name);
                columns.values.push(change.value.as_deref());
            }
        }
        columns
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 15] {
        let Self { apps, users, ids, tokens, created, expires, titles, .. } = self;
        let Self { labels, key_counts, bytes, states, state_bytes, ords, names, values, .. } = self;
        [
            apps,
            users,
            ids,
            tokens,
            created,
            expires,
            titles,
            labels,
            key_counts,
            bytes,
            states,
            ords,
            names,
            values,
            state_bytes,
        ]
    }
}
