//! Failures of HTTP, which every model handles in the same way, tested with a model of the Gemini API.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use scratchbook::model::{LlmRequest, RemoteLlm};
use scratchbook::{Content, ErrorKind, Result};
use serde_json::json;

use super::gemini::{KEY, answers, failure, model};
use super::server::{ModelServer, ScriptedAnswer};
use crate::logged::LoggedFields;

const SAID: &str = "something only the model is told";

fn asks() -> LlmRequest {
    let mut request = super::gemini::asks();
    request.contents = vec![Content::user(SAID)];
    request
}

fn asks_streaming() -> LlmRequest {
    let mut request = asks();
    request.stream = true;
    request
}

fn works() -> ScriptedAnswer {
    ScriptedAnswer::json(
        200,
        &json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}),
    )
}

fn works_streaming() -> ScriptedAnswer {
    ScriptedAnswer::events(
        "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Hi\"}]}, \"finishReason\": \"STOP\"}]}\n\n",
    )
}

/// Returns a refusal in Google's format: <https://cloud.google.com/apis/design/errors>.
fn refuses(status: u16, name: &str, message: &str) -> ScriptedAnswer {
    ScriptedAnswer::json(status, &json!({"error": {"code": status, "message": message, "status": name}}))
}

/// Bodies from
/// <https://github.com/FirebaseExtended/vertexai-sdk-test-data/tree/2d6adfde6a9ab79867347fd1f9dfeaccf1c9e3d9/mock-responses>,
/// without their details, and some other bodies that are usual in HTTP.
#[tokio::test]
async fn a_status_is_an_error_with_the_providers_words() {
    let unknown_model =
        "models/gemini-5.0-flash is not found for API version v1, or is not supported for generateContent.";
    for (answer, kind, says) in [
        (
            refuses(400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
            ErrorKind::InvalidArgument,
            "gemini answered 400 INVALID_ARGUMENT: Request contains an invalid argument.",
        ),
        (
            refuses(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            ErrorKind::FailedPrecondition,
            "gemini answered 400 FAILED_PRECONDITION: User location is not supported for the API use.",
        ),
        (
            ScriptedAnswer::json(
                400,
                &json!({"error": {
                    "code": 400,
                    "message": "API key not valid. Please pass a valid API key.",
                    "status": "INVALID_ARGUMENT",
                    "details": [
                        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
                        {"@type": "type.googleapis.com/google.rpc.DebugInfo", "detail": "Invalid API key: key1234"},
                    ],
                }}),
            ),
            ErrorKind::PermissionDenied,
            "gemini answered 400 INVALID_ARGUMENT: API key not valid. Please pass a valid API key.",
        ),
        (
            refuses(403, "PERMISSION_DENIED", "The API is disabled."),
            ErrorKind::PermissionDenied,
            "gemini answered 403 PERMISSION_DENIED: The API is disabled.",
        ),
        (
            refuses(404, "NOT_FOUND", unknown_model),
            ErrorKind::NotFound,
            &format!("gemini answered 404 NOT_FOUND: {unknown_model}"),
        ),
        (
            ScriptedAnswer::text(401, "text/plain", "who are you?"),
            ErrorKind::PermissionDenied,
            "gemini answered 401 Unauthorized",
        ),
        (
            ScriptedAnswer::text(413, "text/html", "<html>"),
            ErrorKind::InvalidArgument,
            "gemini answered 413 Payload Too Large",
        ),
        (
            ScriptedAnswer::json(404, &json!({"error": "model 'x' not found"})),
            ErrorKind::NotFound,
            "gemini answered 404 Not Found: model 'x' not found",
        ),
        (
            ScriptedAnswer::text(308, "text/plain", "").with_header("location", "http://127.0.0.1:1/"),
            ErrorKind::FailedPrecondition,
            "gemini answered 308 Permanent Redirect",
        ),
        (ScriptedAnswer::text(501, "text/plain", ""), ErrorKind::Unavailable, "gemini answered 501 Not Implemented"),
    ] {
        for request in [asks(), asks_streaming()] {
            let server = ModelServer::always(answer.clone()).await;
            let error = failure(&model(&server), request).await;
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, says));
            assert_eq!(server.requests().len(), 1, "{says} is not tried again");
        }
    }
}

