//! The writes to a key, with their values, times and authors.

use std::sync::Arc;

use maud::{Markup, html};
use scratchbook::error::KeyWriter;
use scratchbook::session::{ChangeQuery, KeyWrite, StateOwner, check_event_number};
use scratchbook::{Error, ErrorKind, Event, GetSessionConfig, Result, Scope, Session, SessionKey};
use serde_json::Value;

use super::super::address::{self, PageView};
use super::super::masks::Masks;
use super::super::value::{Cut, ago, line, moment, number, visible};
use super::change;
use super::event::{author, tools};
use super::read::{SessionReader, known};

/// How many writes are shown at once.
const WRITES: usize = 20;
/// How many events one read of a search for writes returns.
const EVENTS: usize = 500;
/// How many reads one search makes.
const READS: usize = 4;
/// About how many bytes one read of a search returns.
const BYTES: u64 = 4 << 20;
/// How much of a value is shown.
const LINE: usize = 100;

/// The writes to a key, the latest first.
#[derive(Debug, Default)]
pub(super) struct KeyHistory {
    writes: Vec<HistoryWrite>,
    /// The number before which the next search begins.
    next: Option<u64>,
    /// The number of the earliest event that was searched.
    back_to: Option<u64>,
    now: f64,
    /// Why the writes are not known.
    unknown: Option<String>,
    /// Whether the caller may change the current value of the key.
    may_change: bool,
    /// The form that changes the key, unless an older event is chosen.
    change: Option<Markup>,
}

#[derive(Debug)]
struct HistoryWrite {
    /// The value; `None` for a removal.
    value: Option<Value>,
    /// The tools whose answers are in its event.
    tools: String,
    writer: KeyWriter,
}

/// Reads the writes to a key up to the chosen event.
///
/// # Errors
///
/// The errors of the store.
pub(super) async fn read(reader: &SessionReader<'_>, head: &Session, key: &str, view: &PageView) -> Result<KeyHistory> {
    let history = match Scope::split(key) {
        (Scope::Session, name) => of_session(reader, head, name, view).await,
        (Scope::User, name) => of_owner(reader, &reader.key.user(), name, view).await,
        (Scope::App, name) => of_owner(reader, &reader.key.app(), name, view).await,
        (Scope::Temp, _) => Err(Error::invalid("temp: keys are never stored, so that they have no history")),
    };
    let history = match known(history)? {
        Ok(history) => history,
        Err(why) => KeyHistory { unknown: Some(why), ..KeyHistory::default() },
    };
    let may_change = change::may_change(head, reader.caller, key);
    let change = match view.at {
        None if may_change => Some(change::form(head, key, change::value(reader, key).await?.as_ref())),
        _ => None,
    };
    Ok(KeyHistory { now: reader.now, may_change, change, ..history })
}

async fn of_session(reader: &SessionReader<'_>, head: &Session, name: &str, view: &PageView) -> Result<KeyHistory> {
    let last = head.known_seq().unwrap_or_default();
    let at = view.at.unwrap_or(last);
    check_event_number(reader.key, at, 0, last)?;
    let mut before = view.written_before.unwrap_or(u64::MAX).min(at.saturating_add(1));
    let mut history = KeyHistory::default();
    for _ in 0..READS {
        let events = reader.events_before(before, EVENTS, BYTES).await?;
        for event in events.iter().rev() {
            before = event.seq.unwrap_or_default();
            history.writes.extend(write(reader.key, event, name));
            if history.writes.len() >= WRITES {
                break;
            }
        }
        if events.is_empty() || before <= 1 {
            history.writes.extend(initial(reader, name, at).await?);
            return Ok(history);
        }
        if history.writes.len() >= WRITES {
            break;
        }
    }
    history.next = Some(before);
    history.back_to = Some(before);
    Ok(history)
}

fn write(key: &SessionKey, event: &Arc<Event>, name: &str) -> Option<HistoryWrite> {
    let change = event.actions.state_delta.get(name)?;
    let writer = KeyWriter::new(author(event))
        .with_event(key.user_id(), key.session_id(), event.seq.unwrap_or_default(), &event.id)
        .with_time(event.timestamp.unwrap_or_default());
    Some(HistoryWrite { value: change.value().cloned(), tools: tools(event).into_owned(), writer })
}

/// Returns the write of the session's initial state to the key.
async fn initial(reader: &SessionReader<'_>, name: &str, at: u64) -> Result<Option<HistoryWrite>> {
    let initial = match reader.sessions.get_initial_state(reader.key).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        initial => initial?,
    };
    if let Some(initial) = &initial {
        check_event_number(reader.key, at, initial.seq, u64::MAX)?;
    }
    let writer = |seq| KeyWriter::default().with_event(reader.key.user_id(), reader.key.session_id(), seq, "");
    Ok(initial.and_then(|initial| {
        let value = initial.state.get(name)?.clone();
        Some(HistoryWrite { value: Some(value), tools: String::new(), writer: writer(initial.seq) })
    }))
}

