//! The spans of the runs of this server, for the inspector and for ADK's dev interface. They are kept in memory and are
//! gone after a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use scratchbook::agent::{TraceSink, TraceSpan};
use scratchbook::session::forward_sessions;
use scratchbook::{Result, SessionKey, SessionService};

/// The maximum number of bytes of all kept spans. Beyond each of these limits, the oldest spans are dropped first.
const BYTES: usize = 32 << 20;
/// The maximum number of bytes of the kept spans of one session.
const SESSION_BYTES: usize = 4 << 20;
/// The maximum time for which a span is kept, in seconds.
const SECONDS: f64 = 3600.0;
/// About how many bytes a span takes in addition to its values.
const SPAN_BYTES: usize = 1 << 10;

/// The spans that were kept.
#[derive(Debug, Default)]
pub(crate) struct Spans(Mutex<KeptSpans>);

#[derive(Debug, Default)]
struct KeptSpans {
    /// The spans in the order in which they ended, each with its size.
    spans: VecDeque<(Arc<TraceSpan>, usize)>,
    bytes: usize,
    /// The bytes of each session that has spans.
    of_sessions: HashMap<SessionKey, usize>,
}

impl TraceSink for Spans {
    fn record(&self, span: TraceSpan) {
        let (now, key, bytes) = (span.end_time, span.session.clone(), size(&span));
        let mut kept = self.lock();
        kept.spans.push_back((Arc::new(span), bytes));
        kept.bytes += bytes;
        *kept.of_sessions.entry(key.clone()).or_default() += bytes;
        kept.shorten(&key);
        kept.drop_oldest(now);
    }
}

impl Spans {
    /// Returns the spans for which `wanted` holds and which are not too old, in the order in which they began.
    pub(crate) fn matching(&self, now: f64, wanted: impl Fn(&TraceSpan) -> bool) -> Vec<Arc<TraceSpan>> {
        let mut kept = self.lock();
        kept.drop_oldest(now);
        let mut found: Vec<_> = kept.spans.iter().map(|(span, _)| span).filter(|span| wanted(span)).cloned().collect();
        drop(kept);
        found.sort_by(|one, other| one.start_time.total_cmp(&other.start_time));
        found
    }

    /// Drops the spans of sessions that were deleted.
    fn forget(&self, is_deleted: impl Fn(&SessionKey) -> bool) {
        self.lock().remove_if(|span, _| is_deleted(&span.session));
    }

    fn lock(&self) -> MutexGuard<'_, KeptSpans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptSpans {
    /// Drops the oldest spans of a session that has too many.
    fn shorten(&mut self, key: &SessionKey) {
        let mut left = self.of_sessions.get(key).copied().unwrap_or_default();
        if left > SESSION_BYTES {
            self.remove_if(|span, bytes| {
                let goes = left > SESSION_BYTES && span.session == *key;
                left -= if goes { bytes } else { 0 };
                goes
            });
        }
    }

    fn drop_oldest(&mut self, now: f64) {
        while let Some((span, _)) = self.spans.front() {
            if self.bytes <= BYTES && span.end_time > now - SECONDS {
                break;
            }
            if let Some((span, bytes)) = self.spans.pop_front() {
                self.subtract(&span, bytes);
            }
        }
    }

    fn remove_if(&mut self, mut goes: impl FnMut(&TraceSpan, usize) -> bool) {
        let mut gone = Vec::new();
        self.spans.retain(|(span, bytes)| {
            let goes = goes(span, *bytes);
            if goes {
                gone.push((Arc::clone(span), *bytes));
            }
            !goes
        });
        gone.iter().for_each(|(span, bytes)| self.subtract(span, *bytes));
    }

    fn subtract(&mut self, span: &TraceSpan, bytes: usize) {
        self.bytes -= bytes;
        if let Some(left) = self.of_sessions.get_mut(&span.session) {
            *left -= bytes;
            if *left == 0 {
                self.of_sessions.remove(&span.session);
            }
        }
    }
}

/// A service that wraps another service. When a session or a user is deleted through it, their spans are dropped, too.
#[derive(Debug)]
pub(crate) struct ForgetsSpans {
    service: Arc<dyn SessionService>,
    spans: Arc<Spans>,
}