#[tokio::test]
async fn what_is_refused_for_now_is_tried_again() {
    for status in [408, 429, 500, 502, 503, 504, 529] {
        let refuses = || refuses(status, "LATER", "Later.").with_header("retry-after", "0");
        let server = ModelServer::start([refuses(), refuses(), works()]).await;
        let responses = answers(&model(&server), asks()).await;
        assert_eq!(responses[0].as_ref().unwrap().content.as_ref().unwrap().text(), "Hi");
        let server = ModelServer::start([refuses(), refuses(), works_streaming()]).await;
        let responses = answers(&model(&server), asks_streaming()).await;
        assert_eq!(responses.last().unwrap().as_ref().unwrap().content.as_ref().unwrap().text(), "Hi");
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        assert!(requests.iter().all(|request| request.body == requests[0].body));
    }
}

#[tokio::test]
async fn what_is_always_refused_is_told_in_the_end() {
    let server = ModelServer::always(refuses(500, "INTERNAL", "Oh.").with_header("retry-after", "0")).await;
    let error = failure(&model(&server), asks()).await;
    assert_eq!((error.kind(), server.requests().len()), (ErrorKind::Unavailable, 3));
    assert!(error.to_string().starts_with("gemini answered 500 INTERNAL: Oh."), "{error}");

    let builder = || RemoteLlm::builder("gemini-2.5-flash").endpoint(server.url()).api_key(KEY);
    failure(&builder().max_retries(0).build().unwrap(), asks_streaming()).await;
    assert_eq!(server.requests().len(), 4);
    failure(&builder().max_retries(4).build().unwrap(), asks_streaming()).await;
    assert_eq!(server.requests().len(), 9);
}

#[tokio::test]
async fn the_pause_is_the_one_that_is_asked_for() {
    let in_details = json!({"error": {"code": 429, "message": "Slowly.", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.3s"},
    ]}});
    for answer in [
        refuses(429, "RESOURCE_EXHAUSTED", "Slowly.").with_header("retry-after-ms", "300"),
        refuses(429, "RESOURCE_EXHAUSTED", "Slowly.").with_header("retry-after", "0.3"),
        ScriptedAnswer::json(429, &in_details),
    ] {
        let server = ModelServer::start([answer, works()]).await;
        let start = Instant::now();
        answers(&model(&server), asks()).await.remove(0).unwrap();
        let took = start.elapsed();
        assert!((Duration::from_millis(300)..Duration::from_millis(950)).contains(&took), "{took:?}");
    }
}

