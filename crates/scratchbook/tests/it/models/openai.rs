//! Answers of models that use OpenAI's Chat Completions API.

use serde_json::{Value, json};

use super::ask::{end, model, parts, question, streamed, texts, whole};
use super::promises::Spoken;
use super::server::{ModelServer, ScriptedAnswer};

/// <https://platform.openai.com/docs/api-reference/chat/create> and `/chat/streaming`; the text of the stream is ours,
/// because it has characters of several bytes.
pub(crate) const SPOKEN: Spoken = Spoken {
    model: "openai::gpt-4.1",
    path: "/v1",
    whole: r#"{
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "object": "chat.completion", "created": 1741569952,
        "model": "gpt-4.1-2025-04-14",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": "Hello! How can I assist you today?", "refusal": null, "annotations": []
            },
            "logprobs": null, "finish_reason": "stop"
        }],
        "usage": {
            "prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0
            }
        },
        "service_tier": "default"
    }"#,
    stream: concat!(
        r#"data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini", "system_fingerprint": "fp_44709d6fcb", "choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini", "system_fingerprint": "fp_44709d6fcb", "choices":[{"index":0,"delta":{"content":"Grüße"},"logprobs":null,"finish_reason":null}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini", "system_fingerprint": "fp_44709d6fcb", "choices":[{"index":0,"delta":{"content":" an 🌍!"},"logprobs":null,"finish_reason":null}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini", "system_fingerprint": "fp_44709d6fcb", "choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini", "system_fingerprint": "fp_44709d6fcb", "choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":6}}}"#,
        "\n\ndata: [DONE]\n\n",
    ),
    text: "Grüße an 🌍!",
    streaming: |body| ScriptedAnswer::events(body),
    error: "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\",\"code\":null}}\n\n",
};

