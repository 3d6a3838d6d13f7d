//! The differences from google-adk, each with a case that shows it and with the results of both sides.

use serde_json::Value;

use super::lines::lines;
use super::{play, play_theirs};

/// A difference in `docs/adk-compatibility.md`, and a case with its results, one line per event.
struct Stated {
    /// The beginning of the difference's row in the document.
    row: &'static str,
    case: &'static str,
    theirs: &'static [&'static str],
    ours: &'static [&'static str],
}

const STATED: [Stated; 29] = [
    Stated {
        row: "several callbacks after a model or after a tool",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"text": "hi"}], "callbacks": {
            "after_model": [{"set": {"a": 1}, "give": "first"}, {"set": {"b": 2}, "give": "second"}]}}}"#,
        theirs: &[r#"root: first {"a":1}"#],
        ours: &[r#"root: second {"a":1,"b":2}"#],
    },
    Stated {
        row: "several callbacks after a model or after a tool",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["act", {}]]}], "callbacks": {
            "after_tool": [{"set": {"a": 1}, "give": "first"}, {"set": {"b": 2}, "give": "second"}]}}}"#,
        theirs: &["root: act?", r#"root: act={"result":"first"} {"a":1}"#, "root: root is done"],
        ours: &["root: act?", r#"root: act={"result":"second"} {"a":1,"b":2}"#, "root: root is done"],
    },
    Stated {
        row: "the answer of a `before_agent` callback, of an agent with an `output_key`",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [], "output_key": "said",
            "callbacks": {"before_agent": [{"give": "closed"}]}}}"#,
        theirs: &[r#"root: closed {"said":"closed"}"#],
        ours: &["root: closed"],
    },
    Stated {
        row: "writes of a tool that fails, if an `on_tool_error` callback answers",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["act", {"set": {"a": 1}, "fails": "no"}]]}],
            "callbacks": {"before_tool": [{"set": {"b": 2}}], "on_tool_error": [{"set": {"c": 3}, "give": "never mind"}]}}}"#,
        theirs: &["root: act?", r#"root: act={"result":"never mind"} {"b":2,"a":1,"c":3}"#, "root: root is done"],
        ours: &["root: act?", r#"root: act={"result":"never mind"} {"c":3}"#, "root: root is done"],
    },
    Stated {
        row: "an agent that is a tool and fails",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["helper", {"request": "help"}]]}],
            "agent_tools": [{"agent": {"kind": "llm", "name": "helper",
                "script": [{"calls": [["act", {"set": {"a": 1}}]]}, {"fails": "no"}]}}]}}"#,
        theirs: &["root: helper?", "root: failed", "fails"],
        ours: &["root: helper?", r#"root: helper={"error":"the model 'scripted': no"}"#, "root: root is done"],
    },
    Stated {
        row: "an agent that is a tool and fails",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["helper", {"request": "help"}]]}],
            "callbacks": {"on_tool_error": [{"give": "nobody helps"}]},
            "agent_tools": [{"agent": {"kind": "llm", "name": "helper",
                "script": [{"calls": [["act", {"set": {"a": 1}}]]}, {"fails": "no"}]}}]}}"#,
        theirs: &["root: helper?", r#"root: helper={"result":"nobody helps"} {"a":1}"#, "root: root is done"],
        ours: &["root: helper?", r#"root: helper={"result":"nobody helps"}"#, "root: root is done"],
    },
    Stated {
        row: "a callback that only hands over, before or after an agent's turn",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [], "callbacks": {"before_agent": [{"transfer": "sub"}]},
            "sub_agents": [{"kind": "llm", "name": "sub", "script": []}]}}"#,
        theirs: &["root: root is done"],
        ours: &["root: -> sub", "sub: sub is done"],
    },
    Stated {
        row: "a model callback that hands over, beside calls in the model's answer",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["act", {}]]}],
            "callbacks": {"after_model": [{"transfer": "sub"}]},
            "sub_agents": [{"kind": "llm", "name": "sub", "script": []}]}}"#,
        theirs: &["root: act? -> sub", "sub: sub is done"],
        ours: &["root: act? -> sub", r#"root: act={"done":true}"#, "sub: sub is done"],
    },
    Stated {
        row: "writes of callbacks before a failure",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"fails": "no"}],
            "callbacks": {"before_model": [{"set": {"first": 1}}]}}}"#,
        theirs: &["root: failed", "fails"],
        ours: &[r#"root: failed {"first":1}"#, "fails"],
    },
    Stated {
        row: "writes of callbacks before a failure",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [],
            "callbacks": {"before_agent": [{"set": {"first": 1}}, {"fails": "no"}]}}}"#,
        theirs: &["root: failed", "fails"],
        ours: &[r#"root: failed {"first":1}"#, "fails"],
    },
    Stated {
        row: "a `before_agent` or `after_agent` callback that only escalates",
        case: r#"{"agent": {"kind": "loop", "name": "loop", "max_iterations": 3, "sub_agents": [
            {"kind": "llm", "name": "a", "script": [], "callbacks": {"before_agent": [{"escalate": true}]}}]}}"#,
        theirs: &["a: a is done", "a: a is done", "a: a is done"],
        ours: &["a: escalates", "a: a is done"],
    },
    Stated {
        row: "a `before_agent` or `after_agent` callback that only escalates",
        case: r#"{"agent": {"kind": "loop", "name": "loop", "max_iterations": 3, "sub_agents": [
            {"kind": "llm", "name": "a", "script": [], "callbacks": {"after_agent": [{"escalate": true}]}}]}}"#,
        theirs: &["a: a is done", "a: a is done", "a: a is done"],
        ours: &["a: a is done", "a: escalates"],
    },
    Stated {
        row: "`after_agent` callbacks of an agent that transfers to another, below a root `LlmAgent`",
        case: r#"{"agent": {"kind": "llm", "name": "root",
            "script": [{"calls": [["transfer_to_agent", {"agent_name": "sub"}]]}],
            "callbacks": {"after_agent": [{"set": {"after": 1}}]},
            "sub_agents": [{"kind": "llm", "name": "sub", "script": []}]}}"#,
        theirs: &["root: transfer_to_agent?", r#"root: transfer_to_agent={"result":null} -> sub"#, "sub: sub is done"],
        ours: &[
            "root: transfer_to_agent?",
            r#"root: transfer_to_agent={"result":null} -> sub"#,
            "sub: sub is done",
            r#"root: {"after":1}"#,
        ],
    },
    Stated {
        row: "a hand-over after a long-running call, or after a request for confirmation, below a root `LlmAgent`",
        case: r#"{"agent": {"kind": "llm", "name": "root",
            "script": [{"calls": [["later", {}], ["transfer_to_agent", {"agent_name": "sub"}]]}],
            "sub_agents": [{"kind": "llm", "name": "sub", "script": []}]}}"#,
        theirs: &["root: later? transfer_to_agent?", r#"root: transfer_to_agent={"result":null} -> sub"#],
        ours: &[
            "root: later? transfer_to_agent?",
            r#"root: transfer_to_agent={"result":null} -> sub"#,
            "sub: sub is done",
        ],
    },
    Stated {
        row: "a hand-over after a long-running call, or after a request for confirmation, below a root `LlmAgent`",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["act", {"ask": true}]]},
                {"calls": [["transfer_to_agent", {"agent_name": "sub"}]]}],
            "sub_agents": [{"kind": "llm", "name": "sub", "script": []}]}}"#,
        theirs: &[
            "root: act?",
            "root: adk_request_confirmation?",
            r#"root: act={"done":true}"#,
            "root: transfer_to_agent?",
            r#"root: transfer_to_agent={"result":null} -> sub"#,
        ],
        ours: &[
            "root: act?",
            "root: adk_request_confirmation?",
            r#"root: act={"done":true}"#,
            "root: transfer_to_agent?",
            r#"root: transfer_to_agent={"result":null} -> sub"#,
            "sub: sub is done",
        ],
    },
    Stated {
        row: "a confirmation beside a call that hands over",
        case: r#"{"agent": {"kind": "llm", "name": "root",
            "script": [{"calls": [["act", {"ask": true}], ["transfer_to_agent", {"agent_name": "sub"}]]}],
            "sub_agents": [{"kind": "llm", "name": "sub", "script": []}]}}"#,
        theirs: &[
            "root: act? transfer_to_agent?",
            r#"root: act={"done":true} transfer_to_agent={"result":null} -> sub"#,
            "sub: sub is done",
        ],
        ours: &[
            "root: act? transfer_to_agent?",
            r#"root: act={"done":true} transfer_to_agent={"result":null} -> sub"#,
            "root: adk_request_confirmation?",
            "sub: sub is done",
        ],
    },
    Stated {
        row: "an agent in a workflow agent that has transferred to another agent, if the last event afterwards is not a final response",
        case: r#"{"agent": {"kind": "sequential", "name": "top", "sub_agents": [{"kind": "llm", "name": "a",
            "script": [{"calls": [["transfer_to_agent", {"agent_name": "par"}]]}],
            "sub_agents": [{"kind": "parallel", "name": "par", "sub_agents": [
                {"kind": "llm", "name": "b", "script": [{"calls": [["act", {"escalate": true}]]}]}]}]}]}}"#,
        theirs: &[
            "a: transfer_to_agent?",
            r#"a: transfer_to_agent={"result":null} -> par"#,
            "b on par.b: act?",
            r#"b on par.b: act={"done":true} escalates"#,
            "a: a is done",
        ],
        ours: &[
            "a: transfer_to_agent?",
            r#"a: transfer_to_agent={"result":null} -> par"#,
            "b on par.b: act?",
            r#"b on par.b: act={"done":true} escalates"#,
        ],
    },
    Stated {
        row: "an empty model answer without a finish reason",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"empty": null}],
            "callbacks": {"before_model": [{"set": {"a": 1}}]}}}"#,
        theirs: &[],
        ours: &[r#"root: {"a":1}"#],
    },
    Stated {
        row: "`after_agent` callbacks of an agent that a sibling has stopped",
        case: r#"{"agent": {"kind": "sequential", "name": "top", "sub_agents": [
            {"kind": "parallel", "name": "par", "sub_agents": [
                {"kind": "llm", "name": "quick", "pause": 40, "script": [{"calls": [["act", {"escalate": true}]]}]},
                {"kind": "llm", "name": "slow", "pause": 3000, "script": [],
                    "callbacks": {"after_agent": [{"set": {"after": 1}}]}}]},
            {"kind": "llm", "name": "next", "script": [], "callbacks": {"before_agent": [{"copy": {"seen": "after"}}]}}]}}"#,
        theirs: &[
            "quick on par.quick: act?",
            r#"quick on par.quick: act={"done":true} escalates"#,
            r#"next: {"seen":1}"#,
            "next: next is done",
        ],
        ours: &[
            "quick on par.quick: act?",
            r#"quick on par.quick: act={"done":true} escalates"#,
            r#"next: {"seen":"none"}"#,
            "next: next is done",
        ],
    },
    Stated {
        row: "pending writes of an agent that a sibling has stopped, if their event was never appended",
        case: r#"{"agent": {"kind": "sequential", "name": "top", "sub_agents": [
            {"kind": "parallel", "name": "par", "sub_agents": [
                {"kind": "llm", "name": "quick", "pause": 40,
                    "script": [{"calls": [["act", {"escalate": true}]]}]},
                {"kind": "llm", "name": "slow", "pause": 3000, "script": [],
                    "callbacks": {"before_model": [{"set": {"k": "cancelled"}}]}}]},
            {"kind": "llm", "name": "next", "script": [], "callbacks": {"before_agent": [{"copy": {"kept": "k"}}]}}]}}"#,
        theirs: &[
            "quick on par.quick: act?",
            r#"quick on par.quick: act={"done":true} escalates"#,
            r#"next: {"kept":"cancelled"}"#,
            "next: next is done",
        ],
        ours: &[
            "quick on par.quick: act?",
            r#"quick on par.quick: act={"done":true} escalates"#,
            r#"next: {"kept":"none"}"#,
            "next: next is done",
        ],
    },
    Stated {
        row: "the branch of agents that follow a parallel agent, below a root `LlmAgent`",
        case: r#"{"agent": {"kind": "llm", "name": "root",
            "script": [{"calls": [["transfer_to_agent", {"agent_name": "seq"}]]}],
            "sub_agents": [{"kind": "sequential", "name": "seq", "sub_agents": [
                {"kind": "parallel", "name": "par", "sub_agents": [{"kind": "llm", "name": "a", "script": []}]},
                {"kind": "llm", "name": "next", "script": []}]}]}}"#,
        theirs: &[
            "root: transfer_to_agent?",
            r#"root: transfer_to_agent={"result":null} -> seq"#,
            "a on par.a: a is done",
            "next on par.a: next is done",
        ],
        ours: &[
            "root: transfer_to_agent?",
            r#"root: transfer_to_agent={"result":null} -> seq"#,
            "a on par.a: a is done",
            "next: next is done",
        ],
    },
    Stated {
        row: "the branch of an answer to a call within a parallel agent, and of what follows it, below a root `LlmAgent`",
        case: r#"{"turns": [{"say": "go"}, {"answer": {"n": 1}}], "agent": {"kind": "llm", "name": "root",
            "script": [{"calls": [["transfer_to_agent", {"agent_name": "par"}]]}],
            "sub_agents": [{"kind": "parallel", "name": "par", "sub_agents": [
                {"kind": "llm", "name": "a", "script": [{"calls": [["later", {}]]}]}]}]}}"#,
        theirs: &[
            "root: transfer_to_agent?",
            r#"root: transfer_to_agent={"result":null} -> par"#,
            "a on par.a: later?",
            "a: a is done",
        ],
        ours: &[
            "root: transfer_to_agent?",
            r#"root: transfer_to_agent={"result":null} -> par"#,
            "a on par.a: later?",
            "a on par.a: a is done",
        ],
    },
    Stated {
        row: "parallel calls that save one artifact, if the first call in order saves last",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [
            {"calls": [["act", {"wait": 40, "artifact": "f"}], ["act", {"artifact": "f"}]]}]}}"#,
        theirs: &["root: act? act?", r#"root: act={"done":true} act={"done":true} f@0"#, "root: root is done"],
        ours: &["root: act? act?", r#"root: act={"done":true} act={"done":true} f@1"#, "root: root is done"],
    },
    Stated {
        row: "two parallel calls write a map to one key",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [
            {"calls": [["act", {"set": {"m": {"a": 1}}}], ["act", {"set": {"m": {"b": 2}}}]]}]}}"#,
        theirs: &[
            "root: act? act?",
            r#"root: act={"done":true} act={"done":true} {"m":{"a":1,"b":2}}"#,
            "root: root is done",
        ],
        ours: &["root: act? act?", r#"root: act={"done":true} act={"done":true} {"m":{"b":2}}"#, "root: root is done"],
    },
    Stated {
        row: "state written by a long-running tool that has no answer yet",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["later", {"set": {"k": 1}}]]}]}}"#,
        theirs: &["root: later?"],
        ours: &["root: later?", r#"root: {"k":1}"#],
    },
    Stated {
        row: "a tool that raises",
        case: r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["act", {"fails": "no"}]]}]}}"#,
        theirs: &["root: act?", "root: failed", "fails"],
        ours: &["root: act?", r#"root: act={"error":"no"}"#, "root: root is done"],
    },
    Stated {
        row: "`max_llm_calls` of 0",
        case: r#"{"config": {"max_llm_calls": 0}, "agent": {"kind": "llm", "name": "root", "script": []}}"#,
        theirs: &["root: root is done"],
        ours: &["root: failed", "fails"],
    },
    Stated {
        row: "a small float in a template",
        case: r#"{"state": {"a": 1e-5, "b": 1e16, "c": 1.5}, "agent": {"kind": "llm", "name": "root",
            "instruction": "{a} {b} {c}", "script": [{"text": "<instruction>"}]}}"#,
        theirs: &["root: 1e-05 1e+16 1.5"],
        ours: &["root: 0.00001 1e+16 1.5"],
    },
    Stated {
        row: "`output_key`",
        case: r#"{"agent": {"kind": "llm", "name": "root", "output_key": "said",
            "script": [{"text": "one ", "calls": [["act", {}]]}, {"text": "two"}]}}"#,
        theirs: &[
            r#"root: one  act? {"said":"one "}"#,
            r#"root: act={"done":true}"#,
            r#"root: two {"said":"one two"}"#,
        ],
        ours: &["root: one  act?", r#"root: act={"done":true}"#, r#"root: two {"said":"two"}"#],
    },
];

