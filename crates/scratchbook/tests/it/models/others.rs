//! Providers that use OpenAI's format, and OpenAI's newer Responses API.

use scratchbook::Content;
use scratchbook::content::Part;
use serde_json::{Value, json};

use super::ask::{call, conversation, end, model, part, parts, question, result, streamed, texts, weather, whole};
use super::openai;
use super::server::{ModelServer, ScriptedAnswer};

#[tokio::test]
async fn any_server_that_speaks_openais_words_is_a_model() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", openai::SPOKEN.whole)).await;
    let answer = whole(&model("openai::some-model", &server, "/proxy/v1"), question("Hello!")).await.unwrap();
    assert_eq!(parts(&answer), json!([{"text": "Hello! How can I assist you today?"}]));
    let asked = server.request();
    assert_eq!((asked.path.as_str(), &asked.body["model"]), ("/proxy/v1/chat/completions", &json!("some-model")));
}

/// <https://console.groq.com/docs/api-reference#chat-create>: the usage is in the last chunk, under a name that only
/// Groq uses.
#[tokio::test]
async fn groqs_usage_is_read() {
    let choice = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let usage = json!({"queue_time": 0.037, "prompt_tokens": 18, "completion_tokens": 556, "total_tokens": 574});
    let chunks = [
        json!({"model": "llama-3.3-70b-versatile", "choices": choice(json!({"content": "Fast"}), Value::Null)}),
        json!({"choices": choice(json!({}), json!("stop")), "x_groq": {"id": "req_1", "usage": usage}}),
    ];
    let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let server = ModelServer::start([ScriptedAnswer::events(format!("{body}data: [DONE]\n\n"))]).await;
    let (pieces, last) =
        streamed(&model("openai::llama-3.3-70b-versatile", &server, "/openai/v1"), question("Hello!")).await;
    assert_eq!(texts(&pieces), ["Fast"]);
    let last = last.unwrap();
    let usage = json!({
        "promptTokenCount": 18, "candidatesTokenCount": 556, "totalTokenCount": 574, "cachedContentTokenCount": 0,
    });
    assert_eq!((last.usage_metadata, last.model_version.as_deref()), (Some(usage), Some("llama-3.3-70b-versatile")));
    assert_eq!(server.request().path, "/openai/v1/chat/completions");
}

/// <https://api-docs.deepseek.com/guides/thinking_mode#tool-calls>: the thoughts that led to a call come back with it.
#[tokio::test]
async fn deepseek_gets_back_what_it_thought_before_a_call() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", openai::SPOKEN.whole)).await;
    let thought = |text: &str| part(json!({"text": text, "thought": true}));
    let request = conversation([
        Content::user("Hello!"),
        Content::new("model", vec![thought("Greet."), Part::text("Hi.")]),
        Content::user("Weather in Rome?"),
        Content::new("model", vec![thought("Look."), call("call_1", "get_weather", json!({"location": "Rome"}))]),
        Content::new("user", vec![result("call_1", "get_weather", json!({"result": "sun"}))]),
    ]);
    let mut request = request;
    request.output_schema = Some(json!({"type": "object"}));
    whole(&model("openai::deepseek-chat", &server, "/v1"), request).await.unwrap();
    let body = server.request().body;
    let reasoning: Vec<_> =
        body["messages"].as_array().unwrap().iter().map(|said| said.get("reasoning_content")).collect();
    assert_eq!(reasoning, [None, None, None, None, Some(&json!("Look.")), None], "{body}");
    // DeepSeek supports JSON, but not schemas.
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    assert!(body["messages"][0]["content"].as_str().unwrap().contains("{\"type\":\"object\"}"), "{body}");
}

/// <https://docs.mistral.ai/capabilities/reasoning/>: thoughts are pieces of the content.
#[tokio::test]
async fn mistrals_thoughts_are_kept_apart() {
    let content = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Hi."},
    ]);
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"});
    let server = ModelServer::start([ScriptedAnswer::json(200, &json!({"choices": [choice]}))]).await;
    let answer = whole(&model("openai::magistral-medium-latest", &server, "/v1"), question("Hello!")).await.unwrap();
    assert_eq!(parts(&answer), json!([{"text": "Hm.", "thought": true}, {"text": "Hi."}]));
}

fn events(events: &[Value]) -> ScriptedAnswer {
    let lines = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    ScriptedAnswer::events(lines.collect::<String>())
}

/// <https://platform.openai.com/docs/api-reference/responses/create>, shortened.
fn response(output: &Value) -> Value {
    json!({
        "id": "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b", "object": "response", "status": "completed",
        "error": null, "incomplete_details": null, "model": "gpt-5-2025-08-07", "output": output,
        "usage": {
            "input_tokens": 36, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 87,
            "output_tokens_details": {"reasoning_tokens": 64}, "total_tokens": 123,
        },
    })
}