/// One chunk of a stream.
fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
    let chunk = json!({"object": "chat.completion.chunk", "model": "gpt-4o-mini", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

/// A stream of these deltas.
fn stream(deltas: impl IntoIterator<Item = Value>, finish: &str) -> ScriptedAnswer {
    let mut body: String = deltas.into_iter().map(|delta| chunk(&delta, None)).collect();
    body.push_str(&chunk(&json!({}), Some(finish)));
    ScriptedAnswer::events(format!("{body}data: [DONE]\n\n"))
}

/// A whole answer with this message.
fn message(message: &Value, finish: &str) -> ScriptedAnswer {
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    ScriptedAnswer::json(200, &json!({"object": "chat.completion", "model": "gpt-4o-mini", "choices": [choice]}))
}

fn tool_call(index: u64, id: &str, name: &str, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
}

fn fragment(index: u64, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
}

#[tokio::test]
async fn usage_model_and_pieces_are_told() {
    let server = ModelServer::start([
        ScriptedAnswer::events(SPOKEN.stream),
        ScriptedAnswer::text(200, "application/json", SPOKEN.whole),
    ])
    .await;
    let model = model(SPOKEN.model, &server, "/v1");
    let (pieces, last) = streamed(&model, question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!(texts(&pieces), ["Grüße", " an 🌍!"]);
    assert!(pieces.iter().chain([&last]).all(|answer| answer.model_version.as_deref() == Some("gpt-4o-mini")));
    assert_eq!(end(&last), (Some("STOP"), None, None));
    let usage = json!({
        "promptTokenCount": 19, "candidatesTokenCount": 10, "totalTokenCount": 29, "cachedContentTokenCount": 4,
        "thoughtsTokenCount": 6,
    });
    assert_eq!(last.usage_metadata, Some(usage));

    let answer = whole(&model, question("Hello!")).await.unwrap();
    assert_eq!(parts(&answer), json!([{"text": "Hello! How can I assist you today?"}]));
    assert_eq!(answer.model_version.as_deref(), Some("gpt-4.1-2025-04-14"));
    let usage = json!({
        "promptTokenCount": 19, "candidatesTokenCount": 10, "totalTokenCount": 29, "cachedContentTokenCount": 0,
    });
    assert_eq!(answer.usage_metadata, Some(usage));
}

#[tokio::test]
async fn calls_come_whole_and_in_order_however_they_were_cut() {
    let deltas = [
        json!({"role": "assistant", "content": null}),
        json!({"content": "Let me see."}),
        tool_call(0, "call_a", "get_weather", ""),
        fragment(0, "{\"loca"),
        // The second call begins before the first has ended. No provider is known to do this, but it is allowed.
        tool_call(1, "call_b", "get_time", ""),
        fragment(0, "tion\": \"Rome\"}"),
        tool_call(2, "call_c", "get_weather", "{\"location\": \"Oslo\"}"),
    ];
    let server = ModelServer::start([stream(deltas, "tool_calls")]).await;
    let (pieces, last) = streamed(&model(SPOKEN.model, &server, "/v1"), question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!(texts(&pieces), ["Let me see."]);
    let expected = json!([
        {"text": "Let me see."},
        {"functionCall": {"id": "call_a", "name": "get_weather", "args": {"location": "Rome"}}},
        {"functionCall": {"id": "call_b", "name": "get_time", "args": {}}},
        {"functionCall": {"id": "call_c", "name": "get_weather", "args": {"location": "Oslo"}}},
    ]);
    assert_eq!(parts(&last), expected);
    assert_eq!(end(&last), (Some("STOP"), None, None));
}

/// The calls are those of <https://platform.openai.com/docs/guides/function-calling>.
#[tokio::test]
async fn calls_of_a_whole_answer_are_read() {
    let calls = json!([
        {"id": "call_12345xyz", "type": "function",
            "function": {"name": "get_weather", "arguments": "{\"location\":\"Paris, France\"}"}},
        {"id": "call_67890abc", "type": "function", "function": {"name": "get_time", "arguments": ""}},
    ]);
    let answer = message(&json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls");
    let server = ModelServer::start([answer]).await;
    let answer = whole(&model(SPOKEN.model, &server, "/v1"), question("Hello!")).await.unwrap();
    let expected = json!([
        {"functionCall": {"id": "call_12345xyz", "name": "get_weather", "args": {"location": "Paris, France"}}},
        {"functionCall": {"id": "call_67890abc", "name": "get_time", "args": {}}},
    ]);
    assert_eq!(parts(&answer), expected);
}

#[tokio::test]
async fn badly_numbered_calls_are_told_apart() {
    let same_index = [
        tool_call(0, "call_a", "get_weather", "{\"location\": \"Rome\"}"),
        tool_call(0, "call_b", "get_weather", "{\"location\": \"Oslo\"}"),
    ];
    let no_index = [
        json!({"tool_calls": [{"id": "call_a", "function": {"name": "get_weather", "arguments": "{\"location\":"}}]}),
        json!({"tool_calls": [{"function": {"arguments": " \"Rome\"}"}}]}),
        json!({"tool_calls": [
            {"id": "call_b", "function": {"name": "get_weather", "arguments": "{\"location\": \"Oslo\"}"}},
        ]}),
    ];
    let new_ids = [
        tool_call(3, "call_a", "get_weather", "{\"location\":"),
        tool_call(3, "call_x", "get_weather", " \"Rome\"}"),
        tool_call(4, "call_b", "get_weather", "{\"location\": \"Oslo\"}"),
    ];
    for deltas in [same_index.to_vec(), no_index.to_vec(), new_ids.to_vec()] {
        let server = ModelServer::start([stream(deltas.clone(), "tool_calls")]).await;
        let (_, last) = streamed(&model(SPOKEN.model, &server, "/v1"), question("Hello!")).await;
        let expected = json!([
            {"functionCall": {"id": "call_a", "name": "get_weather", "args": {"location": "Rome"}}},
            {"functionCall": {"id": "call_b", "name": "get_weather", "args": {"location": "Oslo"}}},
        ]);
        assert_eq!(parts(&last.unwrap()), expected, "{deltas:?}");
    }
}

/// Memory for an index this high would be hundreds of gigabytes.
#[tokio::test]
async fn a_huge_index_takes_no_room() {
    let huge = tool_call(u64::from(u32::MAX), "call_a", "get_time", "{}");
    let server = ModelServer::start([stream([huge], "tool_calls")]).await;
    let (_, last) = streamed(&model(SPOKEN.model, &server, "/v1"), question("Hello!")).await;
    assert_eq!(parts(&last.unwrap()), json!([{"functionCall": {"id": "call_a", "name": "get_time", "args": {}}}]));
}

#[tokio::test]
async fn arguments_that_are_no_object_void_all_calls() {
    for wrong in ["{\"location\": ", "[1]", "\"Rome\"", "null", "{'location': 'Rome'}"] {
        let good = tool_call(0, "call_a", "get_time", "{}");
        let bad = tool_call(1, "call_b", "get_weather", wrong);
        let said = json!({"content": "Let me see."});
        let calls = [good["tool_calls"][0].clone(), bad["tool_calls"][0].clone()];
        let at_once =
            message(&json!({"role": "assistant", "content": "Let me see.", "tool_calls": calls}), "tool_calls");
        let server = ModelServer::start([stream([said, good, bad], "tool_calls"), at_once]).await;
        let model = model(SPOKEN.model, &server, "/v1");
        let (_, last) = streamed(&model, question("Hello!")).await;
        for answer in [last.unwrap(), whole(&model, question("Hello!")).await.unwrap()] {
            assert_eq!(parts(&answer), json!([{"text": "Let me see."}]), "{wrong}");
            let malformed = Some("MALFORMED_FUNCTION_CALL");
            let why = "Arguments for the following function calls were not a valid JSON object: get_weather";
            assert_eq!(end(&answer), (malformed, malformed, Some(why)), "{wrong}");
        }
    }
}

#[tokio::test]
async fn calls_cut_off_by_the_limit_of_tokens_are_not_made() {
    let begun = [tool_call(0, "call_a", "delete", ""), fragment(0, "{\"what\": \"ev")];
    let named = [tool_call(0, "call_a", "delete", "")];
    for deltas in [begun.to_vec(), named.to_vec()] {
        let server = ModelServer::start([stream(deltas, "length")]).await;
        let (_, last) = streamed(&model(SPOKEN.model, &server, "/v1"), question("Hello!")).await;
        let last = last.unwrap();
        assert_eq!((last.content.as_ref(), last.error_code.as_deref()), (None, Some("MAX_TOKENS")), "{last:?}");
    }
}

#[tokio::test]
async fn calls_of_a_blocked_answer_are_not_made() {
    let server = ModelServer::start([stream([tool_call(0, "call_a", "delete", "{}")], "content_filter")]).await;
    let (_, last) = streamed(&model(SPOKEN.model, &server, "/v1"), question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!((last.content.as_ref(), last.error_code.as_deref()), (None, Some("SAFETY")));
}

#[tokio::test]
async fn an_answer_tells_why_it_ended() {
    let reasons = [
        ("stop", ("STOP", None)),
        ("tool_calls", ("STOP", None)),
        ("length", ("MAX_TOKENS", Some("Maximum tokens reached"))),
        ("content_filter", ("SAFETY", Some("Finished with SAFETY"))),
        ("sunspots", ("OTHER", Some("Finished with OTHER"))),
    ];
    for (reason, (finish, message_)) in reasons {
        let said = json!({"role": "assistant", "content": "Well"});
        let server = ModelServer::start([stream([said.clone()], reason), message(&said, reason)]).await;
        let model = model(SPOKEN.model, &server, "/v1");
        let (_, last) = streamed(&model, question("Hello!")).await;
        for answer in [last.unwrap(), whole(&model, question("Hello!")).await.unwrap()] {
            assert_eq!(end(&answer), (Some(finish), message_.map(|_| finish), message_), "{reason}");
            assert_eq!(parts(&answer), json!([{"text": "Well"}]), "what was said stays");
        }
    }
}

/// The refusal is that of <https://platform.openai.com/docs/guides/structured-outputs#refusals>.
#[tokio::test]
async fn a_refusal_is_told_as_one() {
    let refusal = "I'm sorry, I cannot assist with that request.";
    let halves = [json!({"refusal": "I'm sorry, I cannot"}), json!({"refusal": " assist with that request."})];
    let at_once = message(&json!({"role": "assistant", "content": null, "refusal": refusal}), "stop");
    let server = ModelServer::start([stream(halves, "stop"), at_once]).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let (pieces, last) = streamed(&model, question("Hello!")).await;
    assert!(pieces.is_empty());
    for answer in [last.unwrap(), whole(&model, question("Hello!")).await.unwrap()] {
        assert_eq!(end(&answer), (Some("SAFETY"), Some("SAFETY"), Some(refusal)));
        assert_eq!(answer.content, None);
    }
}

#[tokio::test]
async fn thoughts_are_kept_apart_and_hidden_on_demand() {
    let deltas = || [json!({"reasoning_content": "Hm"}), json!({"reasoning_content": "."}), json!({"content": "Hi."})];
    let server = ModelServer::start([stream(deltas(), "stop"), stream(deltas(), "stop")]).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let (pieces, last) = streamed(&model, question("Hello!")).await;
    assert_eq!(texts(&pieces), ["(Hm)", "(.)", "Hi."]);
    assert_eq!(parts(&last.unwrap()), json!([{"text": "Hm.", "thought": true}, {"text": "Hi."}]));

    let mut request = question("Hello!");
    request.config.thinking_config = Some(json!({"includeThoughts": false}));
    let (pieces, last) = streamed(&model, request).await;
    assert_eq!(texts(&pieces), ["Hi."]);
    assert_eq!(parts(&last.unwrap()), json!([{"text": "Hi."}]));
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    let server = ModelServer::start([stream([], "stop"), message(&json!({"content": null}), "stop")]).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let (_, last) = streamed(&model, question("Hello!")).await;
    for answer in [last.unwrap(), whole(&model, question("Hello!")).await.unwrap()] {
        assert_eq!((parts(&answer), end(&answer)), (json!([]), (Some("STOP"), None, None)));
    }
}
