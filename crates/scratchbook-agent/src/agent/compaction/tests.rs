//! Compares summaries of random logs with a model that records which events went into which summary.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Map;

use super::config::InvocationRule;
use super::plan::{SessionLog, SummaryPlan};
use crate::agent::history::{compacted, live_backward};
use scratchbook_core::content::{Content, FunctionResponse, Part};
use scratchbook_core::event::{Event, EventActions, EventCompaction};
use scratchbook_core::session::Events;

/// A change to a session.
#[derive(Clone, Debug)]
enum SessionStep {
    /// Moves the clock by this many ticks, forward or back, and appends an event, with or without a branch.
    Append(i64, Option<&'static str>, What),
    Rewind(usize),
    ByTokens {
        retention: usize,
        before_answer: bool,
    },
    ByInvocations(usize, usize),
    /// google-adk summarizes some consecutive events, of any kind.
    ByAnother(usize, usize),
}

#[derive(Clone, Debug)]
enum What {
    User,
    Agent,
    StateOnly,
    Call {
        long_running: bool,
    },
    /// A response to one of the last calls.
    Response(usize),
}

fn step() -> impl Strategy<Value = SessionStep> {
    let what = prop_oneof![
        3 => Just(What::User),
        3 => Just(What::Agent),
        1 => Just(What::StateOnly),
        2 => any::<bool>().prop_map(|long_running| What::Call { long_running }),
        3 => (0..3_usize).prop_map(What::Response),
    ];
    let tick = prop_oneof![6 => Just(1_i64), 2 => Just(0), 1 => -4..5_i64];
    let branch = prop_oneof![4 => Just(None), 1 => Just(Some("both.a")), 1 => Just(Some("both.b"))];
    prop_oneof![
        12 => (tick, branch, what).prop_map(|(tick, branch, what)| SessionStep::Append(tick, branch, what)),
        1 => (0..6_usize).prop_map(SessionStep::Rewind),
        2 => (0..5_usize, any::<bool>())
            .prop_map(|(retention, before_answer)| SessionStep::ByTokens { retention, before_answer }),
        1 => (1..4_usize, 0..3_usize).prop_map(|(interval, overlap)| SessionStep::ByInvocations(interval, overlap)),
    ]
}

/// Generates steps as `step` does, and sometimes a summary by another program.
fn shared_step() -> impl Strategy<Value = SessionStep> {
    prop_oneof![9 => step(), 1 => (0..30_usize, 0..8_usize).prop_map(|(from, more)| SessionStep::ByAnother(from, more))]
}

/// A session, and the ids of the events that went into each summary, directly or through other summaries.
#[derive(Default)]
struct CompactionModel {
    events: Vec<Arc<Event>>,
    clock: i64,
    calls: Vec<String>,
    summed_up: HashMap<String, HashSet<String>>,
}

impl CompactionModel {
    fn run(steps: Vec<SessionStep>) -> Self {
        let mut model = Self { clock: 1000, ..Self::default() };
        for step in steps {
            match step {
                SessionStep::Append(ticks, branch, what) => model.append(ticks, branch, &what),
                SessionStep::Rewind(back) => model.rewind(back),
                SessionStep::ByTokens { retention, before_answer } => {
                    let plan = model.log(|log| log.all_but(retention, before_answer));
                    model.sum_up(plan);
                }
                SessionStep::ByInvocations(interval, overlap) => {
                    let plan = model.log(|log| log.invocations(InvocationRule { interval, overlap }));
                    model.sum_up(plan);
                }
                SessionStep::ByAnother(from, more) => {
                    let plan = model.in_a_row(from, more);
                    model.sum_up(plan);
                }
            }
        }
        model
    }

    fn log<T>(&self, plan: impl FnOnce(SessionLog<'_, '_>) -> T) -> T {
        let live = self.live();
        let begun = self.events.first().and_then(|event| event.timestamp).unwrap_or_default();
        plan(SessionLog::new(&live.iter().collect::<Vec<_>>(), u64::MAX, begun))
    }