impl ForgetsSpans {
    pub(crate) fn new(service: Arc<dyn SessionService>, spans: Arc<Spans>) -> Self {
        Self { service, spans }
    }
}

#[async_trait]
impl SessionService for ForgetsSpans {
    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.service.delete_session(key).await?;
        self.spans.forget(|found| found == key);
        Ok(())
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        self.service.delete_user(app_name, user_id).await?;
        self.spans.forget(|found| found.app_name() == app_name && found.user_id() == user_id);
        Ok(())
    }

    forward_sessions!(self.service =>
        append, put_state, create_session, get_session, list_sessions, capabilities, get_initial_state, get_state_at, blame,
        fork_session, locate_session, get_state, state_bytes, list_state, list_state_changes, list_feed, commits, update_session, prune,
        list_event_hashes, list_owners, check_writable, close);
}

/// Returns about how many bytes a span takes in memory. A value takes more memory than its text.
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

    /// Returns a span that a run has recorded.
    async fn span() -> TraceSpan {
        let spans = Arc::new(Spans::default());
        let sink: Arc<dyn TraceSink> = spans.clone();
        let agent = LlmAgent::builder("clerk").model(ScriptedLlm::new([LlmResponse::text("Hello!")])).build().unwrap();
        let runner = Runner::builder("shop", agent, InMemorySessionService::new()).auto_create_session();
        let runner = runner.tracing(TraceConfig::default().with_sink(sink)).build().unwrap();
        let events = runner.run("alice", "s1", "Hi");
        let _events: Vec<_> = futures_util::TryStreamExt::try_collect(events).await.unwrap();
        let found = spans.matching(0.0, |span| span.name.starts_with("generate_content"));
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
        assert_eq!(spans.matching(999.0, |span| span.session.session_id() == "other").len(), 1);
        let busy = spans.matching(999.0, |span| span.session.session_id() == "busy");
        assert!(busy.len() > 10 && busy.len() < 60, "{}", busy.len());
        assert_eq!(busy.last().unwrap().end_time, 999.0, "the newest stay");
        for n in 0..2_000 {
            spans.record(of(&span, &format!("s{n}"), 1_000.0, 20_000));
        }
        let kept = spans.lock();
        assert!(kept.bytes <= BYTES, "{}", kept.bytes);
        assert_eq!(kept.bytes, kept.spans.iter().map(|(_, bytes)| bytes).sum::<usize>());
        assert_eq!(kept.bytes, kept.of_sessions.values().sum::<usize>());
        assert!(kept.of_sessions.values().all(|bytes| (1..=SESSION_BYTES).contains(bytes)));
    }

    #[tokio::test]
    async fn a_span_is_forgotten_after_an_hour() {
        let (spans, span) = (Spans::default(), span().await);
        spans.record(of(&span, "old", 10.0, 10));
        spans.record(of(&span, "new", 10.0 + SECONDS, 10));
        assert_eq!(spans.matching(0.0, |_| true).len(), 1);
        assert!(spans.matching(10.0 + 2.0 * SECONDS, |_| true).is_empty(), "also if nothing runs");
    }
    #[tokio::test]
    async fn what_is_deleted_leaves_no_span() {
        let (spans, span) = (Arc::new(Spans::default()), span().await);
        let service = ForgetsSpans::new(Arc::new(InMemorySessionService::new()), Arc::clone(&spans));
        for session in ["s1", "s2", "s3"] {
            service
                .create_session("shop", "alice", CreateSessionConfig::default().with_session_id(session))
                .await
                .unwrap();
            spans.record(of(&span, session, 1.0, 10));
        }
        service.delete_session(&SessionKey::new("shop", "alice", "s2").unwrap()).await.unwrap();
        let left = spans.matching(1.0, |_| true);
        assert_eq!(left.iter().map(|span| span.session.session_id()).collect::<Vec<_>>(), ["s1", "s3"]);
        service.delete_user("shop", "bob").await.unwrap();
        assert_eq!(spans.matching(1.0, |_| true).len(), 2);
        service.delete_user("shop", "alice").await.unwrap();
        assert!(spans.matching(1.0, |_| true).is_empty() && spans.lock().of_sessions.is_empty());
        assert_eq!(spans.lock().bytes, 0);
    }
}
