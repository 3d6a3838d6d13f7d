//! Writes: each is one call of a procedure and one commit. This file makes the call, reads its answer, and creates
//! sessions.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use mysql_async::{Row, Value};

use super::MySql;
use super::batch::{self, EventNumberPlaces, NumberPlace, ProcedureArguments};
use super::events::number;
use super::lease::Lease;
use super::locks::SCOPES;
use super::row::RowCells;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::NewSession;
use scratchbook_core::session::{IdScope, LogPositions, SessionKey};
use scratchbook_core::state::Scope;
use scratchbook_database::{
    AppendRow, Attempt, CommitFate, CreationOutcome, Creations, Failure, Idempotency, NewCreation,
};

/// The size of a call besides its arguments: the packet header, and the lengths and types of the values.
const OVERHEAD: usize = 1024;

/// How the transaction that a call commits was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionStart {
    /// The call begins the transaction itself.
    Here,
    /// The caller has begun the transaction.
    Before,
    /// The caller has begun the transaction and locked the session to append to. This write may make the session
    /// expire.
    Locked,
}

impl TransactionStart {
    /// Returns the number for a procedure.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Here => 0,
            Self::Before | Self::Locked => 1,
        }
    }
}

/// Whether a call enforces the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitCheck {
    /// The call enforces the limits as far as that costs nothing, so it may refuse a write that would fit.
    Unknown,
    /// The caller has counted under the same locks that there is room.
    Counted,
}

/// A row of a procedure's answer.
#[derive(Debug)]
pub(super) enum ProcedureRow {
    /// The write is committed, and the rows have these last numbers now.
    Done(AssignedNumbers),
    /// The session with this index does not exist.
    Missing { place: usize },
    /// The event with this index is already stored.
    Duplicate { place: usize, known: DuplicateEvent },
    /// The session was created, now or by an earlier attempt.
    Made,
    /// The session's id is taken.
    Taken,
    /// The session's id belongs to a session that has expired.
    Expired,
    /// The write exceeds a limit, or may exceed it.
    Full(FullScopes),
    /// The session does not exist, but some of its rows do.
    Damaged,
    /// The session is locked, and its last event has this number.
    Locked { seq: i64 },
    /// The key with this index in its scope: its value, and where it was written.
    Key { scope: Scope, place: usize, name: Option<String>, value: Option<String>, at: i64 },
    /// The number of keys in a scope.
    Count { scope: Scope, keys: i64 },
}

/// The last numbers of sessions, and the positions in the logs of users and apps, by index.
#[derive(Debug, Default)]
pub(super) struct AssignedNumbers {
    sessions: HashMap<usize, i64>,
    pub(super) users: HashMap<usize, i64>,
    pub(super) apps: HashMap<usize, i64>,
}

/// The sessions, users and apps without room, by index.
#[derive(Debug, Default)]
pub(super) struct FullScopes {
    sessions: HashSet<usize>,
    users: HashSet<usize>,
    apps: HashSet<usize>,
}

impl FullScopes {
    /// Returns whether an event writes to one of them.
    pub(super) fn concern(&self, event: &EventNumberPlaces) -> bool {
        self.sessions.contains(&event.session.row)
            || event.user.is_some_and(|user| self.users.contains(&user.row))
            || event.app.is_some_and(|app| self.apps.contains(&app.row))
    }
}

/// An event that is already stored.
#[derive(Debug)]
pub(super) struct DuplicateEvent {
    seq: i64,
    text: String,
    hash: Vec<u8>,
    /// The positions of the logs at its commit.
    user: i64,
    app: i64,
}

#[async_trait]
impl Creations for MySql {
    async fn create_session(&self, new: &NewSession, token: &str) -> Attempt<bool> {
        if new.id_scope == IdScope::App {
            return self.create_locked(new, token, &[LimitCheck::Unknown, LimitCheck::Counted]).await;
        }
        let mut answers = self.call(batch::creation(new, token)?, Idempotency::Idempotent).await?;
        if matches!(answers.as_slice(), [ProcedureRow::Expired]) {
            let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
            self.make_room(&mut lease, &new.key).await?;
            answers = self
                .call_on(&mut lease, batch::creation(new, token)?, TransactionStart::Before, LimitCheck::Unknown)
                .await?;
        }
        if matches!(answers.as_slice(), [ProcedureRow::Full(_)]) {
            return self.create_locked(new, token, &[LimitCheck::Counted]).await;
        }
        self.is_made(&new.key, &answers)
    }

