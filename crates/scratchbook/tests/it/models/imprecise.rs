//! Answers that are not quite in the provider's published format, and failures before anything was shown.

use futures_util::TryStreamExt;
use scratchbook::agent::RunConfig;
use scratchbook::prelude::*;
use serde_json::{Map, Value, json};

use super::ask::{end, model, parts, patient, question, streamed, texts, whole};
use super::server::{ModelServer, ScriptedAnswer};
use super::{anthropic, ollama, openai};

fn gemini(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
}

fn responses(status: &str, output: &Value) -> Value {
    json!({"status": status, "model": "m", "output": output})
}

fn spoken(text: &str) -> Value {
    json!([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}])
}

fn events(events: &[Value]) -> ScriptedAnswer {
    ScriptedAnswer::events(events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
}

fn chunk(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn finish() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
}

#[tokio::test]
async fn whole_answer_in_place_of_a_stream_is_used() {
    let chat: Value = serde_json::from_str(openai::SPOKEN.whole).unwrap();
    let mut endless = chat.clone();
    endless["choices"][0]["finish_reason"] = Value::Null;
    let claude: Value = serde_json::from_str(anthropic::SPOKEN.whole).unwrap();
    let llama: Value = serde_json::from_str(ollama::SPOKEN.whole).unwrap();
    for (name, path, answer, text) in [
        ("openai::m", "/v1", chat, "Hello! How can I assist you today?"),
        ("openai::m", "/v1", endless, "Hello! How can I assist you today?"),
        ("anthropic::m", "", claude, "Hello!"),
        ("ollama::m", "", llama, "Hello! How are you today?"),
        ("openai_resp::m", "/v1", responses("completed", &spoken("Hi.")), "Hi."),
        ("gemini::m", "", gemini(&json!([{"text": "Hi."}])), "Hi."),
        ("gemini::m", "", json!([gemini(&json!([{"text": "Hi"}])), gemini(&json!([{"text": "."}]))]), "Hi."),
    ] {
        let pretty = format!("\u{feff}{answer:#}");
        let body = if name.starts_with("ollama") { answer.to_string() } else { pretty };
        let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", &body)).await;
        let (_, last) = streamed(&model(name, &server, path), question("Hello!")).await;
        assert_eq!(last.unwrap().content.unwrap().text(), text, "{name}");
    }
}

#[tokio::test]
async fn error_in_place_of_a_stream_tells_its_message() {
    let openai = json!({"error": {"message": "No models loaded", "type": "invalid_request_error"}});
    let claude = json!({"type": "error", "error": {"message": "No models loaded", "type": "invalid_request_error"}});
    let google = json!({"error": {"code": 400, "message": "No models loaded", "status": "INVALID_ARGUMENT"}});
    for (name, path, body) in [
        ("openai::m", "/v1", &openai),
        ("openai_resp::m", "/v1", &openai),
        ("anthropic::m", "", &claude),
        ("gemini::m", "", &google),
    ] {
        let server = ModelServer::always(ScriptedAnswer::json(200, body)).await;
        let error = streamed(&model(name, &server, path), question("Hello!")).await.1.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}: {error}");
        assert!(error.to_string().contains("No models loaded"), "{error}");
    }
}

