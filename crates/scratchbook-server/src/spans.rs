//! The spans of the runs of this server, in memory: for the inspector, and for ADK's dev interface. After a restart they
//! are gone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scratchbook::agent::{TraceSink, TraceSpan};

/// How many bytes of spans are kept, in all and of one session, and for how many seconds. What is beyond goes first in,
/// first out.
const BYTES: usize = 32 << 20;
const SESSION_BYTES: usize = 4 << 20;
const SECONDS: f64 = 3600.0;
/// About what a span takes besides its values.
const SPAN_BYTES: usize = 1 << 10;

/// The spans that were kept.
#[derive(Debug, Default)]
pub(crate) struct Spans(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// In the order in which they ended, each with its size.
    spans: VecDeque<(Arc<TraceSpan>, usize)>,
    bytes: usize,
}

impl TraceSink for Spans {
    fn record(&self, span: TraceSpan) {
        let now = span.end_time;
        let bytes = size(&span);
        let mut kept = self.lock();
        kept.spans.push_back((Arc::new(span), bytes));
        kept.bytes += bytes;
        kept.forget(now);
    }
}

impl Spans {
    /// The spans that are wanted, in the order in which they began.
    pub(crate) fn matching(&self, wanted: impl Fn(&TraceSpan) -> bool) -> Vec<Arc<TraceSpan>> {
        let kept = self.lock();
        let mut found: Vec<_> = kept.spans.iter().map(|(span, _)| span).filter(|span| wanted(span)).cloned().collect();
        drop(kept);
        found.sort_by(|one, other| one.start_time.total_cmp(&other.start_time));
        found
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets what is too old or too much, the newest span's session first.
    fn forget(&mut self, now: f64) {
        if let Some((newest, _)) = self.spans.back() {
            let key = newest.session.clone();
            let of_session = |(span, _): &&(Arc<TraceSpan>, usize)| span.session == key;
            let mut left: usize = self.spans.iter().filter(of_session).map(|(_, bytes)| bytes).sum();
            if left > SESSION_BYTES {
                self.spans.retain(|(span, bytes)| {
                    let goes = left > SESSION_BYTES && span.session == key;
                    if goes {
                        left -= bytes;
                        self.bytes -= bytes;
                    }
                    !goes
                });
            }
        }
        while let Some((span, bytes)) = self.spans.front() {
            if self.bytes <= BYTES && span.end_time > now - SECONDS {
                break;
            }
            self.bytes -= bytes;
            self.spans.pop_front();
        }
    }
}

/// About how many bytes a span takes in memory. A value in memory is larger than its text.
fn size(span: &TraceSpan) -> usize {
    let text = |map| serde_json::to_string(map).map_or(0, |text| text.len());
    SPAN_BYTES + 4 * (text(&span.attributes) + text(&span.texts))
}

#[cfg(test)]
mod tests {
    use scratchbook::agent::TraceConfig;
    use scratchbook::model::LlmResponse;
    use scratchbook::prelude::*;

    use super::*;

    /// A span as a run makes it.
    async fn span() -> TraceSpan {
        let spans = Arc::new(Spans::default());
        let sink: Arc<dyn TraceSink> = spans.clone();
        let agent = LlmAgent::builder("clerk").model(ScriptedLlm::new([LlmResponse::text("Hello!")])).build().unwrap();
        let runner = Runner::builder("shop", agent, InMemorySessionService::new()).auto_create_session();
        let runner = runner.tracing(TraceConfig::default().with_sink(sink)).build().unwrap();
        let events = runner.run("alice", "s1", "Hi");
        let _events: Vec<_> = futures_util::TryStreamExt::try_collect(events).await.unwrap();
        let found = spans.matching(|span| span.name.starts_with("generate_content"));
        TraceSpan::clone(&found[0])
    }

    fn of(span: &TraceSpan, session: &str, end_time: f64, bytes: usize) -> TraceSpan {
        let mut span = span.clone();
        span.session = SessionKey::new("shop", "alice", session).unwrap();
        span.start_time = end_time - 1.0;
        span.end_time = end_time;
        span.texts.insert("gen_ai.input.messages".to_owned(), "x".repeat(bytes).into());
        span
    }

    #[tokio::test]
    async fn a_session_has_no_more_than_its_part_and_all_no_more_than_the_whole() {
        let (spans, span) = (Spans::default(), span().await);
        spans.record(of(&span, "other", 1.0, 10));
        for n in 0..1_000 {
            spans.record(of(&span, "busy", f64::from(n), 20_000));
        }
        assert_eq!(spans.matching(|span| span.session.session_id() == "other").len(), 1);
        let busy = spans.matching(|span| span.session.session_id() == "busy");
        assert!(busy.len() > 10 && busy.len() < 60, "{}", busy.len());
        assert_eq!(busy.last().unwrap().end_time, 999.0, "the newest stay");
        for n in 0..2_000 {
            spans.record(of(&span, &format!("s{n}"), 1_000.0, 20_000));
        }
        let kept = spans.lock();
        assert!(kept.bytes <= BYTES, "{}", kept.bytes);
        assert_eq!(kept.bytes, kept.spans.iter().map(|(_, bytes)| bytes).sum::<usize>());
    }

    #[tokio::test]
    async fn a_span_is_forgotten_after_an_hour() {
        let (spans, span) = (Spans::default(), span().await);
        spans.record(of(&span, "old", 10.0, 10));
        spans.record(of(&span, "new", 10.0 + SECONDS, 10));
        assert_eq!(spans.matching(|_| true).len(), 1);
    }
}
