//! Answers of models that use Anthropic's Messages API.

use scratchbook::Content;
use scratchbook::content::Part;
use serde_json::{Value, json};

use super::ask::{conversation, end, model, part, parts, question, result, streamed, texts, whole};
use super::promises::Spoken;
use super::server::{ModelServer, ScriptedAnswer};

/// <https://docs.anthropic.com/en/api/messages-examples> and
/// <https://docs.anthropic.com/en/docs/build-with-claude/streaming>; the text of the stream is ours, because it has
/// characters of several bytes.
pub(crate) const SPOKEN: Spoken = Spoken {
    model: "anthropic::claude-opus-4-5",
    path: "",
    whole: r#"{
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant",
        "content": [{"type": "text", "text": "Hello!"}],
        "model": "claude-opus-4-5-20251101", "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 12, "output_tokens": 6}
    }"#,
    stream: concat!(
        "event: message_start\n",
        r#"data: {"type": "message_start", "message": {"id": "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyy", "type": "message", "role": "assistant", "content": [], "model": "claude-opus-4-5-20251101", "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 25, "output_tokens": 1}}}"#,
        "\n\nevent: content_block_start\n",
        r#"data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}"#,
        "\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_delta\n",
        r#"data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße"}}"#,
        "\n\nevent: content_block_delta\n",
        r#"data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " an 🌍!"}}"#,
        "\n\nevent: content_block_stop\n",
        r#"data: {"type": "content_block_stop", "index": 0}"#,
        "\n\nevent: message_delta\n",
        r#"data: {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence":null}, "usage": {"output_tokens": 15}}"#,
        "\n\nevent: message_stop\ndata: {\"type\": \"message_stop\"}\n\n",
    ),
    text: "Grüße an 🌍!",
    streaming: |body| ScriptedAnswer::events(body),
    error: "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n",
};

/// Server-sent events as they are sent.
fn events(events: &[Value]) -> ScriptedAnswer {
    let lines = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    ScriptedAnswer::events(lines.collect::<String>())
}

fn start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_014p7gG3wDgGV9EUtLvnow3U", "type": "message", "role": "assistant", "model": "claude-opus-4-5",
        "stop_sequence": null, "usage": {"input_tokens": 472, "output_tokens": 2}, "content": [], "stop_reason": null,
    }})
}

fn block(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn json_delta(index: u64, json: &str) -> Value {
    delta(index, &json!({"type": "input_json_delta", "partial_json": json}))
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn finish(reason: &str) -> [Value; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 89}}), json!({"type": "message_stop"})]
}

fn message(content: &Value, reason: &str) -> ScriptedAnswer {
    let usage = json!({
        "input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 40},
    });
    let message = json!({
        "type": "message", "role": "assistant", "content": content, "model": "claude-opus-4-5", "stop_reason": reason,
        "usage": usage,
    });
    ScriptedAnswer::json(200, &message)
}

