//! Names and schemas of tools in the form that each provider accepts.

use scratchbook::model::FunctionDeclaration;
use scratchbook::{Content, ErrorKind};
use serde_json::{Value, json};

use super::ask::{call, conversation, model, question, result, weather, whole};
use super::server::{ModelServer, ScriptedAnswer};

fn tool(name: &str, schema: Value) -> FunctionDeclaration {
    FunctionDeclaration { name: name.to_owned(), parameters_json_schema: schema, ..weather() }
}

/// A provider, and a server that calls the tool with the name that is at this place in the request.
async fn asks_first_tool(name: &str, at: &'static str) -> ModelServer {
    let provider = name.split("::").next().unwrap().to_owned();
    ModelServer::by(move |request| {
        let name = request.body.pointer(at).cloned().unwrap_or_default();
        let answer = match provider.as_str() {
            "gemini" => json!({"candidates": [{
                "content": {"parts": [{"functionCall": {"name": name, "args": {}}}]}, "finishReason": "STOP",
            }]}),
            "anthropic" => json!({
                "type": "message", "stop_reason": "tool_use",
                "content": [{"type": "tool_use", "id": "t", "name": name, "input": {}}],
            }),
            "openai_resp" => json!({
                "status": "completed",
                "output": [{"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"}],
            }),
            _ => {
                let function = json!({"name": name, "arguments": "{}"});
                let calls = json!([{"id": "c", "type": "function", "function": function}]);
                json!({"choices": [{"index": 0, "message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]})
            }
        };
        ScriptedAnswer::json(200, &answer)
    })
    .await
}

#[tokio::test]
async fn odd_names_are_sent_plain_and_come_back_as_they_are() {
    let long = "x".repeat(70);
    let longer = "x".repeat(80);
    for (name, path, at) in [
        ("openai::m", "/v1", "/tools/0/function/name"),
        ("openai_resp::m", "/v1", "/tools/0/name"),
        ("anthropic::claude-opus-4-5", "", "/tools/0/name"),
        ("gemini::gemini-2.5-flash", "", "/tools/0/functionDeclarations/0/name"),
    ] {
        for own in ["do.it/now", "ünï tool", &long, "plain"] {
            let server = asks_first_tool(name, at).await;
            let schema = || json!({"type": "object"});
            let mut request = conversation([
                Content::user("Hello!"),
                Content::new("model", vec![call("c0", own, json!({}))]),
                Content::new("user", vec![result("c0", own, json!({}))]),
            ]);
            request.tools = vec![tool(own, schema()), tool("do_it_now", schema()), tool(&longer, schema())];
            let answer = whole(&model(name, &server, path), request).await.unwrap();
            assert_eq!(answer.content.unwrap().function_calls().next().unwrap().name.as_deref(), Some(own), "{name}");
            let body = server.request().body;
            let sent = body.pointer(at).unwrap().as_str().unwrap();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!((1..=64).contains(&sent.len()) && sent.chars().all(is_plain), "{sent}");
            let text = body.to_string();
            assert_eq!(
                text.matches(&format!("\"{sent}\"")).count(),
                2 + usize::from(name.starts_with("gemini")),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn name_with_a_control_character_is_refused() {
    let server = ModelServer::start([]).await;
    for name in ["openai::m", "anthropic::claude-opus-4-5", "gemini::gemini-2.5-flash", "ollama::llama3"] {
        let mut request = question("Hello!");
        request.tools = vec![tool("a\nb", json!({}))];
        let error = whole(&model(name, &server, ""), request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("'a\\nb'"), "{error}");
    }
}

#[tokio::test]
async fn schema_of_arguments_is_an_object_with_properties() {
    for (name, path, at) in [
        ("openai::m", "/v1", "/tools/0/function/parameters"),
        ("openai_resp::m", "/v1", "/tools/0/parameters"),
        ("anthropic::claude-opus-4-5", "", "/tools/0/input_schema"),
        ("ollama::llama3", "", "/tools/0/function/parameters"),
    ] {
        for schema in [json!({"type": "object"}), json!({}), Value::Null, json!({"type": ["object", "null"]})] {
            let server = ModelServer::always(ScriptedAnswer::json(200, &json!({}))).await;
            let mut request = question("Hello!");
            request.tools = vec![tool("f", schema)];
            let _ = whole(&model(name, &server, path), request).await;
            let body = server.request().body;
            assert_eq!(body.pointer(at).unwrap(), &json!({"type": "object", "properties": {}}), "{name}");
        }
    }
}

#[tokio::test]
async fn answers_schema_has_only_what_openai_accepts() {
    let server = ModelServer::always(ScriptedAnswer::json(200, &json!({}))).await;
    let mut request = question("Hello!");
    request.output_schema = Some(json!({
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/Node", "description": "a node"},
            "one": {"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]},
        },
        "required": ["node"],
        "$defs": {"Node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/Node", "title": "Child"}}}},
    }));
    let _ = whole(&model("openai::m", &server, "/v1"), request).await;
    let expected = json!({
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/Node"},
            "one": {"anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false,
                    "required": ["a"]},
                {"type": "null"},
            ]},
        },
        "required": ["node", "one"],
        "$defs": {"Node": {
            "type": "object", "properties": {"child": {"$ref": "#/$defs/Node"}}, "additionalProperties": false,
            "required": ["child"],
        }},
        "additionalProperties": false,
    });
    assert_eq!(server.request().body["response_format"]["json_schema"]["schema"], expected);
}
