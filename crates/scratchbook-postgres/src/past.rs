//! Point-in-time state, blame and checkpoints.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Map;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::lease::Lease;
use super::read::column;
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::plan::folded::Folded;
use scratchbook_core::plan::fork::{check_event_number, log_pruned};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{InitialState, SessionKey, no_session};
use scratchbook_core::state::{Scope, ScopeMap};
pub(crate) use scratchbook_database::{Attempt, Checkpoint, History, Past, PastScopes, RowRoom};

#[async_trait]
impl History for Postgres {
    async fn initial_state(&self, key: &SessionKey) -> Attempt<Option<InitialState>> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let rows = self.read(&self.statements.past.initial, &[&app, &user, &session, &self.now()]).await?;
        let place = || format!("the initial state of {key}");
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        // An empty initial state has no row.
        let seq: Option<i64> = column(row, 0, place)?;
        let text: Option<&str> = column(row, 1, place)?;
        let state = text.map_or_else(|| Ok(Map::new()), |text| rows::json(text, place))?;
        Ok(Some(InitialState::new(rows::number(seq.unwrap_or_default(), place)?, state)))
    }

    async fn past(&self, key: &SessionKey, seq: u64, scopes: PastScopes) -> Attempt<Past> {
        self.read_past_on(&self.connections.lease_to_read().await?, key, seq, scopes).await
    }

    async fn position_at(&self, key: &SessionKey, seq: u64, _: Scope) -> Attempt<u64> {
        let at = i64::try_from(seq).unwrap_or(i64::MAX);
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let rows = self.read(&self.statements.past.position, &[&app, &user, &session, &at, &self.now()]).await?;
        let place = || format!("the event {seq} of {key}");
        let row = rows.first().ok_or_else(|| no_session(key))?;
        check_event_number(
            key,
            seq,
            rows::number(column(row, 1, place)?, place)?,
            rows::number(column(row, 0, place)?, place)?,
        )?;
        let position: Option<i64> = column(row, 2, place)?;
        Ok(rows::number(position.ok_or_else(|| rows::damaged(place()))?, place)?)
    }

    async fn keep_checkpoint(&self, key: &SessionKey, checkpoint: &Checkpoint) -> Attempt<()> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let Checkpoint { incarnation, seq, text } = checkpoint;
        let seq = i64::try_from(*seq).unwrap_or(i64::MAX);
        let lease = self.connections.lease().await?;
        lease.query(&self.statements.past.keep, &[&app, &user, &session, &seq, text, incarnation]).await?;
        Ok(())
    }

    async fn blame(&self, key: &SessionKey) -> Attempt<Option<BTreeMap<String, KeyWriter>>> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let rows = self.read(&self.statements.past.blame, &[&app, &user, &session, &self.now()]).await?;
        let mut found = false;
        let mut blame = BTreeMap::new();
        for row in &rows {
            match written_key(row, key)? {
                Some((name, writer)) => drop(blame.insert(name, writer)),
                None => found = true,
            }
        }
        Ok(found.then_some(blame))
    }
}

impl Postgres {
    /// Reads the past of a session on a connection that may be in a transaction.
    pub(super) async fn read_past_on(
        &self,
        lease: &Lease<'_>,
        key: &SessionKey,
        seq: u64,
        scopes: PastScopes,
    ) -> Attempt<Past> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let at = i64::try_from(seq).unwrap_or(i64::MAX);
        let now = self.now();
        let shared = scopes == PastScopes::All;
        let unlimited = i64::MAX;
        let params: [&(dyn ToSql + Sync); 7] = [&app, &user, &session, &at, &now, &shared, &unlimited];
        let is_event = |row: &Row| row.try_get(0).is_ok_and(|kind: &str| kind == "event");
        let mut rows = PastRows::new(key);
        lease
            .for_each_within(&self.statements.past.read, &params, RowRoom::WHOLE, is_event, |row| rows.take(&row))
            .await?;
        Ok(rows.past(seq)?)
    }
}

/// A session's past, which is assembled from the rows of its statement. Its events come in order, after the rows with
/// the state from which the fold begins.
struct PastRows<'a> {
    key: &'a SessionKey,
    past: Past,
    /// The numbers of the last event and of the last pruned one.
    place: Option<(u64, u64)>,
    /// The text of the initial state, until the fold begins with it or with a checkpoint.
    initial: Option<String>,
    is_begun: bool,
    is_pruned: bool,
}

