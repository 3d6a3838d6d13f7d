//! A single call: its span, and the records at its end.

use serde::Serialize;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use scratchbook_core::error::Result;
use scratchbook_core::event::Event;
use scratchbook_core::json::ByteCount;
use scratchbook_core::state::{Change, StateDelta};

/// A call that is about to start.
#[derive(Debug)]
pub(super) struct MeasuredCall<'a> {
    span: Span,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "for counters alone"))]
    operation: &'static str,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "for counters alone"))]
    app: &'a str,
    bytes: u64,
}

impl<'a> MeasuredCall<'a> {
    pub(super) fn new(operation: &'static str, app: &'a str, user: Option<&str>) -> Self {
        let span = tracing::info_span!(
            "scratchbook",
            operation,
            app,
            user,
            keys = Empty,
            events = Empty,
            bytes = Empty,
            items = Empty,
            outcome = Empty,
        );
        Self { span, operation, app, bytes: 0 }
    }

    /// Records the number of keys that are written.
    pub(super) fn keys(self, keys: usize) -> Self {
        self.span.record("keys", keys);
        self
    }

    /// Records the number of events that are written.
    pub(super) fn events(self, events: usize) -> Self {
        self.span.record("events", events);
        self
    }

    /// Records the number of bytes of JSON that are written.
    pub(super) fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self.span.record("bytes", bytes);
        self
    }

    /// Makes the call and records its outcome, with the number of items in the answer.
    pub(super) async fn watch<T>(
        self,
        call: impl Future<Output = Result<T>>,
        items: impl FnOnce(&T) -> usize,
    ) -> Result<T> {
        let start = std::time::Instant::now();
        let answer = call.instrument(self.span.clone()).await;
        let outcome = answer.as_ref().map_or_else(|error| error.kind().as_str(), |_| "ok");
        let items = answer.as_ref().map_or(0, items);
        self.span.record("items", items).record("outcome", outcome);
        self.count(outcome, items, start.elapsed());
        answer
    }
    fn count(&self, outcome: &'static str, items: usize, time: std::time::Duration) {
        let (operation, app) = (self.operation, self.app.to_owned());
        let labels = [("operation", operation.to_owned()), ("app", app)];
        let ended = [labels[0].clone(), labels[1].clone(), ("outcome", outcome.to_owned())];
        metrics::histogram!("scratchbook_call_seconds", &ended).record(time.as_secs_f64());
        metrics::counter!("scratchbook_calls_total", &ended).increment(1);
        metrics::counter!("scratchbook_items_total", &labels).increment(items as u64);
        metrics::counter!("scratchbook_written_bytes_total", &labels).increment(self.bytes);
    }
}

/// Returns the length of an event as JSON, with its operations as they were given.
pub(super) fn event_bytes(event: &Event) -> u64 {
    if !event.actions.state_delta.has_operations() {
        return json_bytes(event);
    }
    let mut rest = event.clone();
    let delta = std::mem::take(&mut rest.actions.state_delta);
    json_bytes(&rest).saturating_add(delta_bytes(&delta))
}

/// Returns the length of a delta's changes as JSON, with their keys.
pub(super) fn delta_bytes(delta: &StateDelta) -> u64 {
    let change = |change: &Change| match change {
        Change::Set(value) => json_bytes(value),
        Change::Remove => 0,
        Change::Apply(operations) => json_bytes(operations),
    };
    delta.iter().map(|(key, known)| json_bytes(key).saturating_add(change(known))).sum()
}

/// Returns the length of a value as JSON, without building the text.
pub(super) fn json_bytes(value: &(impl Serialize + ?Sized)) -> u64 {
    let mut count = ByteCount::default();
    // The service will refuse a value that has no JSON. Here only the part before the error is counted.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
