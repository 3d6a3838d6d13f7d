//! A session of google-adk's.
//!
//! Its tables say what the state is, and its events what they changed. A key that no event changes was there from the
//! beginning. Where the events, in google-adk's own order, lead to another value than the tables have, an event of
//! ours at the end says so and sets it.

use scratchbook::{CreateSessionConfig, Error, ErrorKind, Scope, SessionKey, StateDelta, fold};
use serde_json::Map;

use super::super::report::Report;
use super::super::session::{SessionWriter, WHOLE, correction};
use super::super::source::PAGE;
use super::event::Page;
use super::rows::{Rows, SessionRow};
use super::values::Values;
use crate::database::Database;
use crate::failure::Failure;

pub(super) async fn import(
    source: &dyn Rows,
    database: &Database,
    (app, user): (&str, &str),
    row: &SessionRow,
    report: &mut Report,
) -> Result<(), Failure> {
    let key = SessionKey::new(app, user, &row.id)?;
    if key.session_id() != row.id {
        let message = format!("the id '{}' has spaces around it, which would be trimmed; rename the session", row.id);
        return Err(Error::new(ErrorKind::InvalidArgument, message).into());
    }
    let state = Values::of_session(&row.state)?.report(&format!("session {key}"), report);
    let Survey { first, pages, count, changes, time: last_time } = Survey::of(source, &key).await?;
    let initial: Map<_, _> = state
        .iter()
        .filter(|(name, _)| !changes.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let time = row.update_time.filter(|time| is_time(*time)).or(last_time).unwrap_or_default();
    let mut config = CreateSessionConfig::default().with_state(initial.clone());
    config.create_time = row.create_time.filter(|time| is_time(*time));
    let mut writer = SessionWriter::new(database, &key, config).await?;
    // Then all of it goes in at once, and nobody ever sees it with another state.
    let whole = writer.is_new() && count < WHOLE;
    let (mut page, mut left, mut after) = (Some(first), pages, None);
    while let Some(Page { mut events, refused, rows, last }) = page {
        left = left.saturating_sub(1);
        if whole && left == 0 {
            events.extend(correction(&fold(initial.clone(), [&changes]), &state, count as u64, time)?);
        }
        refused.into_iter().for_each(|refusal| report.refuse(refusal));
        writer.events(events).await?;
        report.progress.advance(rows);
        after = last.or(after);
        page = if left > 0 { Page::read(source, &key, after.as_deref()).await? } else { None };
    }
    report.session(writer.finish((!whole).then_some((&state, time))).await?);
    Ok(())
}

/// What the events of a session come to, found by going through all of them once.
struct Survey {
    first: Page,
    pages: usize,
    /// How many events there are, without those that are refused.
    count: usize,
    /// The last change to each of the session's own keys.
    changes: StateDelta,
    /// The last event's time.
    time: Option<f64>,
}

impl Survey {
    async fn of(source: &dyn Rows, key: &SessionKey) -> Result<Self, Failure> {
        let mut survey = Self { first: Page::default(), pages: 0, count: 0, changes: StateDelta::new(), time: None };
        let mut after: Option<String> = None;
        while let Some(page) = Page::read(source, key, after.as_deref()).await? {
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

/// Whether it is a time in seconds since 1970 that a store would take.
fn is_time(seconds: f64) -> bool {
    (0.0..253_402_300_800.0).contains(&seconds)
}