fn answered(text: &str) -> Value {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content})
}

#[tokio::test]
async fn openais_responses_are_read_and_asked_for() {
    let call_item = json!({
        "type": "function_call", "id": "fc_1", "call_id": "call_unLAR8MvFNptuiZK6K6HCy5k", "name": "get_weather",
        "arguments": "{\"location\":\"Boston, MA\"}", "status": "completed",
    });
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]});
    let stream = [
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Hm."}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": thought}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Let "}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "me see."}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": answered("Let me see.")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"loc"}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": call_item}),
        json!({"type": "response.completed", "response": response(&json!([thought, answered("Let me see."), call_item]))}),
    ];
    let whole_answer = response(&json!([thought, answered("Let me see."), call_item]));
    let server = ModelServer::start([events(&stream), ScriptedAnswer::json(200, &whole_answer)]).await;
    let model = model("openai_resp::gpt-5", &server, "/v1");
    let mut request = conversation([
        Content::user("Weather?"),
        Content::new("model", vec![call("call_1", "get_weather", json!({}))]),
        Content::new("user", vec![result("call_1", "get_weather", json!({"result": "where?"}))]),
    ]);
    request.system_instruction = Some("Be kind.".to_owned());
    request.tools = vec![weather()];
    let (pieces, last) = streamed(&model, request).await;
    assert_eq!(texts(&pieces), ["(Hm.)", "Let ", "me see."]);
    for answer in [last.unwrap(), whole(&model, question("Hello!")).await.unwrap()] {
        let args = json!({"location": "Boston, MA"});
        let expected = json!([
            {"text": "Hm.", "thought": true},
            {"text": "Let me see."},
            {"functionCall": {"id": "call_unLAR8MvFNptuiZK6K6HCy5k", "name": "get_weather", "args": args}},
        ]);
        assert_eq!(parts(&answer), expected);
        let usage = json!({
            "promptTokenCount": 36, "candidatesTokenCount": 87, "totalTokenCount": 123, "cachedContentTokenCount": 0,
            "thoughtsTokenCount": 64,
        });
        assert_eq!(answer.usage_metadata, Some(usage));
        assert_eq!(
            (end(&answer), answer.model_version.as_deref()),
            ((Some("STOP"), None, None), Some("gpt-5-2025-08-07"))
        );
    }
    let asked = &server.requests()[0];
    assert_eq!(asked.path, "/v1/responses");
    let expected = json!({
        "model": "gpt-5",
        "store": false,
        "stream": true,
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": "Weather?"},
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "{\"result\":\"where?\"}"},
        ],
        "tools": [{
            "type": "function",
            "name": "get_weather",
            "description": "The weather at a place.",
            "parameters": weather().parameters_json_schema,
            "strict": false,
        }],
    });
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn openais_responses_tell_why_they_ended() {
    let ended = |status: &str, reason: Value| {
        let mut response = response(&json!([answered("Well")]));
        response["status"] = json!(status);
        response["incomplete_details"] = json!({"reason": reason});
        response
    };
    let cases = [
        (ended("incomplete", json!("max_output_tokens")), "MAX_TOKENS"),
        (ended("incomplete", json!("content_filter")), "SAFETY"),
        (ended("cancelled", Value::Null), "OTHER"),
    ];
    for (response, code) in cases {
        let stream = events(&[json!({"type": "response.incomplete", "response": response})]);
        let server = ModelServer::start([stream, ScriptedAnswer::json(200, &response)]).await;
        let model = model("openai_resp::gpt-5", &server, "/v1");
        let (_, last) = streamed(&model, question("Hello!")).await;
        for answer in [last.unwrap(), whole(&model, question("Hello!")).await.unwrap()] {
            assert_eq!((end(&answer).0, end(&answer).1), (Some(code), Some(code)));
            assert_eq!(parts(&answer), json!([{"text": "Well"}]));
        }
    }
    let mut failed = response(&json!([]));
    failed["status"] = json!("failed");
    failed["error"] = json!({"code": "server_error", "message": "The model failed to generate a response."});
    let errors = [
        json!({"type": "response.failed", "response": failed}),
        json!({"type": "error", "code": "server_error", "message": "The model failed to generate a response."}),
    ];
    for error in errors {
        let begun = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Well"});
        let server = ModelServer::start([events(&[begun, error])]).await;
        let (_, last) = streamed(&model("openai_resp::gpt-5", &server, "/v1"), question("Hello!")).await;
        let last = last.unwrap();
        assert_eq!((end(&last).1, last.content.as_ref()), (Some("server_error"), None));
    }
}
