//! Asks a model, and examines its answer.

use std::time::Duration;

use futures_util::StreamExt;
use scratchbook::content::Part;
use scratchbook::model::{FunctionDeclaration, Llm, LlmRequest, LlmResponse, RemoteLlm};
use scratchbook::{Content, Result};
use serde_json::{Value, json};

use super::server::ModelServer;

/// Returns a model on a local server that gives up after one attempt.
pub(crate) fn model(name: &str, server: &ModelServer, path: &str) -> RemoteLlm {
    patient(name, server, path, 0)
}

/// Returns a model on a local server that retries this many times.
pub(crate) fn patient(name: &str, server: &ModelServer, path: &str, retries: usize) -> RemoteLlm {
    RemoteLlm::builder(name)
        .endpoint(format!("{}{path}", server.url()))
        .api_key("secret-key")
        .timeout(Duration::from_secs(20))
        .max_retries(retries)
        .build()
        .unwrap()
}

/// A request of one question.
pub(crate) fn question(text: &str) -> LlmRequest {
    conversation([Content::user(text)])
}

pub(crate) fn conversation(contents: impl IntoIterator<Item = Content>) -> LlmRequest {
    let mut request = LlmRequest::default();
    request.contents = contents.into_iter().collect();
    request
}

/// A tool that most providers use in their examples.
pub(crate) fn weather() -> FunctionDeclaration {
    FunctionDeclaration {
        name: "get_weather".to_owned(),
        description: "The weather at a place.".to_owned(),
        parameters_json_schema: json!({
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
        }),
        ..FunctionDeclaration::default()
    }
}

/// A call of a tool with an id.
pub(crate) fn call(id: &str, name: &str, args: Value) -> Part {
    part(json!({"functionCall": {"id": id, "name": name, "args": args}}))
}

/// What a tool answered to a call.
pub(crate) fn result(id: &str, name: &str, response: Value) -> Part {
    part(json!({"functionResponse": {"id": id, "name": name, "response": response}}))
}

pub(crate) fn part(json: Value) -> Part {
    serde_json::from_value(json).unwrap()
}

/// Returns all answers of a model, in order, up to its failure.
pub(crate) async fn all(model: &RemoteLlm, request: LlmRequest) -> Vec<Result<LlmResponse>> {
    let answering = model.generate(request).collect();
    tokio::time::timeout(Duration::from_secs(60), answering).await.expect("the model answers in time")
}

/// Returns the answer of a request without streaming.
pub(crate) async fn whole(model: &RemoteLlm, request: LlmRequest) -> Result<LlmResponse> {
    let mut answers = all(model, request).await;
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

/// Returns a streamed answer: its pieces, and the whole answer or the error.
pub(crate) async fn streamed(model: &RemoteLlm, mut request: LlmRequest) -> (Vec<LlmResponse>, Result<LlmResponse>) {
    request.stream = true;
    let mut answers = all(model, request).await;
    let last = answers.pop().expect("something is answered");
    let pieces: Vec<_> = answers.into_iter().map(|piece| piece.expect("only the last may fail")).collect();
    assert!(pieces.iter().all(|piece| piece.partial == Some(true)), "{pieces:?}");
    if let Ok(last) = &last {
        assert_eq!(last.partial, Some(false), "{last:?}");
    }
    (pieces, last)
}

/// Returns the text of each piece, with thoughts in brackets. A piece must not contain a call, which may be incomplete.
pub(crate) fn texts(pieces: &[LlmResponse]) -> Vec<String> {
    let parts = pieces.iter().flat_map(|piece| piece.content.as_ref().unwrap().parts());
    parts.map(|part| shown(part).expect("pieces are text")).collect()
}

fn shown(part: &Part) -> Option<String> {
    let text = part.text.clone()?;
    Some(if part.thought == Some(true) { format!("({text})") } else { text })
}

/// The parts of an answer as JSON.
pub(crate) fn parts(response: &LlmResponse) -> Value {
    serde_json::to_value(response.content.as_ref().expect("an answer with content").parts()).unwrap()
}

/// Returns how an answer ended: the finish reason and the error.
pub(crate) fn end(response: &LlmResponse) -> (Option<&str>, Option<&str>, Option<&str>) {
    (response.finish_reason.as_deref(), response.error_code.as_deref(), response.error_message.as_deref())
}
