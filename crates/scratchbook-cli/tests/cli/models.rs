//! Model servers on this machine with the APIs of providers.

use std::process::Command;

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

pub(crate) use server::{ReceivedModelRequest, ScriptedAnswer};

use self::server::ModelServer;
use crate::fixture::Fixture;
use crate::serve::Served;

// The model server of the library's tests.
#[allow(dead_code)]
#[path = "../../../scratchbook/tests/it/models/server.rs"]
mod server;

/// The key of all models here. No output may contain it.
pub(crate) const KEY: &str = "k3y-of-a-test";

/// A model with recorded answers.
pub(crate) struct RecordedModel {
    server: ModelServer,
    _runtime: Runtime,
}

impl RecordedModel {
    pub(crate) fn start(answers: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(ModelServer::start(answers));
        Self { server, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedModelRequest> {
        self.server.requests()
    }

    /// Returns a command that reaches this model as Gemini.
    pub(crate) fn gemini(&self, fixture: &Fixture, args: &[&str]) -> Command {
        let mut command = fixture.command(args);
        command.env("GOOGLE_GEMINI_BASE_URL", self.url()).env("GOOGLE_API_KEY", KEY);
        command
    }

    /// Returns a command that reaches this model as a server with OpenAI's protocol.
    pub(crate) fn openai(&self, fixture: &Fixture, args: &[&str]) -> Command {
        let mut command = fixture.command(args);
        command.env("OPENAI_BASE_URL", format!("{}/v1", self.url())).env("OPENAI_API_KEY", KEY);
        command
    }
}

/// Returns a stream of Gemini's, as documented for `streamGenerateContent?alt=sse`: pieces of text, and then the end.
pub(crate) fn gemini_text(pieces: &[&str]) -> ScriptedAnswer {
    gemini_parts(&pieces.iter().map(|text| json!({"text": text})).collect::<Vec<_>>())
}

/// Returns a stream of Gemini's with one part per frame, then the end.
pub(crate) fn gemini_parts(parts: &[Value]) -> ScriptedAnswer {
    let last = parts.len() - 1;
    let frames = parts.iter().enumerate().map(|(n, part)| {
        let mut candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
        if n == last {
            candidate["finishReason"] = "STOP".into();
        }
        gemini_frame(candidate)
    });
    pieces_of(frames)
}

/// Returns a response of Gemini's without streaming.
pub(crate) fn gemini_whole(text: &str) -> ScriptedAnswer {
    let content = json!({"parts": [{"text": text}], "role": "model"});
    ScriptedAnswer::json(200, &gemini_frame(json!({"content": content, "finishReason": "STOP", "index": 0})))
}

/// Returns a stream of Gemini's that sends this text and never ends.
pub(crate) fn gemini_stuck_after(text: &str) -> ScriptedAnswer {
    let candidate = json!({"content": {"parts": [{"text": text}], "role": "model"}, "index": 0});
    pieces_of([gemini_frame(candidate)]).silent_after(usize::MAX)
}

/// Returns a stream of Gemini's that calls a tool.
pub(crate) fn gemini_call(name: &str, args: Value) -> ScriptedAnswer {
    let parts = json!([{"functionCall": {"name": name, "args": args}}]);
    let candidate = json!({"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0});
    pieces_of([gemini_frame(candidate)])
}

fn gemini_frame(candidate: Value) -> Value {
    json!({
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12},
        "modelVersion": "gemini-2.5-flash",
    })
}

/// Returns a stream of OpenAI's chat completions: a chunk for each of these deltas, and then one with the finish
/// reason.
pub(crate) fn openai_deltas(deltas: &[Value], finish_reason: &str) -> ScriptedAnswer {
    let chunk = |delta: &Value, reason: Value| {
        json!({
            "id": "chatcmpl-123", "object": "chat.completion.chunk", "created": 1694268190, "model": "qwen3",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}],
        })
    };
    let frames = deltas.iter().map(|delta| chunk(delta, Value::Null));
    let frames: Vec<_> = frames.chain([chunk(&json!({}), finish_reason.into())]).collect();
    let mut body: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    body.push_str("data: [DONE]\n\n");
    ScriptedAnswer::events(body)
}

/// Frames of server-sent events, each in its own write.
fn pieces_of(frames: impl IntoIterator<Item = Value>) -> ScriptedAnswer {
    let frames: Vec<_> = frames.into_iter().map(|frame| format!("data: {frame}\r\n\r\n")).collect();
    let ends = frames.iter().scan(0, |end, frame| {
        *end += frame.len();
        Some(*end)
    });
    ScriptedAnswer::events(frames.concat()).cut_at(ends.take(frames.len() - 1).collect::<Vec<_>>())
}

/// Returns an error in the form of Google's APIs.
pub(crate) fn gemini_error(status: u16, name: &str, message: &str) -> ScriptedAnswer {
    ScriptedAnswer::json(status, &json!({"error": {"code": status, "message": message, "status": name}}))
}

/// Starts a server with one agent, `helper`, whose file names a model of Gemini's.
pub(crate) fn serve(fixture: &Fixture, model: &RecordedModel, args: &[&str]) -> Served {
    let folder = fixture.path("agents");
    std::fs::create_dir_all(folder.join("helper")).unwrap();
    let text = "name: helper\nmodel: gemini-2.5-flash\ninstruction: Help {user:name?}.\n";
    std::fs::write(folder.join("helper/root_agent.yaml"), text).unwrap();
    let serve = ["--json", "serve", "--port", "0", "--agents", folder.to_str().unwrap()];
    let served = Served::of(model.gemini(fixture, &[&serve[..], args].concat()));
    let (status, body) = served.ask("POST", "/apps/helper/users/ann/sessions/s1", "");
    assert_eq!(status, 200, "{body}");
    served
}