#[tokio::test]
async fn stream_may_have_a_byte_order_mark_and_no_empty_lines() {
    let [hi, end] = [chunk(&json!({"content": "hi"})), finish()];
    for body in [
        format!("\u{feff}data: {hi}\n\ndata: {end}\n\ndata: [DONE]\n\n"),
        format!("data: {hi}\ndata: {end}\ndata: [DONE]\n"),
        format!("data:{hi}\r\n\r\ndata:{end}\r\n\r\ndata:[DONE]"),
        format!("{hi}\n{end}"),
    ] {
        let server = ModelServer::always(ScriptedAnswer::text(200, "text/plain", &body)).await;
        let (pieces, last) = streamed(&model("openai::m", &server, "/v1"), question("Hello!")).await;
        assert_eq!((texts(&pieces), last.unwrap().content.unwrap().text()), (vec!["hi".to_owned()], "hi".to_owned()));
    }
    // Reading many lines of one event takes linear time.
    let body = "data: [\n".repeat(400_000);
    let server = ModelServer::always(ScriptedAnswer::events(body)).await;
    let begin = std::time::Instant::now();
    streamed(&model("openai::m", &server, "/v1"), question("Hello!")).await.1.unwrap_err();
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn character_that_was_cut_into_two_escapes_is_put_together() {
    let texts = |first: &str, second: &str| {
        let [hi, end] = ["FIRST", "SECOND"].map(|text| chunk(&json!({"content": text})).to_string());
        let (hi, end) = (hi.replace("FIRST", first), end.replace("SECOND", second));
        ScriptedAnswer::events(format!("data: {hi}\n\ndata: {{}}\n\ndata: {end}\n\ndata: {}\n\n", finish()))
    };
    for (first, second, whole) in [
        ("a\\ud83c", "\\udf89b", "a🎉b"),
        ("\\uD83C\\uDF89", "\\\\ud83c", "🎉\\ud83c"),
        ("a\\udf89", "b\\ud83c c", "a\u{fffd}b\u{fffd} c"),
        ("a\\ud83c", "b", "ab"),
    ] {
        let server = ModelServer::always(texts(first, second)).await;
        let (_, last) = streamed(&model("openai::m", &server, "/v1"), question("Hello!")).await;
        assert_eq!(last.unwrap().content.unwrap().text(), whole);
    }
}

#[tokio::test]
async fn refusal_of_fastapi_tells_what_is_wrong() {
    let detail = json!({"detail": [{"loc": ["body", "tools", 0], "msg": "field not allowed", "type": "value_error"}]});
    for (body, says) in [(detail, "body.tools.0: field not allowed"), (json!({"detail": "Not Found"}), "Not Found")] {
        let server = ModelServer::always(ScriptedAnswer::json(422, &body)).await;
        let error = whole(&model("openai::m", &server, "/v1"), question("Hello!")).await.unwrap_err();
        assert_eq!(error.to_string(), format!("openai answered 422 Unprocessable Entity: {says}"));
    }
}

#[tokio::test]
async fn overload_before_anything_was_shown_is_tried_again() {
    let start = json!({"type": "message_start", "message": {"model": "c", "usage": {}}});
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let role = chunk(&json!({"role": "assistant", "content": ""}));
    let busy = json!({"error": {"message": "overloaded", "code": 503, "type": "server_error"}});
    let created = json!({"type": "response.created", "response": {"status": "in_progress"}});
    let failed = |code: &str| {
        let error = json!({"code": code, "message": "try again"});
        json!({"type": "response.failed", "response": {"status": "failed", "error": error}})
    };
    let usage = json!({"usageMetadata": {"promptTokenCount": 3}});
    let unavailable = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let chat = [role.clone(), chunk(&json!({"content": "ok"})), finish()];
    let completed = [json!({"type": "response.completed", "response": responses("completed", &spoken("ok"))})];
    let claude = ScriptedAnswer::text(200, "application/json", anthropic::SPOKEN.whole);
    let cases = [
        ("anthropic::m", "", events(&[start.clone(), overloaded.clone()]), claude.clone()),
        ("anthropic::m", "", events(&[start, json!({"type": "ping"}), overloaded]), claude),
        ("openai::m", "/v1", events(&[role.clone(), busy]), events(&chat)),
        ("openai::m", "/v1", events(std::slice::from_ref(&role)).reset_after(60), events(&chat)),
        ("openai::m", "/v1", events(&[role]), events(&chat)),
        ("openai_resp::m", "/v1", events(&[created.clone(), failed("server_error")]), events(&completed)),
        ("openai_resp::m", "/v1", events(&[created, failed("rate_limit_exceeded")]), events(&completed)),
        ("gemini::m", "", events(&[usage, unavailable]), events(&[gemini(&json!([{"text": "ok"}]))])),
    ];
    let asked = cases.map(|(name, path, first, then)| async move {
        let server = ModelServer::start([first.clone(), then.clone()]).await;
        let (_, last) = streamed(&patient(name, &server, path, 1), question("Hello!")).await;
        let last = last.unwrap();
        assert_eq!((last.error_code.as_deref(), server.requests().len()), (None, 2), "{name}");
        // Without a retry left, the failure is returned.
        let server = ModelServer::start([first, then]).await;
        let (_, last) = streamed(&model(name, &server, path), question("Hello!")).await;
        assert!(last.map_or(true, |last| last.error_code.is_some()), "{name}");
        assert_eq!(server.requests().len(), 1, "{name}");
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
async fn call_with_a_number_beyond_64_bits_is_refused_with_the_reason() {
    let digits = "123456789012345678901";
    let text = |answer: Value| answer.to_string().replace("\"BIG\"", digits);
    let args = json!({"n": "BIG"});
    let call = |args: Value| json!({"id": "c", "function": {"name": "count", "arguments": args}});
    let chat = |args: Value| {
        text(json!({"choices": [{"index": 0, "message": {"tool_calls": [call(args)]}, "finish_reason": "tool_calls"}]}))
    };
    let claude = json!({
        "type": "message", "content": [{"type": "tool_use", "id": "c", "name": "count", "input": args}],
        "stop_reason": "tool_use",
    });
    let item =
        json!({"type": "function_call", "call_id": "c", "name": "count", "arguments": format!("{{\"n\":{digits}}}")});
    let llama = json!({"message": {"tool_calls": [call(args.clone())]}, "done": true});
    let google = gemini(&json!([{"functionCall": {"name": "count", "args": args}}]));
    let written = json!(format!("{{\"n\": {digits}}}"));
    for (name, path, answer, done) in [
        ("openai::m", "/v1", chat(args.clone()), openai::SPOKEN.whole.to_owned()),
        ("openai::m", "/v1", chat(written), openai::SPOKEN.whole.to_owned()),
        (
            "openai_resp::m",
            "/v1",
            text(responses("completed", &json!([item]))),
            responses("completed", &spoken("ok")).to_string(),
        ),
        ("anthropic::m", "", text(claude), anthropic::SPOKEN.whole.to_owned()),
        ("ollama::m", "", text(llama), ollama::SPOKEN.whole.replace('\n', "")),
        ("gemini::m", "", text(google), gemini(&json!([{"text": "ok"}])).to_string()),
    ] {
        let answers = || [&answer, &done].map(|body| ScriptedAnswer::text(200, "application/json", body));
        let server = ModelServer::start(answers().into_iter().chain(answers())).await;
        let count = FunctionTool::new("count", "Counts.", |_: Map<String, Value>, _: ToolContext| async {
            Ok::<Value, Error>(json!("a call with a changed number is run"))
        });
        let agent = LlmAgent::builder("counter").model(model(name, &server, path)).tool(count).build().unwrap();
        let sessions = connect("memory:").await.unwrap().sessions;
        let runner = Runner::builder("app", agent, sessions).auto_create_session().build().unwrap();
        for streaming in [false, true] {
            let config = if streaming { RunConfig::default().with_streaming() } else { RunConfig::default() };
            let request = RunRequest::message("Hello").with_config(config);
            let events: Vec<_> = runner.run("alice", &format!("s{streaming}"), request).try_collect().await.unwrap();
            let whole: Vec<_> = events.iter().filter(|event| event.partial != Some(true)).collect();
            let call = whole[0].function_calls().next().unwrap();
            assert_eq!(json!(call.args), json!({"n": digits}), "{name}");
            let response = json!(whole[1].function_responses().next().unwrap().response);
            let why = response["error"].as_str().unwrap();
            assert!(why.contains("an integer of 21 digits does not fit 64 bits; send it as a string"), "{why}");
            assert_eq!(whole[2].error_code, None, "the run goes on");
        }
    }
}

#[tokio::test]
async fn repeated_call_of_gemini_is_one_call_unless_it_differs() {
    let call = |name: &str, n: u32| json!({"functionCall": {"id": "c", "name": name, "args": {"n": n}}});
    let calls = json!([call("a", 1), call("a", 1), call("a", 2), call("b", 1)]);
    let server = ModelServer::always(events(&[gemini(&calls)])).await;
    let (_, last) = streamed(&model("gemini::m", &server, ""), question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!(parts(&last), json!([call("a", 1), call("a", 2), call("b", 1)]));
    assert_eq!(end(&last).0, Some("STOP"));
}
