//! The algebra of operations, and what agents see of their operations before the commit.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use proptest::prelude::*;
use scratchbook::agent::{FunctionTool, RunConfig, ToolContext};
use scratchbook::environment::Deadline;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::state::{Change, Operation, State, fold};
use scratchbook::{
    AppendOptions, Error, ErrorKind, Event, LlmAgent, RunRequest, Runner, SessionServiceExt, StateDelta, StateMap,
    connect,
};
use serde_json::{Map, Value, json};

use crate::generate::{Deeds, cases, deeds, delta_of, done};
use crate::runner::{run, runner, stored};

/// The state after a delta.
fn after(state: &Map<String, Value>, delta: &StateDelta) -> Result<Map<String, Value>, Error> {
    let resolved = delta.resolve(|key| state.get(key))?;
    assert!(!resolved.has_operations());
    Ok(fold(state.clone(), [&resolved]))
}

fn state_of(deeds: &Deeds) -> Map<String, Value> {
    let mut state = Map::new();
    for (key, deed) in deeds {
        if let crate::generate::Deed::Set(value) = deed {
            state.insert(key.clone(), value.clone());
        }
    }
    state
}

/// Returns the values as text, by key, so that `0.0` and `-0.0` differ.
fn text(state: &Map<String, Value>) -> BTreeMap<String, String> {
    state.iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
}

/// Returns a value as text with its members by name: a member that is removed and set again may stand elsewhere.
fn sorted(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn one_delta_after_another_is_both_in_turn(found in deeds(), first in deeds(), second in deeds()) {
        let found = state_of(&found);
        let (Ok(first), Ok(second)) = (delta_of(&first), delta_of(&second)) else { return Ok(()) };
        let in_turn = after(&found, &first).and_then(|state| after(&state, &second));
        let mut both = first.clone();
        match both.merge(second) {
            // If merging the two is refused, applying them in turn is refused as well, for any stored state.
            Err(_) => {
                prop_assert!(in_turn.is_err());
                prop_assert_eq!(both, first);
            }
            Ok(()) => match (after(&found, &both), in_turn) {
                (Ok(both), Ok(in_turn)) => prop_assert_eq!(text(&both), text(&in_turn)),
                (both, in_turn) => prop_assert!(both.is_err() && in_turn.is_err(), "{:?} {:?}", both, in_turn),
            },
        }
    }

    #[test]
    fn a_delta_comes_to_what_its_deeds_come_to_one_by_one(found in deeds(), deeds in deeds()) {
        let found = state_of(&found);
        let naive = done(&deeds, |key| found.get(key).cloned());
        let Ok(delta) = delta_of(&deeds) else {
            prop_assert!(naive.is_err());
            return Ok(());
        };
        match (delta.resolve(|key| found.get(key)), naive) {
            (Err(error), Err(kind)) => prop_assert_eq!(error.kind(), kind),
            (Ok(resolved), Ok(keys)) => {
                let written = keys.into_iter().filter(|(_, written, _)| *written);
                let expected: Vec<_> = written.map(|(key, _, value)| (key, value.map(|v| sorted(&v)))).collect();
                let resolved = resolved.iter().map(|(key, c)| (key.to_owned(), c.value().map(sorted)));
                prop_assert_eq!(resolved.collect::<Vec<_>>(), expected);
            }
            (found, naive) => prop_assert!(false, "{:?} {:?}", found, naive),
        }
    }

    #[test]
    fn an_overlay_shows_what_its_delta_comes_to(found in deeds(), steps in prop::collection::vec(deeds(), 0..4)) {
        let found = state_of(&found);
        let mut state = State::new(StateMap::from(found.clone()), StateDelta::new());
        let mut seen = found.clone();
        for deeds in steps {
            let Ok(delta) = delta_of(&deeds) else { continue };
            let before = state.clone();
            match (after(&seen, &delta), state.update(delta)) {
                (Ok(next), Ok(())) => seen = next,
                (Err(_), Err(_)) => prop_assert_eq!(&state, &before),
                (expected, found) => prop_assert!(false, "{:?} {:?}", expected, found),
            }
            prop_assert_eq!(text(&state.to_map()), text(&seen));
            for (key, value) in &seen {
                prop_assert_eq!(state.get(key).map(sorted), Some(sorted(value)));
            }
            let again = State::new(StateMap::from(found.clone()), state.delta().clone());
            prop_assert_eq!(text(&again.to_map()), text(&seen));
        }
        state.commit();
        prop_assert_eq!(text(&state.value().to_map()), text(&seen));
    }
}

