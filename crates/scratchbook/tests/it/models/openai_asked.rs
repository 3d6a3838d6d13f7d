//! Requests to models that use OpenAI's Chat Completions API.

use scratchbook::content::Part;
use scratchbook::model::GenerateContentConfig;
use scratchbook::{Content, ErrorKind};
use serde_json::json;

use super::ask::{call, conversation, model, part, question, result, streamed, weather, whole};
use super::openai::SPOKEN;
use super::server::{ModelServer, ScriptedAnswer};

#[tokio::test]
async fn a_question_is_asked_in_openais_words() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
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
        // OpenAI has no parameters for these.
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
    let server = ModelServer::start([ScriptedAnswer::events(SPOKEN.stream)]).await;
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
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
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
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "/v1");
    let request = conversation([
        // There are two calls. One is answered at once and again later; the other is never answered.
        Content::new("model", vec![call("call_1", "approve", json!({})), call("call_2", "lost", json!({}))]),
        Content::new("user", vec![result("call_1", "approve", json!({"status": "pending"}))]),
        Content::user("Any news?"),
        Content::new("user", vec![result("call_1", "approve", json!({"status": "approved"}))]),
        // This is an answer whose call is no longer in the conversation.
        Content::new("user", vec![result("call_0", "old", json!({"result": 1}))]),
        // These are calls of a model that gives no ids; one of them has an id that is too long for OpenAI itself.
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
            "tool_calls": [told("call00001", "a"), told("call00002", "b"), told(&"x".repeat(41), "c")]},
        {"role": "tool", "tool_call_id": "call00001", "content": "{\"result\":\"of a\"}"},
        {"role": "tool", "tool_call_id": "call00002", "content": "{\"result\":\"of b\"}"},
        {"role": "tool", "tool_call_id": "x".repeat(41), "content": "{\"result\":\"of c\"}"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": go_on},
    ]);
    assert_eq!(server.request().body["messages"], expected);
}

#[tokio::test]
async fn images_files_and_texts_are_told() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
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

/// Tools do not know the model, so their results may contain data that the model does not accept.
#[tokio::test]
async fn what_tools_show_is_told_after_their_answers() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
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

/// The last message is the user's even if the conversation is empty, has nothing to send, or ends with the model's.
#[tokio::test]
async fn somebody_always_asks() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
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
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
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
