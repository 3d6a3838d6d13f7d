//! Promises of models that speak OpenAI's Chat Completions.

use scratchbook::{Content, ErrorKind, GenerateContentConfig, Part};
use serde_json::{Value, json};

use super::ask::{call, conversation, end, model, part, parts, question, result, streamed, texts, weather, whole};
use super::promises::Spoken;
use super::server::{Answer, ModelServer};

/// <https://platform.openai.com/docs/api-reference/chat/create> and `/chat/streaming`; the text of the stream is ours, for
/// its characters of several bytes.
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
    streaming: |body| Answer::events(body),
    error: "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\",\"code\":null}}\n\n",
};

/// One chunk of a stream.
fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
    let chunk = json!({"object": "chat.completion.chunk", "model": "gpt-4o-mini", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

/// A stream of these deltas.
fn stream(deltas: impl IntoIterator<Item = Value>, finish: &str) -> Answer {
    let mut body: String = deltas.into_iter().map(|delta| chunk(&delta, None)).collect();
    body.push_str(&chunk(&json!({}), Some(finish)));
    Answer::events(format!("{body}data: [DONE]\n\n"))
}

/// A whole answer with this message.
fn message(message: &Value, finish: &str) -> Answer {
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    Answer::json(200, &json!({"object": "chat.completion", "model": "gpt-4o-mini", "choices": [choice]}))
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
    let server =
        ModelServer::start([Answer::events(SPOKEN.stream), Answer::text(200, "application/json", SPOKEN.whole)]).await;
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
async fn a_question_is_asked_in_openais_words() {
    let server = ModelServer::always(Answer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let mut request = question("Hello!");
    request.system_instruction = Some("Be kind.".to_owned());
    request.tools = vec![weather()];
    request.config = GenerateContentConfig {
        temperature: Some(0.5),
        top_p: Some(0.9),
        max_output_tokens: Some(64),
        stop_sequences: Some(vec!["END".to_owned()]),
        seed: Some(7),
        presence_penalty: Some(0.25),
        frequency_penalty: Some(-0.25),
        thinking_config: Some(json!({"thinkingLevel": "LOW"})),
        tool_config: Some(json!({"functionCallingConfig": {"mode": "ANY"}})),
        // OpenAI has no word for these.
        top_k: Some(40.0),
        safety_settings: Some(vec![json!({})]),
        ..GenerateContentConfig::default()
    };
    whole(&model, request).await.unwrap();
    let asked = server.request();
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some("Bearer secret-key"));
    let expected = json!({
        "model": "gpt-4.1",
        "stream": false,
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello!"}],
        "tools": [{"type": "function", "function": {
            "name": "get_weather",
            "description": "The weather at a place.",
            "parameters": weather().parameters_json_schema,
            "strict": false,
        }}],
        "tool_choice": "required",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 64,
        "stop": ["END"],
        "seed": 7,
        "presence_penalty": 0.25,
        "frequency_penalty": -0.25,
        "reasoning_effort": "low",
    });
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn a_stream_is_asked_for_with_its_usage() {
    let server = ModelServer::start([Answer::events(SPOKEN.stream)]).await;
    let _ = streamed(&model("openai::gpt-5-mini", &server, "/v1"), question("Hello!")).await;
    let expected = json!({
        "model": "gpt-5-mini",
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "Hello!"}],
    });
    assert_eq!(server.request().body, expected);
}

#[tokio::test]
async fn a_conversation_with_calls_is_told_with_its_ids() {
    let server = ModelServer::always(Answer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let thought = part(json!({"text": "Two places.", "thought": true}));
    let request = conversation([
        Content::user("How is the weather in Rome and Oslo?"),
        Content::new(
            "model",
            vec![
                thought,
                Part::text("Let me see."),
                call("call_1", "get_weather", json!({"location": "Rome"})),
                call("call_2", "get_weather", json!({"location": "Oslo"})),
            ],
        ),
        Content::new(
            "user",
            vec![
                result("call_2", "get_weather", json!({"result": "snow"})),
                result("call_1", "get_weather", json!({"result": "sun", "degrees": 31})),
            ],
        ),
        Content::model("Sun in Rome."),
        Content::user("And in Oslo?"),
    ]);
    whole(&model, request).await.unwrap();
    let calls = json!([
        {"type": "function", "id": "call_1",
            "function": {"name": "get_weather", "arguments": "{\"location\":\"Rome\"}"}},
        {"type": "function", "id": "call_2",
            "function": {"name": "get_weather", "arguments": "{\"location\":\"Oslo\"}"}},
    ]);
    let expected = json!([
        {"role": "user", "content": "How is the weather in Rome and Oslo?"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "{\"result\":\"sun\",\"degrees\":31}"},
        {"role": "tool", "tool_call_id": "call_2", "content": "{\"result\":\"snow\"}"},
        {"role": "assistant", "content": "Sun in Rome."},
        {"role": "user", "content": "And in Oslo?"},
    ]);
    assert_eq!(server.request().body["messages"], expected);
}

#[tokio::test]
async fn calls_and_their_answers_always_stand_together() {
    let server = ModelServer::always(Answer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let request = conversation([
        // Two calls, of which one is answered at once, later answered again, and the other never.
        Content::new("model", vec![call("call_1", "approve", json!({})), call("call_2", "lost", json!({}))]),
        Content::new("user", vec![result("call_1", "approve", json!({"status": "pending"}))]),
        Content::user("Any news?"),
        Content::new("user", vec![result("call_1", "approve", json!({"status": "approved"}))]),
        // An answer whose call is not in the conversation any more.
        Content::new("user", vec![result("call_0", "old", json!({"result": 1}))]),
        // Calls of a model without ids, one of them with an id that is too long.
        Content::new(
            "model",
            vec![
                part(json!({"functionCall": {"name": "a", "args": {}}})),
                part(json!({"functionCall": {"name": "b", "args": {}}})),
                call(&"x".repeat(41), "c", json!({})),
            ],
        ),
        Content::new(
            "user",
            vec![
                part(json!({"functionResponse": {"name": "b", "response": {"result": "of b"}}})),
                part(json!({"functionResponse": {"name": "a", "response": {"result": "of a"}}})),
                result(&"x".repeat(41), "c", json!({"result": "of c"})),
            ],
        ),
        Content::model("Done."),
    ]);
    whole(&model, request).await.unwrap();
    let told =
        |id: &str, name: &str| json!({"type": "function", "id": id, "function": {"name": name, "arguments": "{}"}});
    let missing =
        "Error: Missing tool result (tool execution may have been interrupted before a response was recorded).";
    let go_on =
        "Continue processing previous requests as instructed. Exit or provide a summary if no more outputs are needed.";
    let expected = json!([
        {"role": "assistant", "content": "", "tool_calls": [told("call_1", "approve"), told("call_2", "lost")]},
        {"role": "tool", "tool_call_id": "call_1", "content": "{\"status\":\"approved\"}"},
        {"role": "tool", "tool_call_id": "call_2", "content": missing},
        {"role": "user", "content": "Any news?"},
        {"role": "user", "content": "`old` tool returned result: {\"result\":1}"},
        {"role": "assistant", "content": "",
            "tool_calls": [told("call00001", "a"), told("call00002", "b"), told("call00003", "c")]},
        {"role": "tool", "tool_call_id": "call00001", "content": "{\"result\":\"of a\"}"},
        {"role": "tool", "tool_call_id": "call00002", "content": "{\"result\":\"of b\"}"},
        {"role": "tool", "tool_call_id": "call00003", "content": "{\"result\":\"of c\"}"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": go_on},
    ]);
    assert_eq!(server.request().body["messages"], expected);
}

#[tokio::test]
async fn images_files_and_texts_are_told() {
    let server = ModelServer::always(Answer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let request = conversation([Content::new(
        "user",
        vec![
            Part::text("What"),
            Part::text("is this?"),
            Part::bytes(b"\x89PNG", "image/png"),
            part(json!({"fileData": {"fileUri": "https://example.com/cat.jpg"}})),
            Part::bytes(b"%PDF", "application/pdf"),
            Part::bytes(b"a,b", "text/csv; charset=utf-8"),
        ],
    )]);
    whole(&model, request).await.unwrap();
    let expected = json!([
        {"type": "text", "text": "What\nis this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "text", "text": "a,b"},
    ]);
    assert_eq!(server.request().body["messages"][0]["content"], expected);
}

/// Tools may give what a model does not take, and know nothing of the model.
#[tokio::test]
async fn what_tools_show_is_told_after_their_answers() {
    let server = ModelServer::always(Answer::text(200, "application/json", SPOKEN.whole)).await;
    let drawn = part(json!({"functionResponse": {
        "id": "call_1", "name": "draw", "response": {"result": "done"},
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
            {"inlineData": {"mimeType": "application/zip", "data": "UEs="}},
        ],
    }}));
    let request = conversation([
        Content::new("model", vec![call("call_1", "draw", json!({})), call("call_2", "wait", json!({}))]),
        Content::new("user", vec![drawn, result("call_2", "wait", json!({}))]),
    ]);
    whole(&model(SPOKEN.model, &server, "/v1"), request).await.unwrap();
    let expected = json!([
        {"role": "tool", "tool_call_id": "call_1", "content": "{\"result\":\"done\"}"},
        {"role": "tool", "tool_call_id": "call_2", "content": "{}"},
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {"type": "text", "text": "(data of type 'application/zip', which cannot be shown)"},
        ]},
    ]);
    let messages = server.request().body["messages"].as_array().unwrap()[1..].to_vec();
    assert_eq!(json!(messages), expected);
}

/// Nothing said, nothing but what is not sent, and the model's word last.
#[tokio::test]
async fn somebody_always_asks() {
    let server = ModelServer::always(Answer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let begin = json!([{"role": "user", "content": "Handle the requests as specified in the System Instruction."}]);
    for contents in [vec![], vec![Content::user("")], vec![Content::new("user", vec![])]] {
        whole(&model, conversation(contents)).await.unwrap();
        assert_eq!(server.requests().pop().unwrap().body["messages"], begin);
    }
    whole(&model, conversation([Content::user("Hello!"), Content::model("Hi."), Content::user("")])).await.unwrap();
    let last = server.requests().pop().unwrap().body["messages"].as_array().unwrap().last().unwrap().clone();
    assert!(last["content"].as_str().unwrap().starts_with("Continue processing previous requests"), "{last}");
}

#[tokio::test]
async fn what_openai_cannot_take_is_refused_before_it_is_asked() {
    let server = ModelServer::start([]).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let contents = [
        Part::bytes(b"PK", "application/zip"),
        part(json!({"fileData": {"fileUri": "gs://bucket/cat.jpg", "mimeType": "image/jpeg"}})),
        part(json!({"fileData": {"fileUri": "https://example.com/a.pdf"}})),
    ];
    for content in contents {
        let request = conversation([Content::new("user", vec![content])]);
        assert_eq!(whole(&model, request).await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let configs = [
        GenerateContentConfig { response_modalities: Some(vec!["IMAGE".to_owned()]), ..Default::default() },
        GenerateContentConfig { cached_content: Some("cachedContents/1".to_owned()), ..Default::default() },
    ];
    for config in configs {
        let mut request = question("Hello!");
        request.config = config;
        assert_eq!(whole(&model, request).await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn an_answer_is_held_to_its_schema() {
    let server = ModelServer::always(Answer::text(200, "application/json", SPOKEN.whole)).await;
    let mut request = question("How old?");
    request.output_schema = Some(json!({
        "title": "Age of it", "type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"],
    }));
    whole(&model(SPOKEN.model, &server, "/v1"), request).await.unwrap();
    let format = &server.request().body["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["name"]), (&json!("json_schema"), &json!("Age_of_it")));
    let schema = &format["json_schema"]["schema"];
    assert_eq!(schema["properties"], json!({"age": {"type": "integer"}}));
    assert_eq!((&format["json_schema"]["strict"], &schema["additionalProperties"]), (&json!(true), &json!(false)));
}

#[tokio::test]
async fn calls_come_whole_and_in_order_however_they_were_cut() {
    let deltas = [
        json!({"role": "assistant", "content": null}),
        json!({"content": "Let me see."}),
        tool_call(0, "call_a", "get_weather", ""),
        fragment(0, "{\"loca"),
        // The next begins before the first has ended, which nobody does but anybody may.
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

/// As <https://platform.openai.com/docs/guides/function-calling> shows them.
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

/// Room for so many calls would be hundreds of gigabytes.
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

/// As <https://platform.openai.com/docs/guides/structured-outputs#refusals> shows it.
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
