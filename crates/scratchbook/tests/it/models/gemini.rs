//! Answers of models of the Gemini API.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use scratchbook::model::{Llm, LlmRequest, LlmResponse, RemoteLlm};
use scratchbook::{Content, Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::server::{ModelServer, ScriptedAnswer};

pub(super) const KEY: &str = "AIzaSecretSecretSecret";

pub(super) fn model(server: &ModelServer) -> RemoteLlm {
    RemoteLlm::builder("gemini-2.5-flash").endpoint(server.url()).api_key(KEY).build().unwrap()
}

pub(super) fn asks() -> LlmRequest {
    let mut request = LlmRequest::default();
    request.contents = vec![Content::user("Hello.")];
    request
}

pub(super) fn asks_streaming() -> LlmRequest {
    let mut request = asks();
    request.stream = true;
    request
}

pub(super) async fn answers(model: &RemoteLlm, request: LlmRequest) -> Vec<Result<LlmResponse>> {
    model.generate(request).collect().await
}

/// Returns the error of a call that fails.
pub(super) async fn failure(model: &RemoteLlm, request: LlmRequest) -> Error {
    answers(model, request).await.pop().unwrap().expect_err("the call fails")
}

/// Returns a response in the form of google-adk's `LlmResponse`.
fn written(response: &LlmResponse) -> Value {
    let mut all = json!({
        "content": response.content,
        "partial": response.partial,
        "finishReason": response.finish_reason,
        "errorCode": response.error_code,
        "errorMessage": response.error_message,
        "usageMetadata": response.usage_metadata,
        "groundingMetadata": response.grounding_metadata,
        "citationMetadata": response.citation_metadata,
        "avgLogprobs": response.avg_logprobs,
        "logprobsResult": response.logprobs_result,
        "modelVersion": response.model_version,
    });
    all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    all
}

/// Converts all numbers to floats, because 1 and 1.0 are the same number in JSON.
pub(super) fn with_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(with_floats).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), with_floats(value))).collect(),
        other => other.clone(),
    }
}

/// Returns the recordings of google-adk, case by case.
pub(super) fn recorded(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

/// Returns bodies that Google publishes for tests of clients, each with its source, and some handmade ones. The
/// expected results were recorded with google-adk 2.13.0.
fn published() -> Vec<Value> {
    recorded(include_str!("../../fixtures/gemini/answers.json"))
}

fn published_as(name: &str) -> Value {
    published().into_iter().find(|case| case["source"].as_str().unwrap().ends_with(name)).unwrap()
}

/// Replaces the ids of calls, which are different in each run. The pieces of a call and the whole call have the same
/// id.
fn number_ids(responses: &mut [Value]) {
    fn walk(value: &mut Value, seen: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| walk(item, seen)),
            Value::Object(fields) => {
                if let Some(Value::String(id)) = fields.get_mut("id").filter(|id| id.as_str().is_some_and(is_own)) {
                    let number = seen.iter().position(|other| other == id).unwrap_or_else(|| {
                        seen.push(id.clone());
                        seen.len() - 1
                    });
                    *id = format!("adk-{number}");
                }
                fields.values_mut().for_each(|value| walk(value, seen));
            }
            _ => {}
        }
    }
    fn is_own(id: &str) -> bool {
        id.starts_with("adk-")
    }
    let mut seen = Vec::new();
    responses.iter_mut().for_each(|response| walk(response, &mut seen));
}

#[tokio::test]
async fn answers_are_read_as_google_adk_reads_them() {
    for case in published() {
        let body = case["body"].as_str().unwrap();
        let (answer, request) = match case["stream"] == true {
            true => (ScriptedAnswer::events(body), asks_streaming()),
            false => (ScriptedAnswer::text(200, "application/json", body), asks()),
        };
        let server = ModelServer::always(answer).await;
        let responses: Result<Vec<_>> = answers(&model(&server), request).await.into_iter().collect();
        let mut read: Vec<_> = responses.unwrap().iter().map(|response| with_floats(&written(response))).collect();
        let mut expected: Vec<_> = case["responses"].as_array().unwrap().iter().map(with_floats).collect();
        number_ids(&mut read);
        number_ids(&mut expected);
        assert_eq!(read, expected, "{}", case["source"]);
    }
}

