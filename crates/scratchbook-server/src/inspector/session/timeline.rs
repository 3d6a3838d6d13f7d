//! A run as a timeline: agents, model calls and tools, one below the other, with their times and tokens.

use std::collections::HashMap;
use std::sync::Arc;

use maud::{Markup, html};
use scratchbook::agent::TraceSpan;
use scratchbook::{Event, Session, SessionKey};
use serde::Deserialize;
use serde_json::Value;

use super::super::address::{self, PageView};
use super::super::page::{InspectorPage, PageQuery};
use super::super::value::{counted, duration, number, visible};
use super::super::{PageAnswer, SessionScope};
use super::event::{author, tokens, tools};
use super::frame;
use super::read::SessionReader;
use crate::access::Right;

/// How many rows are shown.
const ROWS: usize = 500;
/// About how many bytes of events are read for a run without spans.
const BYTES: u64 = 1 << 20;
/// The deepest level that is indented.
const DEEPEST: usize = 8;

/// Which run is shown.
#[derive(Debug, Deserialize)]
pub(super) struct OfRun {
    #[serde(default)]
    run: String,
    /// An event of the run. If there are no spans, the run is read from the events near this one.
    #[serde(default)]
    at: u64,
}

/// A row of the timeline.
struct TimelineRow {
    /// `agent`, `model` or `tool`; for the colour.
    kind: &'static str,
    name: String,
    depth: usize,
    start: f64,
    end: f64,
    /// Tokens in and out.
    tokens: Option<(u64, u64)>,
    failure: Option<String>,
    /// The event that records this step.
    seq: Option<u64>,
}

/// What the rows of a table have in common.
struct TimelineTable<'a> {
    key: &'a SessionKey,
    from: f64,
    to: f64,
    has_tokens: bool,
}

pub(super) async fn page(scope: SessionScope, PageQuery(of): PageQuery<OfRun>) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    let reader = SessionReader::new(&scope);
    let head = reader.head().await?;
    let events = reader.events_before(of.at.saturating_add(ROWS as u64), ROWS, BYTES).await?;
    let events: Vec<_> = events.into_iter().filter(|event| event.invocation_id == of.run).collect();
    let key = &scope.key;
    let now = scope.app_state.environment.now();
    let spans = scope.app_state.spans.matching(now, |span| span.session == *key && span.invocation_id == of.run);
    let has_spans = !spans.is_empty();
    let mut rows = if has_spans { of_spans(&spans, &events) } else { of_events(&events) };
    let left_out = rows.len().saturating_sub(ROWS);
    rows.truncate(ROWS);
    let body = body(&head, &of, &rows, has_spans, left_out);
    let mut above = frame::above(&head);
    above.push(("run".to_owned(), address::run(key, &of.run, of.at)));
    Ok(InspectorPage { title: "Run", above, caller: Some(&scope.caller), scripts: &["time.js"], body }.answer())
}

fn of_spans(spans: &[Arc<TraceSpan>], events: &[Arc<Event>]) -> Vec<TimelineRow> {
    let parents: HashMap<u64, Option<u64>> = spans.iter().map(|span| (span.span_id, span.parent_span_id)).collect();
    let depth = |span: &TraceSpan| {
        let next = |id: &Option<u64>| id.and_then(|id| parents.get(&id).copied());
        std::iter::successors(Some(span.parent_span_id), next).filter(Option::is_some).take(DEEPEST).count()
    };
    let seqs: HashMap<&str, u64> = events.iter().filter_map(|event| Some((event.id.as_str(), event.seq?))).collect();
    let rows = spans.iter().map(|span| {
        let text = |name: &str| span.attributes.get(name).and_then(Value::as_str);
        let count = |name: &str| span.attributes.get(name).and_then(Value::as_u64);
        let kind = match text("gen_ai.operation.name") {
            Some("invoke_agent") => "agent",
            Some("execute_tool") => "tool",
            _ => "model",
        };
        let name = span.name.split_once(' ').map_or(span.name.as_str(), |(_, name)| name);
        let tokens = count("gen_ai.usage.input_tokens").zip(count("gen_ai.usage.output_tokens"));
        TimelineRow {
            kind,
            name: name.to_owned(),
            depth: depth(span),
            start: span.start_time,
            end: span.end_time,
            tokens,
            failure: text("error.type").map(str::to_owned),
            seq: text("gcp.vertex.agent.event_id").and_then(|id| seqs.get(id).copied()),
        }
    });
    rows.collect()
}