    fn is_batchable(&self, _new: &NewSession) -> bool {
        // The procedure creates one session per commit, which takes one round trip.
        false
    }

    async fn create_batch(&self, _batch: &[&NewCreation]) -> Attempt<Vec<CreationOutcome>> {
        Ok(Vec::new())
    }
}

impl MySql {
    /// Returns whether a creation has succeeded, according to the procedure's answer.
    pub(super) fn is_made(&self, key: &SessionKey, answers: &[ProcedureRow]) -> Attempt<bool> {
        match answers {
            [ProcedureRow::Made] => Ok(true),
            [ProcedureRow::Taken] => Ok(false),
            [ProcedureRow::Expired] => {
                let what = format!("{}: an expired session came in the way again", self.connections.place());
                Err(Failure::new(CommitFate::RolledBack, Error::new(ErrorKind::Unavailable, what)))
            }
            [ProcedureRow::Damaged] => {
                let place = self.connections.place();
                let what =
                    format!("{place}: rows of {key} are there without a session, or a log is ahead of its owner");
                Err(Failure::new(CommitFate::NeverApplied, Error::new(ErrorKind::DataCorrupted, what)))
            }
            _ => Err(strange("no row for a session made").into()),
        }
    }

    pub(super) async fn call(
        &self,
        arguments: ProcedureArguments,
        idempotency: Idempotency,
    ) -> Attempt<Vec<ProcedureRow>> {
        self.check_size(size(&arguments))?;
        self.call_on(
            &mut self.connections.lease(idempotency).await?,
            arguments,
            TransactionStart::Here,
            LimitCheck::Unknown,
        )
        .await
    }