#[tokio::test]
async fn usage_model_and_pieces_are_told() {
    let server = ModelServer::start([
        ScriptedAnswer::events(SPOKEN.stream),
        message(&json!([{"type": "text", "text": "Hi."}]), "end_turn"),
    ])
    .await;
    let model = model(SPOKEN.model, &server, "");
    let (pieces, last) = streamed(&model, question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!(texts(&pieces), ["Grüße", " an 🌍!"]);
    let version = Some("claude-opus-4-5-20251101");
    assert!(pieces.iter().chain([&last]).all(|answer| answer.model_version.as_deref() == version));
    let usage = json!({"promptTokenCount": 25, "candidatesTokenCount": 15, "totalTokenCount": 40});
    assert_eq!(last.usage_metadata, Some(usage));

    let answer = whole(&model, question("Hello!")).await.unwrap();
    let usage = json!({
        "promptTokenCount": 60, "candidatesTokenCount": 10, "totalTokenCount": 110, "cachedContentTokenCount": 30,
        "thoughtsTokenCount": 40,
    });
    assert_eq!(answer.usage_metadata, Some(usage));
}

/// <https://docs.anthropic.com/en/docs/build-with-claude/streaming#streaming-request-with-tool-use>
#[tokio::test]
async fn calls_come_whole_however_they_were_cut() {
    let mut all = vec![start(), block(0, &json!({"type": "text", "text": ""})), json!({"type": "ping"})];
    let said = ["Okay", ",", " let", "'s", " check", " the", " weather", " for", " San", " Francisco", ",", " CA", ":"];
    all.extend(said.map(|text| delta(0, &json!({"type": "text_delta", "text": text}))));
    all.push(stop(0));
    all.push(block(
        1,
        &json!({
            "type": "tool_use", "id": "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "name": "get_weather", "input": {},
        }),
    ));
    let cut = ["", "{\"location\":", " \"San", " Francisc", "o,", " CA\"", ", ", "\"unit\": \"fah", "renheit\"}"];
    all.extend(cut.map(|json| json_delta(1, json)));
    all.push(stop(1));
    // Another call, not from the documentation, has no arguments.
    all.extend([block(2, &json!({"type": "tool_use", "id": "toolu_2", "name": "get_time", "input": {}})), stop(2)]);
    all.extend(finish("tool_use"));
    let server = ModelServer::start([events(&all)]).await;
    let (pieces, last) = streamed(&model(SPOKEN.model, &server, ""), question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!(texts(&pieces), said);
    let args = json!({"location": "San Francisco, CA", "unit": "fahrenheit"});
    let expected = json!([
        {"text": "Okay, let's check the weather for San Francisco, CA:"},
        {"functionCall": {"id": "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "name": "get_weather", "args": args}},
        {"functionCall": {"id": "toolu_2", "name": "get_time", "args": {}}},
    ]);
    assert_eq!(parts(&last), expected);
    assert_eq!(end(&last), (Some("STOP"), None, None));
}

#[tokio::test]
async fn arguments_that_are_no_object_void_all_calls() {
    let tool = |name: &str| json!({"type": "tool_use", "id": name, "name": name, "input": {}});
    let mut all =
        vec![start(), block(0, &tool("a")), stop(0), block(1, &tool("b")), json_delta(1, "{\"x\": "), stop(1)];
    all.extend(finish("tool_use"));
    let server = ModelServer::start([events(&all)]).await;
    let (_, last) = streamed(&model(SPOKEN.model, &server, ""), question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!((last.content.as_ref(), last.error_code.as_deref()), (None, Some("MALFORMED_FUNCTION_CALL")));
}

#[tokio::test]
async fn a_call_cut_off_by_the_limit_of_tokens_is_not_made() {
    let tool = json!({"type": "tool_use", "id": "toolu_1", "name": "delete", "input": {}});
    // Anthropic ends such a message without the end of the block.
    let mut all = vec![start(), block(0, &tool)];
    all.extend(finish("max_tokens"));
    let server = ModelServer::start([events(&all)]).await;
    let (_, last) = streamed(&model(SPOKEN.model, &server, ""), question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!((last.content.as_ref(), last.error_code.as_deref()), (None, Some("MAX_TOKENS")));
}

/// <https://docs.anthropic.com/en/docs/build-with-claude/streaming#streaming-request-with-extended-thinking>
#[tokio::test]
async fn thoughts_come_apart_and_go_back_signed() {
    let signature = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds...";
    let thinking = |text: &str| delta(0, &json!({"type": "thinking_delta", "thinking": text}));
    let mut all = vec![
        start(),
        block(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        thinking("Let me solve this step by step:\n\n1. First break down 27 * 453"),
        thinking("\n2. 453 = 400 + 50 + 3"),
        delta(0, &json!({"type": "signature_delta", "signature": signature})),
        stop(0),
        block(1, &json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"})),
        stop(1),
        block(2, &json!({"type": "tool_use", "id": "toolu_1", "name": "multiply", "input": {}})),
        json_delta(2, "{\"a\": 27, \"b\": 453}"),
        stop(2),
    ];
    all.extend(finish("tool_use"));
    let server = ModelServer::start([events(&all), ScriptedAnswer::text(200, "application/json", SPOKEN.whole)]).await;
    let model = model(SPOKEN.model, &server, "");
    let (pieces, last) = streamed(&model, question("What is 27 * 453?")).await;
    let said = "Let me solve this step by step:\n\n1. First break down 27 * 453\n2. 453 = 400 + 50 + 3";
    assert_eq!(texts(&pieces).concat().replace(")(", ""), format!("({said})"));
    let answer = last.unwrap().content.unwrap();
    let [thought, redacted, call] = answer.parts().to_vec().try_into().unwrap();
    assert_eq!((thought.text.as_deref(), thought.thought), (Some(said), Some(true)));
    assert_eq!(thought.thought_signature.as_deref(), Some(signature.as_bytes()));
    assert_eq!((redacted.text.as_deref(), redacted.thought), (None, Some(true)));

    // The answer goes through JSON, as in a session.
    let kept: Content = serde_json::from_value(serde_json::to_value(&answer).unwrap()).unwrap();
    let gemini = part(json!({"text": "Not Anthropic's.", "thought": true, "thoughtSignature": "_v8="}));
    let request = conversation([
        Content::user("What is 27 * 453?"),
        kept,
        Content::new("user", vec![result("toolu_1", "multiply", json!({"result": 12231}))]),
        Content::new("model", vec![gemini, Part::text("12,231")]),
        Content::user("Sure?"),
    ]);
    whole(&model, request).await.unwrap();
    let messages = &server.requests().pop().unwrap().body["messages"];
    assert_eq!(
        messages[1]["content"],
        json!([
            {"type": "thinking", "thinking": said, "signature": signature},
            {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"},
            {"type": "tool_use", "id": "toolu_1", "name": "multiply", "input": {"a": 27, "b": 453}},
        ])
    );
    assert_eq!(messages[3]["content"], "12,231", "a signature of another model is not Anthropic's to read");
    assert!(call.function_call.is_some());
}

#[tokio::test]
async fn an_answer_tells_why_it_ended() {
    let reasons = [
        ("end_turn", "STOP", None),
        ("stop_sequence", "STOP", None),
        ("pause_turn", "STOP", None),
        ("max_tokens", "MAX_TOKENS", Some("Maximum tokens reached")),
        ("model_context_window_exceeded", "MAX_TOKENS", Some("Maximum tokens reached")),
        ("refusal", "SAFETY", Some("Finished with SAFETY")),
        ("sunspots", "OTHER", Some("Finished with OTHER")),
    ];
    for (reason, expected, said) in reasons {
        let mut all = vec![start(), block(0, &json!({"type": "text", "text": "Well"})), stop(0)];
        all.extend(finish(reason));
        let at_once = message(&json!([{"type": "text", "text": "Well"}]), reason);
        let server = ModelServer::start([events(&all), at_once]).await;
        let model = model(SPOKEN.model, &server, "");
        let (pieces, last) = streamed(&model, question("Hello!")).await;
        assert_eq!(texts(&pieces), ["Well"], "a block may begin with words");
        for answer in [last.unwrap(), whole(&model, question("Hello!")).await.unwrap()] {
            assert_eq!(end(&answer), (Some(expected), said.map(|_| expected), said), "{reason}");
            assert_eq!(parts(&answer), json!([{"text": "Well"}]));
        }
    }
}

/// We request no citations and none of Anthropic's own tools. If they come, the rest of the answer is still read.
#[tokio::test]
async fn what_is_new_is_passed_over() {
    let mut all = vec![
        start(),
        block(0, &json!({"type": "text", "text": ""})),
        delta(0, &json!({"type": "text_delta", "text": "Hi"})),
        delta(0, &json!({"type": "citations_delta", "citation": {"type": "char_location"}})),
        json!({"type": "sunspots", "count": 3}),
        delta(0, &json!({"type": "text_delta", "text": "."})),
        stop(0),
        block(1, &json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})),
        json_delta(1, "{\"query\": 1}"),
        stop(1),
    ];
    all.extend(finish("end_turn"));
    let server = ModelServer::start([events(&all)]).await;
    let (pieces, last) = streamed(&model(SPOKEN.model, &server, ""), question("Hello!")).await;
    assert_eq!(texts(&pieces), ["Hi", "."]);
    assert_eq!(parts(&last.unwrap()), json!([{"text": "Hi."}]));
}