/// Returns the steps of a run from its stored events: each step took the time since the event before.
fn of_events(events: &[Arc<Event>]) -> Vec<TimelineRow> {
    let mut before = None;
    let mut rows = Vec::new();
    for event in events {
        let Some(end) = event.timestamp else { continue };
        let answered = tools(event);
        let (kind, name) = match (&*answered, event.author.as_str()) {
            ("", "user") => ("user", "message".to_owned()),
            ("", _) => ("model", author(event).to_owned()),
            (tools, _) => ("tool", tools.to_owned()),
        };
        rows.push(TimelineRow {
            kind,
            name,
            depth: 0,
            start: before.unwrap_or(end),
            end,
            tokens: tokens(event).map(|tokens| (tokens.prompt, tokens.answer)),
            failure: event.error_code.clone(),
            seq: event.seq,
        });
        before = Some(end);
    }
    rows
}

/// Returns how long a step took. Tenths of a millisecond are shown, because scripted model calls and many tools take
/// less than a millisecond.
fn took(seconds: f64) -> String {
    if (0.00005..0.00995).contains(&seconds) { format!("{:.1} ms", seconds * 1000.0) } else { duration(seconds) }
}

fn body(head: &Session, of: &OfRun, rows: &[TimelineRow], has_spans: bool, left_out: usize) -> Markup {
    let key = head.key();
    let from = rows.iter().map(|row| row.start).fold(f64::INFINITY, f64::min);
    let to = rows.iter().map(|row| row.end).fold(f64::NEG_INFINITY, f64::max);
    let has_tokens = rows.iter().any(|row| row.tokens.is_some());
    let table = TimelineTable { key, from, to, has_tokens };
    let sum = |of: fn((u64, u64)) -> u64| rows.iter().filter_map(|row| row.tokens).map(of).fold(0, u64::saturating_add);
    html! {
        div.bar {
            h1 { "Run " bdi { (visible(&of.run)) } }
            a href=(address::session(key, &PageView { at: Some(of.at).filter(|at| *at > 0), ..PageView::default() })) { "Back to the conversation" }
        }
        @if rows.is_empty() {
            p.empty { "Nothing is known of this run: its spans are not in this server's memory, and its events are not near this place." }
        } @else {
            p.facts {
                span { (took(to - from)) }
                span { (counted(rows.len() + left_out, "step")) }
                @if has_tokens {
                    span { (number(sum(|(input, _)| input))) " tokens in" }
                    span { (number(sum(|(_, output)| output))) " tokens out" }
                }
            }
            @if !has_spans {
                p.soft {
                    "The spans of this run are not in this server's memory: it ran elsewhere, before a restart, or over an hour \
                     ago. The times are those between its events."
                }
            }
            table.list.timeline {
                thead {
                    tr {
                        th scope="col" { "Step" }
                        th.wide scope="col" { span.scale { span { "0" } span { (took((to - from) / 2.0)) } span { (took(to - from)) } } }
                        th.number scope="col" { "Took" }
                        @if has_tokens { th.number scope="col" { "Tokens in, out" } }
                        th.number scope="col" { "Event" }
                    }
                }
                tbody { @for row in rows { (line(&table, row)) } }
            }
            @if left_out > 0 { p.soft { (number(left_out as u64)) " more steps" } }
        }
    }
}

fn line(table: &TimelineTable<'_>, row: &TimelineRow) -> Markup {
    let TimelineTable { key, from, to, has_tokens } = *table;
    let whole = (to - from).max(1e-6);
    let percent = |seconds: f64| format!("{:.2}%", (seconds / whole * 100.0).clamp(0.0, 100.0));
    // A step that took no time still has to be visible.
    let width = ((row.end - row.start) / whole * 100.0).clamp(0.4, 100.0);
    html! {
        tr {
            td.name.{ "depth-" (row.depth) } {
                span.kind.{ "is-" (row.kind) } { (row.kind) } " "
                b { bdi { (visible(&row.name)) } }
                @if let Some(failure) = &row.failure { " " span.removed { (visible(failure)) } }
            }
            td.wide {
                svg.track width="100%" height="14" aria-hidden="true" {
                    rect.{ "is-" (row.kind) } x=(percent((row.start - from).min(whole * 0.996))) y="2" width={ (format!("{width:.2}%")) } height="10" rx="2" {}
                }
            }
            td.number data-name="Took" { (took(row.end - row.start)) }
            @if has_tokens {
                td.number data-name="Tokens" { @if let Some((input, output)) = row.tokens { (number(input)) ", " (number(output)) } }
            }
            td.number data-name="Event" {
                @if let Some(seq) = row.seq { a href=(address::session(key, &PageView::at(seq))) { (number(seq)) } }
            }
        }
    }
}