    /// Writes and commits, and leaves the connection without a transaction.
    pub(super) async fn call_on(
        &self,
        lease: &mut Lease<'_>,
        arguments: ProcedureArguments,
        begun: TransactionStart,
        room: LimitCheck,
    ) -> Attempt<Vec<ProcedureRow>> {
        self.check_size(size(&arguments))?;
        let sql = self.sql("CALL `{prefix}scratchbook_write_1`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        let most =
            |limit: Option<u64>| limit.filter(|limit| room == LimitCheck::Unknown && *limit < u64::MAX).map(number);
        let mut values: Vec<Value> = arguments.map(Into::into).into();
        let moment = if begun == TransactionStart::Locked { i64::MIN } else { self.now() };
        values.extend([moment.into(), begun.number().into()]);
        let limits = [Some(self.limits.keys_per_scope), self.limits.events_per_session];
        values.extend(limits.map(|limit| most(limit).unwrap_or(Value::NULL)));
        let rows = lease.rows(&sql, values).await?;
        lease.keep();
        Ok(rows.into_iter().map(answer).collect::<Result<_>>()?)
    }

    /// Refuses a command that is too large for the server. The message says what to do.
    pub(super) fn check_size(&self, size: usize) -> Result<()> {
        if size <= self.max_packet {
            return Ok(());
        }
        let most = self.max_packet;
        let what = format!("{size} bytes to write at once; max_allowed_packet is {most}: raise it, or split it");
        Err(Error::new(ErrorKind::PayloadTooLarge, what))
    }
}

/// Returns the size of a command with these arguments.
fn size(arguments: &ProcedureArguments) -> usize {
    OVERHEAD + arguments.iter().flatten().map(String::len).sum::<usize>()
}

impl AssignedNumbers {
    /// Returns the row for an event that was just stored.
    pub(super) fn stored(&self, place: &EventNumberPlaces) -> Result<AppendRow> {
        let last = |numbers: &HashMap<usize, i64>, place: NumberPlace| {
            numbers.get(&place.row).map(|last| last - place.back).ok_or_else(|| strange("too few numbers"))
        };
        let position = |numbers: &HashMap<usize, i64>, place: Option<NumberPlace>| match place {
            None => Ok(0),
            Some(place) => rows::number(last(numbers, place)?, || "the position of an event just stored".to_owned()),
        };
        let logs = LogPositions::new(position(&self.users, place.user)?, position(&self.apps, place.app)?);
        Ok(AppendRow::Stored { seq: last(&self.sessions, place.session)?, logs })
    }
}

impl DuplicateEvent {
    /// Returns the row for a duplicate event. It is the row that was returned when the event was stored.
    pub(super) fn row(self, key: &SessionKey) -> Result<AppendRow> {
        let Self { seq, text, hash, user, app } = self;
        let event = rows::event(seq, &text, key)?;
        let position = |scope, position| {
            let writes = event.actions.state_delta.iter().any(|(name, _)| Scope::split(name).0 == scope);
            let place = || format!("the event {seq} of {key}");
            if writes { rows::number(position, place) } else { Ok(0) }
        };
        let logs = LogPositions::new(position(Scope::User, user)?, position(Scope::App, app)?);
        Ok(AppendRow::Duplicate { seq, text, hash, logs })
    }
}

/// Parses numbers by index from "index number,...", where indexes count from 1.
fn numbers(text: Option<String>) -> Result<HashMap<usize, i64>> {
    let numbers = text.map_or_else(|| Some(HashMap::new()), |text| sequence(&text));
    numbers.ok_or_else(|| strange("numbers that are none"))
}

/// Parses indexes from "index,...", where they count from 1.
fn places(text: Option<String>) -> Result<HashSet<usize>> {
    let Some(text) = text else {
        return Ok(HashSet::new());
    };
    let places = text.split(',').map(|place| place.parse::<usize>().ok()?.checked_sub(1)).collect::<Option<_>>();
    places.ok_or_else(|| strange("places that are none"))
}

fn sequence(numbers: &str) -> Option<HashMap<usize, i64>> {
    let one = |pair: &str| {
        let (place, seq) = pair.split_once(' ')?;
        Some((place.parse::<usize>().ok()?.checked_sub(1)?, seq.parse().ok()?))
    };
    numbers.split(',').map(one).collect()
}

pub(super) fn answer(row: Row) -> Result<ProcedureRow> {
    let mut cells = RowCells::from(row);
    let place = || "an answer to a write".to_owned();
    let what = cells.text(0, place)?;
    let at = cells.integer(1, place)?;
    let count = cells.integer(2, place)?;
    // Indexes count from 1.
    let at = usize::try_from(at).unwrap_or_default().wrapping_sub(1);
    Ok(match what.as_str() {
        "done" => ProcedureRow::Done(AssignedNumbers {
            sessions: numbers(cells.optional_text(3, place)?)?,
            users: numbers(cells.optional_text(5, place)?)?,
            apps: numbers(cells.optional_text(6, place)?)?,
        }),
        "missing" => ProcedureRow::Missing { place: at },
        "known" => ProcedureRow::Duplicate {
            place: at,
            known: DuplicateEvent {
                seq: count,
                text: cells.text(3, || format!("the event {count} of a session"))?,
                hash: cells.bytes(4),
                user: cells.integer(5, place)?,
                app: cells.integer(6, place)?,
            },
        },
        "made" => ProcedureRow::Made,
        "taken" => ProcedureRow::Taken,
        "expired" => ProcedureRow::Expired,
        "full" => ProcedureRow::Full(FullScopes {
            sessions: places(cells.optional_text(3, place)?)?,
            users: places(cells.optional_text(5, place)?)?,
            apps: places(cells.optional_text(6, place)?)?,
        }),
        "damaged" => ProcedureRow::Damaged,
        "found" => ProcedureRow::Locked { seq: count },
        "count" => ProcedureRow::Count { scope: SCOPES.get(at).copied().unwrap_or(Scope::App), keys: count },
        "own" | "theirs" | "shared" => ProcedureRow::Key {
            scope: match what.as_str() {
                "own" => Scope::Session,
                "theirs" => Scope::User,
                _ => Scope::App,
            },
            place: at,
            value: cells.optional_text(3, place)?,
            name: cells.optional_text(4, place)?,
            at: count,
        },
        _ => return Err(strange("a row of a kind that is not known")),
    })
}

pub(super) fn strange(what: &str) -> Error {
    Error::internal(format!("the procedure of a write answers with {what}"))
}
