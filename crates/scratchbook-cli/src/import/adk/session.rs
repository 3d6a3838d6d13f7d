//! Imports a session of a google-adk database.
//!
//! The tables contain the state, and the events contain changes to it. A key that no event changes is part of the
//! initial state. If the events, in google-adk's order, give another state than the table, an additional event at the
//! end corrects the state.

use scratchbook::state::fold;
use scratchbook::{CreateSessionConfig, Error, Scope, SessionKey, StateDelta};
use serde_json::Map;

use super::super::report::ImportReport;
use super::super::session::{SessionWriter, WHOLE, correction};
use super::super::source::PAGE;
use super::event::ImportedEvents;
use super::rows::{AdkDatabase, AdkSessionRow};
use super::values::Values;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;

pub(super) async fn import(
    source: &dyn AdkDatabase,
    database: &OpenDatabase,
    (app, user): (&str, &str),
    row: AdkSessionRow,
    report: &mut ImportReport,
) -> Result<(), CommandFailure> {
    let key = SessionKey::new(app, user, &row.id)?;
    if key.session_id() != row.id {
        let message = format!("the id '{}' has spaces around it, which would be trimmed; rename the session", row.id);
        return Err(Error::invalid(message).into());
    }
    let state = Values::of_session(&row.state?)?.report(&format!("session {key}"), report);
    let EventSummary { first, pages, count, changes, time: last_time } = EventSummary::of(source, &key).await?;
    let initial: Map<_, _> = state
        .iter()
        .filter(|(name, _)| !changes.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let time = row.update_time.filter(|time| is_time(*time)).or(last_time).unwrap_or_default();
    let mut config = CreateSessionConfig::default().with_state(initial.clone());
    config.create_time = row.create_time.filter(|time| is_time(*time));
    let mut writer = SessionWriter::new(database, &key, config).await?;
    // A short new session is written in one commit, so that nobody sees it with another state.
    let whole = writer.is_new() && count < WHOLE;
    let (mut page, mut left, mut after) = (Some(first), pages, None);
    while let Some(ImportedEvents { mut events, refused, rows, last }) = page {
        left = left.saturating_sub(1);
        if whole && left == 0 {
            events.extend(correction(&fold(initial.clone(), [&changes]), &state, count as u64, time)?);
        }
        refused.into_iter().for_each(|refusal| report.refuse(refusal));
        writer.events(events).await?;
        report.progress.advance(rows);
        after = last.or(after);
        page = if left > 0 { ImportedEvents::read(source, &key, after.as_deref()).await? } else { None };
    }
    report.session(writer.finish((!whole).then_some((&state, time))).await?);
    Ok(())
}

/// A summary of a session's events, from a first pass over them.
struct EventSummary {
    first: ImportedEvents,
    pages: usize,
    /// How many events are valid.
    count: usize,
    /// The last change to each of the session's own keys.
    changes: StateDelta,
    /// The time of the last event.
    time: Option<f64>,
}

impl EventSummary {
    async fn of(source: &dyn AdkDatabase, key: &SessionKey) -> Result<Self, CommandFailure> {
        let mut survey =
            Self { first: ImportedEvents::default(), pages: 0, count: 0, changes: StateDelta::new(), time: None };
        let mut after: Option<String> = None;
        while let Some(page) = ImportedEvents::read(source, key, after.as_deref()).await? {
            for event in &page.events {
                let changes = event.actions.state_delta.iter();
                let mut own = changes.filter(|(name, _)| Scope::split(name).0 == Scope::Session);
                own.try_for_each(|(name, change)| survey.changes.insert(name.to_owned(), change.clone()))?;
                survey.time = event.timestamp;
            }
            survey.pages += 1;
            survey.count += page.events.len();
            after.clone_from(&page.last);
            let full = page.rows == PAGE;
            if survey.pages == 1 {
                survey.first = page;
            }
            if !full {
                break;
            }
        }
        Ok(survey)
    }
}

/// Returns whether a number is a valid time in seconds since 1970.
fn is_time(seconds: f64) -> bool {
    (0.0..253_402_300_800.0).contains(&seconds)
}