#[test]
fn what_is_known_is_worked_out_at_once() {
    let mut delta = StateDelta::new();
    delta.set("n", 1).unwrap();
    delta.increment("n", 1).unwrap();
    delta.expect("n", 2).unwrap();
    assert_eq!(delta.get("n"), Some(&Change::Set(json!(2))));
    assert_eq!(delta.append("n", 1).unwrap_err().kind(), ErrorKind::FailedPrecondition);
    assert_eq!(delta.expect_absent("n").unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(delta.get("n"), Some(&Change::Set(json!(2))), "what is refused changes nothing");
    delta.expect("m", 1).unwrap();
    delta.set("m", 2).unwrap();
    delta.increment("m", 1).unwrap();
    let operations = vec![Operation::Expect(json!(1)), Operation::Set(json!(3))];
    assert_eq!(delta.get("m"), Some(&Change::Apply(operations)), "a guard stays");
    delta.set_if_absent("k", 1).unwrap();
    delta.set("k", 2).unwrap();
    assert_eq!(delta.get("k"), Some(&Change::Set(json!(2))), "what cannot refuse is forgotten");
}

/// Returns the names of all kinds of operations, as the enum tells them.
fn kinds() -> Vec<String> {
    let error = serde_json::from_str::<Operation>("\"?\"").unwrap_err().to_string();
    let (_, names) = error.split_once("expected one of ").unwrap();
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the processor time of this thread, in seconds. Without a Linux, it is the time of the clock.
fn processor_seconds(begun: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().collect::<Vec<_>>());
    let ticks = |fields: &[&str]| Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?);
    fields.and_then(|fields| ticks(&fields)).map_or(begun.elapsed().as_secs_f64(), |ticks| ticks / 100.0)
}

/// Without optimizations, linear work takes less than three seconds here, and quadratic work takes minutes.
#[test]
fn a_hundred_thousand_operations_of_every_kind_on_one_key_take_linear_time() {
    const MANY: usize = 100_000;
    let members: Map<_, _> = (0..MANY).map(|n| (format!("m{n}"), json!(n))).collect();
    let (members, list) = (Value::Object(members), json!(vec![0; MANY]));
    for kind in kinds() {
        let (found, operation): (&Value, Box<dyn Fn(usize) -> Operation>) = match kind.as_str() {
            "set" => (&members, Box::new(|n| Operation::Set(json!(n)))),
            "remove" => (&members, Box::new(|_| Operation::Remove)),
            "increment" => (&Value::Null, Box::new(|_| Operation::Increment(1.into()))),
            "append" => (&list, Box::new(|n| Operation::Append(json!(n)))),
            // Half of the patches remove a member, and the others set it again.
            "mergePatch" => (
                &members,
                Box::new(|n| {
                    let member = format!("m{}", n / 2);
                    Operation::MergePatch(if n % 2 == 0 { json!({member: null}) } else { json!({member: n}) })
                }),
            ),
            "setIfAbsent" => (&members, Box::new(|n| Operation::SetIfAbsent(json!(n)))),
            "expect" => (&list, Box::new(|_| Operation::Expect(json!(1)))),
            "expectAbsent" => (&Value::Null, Box::new(|_| Operation::ExpectAbsent)),
            _ => panic!("the kind '{kind}' of operations has no case here"),
        };
        let found = (!found.is_null()).then_some(found);
        let begun = Instant::now();
        let before = processor_seconds(begun);
        // One after the other to what is found in the commit. The first guard that does not hold ends the work.
        let mut delta = StateDelta::new();
        (0..MANY).for_each(|n| delta.apply("k", operation(n)).unwrap());
        let _ = delta.resolve(|_| found);
        // Together to a value that the delta itself sets.
        let mut delta = StateDelta::new();
        delta.set("k", found).unwrap();
        let _ = delta.insert("k".to_owned(), Change::Apply((0..MANY).map(operation).collect()));
        let seconds = processor_seconds(begun) - before;
        assert!(seconds < 20.0, "{kind}: {seconds} s");
    }
}

