//! Requests to models of Ollama, and their answers.

use scratchbook::content::Part;
use scratchbook::model::GenerateContentConfig;
use scratchbook::{Content, ErrorKind};
use serde_json::{Value, json};

use super::ask::{call, conversation, end, model, part, parts, question, result, streamed, texts, weather, whole};
use super::promises::Spoken;
use super::server::{ModelServer, ScriptedAnswer};

/// <https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion>; the text of the stream is ours,
/// because it has characters of several bytes.
pub(crate) const SPOKEN: Spoken = Spoken {
    model: "ollama::llama3.2",
    path: "",
    whole: r#"{
        "model": "llama3.2", "created_at": "2023-12-12T14:13:43.416799Z",
        "message": {"role": "assistant", "content": "Hello! How are you today?"},
        "done": true, "total_duration": 5191566416, "load_duration": 2154458, "prompt_eval_count": 26,
        "prompt_eval_duration": 383809000, "eval_count": 298, "eval_duration": 4799921000
    }"#,
    stream: concat!(
        r#"{"model":"llama3.2","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":"Grüße","images":null},"done":false}"#,
        "\n",
        r#"{"model":"llama3.2","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":" an 🌍!","images":null},"done":false}"#,
        "\n",
        r#"{"model":"llama3.2","created_at":"2023-08-04T19:22:45.499127Z","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000}"#,
        "\n",
    ),
    text: "Grüße an 🌍!",
    streaming: |body| ScriptedAnswer::lines(body),
    error: "{\"error\":\"Overloaded\"}\n",
};

