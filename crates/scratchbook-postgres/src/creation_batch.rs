//! Sessions that are created together: two statements and one commit in one round trip.

use std::collections::HashSet;

use tokio_postgres::types::ToSql;

use super::Postgres;
use super::lease::BoundStatement;
use super::read::column;
use scratchbook_core::session::RunningHash;
use scratchbook_database::{Attempt, NewCreation};

impl Postgres {
    /// Creates the sessions whose ids are free, and returns for each whether it was created.
    pub(super) async fn create_all(&self, batch: &[&NewCreation]) -> Attempt<Vec<bool>> {
        let mut sorted = batch.to_vec();
        sorted.sort_by(|a, b| a.session.key.cmp(&b.session.key));
        let columns = SessionColumns::new(&sorted);
        let statements = &self.statements;
        let steps = [
            BoundStatement::new(&statements.insert_sessions, columns.rows()),
            BoundStatement::new(&statements.fill_sessions, columns.contents()),
        ];
        let answers = self.connections.lease().await?.transaction(&steps).await?;
        let mut made = HashSet::with_capacity(batch.len());
        for row in answers.first().into_iter().flatten() {
            made.insert(column::<&str>(row, 0, || "the token of a session just made".to_owned())?);
        }
        if let Some(row) = answers.last().and_then(|rows| rows.first()) {
            self.learn_listeners(row, 0);
        }
        Ok(batch.iter().map(|new| made.contains(new.token.as_str())).collect())
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
    hashes: Vec<Vec<u8>>,
    states: Vec<Option<&'a str>>,
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
            columns.key_counts.push(new.own.len() as i64);
            columns.bytes.push(initial.map_or(0, str::len) as i64);
            columns.hashes.push(RunningHash::start(&new.key).as_bytes().to_vec());
            columns.states.push(initial);
            for change in &new.own {
                columns.ords.push(ord);
                columns.names.push(&change.name);
                columns.values.push(change.value.as_deref());
            }
        }
        columns
    }

    fn rows(&self) -> [&(dyn ToSql + Sync); 11] {
        let Self { apps, users, ids, tokens, created, expires, titles, labels, key_counts, bytes, hashes, .. } = self;
        [apps, users, ids, tokens, created, expires, titles, labels, key_counts, bytes, hashes]
    }

    fn contents(&self) -> [&(dyn ToSql + Sync); 8] {
        let Self { apps, users, ids, tokens, states, ords, names, values, .. } = self;
        [apps, users, ids, tokens, states, ords, names, values]
    }
}