#[tokio::test]
async fn operations_end_at_the_deadline_of_their_call_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}", folder.path().join("deadline.db").display());
    for uri in ["memory:", &file] {
        let store = connect(uri).await.unwrap();
        let session = store.sessions.create_session("app", "alice", Default::default()).await.unwrap();
        let event = |operations: usize| {
            let mut delta = StateDelta::new();
            delta.insert("n".to_owned(), Change::Apply(vec![Operation::Increment(1.into()); operations])).unwrap();
            Event::new("agent").with_state_delta(delta)
        };
        let append = |event| store.sessions.append(session.key(), event, AppendOptions::default());
        let late = Deadline::after(Duration::ZERO).scope(append(event(20_000))).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Unavailable, "{uri}: {late}");
        let alice = session.key().user();
        let put = store.sessions.put_state(&alice, event(20_000).actions.state_delta, "admin".into());
        assert_eq!(Deadline::after(Duration::ZERO).scope(put).await.unwrap_err().kind(), ErrorKind::Unavailable);
        append(event(3)).await.unwrap();
        let now = store.sessions.get_session(session.key(), &Default::default()).await.unwrap().unwrap();
        assert_eq!((json!(now.state()), now.events().len()), (json!({"n": 3}), 1), "{uri}");
    }
}

#[test]
fn operations_have_no_json_and_say_so() {
    let event = Event::new("agent").with_state_delta(StateDelta::new().with_increment("n", 1).unwrap());
    let error = serde_json::to_string(&event).unwrap_err();
    assert!(error.to_string().contains("'n'") && error.to_string().contains("append"), "{error}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct CountArgs {
    by: i64,
    #[serde(default)]
    fail: Option<String>,
}

/// A tool that counts, and returns what it sees afterwards.
fn count_tool() -> FunctionTool {
    FunctionTool::new("count", "Counts.", |args: CountArgs, context: ToolContext| async move {
        let state = context.state();
        state.increment("user:n", args.by)?;
        state.append("list", args.by)?;
        state.increment("temp:n", 1)?;
        match args.fail.as_deref() {
            Some("type") => state.increment("list", 1)?,
            Some("guard") => state.expect("user:n", "other")?,
            _ => {}
        }
        Ok(json!({"n": state.get("user:n"), "list": state.get("list")}))
    })
}

#[tokio::test]
async fn operations_of_callbacks_and_tools_are_seen_through_the_layers_and_committed_as_values() {
    let calls = LlmResponse::calls([
        ("count", json!({"by": 1})),
        ("count", json!({"by": 10})),
        ("count", json!({"by": 100, "fail": "type"})),
        ("count", json!({"by": 1000, "fail": "guard"})),
    ]);
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new([calls, "Done.".into()]))
        .instruction("{user:n} of {list}")
        .before_agent(|context| async move {
            context.state().set("list", json!([0]))?;
            context.state().increment("user:n", 5)?;
            context.state().set_if_absent("user:first", 1)?;
            context.state().merge_patch("profile", json!({"a": 1}))?;
            context.state().expect_absent("closed")?;
            assert_eq!(context.state().get("user:n"), Some(json!(5)));
            assert_eq!(context.state().to_map()["profile"], json!({"a": 1}));
            Ok(None)
        })
        .before_model(|context, request| async move {
            context.state().increment("user:n", 2)?;
            context.state().append("list", "model")?;
            Ok(std::ops::ControlFlow::Continue(request))
        })
        .tool(count_tool())
        .build()
        .unwrap();
    let runner = runner(agent);
    let events = run(&runner, "count").await.unwrap();
    assert!(events.iter().all(|event| serde_json::to_string(event).is_ok()));
    let answers: Vec<_> = events.iter().flat_map(Event::function_responses).map(|a| json!(a.response)).collect();
    // Each call sees its own writes. The calls run one after the other here, so it also sees those of the earlier
    // calls.
    assert_eq!(answers[0], json!({"n": 8, "list": [0, "model", 1]}));
    assert_eq!(answers[1], json!({"n": 18, "list": [0, "model", 1, 10]}));
    assert!(answers[2]["error"].as_str().unwrap().contains("'list'"), "{answers:?}");
    assert!(answers[3]["error"].as_str().unwrap().contains("'user:n'"), "{answers:?}");
    let session = stored(&runner).await;
    let expected = json!({"list": [0, "model", 1, 10, "model"], "profile": {"a": 1}, "user:n": 20, "user:first": 1});
    assert_eq!(json!(session.state()), expected);
    let log = session.events().iter().map(|event| &event.actions.state_delta);
    assert_eq!(json!(fold(Map::new(), log))["user:n"], 20, "the log holds values");
}