impl<'a> PastRows<'a> {
    fn new(key: &'a SessionKey) -> Self {
        Self { key, past: Past::default(), place: None, initial: None, is_begun: false, is_pruned: false }
    }

    fn take(&mut self, row: &Row) -> Result<()> {
        let key = self.key;
        let app = key.app_name();
        let user = key.user_id();
        let of = || format!("a row of the past of {key}");
        let kind: &str = column(row, 0, of)?;
        let (values, scope, owner): (&mut ScopeMap, _, &[&str]) = match kind {
            "place" => {
                self.place = Some((rows::number(column(row, 1, of)?, of)?, rows::number(column(row, 2, of)?, of)?));
                self.past.incarnation = column(row, 3, of)?;
                self.initial = column(row, 4, of)?;
                return Ok(());
            }
            "pruned" => {
                self.is_pruned = true;
                return Ok(());
            }
            "checkpoint" => {
                let kept = rows::number(column(row, 1, of)?, of)?;
                self.past.base = Folded::from_checkpoint(kept, column(row, 4, of)?, key)?;
                self.is_begun = true;
                return Ok(());
            }
            "event" => {
                self.begin()?;
                return self.past.take(key, column(row, 1, of)?, column(row, 4, of)?);
            }
            "user" => (&mut self.past.user, Scope::User, &[app, user]),
            _ => (&mut self.past.app, Scope::App, &[app]),
        };
        // A key that did not exist at that time has no value.
        if let Some(text) = column::<Option<&str>>(row, 4, of)? {
            rows::insert(values, scope, owner, column(row, 3, of)?, text)?;
        }
        Ok(())
    }

    /// Begins the fold with the initial state, unless it has begun with a checkpoint.
    fn begin(&mut self) -> Result<()> {
        if self.is_begun {
            return Ok(());
        }
        self.is_begun = true;
        let first = self.place.map_or(0, |(_, first)| first);
        let state = match self.initial.take() {
            Some(text) => rows::json(&text, || format!("the initial state of {}", self.key))?,
            None => Map::new(),
        };
        self.past.base = Folded::begin(InitialState::new(first, state));
        Ok(())
    }

    fn past(mut self, seq: u64) -> Result<Past> {
        let (last, first) = self.place.ok_or_else(|| no_session(self.key))?;
        check_event_number(self.key, seq, first, last)?;
        if self.is_pruned {
            return Err(log_pruned(self.key, seq));
        }
        self.begin()?;
        Ok(self.past)
    }
}

/// Reads a key and its writer; `None` for the row that says that the session exists.
fn written_key(row: &Row, key: &SessionKey) -> Result<Option<(String, KeyWriter)>> {
    let of = || format!("who wrote the keys of {key}");
    let scope = match column::<&str>(row, 0, of)? {
        "place" => return Ok(None),
        "session" => Scope::Session,
        "user" => Scope::User,
        _ => Scope::App,
    };
    let name = scope.key(column(row, 1, of)?).into_owned();
    let text =
        |index| Ok::<_, scratchbook_core::error::Error>(column::<Option<&str>>(row, index, of)?.unwrap_or_default());
    let mut writer = KeyWriter::new(text(6)?);
    let session: (Option<&str>, Option<&str>) = (column(row, 2, of)?, column(row, 3, of)?);
    if let (Some(user), Some(session)) = session {
        let seq = rows::number(column(row, 4, of)?, of)?;
        writer = writer.with_event(user, session, seq, text(5)?);
    }
    let time: Option<f64> = column(row, 8, of)?;
    Ok(Some((name, writer.with_invocation(text(7)?).with_time(time.unwrap_or_default()))))
}

/// The keys of a fold in columns: their names, their values, and the events that wrote them.
pub(super) struct FoldColumns {
    pub(super) names: Vec<String>,
    pub(super) values: Vec<String>,
    pub(super) seqs: Vec<i64>,
}

impl FoldColumns {
    pub(super) fn new(folded: &Folded) -> Result<Self> {
        let mut columns = Self { names: Vec::new(), values: Vec::new(), seqs: Vec::new() };
        for (name, (seq, value)) in &folded.keys {
            columns.names.push(name.clone());
            columns.values.push(scratchbook_core::json::to_text(value, "a value")?);
            columns.seqs.push(i64::try_from(*seq).unwrap_or(i64::MAX));
        }
        Ok(columns)
    }

    /// Returns the bytes of all keys and values.
    pub(super) fn bytes(&self) -> i64 {
        self.names.iter().chain(&self.values).map(|text| text.len() as i64).sum()
    }
}