fn lines(lines: &[Value]) -> ScriptedAnswer {
    ScriptedAnswer::lines(lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn said(message: &Value) -> Value {
    json!({"model": "llama3.2", "message": message, "done": false})
}

fn done(reason: &str) -> Value {
    let message = json!({"role": "assistant", "content": ""});
    json!({"model": "llama3.2", "message": message, "done": true, "done_reason": reason, "eval_count": 3})
}

#[tokio::test]
async fn usage_model_and_pieces_are_told() {
    let server = ModelServer::start([
        ScriptedAnswer::lines(SPOKEN.stream),
        ScriptedAnswer::text(200, "application/json", SPOKEN.whole),
    ])
    .await;
    let model = model(SPOKEN.model, &server, "");
    let (pieces, last) = streamed(&model, question("why is the sky blue?")).await;
    let last = last.unwrap();
    assert_eq!(texts(&pieces), ["Grüße", " an 🌍!"]);
    assert_eq!(last.model_version.as_deref(), Some("llama3.2"));
    let usage = |count: u32| {
        json!({
            "promptTokenCount": 26, "candidatesTokenCount": count, "totalTokenCount": 26 + count,
            "cachedContentTokenCount": 0,
        })
    };
    assert_eq!(last.usage_metadata, Some(usage(282)));
    let answer = whole(&model, question("Hello!")).await.unwrap();
    assert_eq!(parts(&answer), json!([{"text": "Hello! How are you today?"}]));
    assert_eq!(answer.usage_metadata, Some(usage(298)));
}

#[tokio::test]
async fn a_question_is_asked_in_ollamas_words() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let mut request = question("Hello!");
    request.system_instruction = Some("Be kind.".to_owned());
    request.tools = vec![weather()];
    request.config = GenerateContentConfig {
        temperature: Some(0.5),
        top_p: Some(0.9),
        max_output_tokens: Some(64),
        stop_sequences: Some(vec!["END".to_owned()]),
        seed: Some(-7),
        top_k: Some(40.0),
        presence_penalty: Some(0.25),
        frequency_penalty: Some(-0.25),
        thinking_config: Some(json!({"thinkingBudget": 0})),
        ..GenerateContentConfig::default()
    };
    whole(&model(SPOKEN.model, &server, ""), request).await.unwrap();
    let asked = server.request();
    assert_eq!(asked.path, "/api/chat");
    assert_eq!(asked.header("authorization"), Some("Bearer secret-key"));
    let expected = json!({
        "model": "llama3.2",
        "stream": false,
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello!"}],
        "tools": [{"type": "function", "function": {
            "name": "get_weather",
            "description": "The weather at a place.",
            "parameters": weather().parameters_json_schema,
        }}],
        "options": {
            "temperature": 0.5, "top_p": 0.9, "top_k": 40, "num_predict": 64, "stop": ["END"], "seed": -7,
            "presence_penalty": 0.25, "frequency_penalty": -0.25,
        },
        "think": false,
    });
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn a_conversation_is_told_call_by_call() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let request = conversation([
        Content::new("user", vec![Part::text("What"), Part::text("is this?"), Part::bytes(b"\x89PNG", "image/png")]),
        Content::new(
            "model",
            vec![
                part(json!({"text": "Hm.", "thought": true})),
                call("call_1", "get_weather", json!({"location": "Rome"})),
                call("call_2", "get_time", json!({})),
            ],
        ),
        Content::new(
            "user",
            vec![
                result("call_1", "get_weather", json!({"result": "sun"})),
                result("call_2", "get_time", json!({"result": "noon"})),
            ],
        ),
    ]);
    whole(&model(SPOKEN.model, &server, ""), request).await.unwrap();
    let calls = json!([
        {"id": "call_1", "function": {"name": "get_weather", "arguments": {"location": "Rome"}}},
        {"id": "call_2", "function": {"name": "get_time", "arguments": {}}},
    ]);
    let expected = json!([
        {"role": "user", "content": "What\nis this?", "images": ["iVBORw=="]},
        {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": calls},
        {"role": "tool", "content": "{\"result\":\"sun\"}", "tool_name": "get_weather", "tool_call_id": "call_1"},
        {"role": "tool", "content": "{\"result\":\"noon\"}", "tool_name": "get_time", "tool_call_id": "call_2"},
    ]);
    assert_eq!(server.request().body["messages"], expected);
}

#[tokio::test]
async fn how_much_to_think_is_asked_in_ollamas_words() {
    let cases = [
        (json!({"thinkingLevel": "MINIMAL"}), json!("low")),
        (json!({"thinkingLevel": "high"}), json!("high")),
        (json!({"thinkingBudget": 0}), json!(false)),
        (json!({"thinkingBudget": -1}), json!(true)),
        (json!({"includeThoughts": true}), Value::Null),
    ];
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    for (config, think) in cases {
        let mut request = question("Hello!");
        request.config.thinking_config = Some(config.clone());
        whole(&model(SPOKEN.model, &server, ""), request).await.unwrap();
        assert_eq!(server.requests().pop().unwrap().body["think"], think, "{config}");
    }
}

/// <https://github.com/ollama/ollama/blob/main/docs/api.md#chat-request-structured-outputs>
#[tokio::test]
async fn an_answer_is_held_to_its_schema() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "");
    let schema = json!({
        "type": "object",
        "properties": {"age": {"type": "integer"}, "available": {"type": "boolean"}},
        "required": ["age", "available"],
    });
    let mut request = question("Ollama is 22 years old and busy saving the world.");
    request.output_schema = Some(schema.clone());
    whole(&model, request).await.unwrap();
    let mut request = question("Hello!");
    request.config.response_mime_type = Some("application/json".to_owned());
    whole(&model, request).await.unwrap();
    let formats: Vec<_> = server.requests().into_iter().map(|asked| asked.body["format"].clone()).collect();
    assert_eq!(formats, [schema, json!("json")]);
}