    /// Returns a plan for some consecutive events, if no other event has the time of the first or the last.
    fn in_a_row(&self, from: usize, more: usize) -> Option<SummaryPlan> {
        let originals: Vec<_> = self.live().into_iter().filter(|event| event.actions.compaction.is_none()).collect();
        let events = originals.get(from..=from + more)?.to_vec();
        let [first, .., last] = &events[..] else {
            return None;
        };
        let is_named_once =
            |one: &Event| originals.iter().filter(|event| event.timestamp == one.timestamp).count() == 1;
        let (start, end) = (first.timestamp?, last.timestamp?);
        (is_named_once(first) && is_named_once(last)).then_some(SummaryPlan { events, start, end })
    }

    fn push(&mut self, event: Event) {
        let seq = self.events.len() as u64 + 1;
        let event = Event { seq: Some(seq), id: format!("event-{seq}"), ..event };
        self.events.push(Arc::new(event.with_timestamp(self.clock as f64)));
    }

    fn append(&mut self, ticks: i64, branch: Option<&str>, what: &What) {
        self.clock += ticks;
        let users = self.events.iter().filter(|event| event.author == "user" && event.content.is_some()).count();
        let run = format!("run-{}", users + usize::from(matches!(what, What::User)));
        let (author, content, mut later) = match what {
            What::User => ("user", Some(Content::user("Hello")), None),
            What::Agent => ("agent", Some(Content::model("Hi, and a longer answer than that.")), None),
            What::StateOnly => ("agent", None, None),
            What::Call { long_running } => {
                let id = format!("call-{}", self.calls.len());
                let mut part = Part::function_call("tool", Map::new());
                part.function_call.as_mut().unwrap().id = Some(id.clone());
                self.calls.push(id.clone());
                ("agent", Some(Content::new("model", vec![part])), long_running.then_some(id))
            }
            What::Response(back) => {
                let Some(id) = self.calls.iter().rev().nth(*back).cloned() else {
                    return;
                };
                let response = FunctionResponse { id: Some(id), name: Some("tool".into()), ..Default::default() };
                let part = Part { function_response: Some(response.into()), ..Part::default() };
                ("agent", Some(Content::new("user", vec![part])), None)
            }
        };
        let event = Event { content, ..Event::new(author).with_invocation_id(run) };
        let long_running_tool_ids = later.take().map(|id| std::iter::once(id).collect());
        self.push(Event { long_running_tool_ids, branch: branch.map(str::to_owned), ..event });
    }

    fn rewind(&mut self, back: usize) {
        let runs: Vec<_> = self.live().iter().map(|event| event.invocation_id.clone()).collect();
        let Some(run) = runs.into_iter().rev().filter(|run| run.starts_with("run-")).nth(back) else {
            return;
        };
        let actions = EventActions { rewind_before_invocation_id: Some(run), ..EventActions::default() };
        self.push(Event { actions, ..Event::new("user").with_invocation_id("rewind") });
    }

    fn sum_up(&mut self, plan: Option<SummaryPlan>) {
        let Some(SummaryPlan { events, start, end }) = plan else {
            return;
        };
        let name = format!("summary-{}", self.summed_up.len());
        let mut ids = HashSet::new();
        for event in &events {
            match self.summed_up.get(&event.content.as_ref().map(Content::text).unwrap_or_default()) {
                Some(earlier) => ids.extend(earlier.iter().cloned()),
                None => assert!(ids.insert(event.id.clone()), "{} goes in twice", event.id),
            }
        }
        self.summed_up.insert(name.clone(), ids);
        let compaction = EventCompaction::new(start, end, Content::model(name));
        let actions = EventActions { compaction: Some(compaction.into()), ..EventActions::default() };
        self.clock += 1;
        self.push(Event { actions, ..Event::new("user").with_invocation_id("summary") });
    }

