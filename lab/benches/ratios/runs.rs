//! Checks that the cost of agents' runs does not grow with the session if its events are summarized.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use scratchbook::agent::{EventsCompactionConfig, EventsSummarizer, EventsSummary};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::store::Synchronous;
use scratchbook::{Content, Event, LlmAgent, Result, Runner, SessionKey};
use scratchbook_benches::{runtime, session, sqlite};

use crate::{CompareFn, ComparisonRow, RatioTarget, compare, time_each};

pub(crate) const COMPARISONS: &[(&str, CompareFn)] =
    &[("SQLite: a run on a session of 100,000 events, summed up, against 1,000", run)];

#[derive(Debug)]
struct InFewWords;

#[async_trait]
impl EventsSummarizer for InFewWords {
    async fn summarize_events(&self, _: &[Arc<Event>]) -> Result<Option<EventsSummary>> {
        Ok(Some(EventsSummary::new(Content::model("All work and no play."))))
    }
}

fn run(name: &'static str) -> ComparisonRow {
    let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
    let store = runtime.block_on(sqlite(&folder.path().join("bench.db"), Synchronous::Normal));
    let model = ScriptedLlm::from_fn(|_| Ok(LlmResponse::text("There is a book.")));
    let agent = LlmAgent::builder("agent").model(model).build().unwrap();
    let config = EventsCompactionConfig::by_tokens(10_000, 20).with_summarizer(InFewWords);
    let runner = Runner::builder("app", agent, Arc::clone(&store)).events_compaction(config).build().unwrap();
    let turn = |key: &SessionKey| {
        let events = runner.run(key.user_id(), key.session_id(), "And what is there for me to read today?");
        runtime.block_on(events.try_collect::<Vec<_>>()).unwrap();
    };
    let [long, short] = [("long", 100_000), ("short", 1_000)].map(|(id, events)| {
        let key = runtime.block_on(session(store.as_ref(), id, events, 10));
        // The first run makes the summary.
        turn(&key);
        key
    });
    compare(
        name,
        RatioTarget::CostAtMost(1.2),
        "runs",
        || time_each(200, || turn(&long)),
        || time_each(200, || turn(&short)),
    )
}