#[tokio::test]
async fn increments_of_a_run_count_beside_those_of_others() {
    let store = connect("memory:").await.unwrap();
    let sessions = store.sessions.clone();
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(["Done."]))
        .after_agent(move |context| {
            let sessions = sessions.clone();
            async move {
                context.state().increment("user:n", 1)?;
                context.state().increment("app:n", 1)?;
                let mut other = sessions.create_session("app", "alice", Default::default()).await?;
                let delta = StateDelta::new().with_increment("user:n", 10)?.with("app:n", 100)?;
                sessions.append_event(&mut other, Event::new("other").with_state_delta(delta)).await?;
                assert_eq!(context.state().get("user:n"), Some(json!(2)), "as this run sees it: its message counted 1");
                Ok(None)
            }
        })
        .build()
        .unwrap();
    let runner = Runner::builder("app", agent, store.sessions.clone()).auto_create_session().build().unwrap();
    let delta = StateDelta::new().with_increment("user:n", 1).unwrap().with_increment("temp:n", 3).unwrap();
    let request = RunRequest::message("Hello").with_state_delta(delta);
    let events: Vec<_> = runner.run("alice", "s", request).try_collect().await.unwrap();
    let last = &events.last().unwrap().actions.state_delta;
    assert_eq!(*last, StateDelta::new().with("user:n", 12).unwrap().with("app:n", 101).unwrap());
    assert_eq!(json!(store.sessions.get_user_state("app", "alice").await.unwrap()), json!({"n": 12}));
}

#[tokio::test]
async fn a_guard_of_a_run_that_does_not_hold_any_more_ends_it_and_leaves_nothing() {
    let store = connect("memory:").await.unwrap();
    let sessions = store.sessions.clone();
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(["Done."]))
        .before_agent(move |context| {
            let sessions = sessions.clone();
            async move {
                context.state().expect_absent("app:closed")?;
                context.state().increment("user:n", 1)?;
                let app = scratchbook::session::StateOwner::app("app")?;
                sessions.put_state(&app, StateDelta::new().with("closed", true)?, "admin".into()).await?;
                Ok(None)
            }
        })
        .build()
        .unwrap();
    let runner = Runner::builder("app", agent, store.sessions.clone()).auto_create_session().build().unwrap();
    let error = runner.run("alice", "s", "Hello").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!((error.kind(), error.conflicts()[0].key.as_str()), (ErrorKind::Conflict, "app:closed"), "{error}");
    assert_eq!(json!(store.sessions.get_user_state("app", "alice").await.unwrap()), json!({}));
}

#[tokio::test]
async fn pieces_of_a_streamed_answer_show_values() {
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(["Done at once."]))
        .before_model(|context, request| async move {
            context.state().increment("user:n", 1)?;
            context.state().expect_absent("other")?;
            Ok(std::ops::ControlFlow::Continue(request))
        })
        .build()
        .unwrap();
    let runner = runner(agent);
    let config = RunConfig::default().with_streaming();
    let events = run(&runner, RunRequest::message("Hello").with_config(config)).await.unwrap();
    assert!(events.len() > 2 && events[0].is_partial());
    let shown = StateDelta::new().with("user:n", 1).unwrap();
    assert!(events.iter().all(|event| event.actions.state_delta == shown), "{events:?}");
}
