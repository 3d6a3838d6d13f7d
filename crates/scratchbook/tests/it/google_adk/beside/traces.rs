//! The result of a case, in a form in which two sides can be compared.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::cases::runs_agent_beside;

/// The side that a trace belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceSide {
    Ours,
    Theirs,
}

/// A listed difference that is taken out of traces.
pub(super) struct Normalisation {
    /// The difference, as in `docs/adk-compatibility.md`.
    pub(super) what: &'static str,
    /// Removes the difference from the events of a turn, and returns whether it was there.
    apply: fn(&Value, TraceSide, &mut PlayedTurn) -> bool,
}

/// A turn as it was played.
struct PlayedTurn {
    events: Vec<Value>,
    fails: bool,
}

/// All normalisations. Each is needed by some case.
pub(super) const NORMALISATIONS: [Normalisation; 5] = [
    Normalisation {
        what: "the author and the code of the event that tells of a failure, where there is one, and what callbacks wrote \
               before the failure",
        apply: |_, _, turn| {
            turn.fails && drop_events(turn, |event| event.get("error").is_some() && says_nothing(event))
        },
    },
    Normalisation {
        what: "what a long-running tool wrote before it has an answer",
        apply: |_, side, turn| {
            // Nobody else writes such keys.
            side == TraceSide::Ours && drop_events(turn, |event| only_writes(event, "later_"))
        },
    },
    Normalisation {
        what: "`after_agent` callbacks of an agent that hands over, below a root `LlmAgent`",
        // Nobody else writes such keys. Within a workflow agent, google-adk calls these callbacks, too.
        apply: |case, _, turn| {
            case["agent"]["kind"] == "llm" && drop_events(turn, |event| only_writes(event, "after_"))
        },
    },
    Normalisation {
        what: "what a `before_agent` callback answers, of an agent with an `output_key`",
        apply: |_, side, turn| {
            let mut is_met = false;
            for event in turn.events.iter_mut().filter(|_| side == TraceSide::Theirs) {
                let text = event["content"]["parts"][0]["text"].as_str().unwrap_or_default();
                let key = format!("said_{}", event["author"].as_str().unwrap());
                if !text.starts_with("before_agent of") {
                    continue;
                }
                if let Some(actions) = event["actions"].as_object_mut()
                    && let Some(delta) = actions.get_mut("stateDelta").and_then(Value::as_object_mut)
                {
                    is_met |= delta.remove(&key).is_some();
                    if delta.is_empty() {
                        actions.remove("stateDelta");
                    }
                }
            }
            is_met
        },
    },
    Normalisation {
        what: "the branch of agents that follow a parallel agent, below a root `LlmAgent`",
        apply: |case, side, turn| {
            if side == TraceSide::Ours || case["agent"]["kind"] != "llm" {
                return false;
            }
            let (mut branches, mut is_met) = (BTreeMap::new(), false);
            find_branches(&case["agent"], None, &mut branches);
            for event in &mut turn.events {
                let branch = branches.get(event["author"].as_str().unwrap()).cloned().flatten().map(Value::String);
                if event.get("branch") != branch.as_ref() {
                    is_met = true;
                    let event = event.as_object_mut().unwrap();
                    event.remove("branch");
                    event.extend(branch.map(|branch| ("branch".to_owned(), branch)));
                }
            }
            is_met
        },
    },
];

/// The branch of each agent by its place in the tree.
fn find_branches(agent: &Value, branch: Option<&str>, found: &mut BTreeMap<String, Option<String>>) {
    let name = agent["name"].as_str().unwrap();
    found.insert(name.to_owned(), branch.map(str::to_owned));
    for below in agent["sub_agents"].as_array().into_iter().flatten() {
        let own = (agent["kind"] == "parallel").then(|| {
            let outer = branch.map(|outer| format!("{outer}.")).unwrap_or_default();
            format!("{outer}{name}.{}", below["name"].as_str().unwrap())
        });
        find_branches(below, own.as_deref().or(branch), found);
    }
}

/// Returns whether an event only writes keys with this prefix, apart from the keys that plugins write to every event.
fn only_writes(event: &Value, prefix: &str) -> bool {
    let delta = event["actions"]["stateDelta"].as_object();
    let (own, other): (Vec<_>, Vec<_>) =
        delta.into_iter().flatten().map(|(key, _)| key.as_str()).partition(|key| key.starts_with(prefix));
    says_nothing(event) && !own.is_empty() && other.iter().all(|key| key.ends_with("_on_event"))
}

fn says_nothing(event: &Value) -> bool {
    event.get("content").is_none()
}

fn drop_events(turn: &mut PlayedTurn, is_dropped: impl Fn(&Value) -> bool) -> bool {
    let count = turn.events.len();
    turn.events.retain(|event| !is_dropped(event));
    turn.events.len() < count
}