#[tokio::test]
async fn what_ollama_cannot_take_is_refused_before_it_is_asked() {
    let server = ModelServer::start([]).await;
    let model = model(SPOKEN.model, &server, "");
    let image = json!({"fileData": {"fileUri": "https://example.com/cat.jpg"}});
    for content in [Part::bytes(b"%PDF", "application/pdf"), part(image)] {
        let request = conversation([Content::new("user", vec![content])]);
        assert_eq!(whole(&model, request).await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let mut request = question("Hello!");
    request.tools = vec![weather()];
    request.config.tool_config = Some(json!({"functionCallingConfig": {"mode": "ANY"}}));
    assert_eq!(whole(&model, request).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn tools_that_must_not_be_called_are_not_told() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let mut request = question("Hello!");
    request.tools = vec![weather()];
    request.config.tool_config = Some(json!({"functionCallingConfig": {"mode": "NONE"}}));
    whole(&model(SPOKEN.model, &server, ""), request).await.unwrap();
    assert_eq!(server.request().body.get("tools"), None);
}

/// The first call is that of <https://github.com/ollama/ollama/blob/main/docs/api.md#chat-request-with-tools>, and the
/// second is ours.
#[tokio::test]
async fn calls_are_read() {
    let paris = json!({"function": {
        "name": "get_current_weather", "arguments": {"format": "celsius", "location": "Paris, FR"},
    }});
    let time = json!({"id": "call_2", "function": {"name": "get_time", "arguments": {}}});
    let message = json!({"role": "assistant", "content": "", "tool_calls": [paris, time]});
    let mut at_once = done("stop");
    at_once["message"] = message.clone();
    let server =
        ModelServer::start([lines(&[said(&message), done("stop")]), ScriptedAnswer::json(200, &at_once)]).await;
    let model = model(SPOKEN.model, &server, "");
    let (pieces, last) = streamed(&model, question("What is the weather today in Paris?")).await;
    assert!(pieces.is_empty());
    for answer in [last.unwrap(), whole(&model, question("Hello!")).await.unwrap()] {
        let args = json!({"format": "celsius", "location": "Paris, FR"});
        let expected = json!([
            {"functionCall": {"name": "get_current_weather", "args": args}},
            {"functionCall": {"id": "call_2", "name": "get_time", "args": {}}},
        ]);
        assert_eq!(parts(&answer), expected);
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_void_all_calls() {
    let calls = json!([
        {"function": {"name": "a", "arguments": {}}},
        {"function": {"name": "b", "arguments": "{\"x\": "}},
    ]);
    let server = ModelServer::start([lines(&[said(&json!({"tool_calls": calls})), done("stop")])]).await;
    let (_, last) = streamed(&model(SPOKEN.model, &server, ""), question("Hello!")).await;
    let last = last.unwrap();
    assert_eq!((last.content.as_ref(), last.error_code.as_deref()), (None, Some("MALFORMED_FUNCTION_CALL")));
}

#[tokio::test]
async fn thoughts_are_kept_apart() {
    let all = [
        said(&json!({"role": "assistant", "content": "", "thinking": "Hm"})),
        said(&json!({"role": "assistant", "content": "Hi", "thinking": "."})),
        said(&json!({"role": "assistant", "content": "."})),
        done("stop"),
    ];
    let server = ModelServer::start([lines(&all)]).await;
    let (pieces, last) = streamed(&model(SPOKEN.model, &server, ""), question("Hello!")).await;
    assert_eq!(texts(&pieces), ["(Hm)", "(.)", "Hi", "."]);
    assert_eq!(parts(&last.unwrap()), json!([{"text": "Hm.", "thought": true}, {"text": "Hi."}]));
}

#[tokio::test]
async fn an_answer_tells_why_it_ended() {
    for (reason, finish, failed) in [("stop", "STOP", false), ("length", "MAX_TOKENS", true), ("load", "OTHER", true)] {
        let server = ModelServer::start([lines(&[said(&json!({"content": "Well"})), done(reason)])]).await;
        let (_, last) = streamed(&model(SPOKEN.model, &server, ""), question("Hello!")).await;
        let last = last.unwrap();
        assert_eq!((end(&last).0, end(&last).1), (Some(finish), failed.then_some(finish)));
        assert_eq!(parts(&last), json!([{"text": "Well"}]));
    }
}