#[tokio::test]
async fn what_google_adk_does_otherwise_is_what_the_documents_say() {
    let cases: Vec<Value> = STATED.iter().map(|stated| case(stated.case)).collect();
    let played = play_theirs(&cases).await;
    let mut wrong = Vec::new();
    for ((stated, case), theirs) in STATED.iter().zip(&cases).zip(&played) {
        let ours = play::play(case).await;
        for (expected, played, side) in [(stated.ours, &ours, "ours"), (stated.theirs, theirs, "theirs")] {
            let lines = lines(played);
            if lines != expected {
                wrong.push(format!("{}, {side}: {lines:#?}, expected: {expected:#?}", stated.row));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Cases in which callbacks and tools do the same on both sides, each with its lines.
const SAME: [(&str, &[&str]); 5] = [
    (
        r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["nope", {}]]}],
            "callbacks": {"before_tool": [{"give": "I answer"}], "after_tool": [{"set": {"after": 1}}]}}}"#,
        &["root: nope?", r#"root: nope={"result":"I answer"} {"after":1}"#, "root: root is done"],
    ),
    (
        r#"{"agent": {"kind": "llm", "name": "root", "script": [{"calls": [["nope", {}]]}],
            "callbacks": {"on_tool_error": [{"give": "I answer"}], "after_tool": [{"set": {"after": 1}}]}}}"#,
        &["root: nope?", r#"root: nope={"result":"I answer"}"#, "root: root is done"],
    ),
    (
        r#"{"agent": {"kind": "llm", "name": "root", "script": [],
            "callbacks": {"before_agent": [{"set": {"a": 1}, "transfer": "sub"}]},
            "sub_agents": [{"kind": "llm", "name": "sub", "script": []}]}}"#,
        &[r#"root: {"a":1} -> sub"#, "sub: sub is done"],
    ),
    (
        r#"{"agent": {"kind": "llm", "name": "root", "script": [{"text": "wait"}],
            "callbacks": {"after_agent": [{"give": "my colleague", "transfer": "sub"}]},
            "sub_agents": [{"kind": "llm", "name": "sub", "script": []}]}}"#,
        &["root: wait", "root: my colleague -> sub", "sub: sub is done"],
    ),
    (
        r#"{"agent": {"kind": "llm", "name": "root", "callbacks": {"before_agent": [{"artifact": "f", "note": "first"}]},
            "script": [{"calls": [["act", {"artifact": "f"}]]}, {"calls": [["act", {"look": "f"}],
                ["act", {"look": "f", "version": 0}], ["act", {"look": "f", "version": 9}], ["act", {"look": "g"}]]}]}}"#,
        &[
            "root: f@0",
            "root: act?",
            r#"root: act={"done":true} f@1"#,
            "root: act? act? act? act?",
            r#"root: act={"text":"f","version":1,"metadata":{}} act={"text":"f","version":0,"metadata":{"note":"first"}} act={"text":null,"version":null,"metadata":null} act={"text":null,"version":null,"metadata":null}"#,
            "root: root is done",
        ],
    ),
];

#[tokio::test]
async fn callbacks_answer_hand_over_and_read_artifacts_as_with_google_adk() {
    let cases: Vec<Value> = SAME.iter().map(|(text, _)| case(text)).collect();
    let played = play_theirs(&cases).await;
    for ((case, theirs), (_, expected)) in cases.iter().zip(&played).zip(SAME) {
        assert_eq!(lines(theirs), expected, "theirs: {case}");
        assert_eq!(lines(&play::play(case).await), expected, "ours: {case}");
    }
}

#[test]
fn every_difference_that_is_stated_beside_google_adk_is_a_row_of_the_documents() {
    let document = include_str!("../../../../../../docs/adk-compatibility.md");
    for Stated { row, .. } in &STATED {
        assert!(document.contains(&format!("\n| {row} |")), "no row begins with: {row}");
    }
}

/// Parses a case. If it has no turns, the user sends one message.
fn case(text: &str) -> Value {
    let mut case: Value = serde_json::from_str(text).unwrap();
    if case.get("turns").is_none() {
        case["turns"] = serde_json::json!([{"say": "go"}]);
    }
    case
}