pub(super) struct Trace {
    /// The events by branch, because events of different branches have no order; and the state at the end.
    pub(super) value: Value,
    pub(super) events: u64,
    pub(super) met: [bool; NORMALISATIONS.len()],
}

pub(super) fn trace(side: TraceSide, case: &Value, played: &Value) -> Trace {
    let mut met = [false; NORMALISATIONS.len()];
    let Some(turns) = played["turns"].as_array() else {
        return Trace { value: json!("refused"), events: 0, met };
    };
    let events_of = |turn: &Value| turn["events"].as_array().unwrap().clone();
    let raw: Vec<Value> = turns.iter().flat_map(events_of).collect();
    assert_eq!(state(case, &raw), played["state"], "{side:?}: the state is what the events lead to: {case}");
    let ids = ids(&raw);
    let (mut branches, mut kept) = (BTreeMap::<String, Vec<Value>>::new(), Vec::new());
    for (number, turn) in turns.iter().enumerate() {
        let events = events_of(turn).iter().map(|event| plain(event, number, &ids)).collect();
        let mut turn = PlayedTurn { events, fails: turn["fails"] == true };
        for (met, normalisation) in met.iter_mut().zip(&NORMALISATIONS) {
            *met |= (normalisation.apply)(case, side, &mut turn);
        }
        for event in turn.events {
            kept.push(event.clone());
            let branch = event.get("branch").and_then(Value::as_str).unwrap_or_default().to_owned();
            branches.entry(branch).or_default().push(event);
        }
    }
    let fails: Vec<_> = turns.iter().map(|turn| turn["fails"].clone()).collect();
    let mut value = json!({"events": branches, "fails": fails, "state": state(case, &kept)});
    // If agents run in parallel, also beside an agent tool, the order of their calls depends on chance. Hand-overs,
    // failures and calls that are answered later have listed differences.
    let text = case.to_string();
    let is_told = !["\"parallel\"", "agent_name", "later_"].iter().any(|word| text.contains(word));
    let is_told = is_told && !runs_agent_beside(case);
    if is_told && turns.iter().all(|turn| turn["fails"] == false) {
        value["notes"] = played["notes"].clone();
    }
    Trace { value, events: kept.len() as u64, met }
}

/// The state that a case begins with, and the changes of events in their order.
fn state(case: &Value, events: &[Value]) -> Value {
    let mut state = case["state"].as_object().cloned().unwrap_or_default();
    for event in events {
        let delta = event["actions"]["stateDelta"].as_object().into_iter().flatten();
        state.extend(delta.map(|(key, value)| (key.clone(), value.clone())));
    }
    Value::Object(state)
}

/// Returns a name for the id of each call, from its agent and its place among that agent's calls.
fn ids(events: &[Value]) -> BTreeMap<String, String> {
    let (mut ids, mut counts) = (BTreeMap::new(), BTreeMap::<&str, u64>::new());
    for event in events {
        let author = event["author"].as_str().unwrap_or_default();
        let count = counts.entry(author).or_default();
        for part in event["content"]["parts"].as_array().into_iter().flatten() {
            if let Some(id) = part["functionCall"]["id"].as_str() {
                *count += 1;
                ids.entry(id.to_owned()).or_insert(format!("call {count} of {author}"));
            }
        }
    }
    ids
}

/// Returns the part of an event that is compared.
fn plain(event: &Value, turn: usize, ids: &BTreeMap<String, String>) -> Value {
    let mut plain = json!({"turn": turn, "actions": event["actions"]});
    for field in ["author", "branch", "content", "partial", "longRunningToolIds", "finishReason", "customMetadata"] {
        if let Some(value) = event.get(field).filter(|value| !value.is_null()) {
            plain[field] = named(value, ids);
        }
    }
    if let Some(ids) = plain.get_mut("longRunningToolIds").and_then(Value::as_array_mut) {
        ids.sort_by_key(ToString::to_string);
    }
    plain["path"] = event["nodeInfo"].get("path").cloned().unwrap_or_else(|| json!(""));
    if let Some(code) = event.get("errorCode").and_then(Value::as_str) {
        plain["error"] = json!(if code == "MODEL_RETURNED_NO_CONTENT" { code } else { "failed" });
    }
    // An empty field is treated as a missing field.
    if let Some(actions) = plain["actions"].as_object_mut() {
        actions.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
    }
    plain
}

/// The value with names in place of ids.
fn named(value: &Value, ids: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => json!(ids.get(text).unwrap_or(text)),
        Value::Array(items) => items.iter().map(|item| named(item, ids)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), named(value, ids))).collect(),
        other => other.clone(),
    }
}