#[tokio::test]
async fn without_a_word_the_pause_is_a_second_or_two() {
    let server = ModelServer::start([refuses(503, "UNAVAILABLE", "Busy."), works()]).await;
    let start = Instant::now();
    answers(&model(&server), asks()).await.remove(0).unwrap();
    let took = start.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn who_asks_to_wait_for_long_is_not_waited_for() {
    let server = ModelServer::always(refuses(429, "RESOURCE_EXHAUSTED", "Enough.").with_header("retry-after", "3600"));
    let server = server.await;
    let error = failure(&model(&server), asks()).await;
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert_eq!(error.to_string(), "gemini answered 429 RESOURCE_EXHAUSTED: Enough.; it asks to wait 3600 s");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_connection_that_is_lost_before_the_answer_is_made_again() {
    let cases = [
        (ScriptedAnswer::reset(), asks(), works()),
        (works().closed_after(0), asks(), works()),
        (ScriptedAnswer::text(200, "application/json", ""), asks(), works()),
        (ScriptedAnswer::reset(), asks_streaming(), works_streaming()),
        (works_streaming().reset_after(0), asks_streaming(), works_streaming()),
        (works_streaming().closed_after(20), asks_streaming(), works_streaming()),
        (ScriptedAnswer::events(""), asks_streaming(), works_streaming()),
        (ScriptedAnswer::events(": nothing yet\n\n"), asks_streaming(), works_streaming()),
    ];
    join_all(cases.map(|(first, request, then)| async move {
        let server = ModelServer::start([first.clone(), then]).await;
        let responses: Result<Vec<_>> = answers(&model(&server), request).await.into_iter().collect();
        let text = responses.unwrap().last().unwrap().content.as_ref().unwrap().text();
        assert_eq!((text.as_str(), server.requests().len()), ("Hi", 2), "{first:?}");
    }))
    .await;
}

#[tokio::test]
async fn who_cannot_be_reached_is_unavailable() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let model = RemoteLlm::builder("gemini-2.5-flash").endpoint(format!("http://{nobody}")).api_key(KEY).max_retries(0);
    let error = failure(&model.build().unwrap(), asks()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().starts_with("gemini cannot be reached: "), "{error}");
    assert!(error.to_string().to_lowercase().contains("refused"), "{error}");
}

#[tokio::test]
async fn nothing_is_tried_again_once_a_piece_was_shown() {
    let piece = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Hi\"}]}}]}\n\n";
    let complaint = "data: {\"error\": {\"code\": 503, \"message\": \"Overloaded.\", \"status\": \"UNAVAILABLE\"}}\n\n";
    let server = ModelServer::start([ScriptedAnswer::events(piece).reset_after(piece.len()), works_streaming()]).await;
    let responses = answers(&model(&server), asks_streaming()).await;
    assert!(responses[0].is_ok() && responses[1].is_err() && responses.len() == 2);
    assert_eq!(server.requests().len(), 1);

    // The error in the stream becomes the last answer, and the pieces before it do not count as an answer.
    let server = ModelServer::start([ScriptedAnswer::events(format!("{piece}{complaint}")), works_streaming()]).await;
    let last = answers(&model(&server), asks_streaming()).await.pop().unwrap().unwrap();
    assert_eq!((last.error_code.as_deref(), last.error_message.as_deref()), (Some("UNAVAILABLE"), Some("Overloaded.")));
    assert_eq!((last.content, last.partial), (None, Some(false)));
    assert_eq!(server.requests().len(), 1);

    // An error before the first piece is treated like an HTTP status.
    let server = ModelServer::start([ScriptedAnswer::events(complaint), works_streaming()]).await;
    assert!(answers(&model(&server), asks_streaming()).await.iter().all(Result::is_ok));
    assert_eq!(server.requests().len(), 2);
}

/// The answer is like that of
/// <https://github.com/FirebaseExtended/vertexai-sdk-test-data/blob/2d6adfde6a9ab79867347fd1f9dfeaccf1c9e3d9/mock-responses/vertexai/streaming-failure-error-mid-stream.txt>
/// in which the error is not an event either.
#[tokio::test]
async fn a_complaint_in_the_middle_of_a_stream_needs_no_form() {
    let body = concat!(
        "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"First \"}]},\"finishReason\": \"STOP\",\"index\": 0}]}\r\n\r\n",
        "{\n  \"error\": {\n    \"code\": 499,\n    \"message\": \"The operation was cancelled.\",\n    \"status\": \"CANCELLED\"\n  }\n}\n",
    );
    let server = ModelServer::always(ScriptedAnswer::events(body)).await;
    let last = answers(&model(&server), asks_streaming()).await.pop().unwrap().unwrap();
    assert_eq!(last.error_code.as_deref(), Some("CANCELLED"));
    assert_eq!(last.error_message.as_deref(), Some("The operation was cancelled."));
}

#[tokio::test]
async fn the_key_shows_up_nowhere() {
    let log = LoggedFields::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let repeats = format!("The key {KEY} is not known here.");
    let server = ModelServer::start([
        refuses(500, "INTERNAL", &repeats).with_header("retry-after", "0"),
        refuses(403, "PERMISSION_DENIED", &repeats),
        works(),
        ScriptedAnswer::reset(),
    ])
    .await;
    let builder = RemoteLlm::builder("gemini-2.5-flash").endpoint(server.url()).api_key(KEY).max_retries(1);
    let builder = builder.header("authorization", format!("Bearer {KEY}"));
    let mut shown = format!("{builder:?}");
    let model = builder.build().unwrap();
    let error = failure(&model, asks()).await;
    assert_eq!(error.to_string(), "gemini answered 403 PERMISSION_DENIED: The key [key] is not known here.");
    shown += &format!("{model:?}{model:#?}{error}{error:?}{:?}", answers(&model, asks()).await);
    shown +=
        &format!("{:?}", RemoteLlm::builder("gemini-2.5-flash").api_key("no\nheader").header("x", "no\nvalue").build());
    let traced = log.text();
    assert!(traced.contains("is tried again"), "what is traced is seen: {traced}");
    for text in [shown, traced] {
        assert!(!text.contains(KEY), "{text}");
        assert!(!text.contains(SAID), "{text}");
    }
}

/// The libraries that we use would log whole bodies.
#[tokio::test]
async fn what_a_provider_repeats_is_in_no_log() {
    let log = LoggedFields::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let said = format!("{KEY}, who said: {SAID}");
    let unknown = json!({"type": "something_new", "said": said});
    let anthropic = |error: serde_json::Value| {
        format!(
            "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"model\":\"m\",\"usage\":{{}}}}}}\n\n\
             event: something_new\ndata: {unknown}\n\nevent: error\ndata: {error}\n\n"
        )
    };
    let responses = |error: serde_json::Value| {
        format!("data: {{\"type\":\"response.created\",\"response\":{{}}}}\n\ndata: {unknown}\n\ndata: {error}\n\n")
    };
    for (name, stream) in [
        (
            "anthropic::claude-opus-4-5",
            anthropic(json!({"type": "error", "error": {"type": "api_error", "message": said}})),
        ),
        ("openai_resp::gpt-5", responses(json!({"type": "error", "code": "server_error", "message": said}))),
    ] {
        let broken = ScriptedAnswer::text(200, "application/json", &format!("{{\"no\": \"json, {said}"));
        let odd =
            ScriptedAnswer::json(200, &json!({"output": [{"type": "new", "said": said}], "content": [{"said": said}]}));
        let server = ModelServer::start([ScriptedAnswer::events(&stream), broken, odd]).await;
        let model = RemoteLlm::builder(name).endpoint(format!("{}/v1", server.url())).api_key(KEY).max_retries(0);
        let model = model.build().unwrap();
        let last = answers(&model, asks_streaming()).await.pop().unwrap().unwrap();
        let message = last.error_message.unwrap();
        assert!(message.starts_with("[key], who said: "), "{message}");
        for _ in 0..2 {
            let failed = format!("{:?}", answers(&model, asks()).await);
            assert!(!failed.contains(KEY), "{failed}");
        }
        assert_eq!(server.requests().len(), 3);
    }
    // Log entries of other code still appear.
    tracing::warn!("still seen");
    let traced = log.text();
    assert!(traced.contains("still seen"), "{traced}");
    assert!(!traced.contains(KEY) && !traced.contains(SAID), "{traced}");
}

#[tokio::test]
async fn values_of_headers_are_hidden_in_what_a_provider_says() {
    let server =
        ModelServer::always(refuses(403, "PERMISSION_DENIED", "hunter2-hunter2 may not, in 1 of 1 cases.")).await;
    let model = RemoteLlm::builder("gemini-2.5-flash").endpoint(server.url()).api_key(KEY);
    let model = model.header("authorization", "Bearer hunter2-hunter2").header("x-tries", "1").build().unwrap();
    let error = failure(&model, asks()).await;
    assert_eq!(error.to_string(), "gemini answered 403 PERMISSION_DENIED: [header] may not, in 1 of 1 cases.");
}

#[tokio::test]
async fn an_answer_without_end_is_an_error() {
    let megabyte = "x".repeat(1 << 20);
    let endless = |piece: &str| format!("{piece}\n\n").repeat(65);
    let gemini =
        endless(&format!("data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": \"{megabyte}\"}}]}}}}]}}"));
    let chat =
        endless(&format!("data: {{\"choices\": [{{\"index\": 0, \"delta\": {{\"content\": \"{megabyte}\"}}}}]}}"));
    let spaces = " ".repeat(65 << 20);
    for (name, path, answer, request) in [
        ("gemini-2.5-flash", "", ScriptedAnswer::text(200, "application/json", &spaces), asks()),
        ("gemini-2.5-flash", "", ScriptedAnswer::events(&gemini), asks_streaming()),
        ("ollama::llama3", "", ScriptedAnswer::text(200, "application/json", &spaces), asks()),
        ("ollama::llama3", "", ScriptedAnswer::lines(&spaces), asks_streaming()),
        ("openai::some-model", "/v1", ScriptedAnswer::events(&chat), asks_streaming()),
        ("openai::some-model", "/v1", ScriptedAnswer::text(200, "application/json", &spaces), asks()),
        ("openai_resp::gpt-5", "/v1", ScriptedAnswer::text(200, "application/json", &spaces), asks()),
        ("anthropic::claude-opus-4-5", "", ScriptedAnswer::text(200, "application/json", &spaces), asks()),
    ] {
        let server = ModelServer::always(answer).await;
        let model = RemoteLlm::builder(name).endpoint(format!("{}{path}", server.url())).api_key(KEY);
        let error = failure(&model.build().unwrap(), request).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().ends_with("is longer than 64 MiB"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn an_address_in_a_variable_that_is_not_read_is_warned_about() {
    const CHILD: &str = "SCRATCHBOOK_TEST_ADDRESS_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let log = LoggedFields::default();
        let _logging = tracing::subscriber::set_default(log.clone());
        RemoteLlm::builder("openai::m").endpoint("http://localhost:1/v1").build().unwrap();
        assert!(!log.text().contains("OPENAI_API_BASE"), "{}", log.text());
        RemoteLlm::new("openai::m").unwrap();
        assert!(log.text().contains("set OPENAI_BASE_URL"), "{}", log.text());
        return;
    }
    let this = concat!(module_path!(), "::an_address_in_a_variable_that_is_not_read_is_warned_about");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([this.split_once("::").unwrap().1, "--exact", "--nocapture"]).env(CHILD, "1");
    child.env("OPENAI_API_BASE", "http://localhost:1/v1").env("OPENAI_API_KEY", KEY).env_remove("OPENAI_BASE_URL");
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