    /// Returns the events that are not rewound, by the definition of a rewind.
    fn live(&self) -> Vec<Arc<Event>> {
        let mut dead = vec![false; self.events.len()];
        let mut end = self.events.len();
        while let Some(place) = end.checked_sub(1) {
            end = place;
            if let Some(run) = &self.events[place].actions.rewind_before_invocation_id {
                let first = self.events.iter().position(|event| event.invocation_id == *run).unwrap();
                dead[first..=place].fill(true);
                end = first;
            }
        }
        self.events.iter().zip(dead).filter(|(_, dead)| !dead).map(|(event, _)| Arc::clone(event)).collect()
    }

    fn shown(&self, to: Option<&str>) -> Vec<Arc<Event>> {
        let events: Events = self.events.iter().cloned().collect();
        let mut live: Vec<_> = live_backward(&events).collect();
        live.reverse();
        compacted(&live, 0, "agent", |event| is_visible(event, to))
    }
}

fn is_summary(event: &Event) -> bool {
    event.actions.compaction.is_some()
}

fn is_visible(event: &Event, to: Option<&str>) -> bool {
    to.is_none() || event.branch.is_none() || event.branch.as_deref() == to
}

fn calls(event: &Event) -> impl Iterator<Item = &str> {
    event.function_calls().filter_map(|call| call.id.as_deref())
}

fn responses(event: &Event) -> impl Iterator<Item = &str> {
    event.function_responses().filter_map(|response| response.id.as_deref())
}

proptest! {
    /// Every event that is not rewound is either in the request itself or in a summary in the request. Only a call
    /// whose response is in the request may be in both.
    #[test]
    fn no_event_is_lost_that_no_summary_covers(steps in proptest::collection::vec(shared_step(), 1..60)) {
        let model = CompactionModel::run(steps);
        for viewer in [None, Some("both.a")] {
            let shown = model.shown(viewer);
            let (summaries, originals): (Vec<_>, Vec<_>) = shown.iter().partition(|event| is_summary(event));
            let names = summaries.iter().map(|event| event.content.as_ref().unwrap().text());
            let in_summaries: HashSet<_> = names.flat_map(|name| &model.summed_up[&name]).collect();
            let mut ids: Vec<_> = originals.iter().map(|event| &event.id).collect();
            for event in model.live().iter().filter(|event| !is_summary(event) && is_visible(event, viewer)) {
                prop_assert!(ids.contains(&&event.id) || in_summaries.contains(&event.id), "{} is lost", event.id);
            }
            let answered: HashSet<_> = originals.iter().flat_map(|event| responses(event)).collect();
            for event in originals.iter().filter(|event| in_summaries.contains(&event.id)) {
                let of_call = calls(event).chain(responses(event)).any(|id| answered.contains(id));
                prop_assert!(of_call, "{} is there twice", event.id);
            }
            let count = ids.len();
            ids.sort();
            ids.dedup();
            prop_assert_eq!(ids.len(), count, "each event is there once");
        }
    }

    /// A response is never shown without its call, and a call that is still running is never summarized.
    #[test]
    fn calls_and_responses_stay_together(steps in proptest::collection::vec(step(), 1..60)) {
        let model = CompactionModel::run(steps);
        let live = model.live();
        let mut known = HashSet::new();
        let mut made = HashSet::new();
        let made_at: HashMap<_, _> = live.iter().enumerate().flat_map(|(place, event)| calls(event).map(move |id| (id, place))).collect();
        let place_of: HashMap<_, _> = live.iter().enumerate().map(|(place, event)| (&event.id, place)).collect();
        for event in model.shown(None) {
            for id in responses(&event) {
                let made_before = made_at.get(id).is_some_and(|made| made < &place_of[&event.id]);
                prop_assert!(!made_before || known.contains(id), "{} has lost its call {}", event.id, id);
            }
            known.extend(calls(&event).map(str::to_owned));
            made.insert(event.id.clone());
        }
        let answered: HashSet<_> = live.iter().flat_map(|event| responses(event)).collect();
        for event in &live {
            let waits = event.long_running_tool_ids.iter().flatten().any(|id| !answered.contains(id.as_str()));
            prop_assert!(!waits || made.contains(&event.id), "{} waits, and is gone", event.id);
        }
    }
}
