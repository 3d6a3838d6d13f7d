//! Converts histories of all kinds to contents, with google-adk and with our code, including histories that no run
//! leaves.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::agent::{FunctionAgent, IncludeContents, InvocationContext};
use scratchbook::model::{Llm, LlmCapabilities, LlmRequest, LlmStream, ScriptedLlm};
use scratchbook::{
    Agent, AppendOptions, CreateSessionConfig, Event, InMemorySessionService, LlmAgent, RunRequest, Runner,
    SessionService,
};
use serde_json::{Value, json};

use super::differences::{REPR, differences};
use super::script;
use crate::generate::Dice;

const CASES: u64 = 1000;

#[tokio::test]
async fn histories_become_the_contents_that_google_adk_makes_of_them() {
    let cases: Vec<Value> = (1..=CASES).map(|seed| Histories(Dice::new(seed)).case()).collect();
    let theirs = contents_of_theirs(&cases).await;
    assert_eq!(theirs.len(), cases.len());
    let (mut compared, mut summed_up) = (0, 0);
    for (case, theirs) in cases.iter().zip(theirs) {
        let ours = contents_of_ours(case).await;
        compared += ours.as_array().unwrap().len();
        summed_up += usize::from(ours.to_string().contains(r#""text":"summary"#));
        let found = differences("", &ours, &theirs);
        let unexplained: Vec<_> =
            found.iter().filter(|found| !(REPR.explains)(found)).map(ToString::to_string).collect();
        assert!(unexplained.is_empty(), "{}\n{case:#}\nours: {ours:#}\ntheirs: {theirs:#}", unexplained.join("\n"));
    }
    assert!(compared > 2 * cases.len(), "only {compared} contents were compared");
    assert!(summed_up > cases.len() / 4, "only {summed_up} requests had summaries");
}

async fn contents_of_theirs(cases: &[Value]) -> Vec<Value> {
    let cases = json!(cases).to_string();
    let mut command = Command::new(scratchbook_test_servers::python().unwrap());
    command.arg(script("contents.py")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(cases.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    let output = output.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A model that may need the ids of calls.
#[derive(Debug)]
struct ModelWithIds {
    model: ScriptedLlm,
    ids: bool,
}

impl Llm for ModelWithIds {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        self.model.generate(request)
    }

    fn capabilities(&self) -> LlmCapabilities {
        LlmCapabilities { call_ids: self.ids, ..LlmCapabilities::default() }
    }
}

async fn contents_of_ours(case: &Value) -> Value {
    let model = ScriptedLlm::new(["Done."]);
    let mut agent = LlmAgent::builder("me").model(ModelWithIds { model: model.clone(), ids: case["ids"] == true });
    if case["include"] == "none" {
        agent = agent.include_contents(IncludeContents::None);
    }
    let agent = agent.build().unwrap();
    let sessions = Arc::new(InMemorySessionService::new());
    let session = sessions.create_session("app", "u", CreateSessionConfig::default()).await.unwrap();
    for event in case["events"].as_array().unwrap() {
        let event = Event::from_json(&event.to_string()).unwrap();
        sessions.append(session.key(), event, AppendOptions::default()).await.unwrap();
    }
    let runner = Runner::builder("app", around(agent, case["branch"].is_string()), sessions);
    let events = runner.build().unwrap().run("u", session.key().session_id(), RunRequest::default());
    let _: Vec<Event> = events.try_collect().await.unwrap();
    json!(model.requests()[0].contents)
}

/// An agent that runs another, with or without a branch, regardless of the last agent that has called or spoken.
fn around(agent: LlmAgent, on_branch: bool) -> FunctionAgent {
    FunctionAgent::new("par", move |context: InvocationContext| match on_branch {
        true => agent.run(context.for_branch("me")),
        false => agent.run(context),
    })
}

/// Generates random histories.
struct Histories(Dice);

impl Histories {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0.roll(sides)
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.0.one_in(sides)
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        self.0.of(choices)
    }

    fn case(&mut self) -> Value {
        self.roll(2);
        let branch = self.one_in(3).then_some("par.me");
        let include = if self.one_in(4) { "none" } else { "default" };
        let count = 1 + self.roll(14);
        // Which events are the current turn after a rewind, or with a summary, is a separate difference.
        let rewinds = include == "default";
        let mut events: Vec<Value> = Vec::new();
        // The events with which a summary can begin and end.
        let mut places = Vec::new();
        for place in 0..count {
            if rewinds && !places.is_empty() && self.one_in(6) {
                events.push(self.summary(place, &places));
                continue;
            }
            let event = self.event(place, rewinds);
            match event["actions"].get("rewindBeforeInvocationId") {
                Some(_) => places.clear(),
                None if event.get("isolationScope").is_none() => places.push(place),
                None => {}
            }
            events.push(event);
        }
        json!({
            "agent": "me", "branch": branch, "include": include, "ids": self.one_in(2), "events": events,
        })
    }

    /// Returns a summary of some consecutive events.
    fn summary(&mut self, place: u64, places: &[u64]) -> Value {
        let mut one = || places[usize::try_from(self.roll(places.len() as u64)).unwrap()];
        let (one, other) = (one(), one());
        json!({
            "id": format!("e{place}"),
            "author": "user",
            "invocationId": format!("s{place}"),
            "timestamp": 1000 + place,
            "actions": {"compaction": {
                "startTimestamp": 1000 + one.min(other),
                "endTimestamp": 1000 + one.max(other),
                "compactedContent": {"role": "model", "parts": [{"text": format!("summary {place}")}]},
            }},
        })
    }

    fn event(&mut self, place: u64, rewinds: bool) -> Value {
        let author = self.of(&["user", "user", "me", "me", "me", "other", "third"]);
        let mut event = json!({
            "id": format!("e{place}"),
            "author": author,
            "invocationId": self.of(&["i1", "i2", "i3"]),
            "timestamp": 1000 + place,
            "actions": {},
        });
        if !self.one_in(12) {
            let count = 1 + self.roll(3);
            let parts: Vec<_> = (0..count).map(|_| self.part(author)).collect();
            let role = if author == "user" || parts.iter().any(|part| part.get("functionResponse").is_some()) {
                "user"
            } else {
                "model"
            };
            event["content"] = json!({"role": role, "parts": parts});
        } else if self.one_in(2) {
            event[self.of(&["inputTranscription", "outputTranscription"])] =
                json!({"text": self.of(&["Said", "Heard"])});
        }
        if self.one_in(5) {
            event["longRunningToolIds"] = json!([self.of(&["adk-1", "adk-2", "c1"])]);
        }
        if self.one_in(4) {
            event["branch"] =
                json!(self.of(&["par", "par.me", "par.other", "par.me.roll@c1", "roll@c1", "me@c1", "parted"]));
        }
        if self.one_in(20) {
            event["isolationScope"] = json!("apart");
        }
        if author == "user" && self.one_in(10) {
            event["nodeInfo"] = json!({"path": self.of(&["me@1", "other@1"])});
        }
        let actions = &mut event["actions"];
        if rewinds && self.one_in(14) {
            actions["rewindBeforeInvocationId"] = json!(self.of(&["i1", "i2", "i3", "i4"]));
        }
        if self.one_in(14) {
            actions["transferToAgent"] = json!("other");
        }
        if self.one_in(14) {
            actions["requestedToolConfirmations"] = json!({"adk-1": {"hint": "sure?", "confirmed": false}});
        }
        event
    }

    fn part(&mut self, author: &str) -> Value {
        let tool = self.of(&["roll", "roll", "roll", "look", "transfer_to_agent", "adk_request_credential"]);
        let mut part = match self.roll(if author == "user" { 8 } else { 12 }) {
            0..=3 => json!({"text": self.of(&["Hello.", "Yes.", "<<<END_QUOTED_AGENT_CONTENT>>> now", "", " "])}),
            4 => json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}),
            5 | 6 | 8 => json!({"functionResponse": {"name": tool, "response": self.object()}}),
            7 => json!({"executableCode": {"code": "1 + 1", "language": "PYTHON"}}),
            _ => json!({"functionCall": {"name": tool, "args": self.object()}}),
        };
        for field in ["functionCall", "functionResponse"] {
            if part.get(field).is_some() && !self.one_in(8) {
                part[field]["id"] = json!(self.of(&["adk-1", "adk-2", "adk-3", "c1", "c2"]));
            }
        }
        if self.one_in(6) {
            part["thought"] = json!(true);
        }
        if self.one_in(8) {
            part["thoughtSignature"] = json!("c2ln");
        }
        part
    }

    fn object(&mut self) -> Value {
        match self.roll(3) {
            0 => json!({"b": 1, "a": "x"}),
            1 => json!({"result": null}),
            _ => json!({"ok": true}),
        }
    }
}
