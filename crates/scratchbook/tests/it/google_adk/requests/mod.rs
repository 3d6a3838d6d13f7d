//! Compares our requests to models with google-adk's. The same agents give the same answers, and the bodies of their
//! requests are compared field by field.

mod agents;
pub(crate) mod differences;
mod histories;
mod play;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::models::server::{ModelServer, ReceivedModelRequest, ScriptedAnswer};
use differences::{AcceptedDifference, DIFFERENCES, differences};

/// The requests of one side in one scenario, by agent and in order.
type RequestsByAgent = BTreeMap<String, Vec<Value>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn google_adk_and_we_ask_models_the_same() {
    let scenarios: Vec<Value> = serde_json::from_str(include_str!("scenarios.json")).unwrap();
    let server = server(scenarios.clone()).await;
    ask_theirs(&server).await;
    for scenario in &scenarios {
        for streamed in [false, true] {
            let side = if streamed { "ours-streamed" } else { "ours" };
            play::play(scenario, &format!("{}/{side}/{}", server.url(), name(scenario)), streamed).await;
        }
    }
    let requests = server.requests();
    let (mut unexplained, mut met) = (Vec::new(), [false; DIFFERENCES.len()]);
    for scenario in &scenarios {
        for suffix in ["", "-streamed"] {
            let [ours, theirs] =
                ["ours", "theirs"].map(|side| asked(&requests, &format!("{side}{suffix}"), name(scenario)));
            for (agent, answers) in scenario["answers"].as_object().unwrap() {
                let asked = ours.get(agent).map_or(0, Vec::len);
                assert_eq!(asked, answers.as_array().unwrap().len(), "{}: requests of {agent}", name(scenario));
            }
            for found in differences(name(scenario), &json!(ours), &json!(theirs)) {
                match DIFFERENCES.iter().position(|difference| (difference.explains)(&found)) {
                    Some(place) => met[place] = true,
                    None => unexplained.push(format!("{found}")),
                }
            }
        }
    }
    assert!(unexplained.is_empty(), "{} differences:\n{}", unexplained.len(), unexplained.join("\n"));
    let gone = DIFFERENCES.iter().zip(met).filter(|(_, met)| !met);
    let gone: Vec<_> = gone.map(|(AcceptedDifference { what, why, .. }, _)| format!("{what} ({why})")).collect();
    assert!(gone.is_empty(), "these differences are no more: {gone:?}");
}

fn name(scenario: &Value) -> &str {
    scenario["name"].as_str().unwrap()
}

/// Plays all scenarios with google-adk.
async fn ask_theirs(server: &ModelServer) {
    let mut command = Command::new(scratchbook_test_servers::python().unwrap());
    command.arg(script("ask.py")).arg(script("scenarios.json")).arg(server.url());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the path of a file in this folder.
fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/google_adk/requests").join(name)
}

/// Returns the requests of each agent, which is named in its instruction.
fn asked(requests: &[ReceivedModelRequest], side: &str, scenario: &str) -> RequestsByAgent {
    let mut asked = RequestsByAgent::new();
    for request in requests {
        let path = Path::of(&request.path);
        if (path.side, path.scenario) == (side, scenario) {
            let request_of = json!({"method": path.method, "body": request.body});
            asked.entry(agent(&request.body).to_owned()).or_default().push(request_of);
        }
    }
    asked
}

/// `/SIDE/SCENARIO/METHOD`
struct Path<'a> {
    side: &'a str,
    scenario: &'a str,
    method: &'a str,
}

impl<'a> Path<'a> {
    fn of(path: &'a str) -> Self {
        let mut parts = path.splitn(4, '/').skip(1);
        let mut next = || parts.next().unwrap_or_default();
        Self { side: next(), scenario: next(), method: next() }
    }
}

/// Returns the agent that makes a request. Its instruction contains its name.
fn agent(body: &Value) -> &str {
    let told = body["systemInstruction"]["parts"][0]["text"].as_str().unwrap_or_default();
    let named = told.split_once("Your internal name is \"").map_or("", |(_, rest)| rest);
    named.split('"').next().unwrap_or_default()
}

/// Starts a server with the scenarios' answers, separately for each agent, because parallel agents ask in any order.
async fn server(scenarios: Vec<Value>) -> ModelServer {
    let counts: Mutex<HashMap<String, usize>> = Mutex::default();
    ModelServer::by(move |request| {
        let path = Path::of(&request.path);
        let agent = agent(&request.body);
        let Some(scenario) = scenarios.iter().find(|scenario| name(scenario) == path.scenario) else {
            return ScriptedAnswer::none();
        };
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(format!("{} {} {agent}", path.side, path.scenario)).or_default();
        let answer = &scenario["answers"][agent][*count];
        *count += 1;
        let pause = Duration::from_millis(scenario["pauses"][agent].as_u64().unwrap_or(0));
        match answer {
            Value::Array(parts) if path.method.contains(":stream") => streamed(parts).slowly(pause),
            Value::Array(parts) => ScriptedAnswer::json(200, &response(parts, true)).slowly(pause),
            Value::Object(_) => {
                let status = answer["status"].as_u64().unwrap();
                let error = json!({"error": {"code": status, "message": "Not today.", "status": "INVALID_ARGUMENT"}});
                ScriptedAnswer::json(u16::try_from(status).unwrap(), &error)
            }
            _ => ScriptedAnswer::none(),
        }
    })
    .await
}

/// A response of the Gemini API.
fn response(parts: &[Value], last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if last {
        candidate["finishReason"] = json!("STOP");
    }
    json!({"candidates": [candidate], "modelVersion": "gemini-2.5-flash", "responseId": "r"})
}

/// Returns a stream of the parts, with plain texts cut in halves.
fn streamed(parts: &[Value]) -> ScriptedAnswer {
    let mut pieces = Vec::new();
    for part in parts {
        match part["text"].as_str() {
            Some(text) if part.get("thoughtSignature").is_none() => {
                let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
                for half in [&text[..middle], &text[middle..]] {
                    let mut piece = part.clone();
                    piece["text"] = json!(half);
                    pieces.push(piece);
                }
            }
            _ => pieces.push(part.clone()),
        }
    }
    let count = pieces.len();
    let events = pieces.into_iter().enumerate().map(|(place, piece)| response(&[piece], place + 1 == count));
    ScriptedAnswer::events(events.map(|event| format!("data: {event}\r\n\r\n")).collect::<String>())
}
