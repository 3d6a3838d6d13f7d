//! Appending events, and the part of a statement that selects which events a read returns. The cost of a read depends
//! on what it returns, and not on the length of the session.

use async_trait::async_trait;
use mysql_async::Value;

use super::MySql;
use super::batch;
use super::procedure::{ProcedureRow, strange};
use super::read::EVENT;
use super::row::address;
use scratchbook_core::error::{Error, ErrorKind};
use scratchbook_core::plan::query::{EventQuery, since_bounds};
use scratchbook_core::session::SessionKey;
use scratchbook_database::{AppendRow, Appends, Attempt, CommitFate, Failure, Idempotency, NewAppend};

/// A part of a statement, with the values of its parameters.
#[derive(Default)]
pub(super) struct Picked {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// The events of one session.
const OF_SESSION: &str = "app_name = ? AND user_id = ? AND session_id = ?";

pub(super) fn pick(address: &[&str; 3], query: EventQuery) -> Picked {
    match query {
        EventQuery::None => Picked::default(),
        EventQuery::All => in_order(address, "seq > ?", "seq", 0, usize::MAX),
        EventQuery::Last(count) => in_order(address, "seq < ?", "seq DESC", u64::MAX, count),
        EventQuery::After(seq, limit) => in_order(address, "seq > ?", "seq", seq, limit),
        EventQuery::Before(seq, limit) => in_order(address, "seq < ?", "seq DESC", seq, limit),
        EventQuery::Since(seconds, count) => match count.and_then(|count| Some((count, since_bounds(count)?))) {
            Some((count, bounds)) => last_since(address, seconds, count, bounds),
            None => all_since(address, seconds),
        },
    }
}

fn in_order(address: &[&str; 3], bound: &str, order: &str, seq: u64, limit: usize) -> Picked {
    let sql = format!(
        " UNION ALL (SELECT {EVENT}, NULL, event, seq, 0 FROM `{{prefix}}events` FORCE INDEX (PRIMARY)
          WHERE {OF_SESSION} AND {bound} ORDER BY {order} LIMIT ?)"
    );
    let mut values = address.map(Value::from).to_vec();
    values.extend([number(seq), sql_limit(limit)]);
    Picked { sql, values }
}

fn all_since(address: &[&str; 3], seconds: f64) -> Picked {
    let sql = format!(
        " UNION ALL SELECT {EVENT}, NULL, event, seq, 0 FROM `{{prefix}}events` FORCE INDEX (events_by_time)
          WHERE {OF_SESSION} AND timestamp >= ?"
    );
    let mut values = address.map(Value::from).to_vec();
    values.push(seconds.into());
    Picked { sql, values }
}

/// Selects the events from a time on, or the last `count` of them in the store's order.
///
/// If there are few such events, the index on time finds them. If there are many, going back by number finds the last
/// ones soon, unless the clock was very wrong. The statement itself distinguishes the two cases: in one of its two
/// parts the first table has no rows, so that part reads nothing.
fn last_since(address: &[&str; 3], seconds: f64, count: usize, (many, far): (usize, usize)) -> Picked {
    // The session's row is a constant when the statement is planned, so its number bounds a range of events.
    let near = "SELECT back.seq FROM `{prefix}sessions` AS s
         STRAIGHT_JOIN `{prefix}events` AS back FORCE INDEX (PRIMARY)
         WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?
             AND back.app_name = ? AND back.user_id = ? AND back.session_id = ? AND back.seq > s.seq - ?
             AND back.timestamp >= ?
         ORDER BY back.seq DESC LIMIT ?";
    let by_time = format!("FROM `{{prefix}}events` FORCE INDEX (events_by_time) WHERE {OF_SESSION} AND timestamp >= ?");
    let is_near = format!(
        "(SELECT COUNT(*) FROM (SELECT 1 {by_time} LIMIT ?) AS matching) = ?
         AND (SELECT COUNT(*) FROM ({near}) AS met) = ?"
    );
    let events = |gate: &str, numbers: &str| {
        format!(
            " UNION ALL SELECT {EVENT}, NULL, e.event, e.seq, 0
              FROM (SELECT 1 AS one FROM (SELECT 1 AS one) AS always WHERE {gate}) AS gate
              STRAIGHT_JOIN ({numbers}) AS n
              STRAIGHT_JOIN `{{prefix}}events` AS e FORCE INDEX (PRIMARY)
                  ON e.app_name = ? AND e.user_id = ? AND e.session_id = ? AND e.seq = n.seq"
        )
    };
    let sql = events(&is_near, near)
        + &events(&format!("NOT ({is_near})"), &format!("SELECT seq {by_time} ORDER BY seq DESC LIMIT ?"));

    let here = address.map(Value::from);
    let since = Value::from(seconds);
    let [count, many, far] = [count, many, far].map(sql_limit);
    let near = [here.as_slice(), &here, &[far, since.clone(), count.clone()]].concat();
    let by_time = [here.as_slice(), &[since]].concat();
    let gate = [&by_time[..], &[many.clone(), many], &near, std::slice::from_ref(&count)].concat();
    let values = [&gate[..], &near, &here, &gate, &by_time, &[count], &here].concat();
    Picked { sql, values }
}

