//! A batch of appends as one statement.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::changes::{Added, ChangeColumns};
use super::growth::StateLimit;
use super::lease::Lease;
use super::read::column;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::NewEvent;
use scratchbook_core::session::{LogPositions, SessionKey};
use scratchbook_core::state::Scope;
pub(crate) use scratchbook_database::{AppendRow, Appends, Attempt, NewAppend};

/// How an append leaves the transaction that it runs in, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppendEnd {
    Commit,
    /// The transaction stays open, because the caller writes more in it.
    Open,
}

#[async_trait]
impl Appends for Postgres {
    async fn append(&self, batch: &[&NewAppend]) -> Attempt<Vec<AppendRow>> {
        let lease = self.connections.lease().await?;
        self.append_on(&lease, batch, StateLimit::Enforced, AppendEnd::Commit).await
    }

    async fn has_event(&self, key: &SessionKey, id: &str) -> Attempt<bool> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        Ok(!self.read(&self.statements.resolve.known, &[&app, &user, &session, &id]).await?.is_empty())
    }
}

impl Postgres {
    /// Appends a batch on a connection that may be in a transaction.
    pub(super) async fn append_on(
        &self,
        lease: &Lease<'_>,
        batch: &[&NewAppend],
        limit: StateLimit,
        end: AppendEnd,
    ) -> Attempt<Vec<AppendRow>> {
        // Sort in the order of locks; appends to one session keep their order.
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by(|a, b| batch[*a].key.cmp(&batch[*b].key));
        let mut arrays = Arrays::new(order.iter().map(|index| batch[*index]));
        arrays.now = self.now();
        if let Some(first) = batch.first() {
            // All appends of a service have the same limits.
            let limits = &first.event.prepared.limits;
            (arrays.most_keys, arrays.most_bytes) = limit.most(limits);
            arrays.most_events =
                limits.events_per_session.and_then(|most| i64::try_from(most).ok()).unwrap_or(i64::MAX);
        }
        let rows = match end {
            AppendEnd::Commit => lease.last(&self.statements.append, &arrays.params()).await?,
            AppendEnd::Open => lease.query(&self.statements.append, &arrays.params()).await?,
        };
        if let Some(row) = rows.first() {
            self.learn_listeners(row, 7);
        }
        let mut answers: Vec<Option<AppendRow>> = batch.iter().map(|_| None).collect();
        for row in rows {
            let ord: i64 = column(&row, 0, || "an answer to an append".to_owned())?;
            let index = usize::try_from(ord - 1).ok().and_then(|place| order.get(place)).copied();
            let index = index.ok_or_else(|| Error::internal("an answer to an append that was not sent"))?;
            answers[index] = Some(answer(&row, batch[index])?);
        }
        let all: Option<Vec<_>> = answers.into_iter().collect();
        Ok(all.ok_or_else(|| Error::internal("an append was not answered"))?)
    }
}

/// Returns the outcome of an append.
fn answer(row: &Row, append: &NewAppend) -> Result<AppendRow> {
    let key = &append.key;
    let place = || format!("an event of {key}");
    if column(row, 1, place)? {
        return Ok(AppendRow::NoSession);
    }
    let logs = LogPositions::of_feed(rows::number(column(row, 6, place)?, place)?);
    if let Some(seq) = column(row, 3, place)? {
        return Ok(AppendRow::Duplicate { seq, hash: column(row, 4, place)?, text: column(row, 5, place)?, logs });
    }
    if column(row, 8, place)? {
        return Ok(AppendRow::Full);
    }
    let seq = column(row, 2, place)?;
    match append.event.prepared.limits.check_seq(rows::number(seq, place)?) {
        Ok(()) => Ok(AppendRow::Stored { seq, logs }),
        Err(error) => Ok(AppendRow::Refused(error)),
    }
}

/// The batch in columns, sorted by session.
#[derive(Default)]
struct Arrays<'a> {
    changes: ChangeColumns<'a>,
    /// A number for each session; events of one session have the same number.
    places: Vec<i64>,
    apps: Vec<&'a str>,
    users: Vec<&'a str>,
    sessions: Vec<&'a str>,
    events: EventColumns<'a>,
    micros: Vec<i64>,
    /// The owners of shared keys: app and user in columns, sorted.
    user_apps: Vec<&'a str>,
    user_ids: Vec<&'a str>,
    app_names: Vec<&'a str>,
    /// The current time for expiry, in microseconds since 1970.
    now: i64,
    /// The maximum number of keys and bytes in a scope, and of events in a session.
    most_keys: i64,
    most_bytes: i64,
    most_events: i64,
    /// How much each event adds to the session, the user and the app at most, with the events before it in the batch. An
    /// event that adds nothing to a scope has 0 there.
    own: AddedColumns,
    of_user: AddedColumns,
    of_app: AddedColumns,
    /// The places of the event's user and app among the owners, from 1.
    user_places: Vec<Option<i32>>,
    app_places: Vec<Option<i32>>,
}

