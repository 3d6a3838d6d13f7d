//! Reads events from google-adk's databases.

use scratchbook::environment::SystemEnvironment;
use scratchbook::plan::prepare_event;
use scratchbook::store::Limits;
use scratchbook::{Error, Event, SessionKey, json};

use super::super::report::RefusedRow;
use super::super::source::PAGE;
use super::camel_case;
use super::rows::{AdkDatabase, AdkEventRow};
use super::typescript;
use super::values::has_no_number;
use crate::failure::CommandFailure;

/// A page of a session's events, in order.
#[derive(Debug, Default)]
pub(super) struct ImportedEvents {
    pub(super) events: Vec<Event>,
    /// The events that this store would refuse.
    pub(super) refused: Vec<RefusedRow>,
    /// How many rows were read.
    pub(super) rows: usize,
    /// The id of the last row that has one.
    pub(super) last: Option<String>,
}

impl ImportedEvents {
    /// Reads the page after an event; `None` if there are no more events.
    pub(super) async fn read(
        source: &dyn AdkDatabase,
        session: &SessionKey,
        after: Option<&str>,
    ) -> Result<Option<Self>, CommandFailure> {
        let rows = source.events(session, after, PAGE).await?;
        let last = rows.iter().rev().map(|row| &row.id).find(|id| !id.is_empty()).cloned();
        let mut page = Self { rows: rows.len(), last, ..Self::default() };
        for row in rows {
            let name = format!("event {} of {session}", row.id);
            match read(row) {
                Ok(event) => page.events.push(event),
                Err(why) => page.refused.push(RefusedRow::new(name, why)),
            }
        }
        Ok((page.rows > 0).then_some(page))
    }
}

/// Reads a row.
pub(super) fn read(row: AdkEventRow) -> Result<Event, Error> {
    let text = row.data?;
    let mut event: Event = json::from_str(&text).map_err(|why| {
        if has_no_number(&text) {
            return Error::invalid("it holds NaN or Infinity, which JSON has no form for");
        }
        why.context("the event")
    })?;
    if let Some(columns) = row.columns {
        event.id = row.id;
        event.invocation_id = columns.invocation_id;
    }
    event.timestamp = event.timestamp.or(row.time);
    typescript::convert(&mut event, row.time);
    camel_case::convert(&mut event);
    if event.id.is_empty() {
        return Err(Error::invalid("it has no id, by which it could be known when it is imported again"));
    }
    if event.timestamp.is_none() {
        return Err(Error::invalid("it has no time"));
    }
    if event.is_partial() {
        return Err(Error::invalid("it is marked as a piece of a streamed answer, and such pieces are not stored"));
    }
    // The checks of the store are made here, so that each invalid event is reported separately.
    prepare_event(event.clone(), &SystemEnvironment, &Limits::unlimited())?;
    Ok(event)
}