#[tokio::test]
async fn a_stream_is_read_to_its_end_though_every_piece_says_stop() {
    let server = ModelServer::always(ScriptedAnswer::events(
        published_as("streaming-success-utf8.txt")["body"].as_str().unwrap(),
    ));
    let responses = answers(&model(&server.await), asks_streaming()).await;
    let whole = responses.last().unwrap().as_ref().unwrap().content.clone().unwrap().text();
    assert!(whole.starts_with("秋风瑟瑟") && whole.ends_with("领悟秋天的哲理。"), "{whole}");
}

#[tokio::test]
async fn wherever_a_stream_is_cut_it_says_the_same() {
    let case = published_as("streaming-success-utf8.txt");
    let body = case["body"].as_str().unwrap();
    let whole = ScriptedAnswer::events(body);
    let cut = (1..body.len()).map(|place| whole.clone().cut_at([place]));
    let everywhere = whole.clone().cut_at(1..body.len());
    let server = ModelServer::start([whole.clone(), everywhere].into_iter().chain(cut)).await;
    let model = model(&server);
    let expected: Result<Vec<_>> = answers(&model, asks_streaming()).await.into_iter().collect();
    let expected = expected.unwrap();
    for place in 0..body.len() {
        let read: Result<Vec<_>> = answers(&model, asks_streaming()).await.into_iter().collect();
        assert_eq!(read.unwrap(), expected, "cut at {place}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error_wherever_it_does() {
    let case = published_as("streaming-success-basic-reply-short.txt");
    let body = case["body"].as_str().unwrap();
    let whole = ScriptedAnswer::events(body);
    // The answer is complete with the last piece, even without the empty line after it.
    let places = (0..body.trim_end().len()).step_by(7);
    let broken = places.flat_map(|place| {
        let clean = ScriptedAnswer::events(&body.as_bytes()[..place]);
        [whole.clone().closed_after(place), whole.clone().reset_after(place), clean]
    });
    join_all(broken.map(|answer| async {
        let server = ModelServer::always(answer).await;
        let model = RemoteLlm::builder("gemini-2.5-flash").endpoint(server.url()).api_key(KEY).max_retries(0);
        let mut responses = answers(&model.build().unwrap(), asks_streaming()).await;
        let error = responses.pop().unwrap().expect_err("the last response tells that the answer broke off");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        // Everything before the error is a piece.
        assert!(responses.iter().all(|shown| shown.as_ref().unwrap().partial == Some(true)));
    }))
    .await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let case = published_as("unary-success-basic-reply-short.json");
    let body = case["body"].as_str().unwrap();
    let whole = ScriptedAnswer::text(200, "application/json", body);
    for place in [0, 1, body.len() / 2, body.len() - 3] {
        let clean = ScriptedAnswer::text(200, "application/json", &body[..place]);
        for answer in [whole.clone().closed_after(place), whole.clone().reset_after(place), clean] {
            let server = ModelServer::always(answer).await;
            let model = RemoteLlm::builder("gemini-2.5-flash").endpoint(server.url()).api_key(KEY).max_retries(0);
            let error = failure(&model.build().unwrap(), asks()).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{place}: {error}");
        }
    }
}

#[tokio::test]
async fn what_is_no_answer_is_an_error_and_not_tried_again() {
    for body in
        ["no JSON", "{\"candidates\": [}", "[1]", "\u{feff}{}", "{\"candidates\": [{\"content\": 1}]}", "<html>"]
    {
        let whole = ModelServer::always(ScriptedAnswer::text(200, "text/html", body)).await;
        let error = failure(&model(&whole), asks()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(whole.requests().len(), 1);
        let streamed = ModelServer::always(ScriptedAnswer::events(format!("data: {body}\n\n"))).await;
        let error = failure(&model(&streamed), asks_streaming()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(streamed.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_slow_stream_is_waited_for_as_long_as_it_goes_on() {
    let case = published_as("streaming-success-basic-reply-short.txt");
    let body = case["body"].as_str().unwrap();
    let slow = ScriptedAnswer::events(body).cut_at([100, 300, 500, 700]).slowly(Duration::from_millis(100));
    let server = ModelServer::always(slow).await;
    let model = RemoteLlm::builder("gemini-2.5-flash").endpoint(server.url()).api_key(KEY);
    let model = model.timeout(Duration::from_millis(400)).build().unwrap();
    let responses = answers(&model, asks_streaming()).await;
    let whole = responses.last().unwrap().as_ref().unwrap();
    assert_eq!((whole.partial, whole.finish_reason.as_deref()), (Some(false), Some("STOP")));
}

#[tokio::test]
async fn who_says_nothing_is_waited_for_only_so_long() {
    let case = published_as("streaming-success-basic-reply-short.txt");
    let first = case["body"].as_str().unwrap().find("\n\r\n").unwrap() + 3;
    let stops = ScriptedAnswer::events(case["body"].as_str().unwrap()).silent_after(first);
    let half = ScriptedAnswer::json(200, &json!({"candidates": []})).silent_after(5);
    for (answer, request, shown) in [
        (ScriptedAnswer::silence(), asks(), 0),
        (half, asks(), 0),
        (ScriptedAnswer::silence(), asks_streaming(), 0),
        (stops, asks_streaming(), 1),
    ] {
        let server = ModelServer::always(answer).await;
        let model = RemoteLlm::builder("gemini-2.5-flash").endpoint(server.url()).api_key(KEY);
        let model = model.timeout(Duration::from_millis(200)).build().unwrap();
        let mut responses = answers(&model, request).await;
        let error = responses.pop().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.to_string(), "nothing came from the model within 0.2 s");
        assert_eq!(responses.len(), shown);
        // A slow model is not asked again at once.
        assert_eq!(server.requests().len(), 1);
        server.hung_up().await;
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let case = published_as("streaming-success-basic-reply-short.txt");
    let first = case["body"].as_str().unwrap().find("\n\r\n").unwrap() + 3;
    let server = ModelServer::always(ScriptedAnswer::events(case["body"].as_str().unwrap()).silent_after(first)).await;
    let mut stream = model(&server).generate(asks_streaming());
    assert_eq!(stream.next().await.unwrap().unwrap().partial, Some(true));
    drop(stream);
    server.hung_up().await;
}

/// Returns the arguments of a call of `f` whose pieces have these paths.
async fn arguments(paths: impl IntoIterator<Item = String>) -> Value {
    let pieces: Vec<_> = paths.into_iter().map(|path| json!({"jsonPath": path, "numberValue": 1})).collect();
    let part = json!({"functionCall": {"name": "f", "partialArgs": pieces, "willContinue": false}});
    let body = json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]});
    let server = ModelServer::always(ScriptedAnswer::events(format!("data: {body}\n\n"))).await;
    let whole = answers(&model(&server), asks_streaming()).await.pop().unwrap().unwrap();
    let call = whole.content.unwrap().parts()[0].function_call.clone().unwrap();
    Value::Object(call.args.unwrap())
}

#[tokio::test]
async fn a_path_leads_no_deeper_than_values_go() {
    let args = arguments([format!("$.deep{}", ".a".repeat(200_000)), "$.a.b".to_owned()]).await;
    assert_eq!(args, json!({"a": {"b": 1}}));
}

#[tokio::test]
async fn a_path_makes_room_for_the_next_item_and_no_more() {
    let args = arguments(["$.a[0]", "$.a[1].b", "$.a[9999]", "$.a[3]", "$.a[2]"].map(str::to_owned)).await;
    assert_eq!(args, json!({"a": [1, {"b": 1}, 1]}));
}

#[tokio::test]
async fn calls_of_an_answer_that_was_blocked_or_is_malformed_are_not_made() {
    for reason in ["SAFETY", "MALFORMED_FUNCTION_CALL", "RECITATION", "SOMETHING_NEW"] {
        let call = json!({"functionCall": {"name": "pay", "args": {"amount": 1}}});
        for (parts, left) in [(json!([{"text": "I pay."}, call]), Some("I pay.")), (json!([call]), None)] {
            let body = json!({"candidates": [{
                "content": {"role": "model", "parts": parts}, "finishReason": reason, "finishMessage": "No.",
            }]});
            let server = ModelServer::start([
                ScriptedAnswer::json(200, &body),
                ScriptedAnswer::events(format!("data: {body}\n\n")),
            ])
            .await;
            for request in [asks(), asks_streaming()] {
                let whole = answers(&model(&server), request).await.pop().unwrap().unwrap();
                assert_eq!(whole.content.map(|content| content.text()).as_deref(), left, "{reason}");
                assert_eq!(whole.error_code.as_deref(), Some(reason));
            }
        }
    }
    let body = json!({"candidates": [{
        "content": {"role": "model", "parts": [{"functionCall": {"name": "pay", "args": {}}}]}, "finishReason": "MAX_TOKENS",
    }]});
    let server = ModelServer::always(ScriptedAnswer::json(200, &body)).await;
    let whole = answers(&model(&server), asks()).await.pop().unwrap().unwrap();
    assert!(whole.content.unwrap().parts()[0].function_call.is_some());
}
