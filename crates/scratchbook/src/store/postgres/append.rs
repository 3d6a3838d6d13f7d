//! A batch of appends as one statement.

use std::collections::BTreeSet;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::changes::Changes;
use super::lease::Lease;
use super::read::column;
use crate::error::{Error, Result};
use crate::session::{LogPositions, SessionKey};
use crate::state::Scope;
use crate::store::database::{AppendRow, Attempt, NewAppend};
use crate::store::rows;
use crate::store::text::NewEvent;

impl Postgres {
    pub(super) async fn append_batch(&self, batch: &[&NewAppend]) -> Attempt<Vec<AppendRow>> {
        self.append_on(&self.connections.lease().await?, batch).await
    }

    /// The same on a connection that may be in a transaction, which ends with it.
    pub(super) async fn append_on(&self, lease: &Lease<'_>, batch: &[&NewAppend]) -> Attempt<Vec<AppendRow>> {
        // The order of locks; appends to one session stay in their order.
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by(|a, b| batch[*a].key.cmp(&batch[*b].key));
        let mut arrays = Arrays::new(order.iter().map(|index| batch[*index]));
        arrays.now = self.now();
        let rows = lease.last(&self.statements.append, &arrays.params()).await?;
        let mut answers: Vec<Option<AppendRow>> = batch.iter().map(|_| None).collect();
        if let Some(row) = rows.first() {
            self.is_heard(row, 7);
        }
        for row in rows {
            let place = || "an answer to an append".to_owned();
            let ord: i64 = column(&row, 0, place)?;
            let index = usize::try_from(ord - 1).ok().and_then(|index| order.get(index));
            let index = *index.ok_or_else(|| Error::internal("an answer to an append that was not sent"))?;
            answers[index] = Some(answer(&row, &batch[index].key)?);
        }
        let all: Option<Vec<_>> = answers.into_iter().collect();
        Ok(all.ok_or_else(|| Error::internal("an append was not answered"))?)
    }
}

fn answer(row: &Row, key: &SessionKey) -> Result<AppendRow> {
    let place = || format!("an event of {key}");
    if column(row, 1, place)? {
        return Ok(AppendRow::NoSession);
    }
    let logs = LogPositions::of_feed(rows::number(column(row, 6, place)?, place)?);
    match column(row, 3, place)? {
        None => Ok(AppendRow::Stored { seq: column(row, 2, place)?, logs }),
        Some(seq) => Ok(AppendRow::Known { seq, hash: column(row, 4, place)?, text: column(row, 5, place)?, logs }),
    }
}

/// The batch in columns, sorted by session.
#[derive(Default)]
struct Arrays<'a> {
    changes: Changes<'a>,
    /// The same for events of the same session.
    places: Vec<i64>,
    apps: Vec<&'a str>,
    users: Vec<&'a str>,
    sessions: Vec<&'a str>,
    events: Events<'a>,
    micros: Vec<i64>,
    /// The owners of shared keys, app and user in columns, sorted.
    user_apps: Vec<&'a str>,
    user_ids: Vec<&'a str>,
    app_names: Vec<&'a str>,
    /// In microseconds since 1970: who has expired.
    now: i64,
}

impl<'a> Arrays<'a> {
    fn new(batch: impl Iterator<Item = &'a NewAppend>) -> Self {
        let mut arrays = Self::default();
        let (mut users, mut apps) = (BTreeSet::new(), BTreeSet::new());
        let mut last: Option<(&SessionKey, i64)> = None;
        for (NewAppend { key, event }, ord) in batch.zip(1..) {
            let place = match last {
                Some((same, place)) if same == key => place,
                Some((_, place)) => place + 1,
                None => 1,
            };
            last = Some((key, place));
            let owner = [key.app_name(), key.user_id(), key.session_id()];
            for change in &event.changes {
                match change.scope {
                    Scope::User => drop(users.insert((owner[0], owner[1]))),
                    Scope::App => drop(apps.insert(owner[0])),
                    Scope::Session | Scope::Temp => {}
                }
            }
            arrays.changes.add(ord, owner, &event.changes);
            arrays.places.push(place);
            arrays.apps.push(owner[0]);
            arrays.users.push(owner[1]);
            arrays.sessions.push(owner[2]);
            arrays.events.add(event);
            arrays.micros.push(event.prepared.micros);
        }
        (arrays.user_apps, arrays.user_ids) = users.into_iter().unzip();
        arrays.app_names = apps.into_iter().collect();
        arrays
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let [ids, hashes, invocations, authors, timestamps, events] = self.events.params();
        let mut params: Vec<&(dyn ToSql + Sync)> = self.changes.params().to_vec();
        params.extend([&self.places as &(dyn ToSql + Sync), &self.apps, &self.users, &self.sessions]);
        params.extend([ids, hashes, invocations, authors, timestamps, &self.micros, events]);
        params.extend([&self.user_apps as &(dyn ToSql + Sync), &self.user_ids, &self.app_names, &self.now]);
        params
    }
}

/// Events in columns.
#[derive(Default)]
pub(super) struct Events<'a> {
    ids: Vec<&'a str>,
    hashes: Vec<&'a [u8]>,
    invocations: Vec<&'a str>,
    authors: Vec<&'a str>,
    timestamps: Vec<f64>,
    texts: Vec<&'a str>,
}

impl<'a> Events<'a> {
    pub(super) fn add(&mut self, new: &'a NewEvent) {
        let event = &new.prepared.event;
        self.ids.push(&event.id);
        self.hashes.push(&new.prepared.hash);
        self.invocations.push(&event.invocation_id);
        self.authors.push(&event.author);
        self.timestamps.push(event.timestamp.unwrap_or_default());
        self.texts.push(&new.prepared.text);
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 6] {
        [&self.ids, &self.hashes, &self.invocations, &self.authors, &self.timestamps, &self.texts]
    }
}
