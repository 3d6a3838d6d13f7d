//! Writes: one call of a procedure, which is one commit, and what it answers.

use std::collections::HashMap;

use mysql_async::Row;

use super::MySql;
use super::batch::{self, Arguments};
use super::pool::Care;
use super::row::Cells;
use crate::error::{Error, ErrorKind, Result};
use crate::session::StateOwner;
use crate::store::database::{AppendRow, Attempt, Done, Failure, NewAppend};
use crate::store::text::{NewSession, TextChange};

/// How often a batch is written again without those appends that were in its way, while none of them is found.
const TRIES: usize = 3;

/// What a call takes beside its arguments: the header of the packet, the lengths and types of the values.
const OVERHEAD: usize = 1024;

/// What the procedure answers.
#[derive(Debug)]
enum Answer {
    /// It is written: the numbers of the sessions as "place number,...", or the position in the log.
    Done { numbers: String },
    /// There is no session at this place.
    Missing { place: usize },
    /// The event at this place is there already.
    Known { place: usize, seq: i64, text: String, hash: Vec<u8> },
    /// The session is made, now or by a try before.
    Made,
    /// The session's id is taken.
    Taken,
    /// The session is not there, but rows of it are.
    Damaged,
}

impl MySql {
    /// Writes events in one commit, without those that are known or have no session.
    pub(super) async fn write_appends(&self, appends: &[&NewAppend]) -> Attempt<Vec<AppendRow>> {
        let mut rows: Vec<Option<AppendRow>> = appends.iter().map(|_| None).collect();
        let mut tries = 0;
        loop {
            let open: Vec<usize> = (0..appends.len()).filter(|n| rows[*n].is_none()).collect();
            let batch: Vec<&NewAppend> = open.iter().map(|n| appends[*n]).collect();
            if batch.is_empty() {
                break;
            }
            let (arguments, places) = batch::appends(&batch)?;
            for answer in self.call(arguments, Care::Again).await? {
                match answer {
                    Answer::Done { numbers } => {
                        let seqs = sequence(&numbers).ok_or_else(|| strange("numbers that are none"))?;
                        for (n, at) in places.iter().enumerate() {
                            let seq = seqs.get(&at.session).ok_or_else(|| strange("too few numbers"))?;
                            rows[open[n]] = Some(AppendRow::Stored(seq - at.back));
                        }
                    }
                    Answer::Missing { place } => {
                        let here = places.iter().enumerate().filter(|(_, at)| at.session == place);
                        here.for_each(|(n, _)| rows[open[n]] = Some(AppendRow::NoSession));
                    }
                    Answer::Known { place, seq, text, hash } => {
                        let n = open.get(place).ok_or_else(|| strange("an event that was not sent"))?;
                        rows[*n] = Some(AppendRow::Known { seq, text, hash });
                    }
                    _ => return Err(strange("a row of another call").into()),
                }
            }
            // What stood in the way may be gone with its session.
            tries += usize::from(open.iter().all(|n| rows[*n].is_none()));
            if tries == TRIES {
                let what = format!("{}: what is in the way of an append comes and goes", self.connections.place());
                return Err(Failure::new(Done::Undone, Error::new(ErrorKind::Unavailable, what)));
            }
        }
        Ok(rows.into_iter().flatten().collect())
    }

    /// Makes a session; `false` where its id is taken.
    pub(super) async fn write_session(&self, new: &NewSession, token: &str) -> Attempt<bool> {
        match self.call(batch::creation(new, token)?, Care::Again).await?.as_slice() {
            [Answer::Made] => Ok(true),
            [Answer::Taken] => Ok(false),
            [Answer::Damaged] => {
                let (place, key) = (self.connections.place(), &new.key);
                let what =
                    format!("{place}: rows of {key} are there without a session, or a log is ahead of its owner");
                Err(Error::new(ErrorKind::DataCorrupted, what).into())
            }
            _ => Err(strange("no row for a session made").into()),
        }
    }

    /// Changes keys of a user or an app, and gives the commit's position in its log.
    pub(super) async fn write_state(
        &self,
        owner: &StateOwner,
        changes: &[TextChange],
        author: &str,
        time: f64,
    ) -> Attempt<u64> {
        match self.call(batch::state(owner, changes, author, time)?, Care::Once).await?.as_slice() {
            [Answer::Done { numbers }] => Ok(numbers.parse().map_err(|_| strange("a position that is none"))?),
            _ => Err(strange("no position").into()),
        }
    }

    async fn call(&self, arguments: Arguments, care: Care) -> Attempt<Vec<Answer>> {
        let size = OVERHEAD + arguments.iter().flatten().map(String::len).sum::<usize>();
        self.check_size(size)?;
        let sql = self.sql("CALL `{prefix}scratchbook_write_1`(?, ?, ?, ?, ?, ?, ?, ?)");
        let mut lease = self.connections.lease(care).await?;
        let rows = lease.rows(&sql, arguments.map(Into::into).into()).await?;
        drop(lease);
        Ok(rows.into_iter().map(answer).collect::<Result<_>>()?)
    }

    /// Refuses what the server would refuse, in words that tell what to do about it.
    pub(super) fn check_size(&self, size: usize) -> Result<()> {
        if size <= self.max_packet {
            return Ok(());
        }
        let (place, most) = (self.connections.place(), self.max_packet);
        let what =
            format!("{place}: {size} bytes to write at once; max_allowed_packet is {most}: raise it, or split it");
        Err(Error::new(ErrorKind::ResourceExhausted, what))
    }
}

/// The last numbers of sessions by their places, from "place number,...", where places are counted from 1.
fn sequence(numbers: &str) -> Option<HashMap<usize, i64>> {
    let one = |pair: &str| {
        let (place, seq) = pair.split_once(' ')?;
        Some((place.parse::<usize>().ok()?.checked_sub(1)?, seq.parse().ok()?))
    };
    numbers.split(',').map(one).collect()
}

fn answer(row: Row) -> Result<Answer> {
    let mut cells = Cells::from(row);
    let place = || "an answer to a write".to_owned();
    let (what, at, number) = (cells.text(0, place)?, cells.integer(1, place)?, cells.integer(2, place)?);
    // Places are counted from 1.
    let at = usize::try_from(at).unwrap_or_default().wrapping_sub(1);
    Ok(match what.as_str() {
        "done" => Answer::Done { numbers: cells.text(3, place)? },
        "missing" => Answer::Missing { place: at },
        "known" => Answer::Known {
            place: at,
            seq: number,
            text: cells.text(3, || format!("the event {number} of a session"))?,
            hash: cells.bytes(4),
        },
        "made" => Answer::Made,
        "taken" => Answer::Taken,
        "damaged" => Answer::Damaged,
        _ => return Err(strange("a row of a kind that is not known")),
    })
}

fn strange(what: &str) -> Error {
    Error::internal(format!("the procedure of a write answers with {what}"))
}
