//! The conversation: events as people read them, grouped by run.

use std::collections::HashMap;
use std::sync::Arc;

use maud::{Markup, PreEscaped, html};
use scratchbook::content::FunctionResponse;
use scratchbook::{Event, Session};

use super::super::address::{self, PageView, encoded};
use super::super::masks::Masks;
use super::super::value::{duration, visible};
use super::event;
use super::read::SessionReader;
use crate::access::Right;

/// About how many bytes of HTML the events may have. The events nearest to the chosen one are kept.
const BYTES: usize = 46 << 10;
/// How many of these bytes are for events after the chosen one.
const LATER_BYTES: usize = 14 << 10;

/// The answers of tools, by the ids of their calls.
#[derive(Debug, Default)]
pub(super) struct Answers<'e>(HashMap<&'e str, (&'e Event, &'e FunctionResponse)>);

impl<'e> Answers<'e> {
    pub(super) fn of(events: &'e [Arc<Event>]) -> Self {
        let answers = events.iter().flat_map(|event| event.function_responses().map(move |answer| (&**event, answer)));
        Self(answers.filter_map(|(event, answer)| Some((answer.id.as_deref()?, (event, answer)))).collect())
    }

    /// Returns the answer to a call, and its event.
    pub(super) fn to(&self, call: &str) -> Option<(&'e Event, &'e FunctionResponse)> {
        self.0.get(call).copied()
    }
}

/// Returns a page of events, with links to those before and after it.
pub(super) fn markup(reader: &SessionReader<'_>, head: &Session, view: &PageView, events: &[Arc<Event>]) -> Markup {
    let (key, last) = (reader.key, head.known_seq());
    let chosen = view.at.or(last.filter(|_| view.before.is_none()));
    let is_at_end = last.is_some() && events.last().and_then(|event| event.seq) == last;
    let answers = Answers::of(events);
    let masks = Masks::of(head);
    let takes_answers = reader.can_talk && is_at_end;
    let how = event::Shown { key, view, masks: &masks, answers: &answers, before: None, chosen, takes_answers };
    let shown = fitting(&how, events);
    let first = shown.first().and_then(|(event, _)| event.seq).filter(|seq| *seq > 1);
    let end = shown.last().and_then(|(event, _)| event.seq).filter(|seq| Some(*seq) != last && last.is_some());
    let earlier = first.map(|first| PageView { before: Some(first), ..view.clone() });
    html! {
        div #conversation.events data-last=(last.unwrap_or_default()) {
            @if let Some(earlier) = &earlier {
                p.pages {
                    a data-part=(address::part(key, "events", earlier)) data-into="#conversation"
                        href=(address::session(key, earlier)) { "Earlier events" }
                }
            }
            @if shown.is_empty() { p.empty { "No events." } }
            (runs(reader, &shown))
            @if let Some(end) = end {
                p.pages {
                    a href=(address::session(key, &view.moved_to(end + 1))) data-at=(end + 1) { "Later events" }
                }
            }
        }
    }
}

/// Returns as many events as fit, each with its HTML: those up to the chosen event, and those after it.
fn fitting<'e>(how: &event::Shown<'_>, events: &'e [Arc<Event>]) -> Vec<(&'e Event, String)> {
    let chosen = how.chosen;
    let middle = events.partition_point(|event| event.seq <= chosen || chosen.is_none());
    let render = |place: usize| {
        let before = place.checked_sub(1).and_then(|before| events.get(before));
        let shown = event::Shown { before: before.map(|event| &**event), ..*how };
        (&*events[place], shown.markup(&events[place]).into_string())
    };
    let within = |places: &mut dyn Iterator<Item = usize>, bytes: usize| {
        let (mut shown, mut left) = (Vec::new(), bytes);
        for place in places {
            let (event, text) = render(place);
            let Some(rest) = left.checked_sub(text.len()) else {
                if shown.is_empty() {
                    shown.push((event, text));
                }
                break;
            };
            left = rest;
            shown.push((event, text));
        }
        shown
    };
    let mut shown = within(&mut (0..middle).rev(), BYTES - LATER_BYTES);
    shown.reverse();
    shown.extend(within(&mut (middle..events.len()), LATER_BYTES));
    shown
}

/// Returns the events as HTML, run by run.
fn runs(reader: &SessionReader<'_>, shown: &[(&Event, String)]) -> Markup {
    let can_rewind = reader.caller.may(Right::Write);
    let rewind = address::part(reader.key, "rewind", &PageView::default());
    html! {
        @for run in shown.chunk_by(|(one, _), (other, _)| one.invocation_id == other.invocation_id) {
            section.run {
                @if let Some((event, _)) = run.first().filter(|(event, _)| !event.invocation_id.is_empty()) {
                    h2.run-head { "run " bdi { (visible(&event.invocation_id)) } @if let Some(facts) = facts(run) { span.soft { (facts) } }
                        a.timeline href=(address::run(reader.key, &event.invocation_id, event.seq.unwrap_or_default())) { "Timeline" }
                        @if can_rewind { a.rewind href={ (rewind) "?run=" (encoded(&event.invocation_id)) } { "Rewind this run" } } }
                }
                @for (_, text) in run { (PreEscaped(text)) }
            }
        }
    }
}

/// Returns a line with the duration of a run and its tokens.
fn facts(run: &[(&Event, String)]) -> Option<String> {
    let times = || run.iter().filter_map(|(event, _)| event.timestamp);
    let (from, to) = (times().next()?, times().next_back()?);
    let tokens = run.iter().filter_map(|(event, _)| event::tokens(event)).map(|tokens| tokens.total);
    let tokens = tokens.fold(0, u64::saturating_add);
    let took = if run.len() > 1 { duration(to - from) } else { String::new() };
    let tokens = if tokens > 0 { format!("{tokens} tokens") } else { String::new() };
    let facts: Vec<_> = [took, tokens].into_iter().filter(|fact| !fact.is_empty()).collect();
    (!facts.is_empty()).then(|| facts.join(" · "))
}