async fn of_owner(reader: &SessionReader<'_>, owner: &StateOwner, name: &str, view: &PageView) -> Result<KeyHistory> {
    let before = view.written_before.unwrap_or(u64::MAX);
    let query = match view.at {
        Some(at) => ChangeQuery::of_key_at(name, before, reader.key, at),
        None => ChangeQuery::of_key(name, before),
    };
    let changes = reader.sessions.list_state_changes(owner, &query, WRITES).await?;
    let next = changes.last().map(|change| change.position).filter(|_| changes.len() >= WRITES);
    let mut writes = Vec::new();
    for write in changes.into_iter().map(KeyWrite::from) {
        let writer = reader.caller.known_writer(write.writer, reader.key.app_name());
        let tools = tools_of(reader, &writer).await?;
        writes.push(HistoryWrite { value: write.value, tools, writer });
    }
    Ok(KeyHistory { writes, next, ..KeyHistory::default() })
}

/// Returns the tools that wrote a key in an event, which may be in another session. There are none if the event was
/// pruned or deleted, or if the caller may not know its session.
async fn tools_of(reader: &SessionReader<'_>, writer: &KeyWriter) -> Result<String> {
    let (Some((user_id, session_id)), Some(before)) = (&writer.session, writer.seq.checked_sub(1)) else {
        return Ok(String::new());
    };
    let key = SessionKey::new(reader.key.app_name(), user_id, session_id)?;
    let config = GetSessionConfig::default().without_state().with_events_after(before, 1).with_page_bytes(BYTES);
    let session = reader.sessions.get_session(&key, &config).await?;
    let event = session.as_ref().and_then(|session| session.events().last());
    Ok(event.filter(|event| event.id == writer.event_id).map(|event| tools(event).into_owned()).unwrap_or_default())
}

/// Returns the writes as HTML, for a whole page or to replace the ones on a page.
pub(super) fn markup(head: &Session, view: &PageView, history: &KeyHistory) -> Markup {
    let (key, masks) = (head.key(), Masks::of(head));
    let name = view.key.as_deref().unwrap_or_default();
    let closed = PageView { key: None, written_before: None, ..view.clone() };
    html! {
        section #history aria-labelledby="history-head" {
            div.bar {
                h2 #history-head { "Writes to " code { bdi { (visible(name)) } } }
                a.close href=(address::session(key, &closed)) data-close="#history" { "Close" }
            }
            @if let Some(change) = &history.change { (change) }
            @if let Some(at) = view.at && history.may_change {
                p.soft {
                    "This is event " (number(at)) ". "
                    a.now href=(address::session(key, &PageView { at: None, ..view.clone() })) { "Go to now" }
                    " to change the value."
                }
            }
            @if let Some(why) = &history.unknown {
                p.empty { (why) }
            } @else if history.writes.is_empty() {
                p.empty { @if history.next.is_some() { "Not written in the events searched so far." } @else { "No write to this key is known." } }
            }
            ol.writes { @for write in &history.writes { (item(key, view, name, &masks, write, history.now)) } }
            @if let Some(next) = history.next {
                @let next = PageView { written_before: Some(next), ..view.clone() };
                p.pages {
                    @if let Some(back_to) = history.back_to { span.soft { "Searched back to event " (number(back_to)) ". " } }
                    a href=(address::session(key, &next)) data-part=(address::part(key, "history", &next)) data-into="#history" { "Earlier writes" }
                }
            }
        }
    }
}

fn item(key: &SessionKey, view: &PageView, name: &str, masks: &Masks, write: &HistoryWrite, now: f64) -> Markup {
    let writer = &write.writer;
    let shown = write.value.as_ref().map(|value| line(&masks.of_key(name, value), LINE));
    html! {
        li {
            @match shown {
                Some(Cut { text, is_whole }) => code.value { (text) @if !is_whole { "…" } },
                None => span.removed { "removed" },
            }
            p.by {
                @if !write.tools.is_empty() { "tool " b { bdi { (write.tools) } } " of " }
                @if writer.author.is_empty() { "at the start" } @else { bdi { (visible(&writer.author)) } }
                (place(key, view, name, writer))
                @if writer.time > 0.0 { ", " (ago(writer.time, now)) ", " (moment(writer.time)) }
            }
        }
    }
}

/// Returns a link to the event that wrote the value; the event may be in another session.
fn place(key: &SessionKey, view: &PageView, name: &str, writer: &KeyWriter) -> Markup {
    let Some((user_id, session_id)) = &writer.session else { return html! {} };
    let is_here = user_id == key.user_id() && session_id == key.session_id();
    let there = if is_here { Some(key.clone()) } else { SessionKey::new(key.app_name(), user_id, session_id).ok() };
    let Some(there) = there else { return html! {} };
    let link = address::session(&there, &view.moved_to(writer.seq).with_key(name));
    html! {
        @if writer.seq > 0 || !is_here {
            ", " a href=(link) data-at=[is_here.then_some(writer.seq)] {
                "event " (number(writer.seq))
                @if !is_here { " of " bdi { (visible(session_id)) } }
            }
        }
    }
}