/// Returns a count as a parameter for LIMIT, reduced to the largest number of a column.
pub(super) fn sql_limit(count: usize) -> Value {
    number(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Returns a number as a parameter, reduced to the largest number of a column.
pub(super) fn number(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

/// The maximum number of attempts at a batch that end without a result for any append.
const TRIES: usize = 3;

#[async_trait]
impl Appends for MySql {
    async fn append(&self, appends: &[&NewAppend]) -> Attempt<Vec<AppendRow>> {
        let mut rows: Vec<Option<AppendRow>> = appends.iter().map(|_| None).collect();
        let mut tries = 0;
        loop {
            // The procedure goes through the events session by session.
            let mut open: Vec<usize> = (0..appends.len()).filter(|n| rows[*n].is_none()).collect();
            open.sort_by(|a, b| appends[*a].key.cmp(&appends[*b].key));
            let batch: Vec<&NewAppend> = open.iter().map(|n| appends[*n]).collect();
            if batch.is_empty() {
                break;
            }
            let (arguments, places) = batch::appends(&batch)?;
            for answer in self.call(arguments, Idempotency::Idempotent).await? {
                match answer {
                    ProcedureRow::Done(numbers) => {
                        for (n, place) in places.iter().enumerate() {
                            rows[open[n]] = Some(numbers.stored(place)?);
                        }
                    }
                    ProcedureRow::Missing { place } => {
                        let here = places.iter().enumerate().filter(|(_, at)| at.session.row == place);
                        here.for_each(|(n, _)| rows[open[n]] = Some(AppendRow::NoSession));
                    }
                    // Nothing was written. The caller appends these alone, and the rest is sent again.
                    ProcedureRow::Full(full) => {
                        for (n, place) in places.iter().enumerate() {
                            if full.concern(place) {
                                rows[open[n]] = Some(AppendRow::Full);
                            }
                        }
                    }
                    ProcedureRow::Duplicate { place, known } => {
                        let n = *open.get(place).ok_or_else(|| strange("an event that was not sent"))?;
                        let NewAppend { key, event } = appends[n];
                        // The procedure has looked before its rollback, so it may have seen an event of its own, if it
                        // could not write something else.
                        if self.has_event(key, &event.prepared.event.id).await? {
                            rows[n] = Some(known.row(key)?);
                        }
                    }
                    _ => return Err(strange("a row of another call").into()),
                }
            }
            // An attempt may have no result: the conflicting event may have disappeared with its session.
            tries += usize::from(open.iter().all(|n| rows[*n].is_none()));
            if tries == TRIES {
                let what = format!("{}: what is in the way of an append comes and goes", self.connections.place());
                return Err(Failure::new(CommitFate::RolledBack, Error::new(ErrorKind::Unavailable, what)));
            }
        }
        Ok(rows.into_iter().flatten().collect())
    }

    async fn has_event(&self, key: &SessionKey, id: &str) -> Attempt<bool> {
        let sql = "SELECT 1 FROM `{prefix}events` FORCE INDEX (events_by_id)
            WHERE app_name = ? AND user_id = ? AND session_id = ? AND id = ?";
        Ok(!self.read(sql, [&address(key)[..], &[id.into()]].concat()).await?.is_empty())
    }
}