impl<'a> Arrays<'a> {
    fn new(batch: impl Iterator<Item = &'a NewAppend> + Clone) -> Self {
        let mut arrays = Self::default();
        // The owners of shared keys, sorted, and then their places.
        let mut users = BTreeMap::new();
        let mut apps = BTreeMap::new();
        for NewAppend { key, event } in batch.clone() {
            for change in &event.changes {
                match change.scope {
                    Scope::User => drop(users.insert((key.app_name(), key.user_id()), 0)),
                    Scope::App => drop(apps.insert(key.app_name(), 0)),
                    Scope::Session | Scope::Temp => {}
                }
            }
        }
        for (((app, user), place), number) in users.iter_mut().zip(1..) {
            *place = number;
            arrays.user_apps.push(app);
            arrays.user_ids.push(user);
        }
        for ((app, place), number) in apps.iter_mut().zip(1..) {
            *place = number;
            arrays.app_names.push(app);
        }
        let mut added = Added::default();
        let mut added_to_users: HashMap<_, Added> = HashMap::new();
        let mut added_to_apps: HashMap<_, Added> = HashMap::new();
        let mut last: Option<(&SessionKey, i64)> = None;
        for (NewAppend { key, event }, ord) in batch.zip(1..) {
            let place = match last {
                Some((same, place)) if same == key => place,
                Some((_, place)) => place + 1,
                None => 1,
            };
            if last.is_none_or(|(_, before)| before != place) {
                added = Added::default();
            }
            last = Some((key, place));
            let owner = [key.app_name(), key.user_id(), key.session_id()];
            let user = users.get(&(owner[0], owner[1])).copied();
            let app = apps.get(owner[0]).copied();
            arrays.own.push(&mut added, event, Scope::Session);
            arrays.of_user.push(added_to_users.entry(user).or_default(), event, Scope::User);
            arrays.of_app.push(added_to_apps.entry(app).or_default(), event, Scope::App);
            arrays.user_places.push(user);
            arrays.app_places.push(app);
            arrays.changes.add(ord, owner, &event.changes);
            arrays.places.push(place);
            arrays.apps.push(owner[0]);
            arrays.users.push(owner[1]);
            arrays.sessions.push(owner[2]);
            arrays.events.add(event);
            arrays.micros.push(event.prepared.micros);
        }
        arrays
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let [ids, hashes, invocations, authors, timestamps, events] = self.events.params();
        let mut params: Vec<&(dyn ToSql + Sync)> = self.changes.params().to_vec();
        params.extend([&self.places as &(dyn ToSql + Sync), &self.apps, &self.users, &self.sessions]);
        params.extend([ids, hashes, invocations, authors, timestamps, &self.micros, events]);
        params.extend([&self.user_apps as &(dyn ToSql + Sync), &self.user_ids, &self.app_names, &self.now]);
        params.extend([&self.most_keys as &(dyn ToSql + Sync), &self.most_events, &self.most_bytes]);
        params.extend([&self.own.keys as &(dyn ToSql + Sync), &self.own.bytes]);
        params.extend([&self.user_places as &(dyn ToSql + Sync), &self.of_user.keys, &self.of_user.bytes]);
        params.extend([&self.app_places as &(dyn ToSql + Sync), &self.of_app.keys, &self.of_app.bytes]);
        params
    }
}

/// What events add to a scope at most.
#[derive(Default)]
struct AddedColumns {
    keys: Vec<i64>,
    bytes: Vec<i64>,
}

impl AddedColumns {
    /// Adds an event whose scope has got `added` from the events before it in the batch.
    fn push(&mut self, added: &mut Added, event: &NewEvent, scope: Scope) {
        let before = added.keys;
        for change in event.changes.iter().filter(|change| change.scope == scope) {
            added.add(change);
        }
        let is_none = added.keys == before;
        self.keys.push(if is_none { 0 } else { added.keys });
        self.bytes.push(if is_none { 0 } else { added.bytes });
    }
}

/// Events in columns.
#[derive(Default)]
pub(super) struct EventColumns<'a> {
    ids: Vec<&'a str>,
    hashes: Vec<&'a [u8]>,
    invocations: Vec<&'a str>,
    authors: Vec<&'a str>,
    timestamps: Vec<f64>,
    texts: Vec<&'a str>,
}

impl<'a> EventColumns<'a> {
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
