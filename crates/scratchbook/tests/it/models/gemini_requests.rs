//! Requests to models of the Gemini API.

use scratchbook::content::Part;
use scratchbook::model::{Llm, LlmRequest, RemoteLlm};
use scratchbook::{Content, ErrorKind};
use serde_json::{Map, Value, json};

use super::gemini::{KEY, answers, asks, asks_streaming, failure, model, recorded, with_floats};
use super::server::{ModelServer, ScriptedAnswer};

/// Spells fields as in the API's documentation. google-genai sends objects that it passes through in snake case, which
/// the API accepts, too.
fn documented(value: &Value) -> Value {
    let camel = |name: &str| {
        let mut parts = name.split('_');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |name, part| name + &part[..1].to_uppercase() + &part[1..])
    };
    match value {
        Value::Array(items) => items.iter().map(documented).collect(),
        Value::Object(fields) => {
            let of = |(name, value): (&String, &Value)| match (camel(name).as_str(), value) {
                // The names in these fields are the user's own.
                (name @ ("args" | "response" | "parametersJsonSchema" | "partMetadata"), _) => {
                    (name.to_owned(), value.clone())
                }
                (name @ "properties", Value::Object(all)) => {
                    let all = all.iter().map(|(name, schema)| (name.clone(), documented(schema)));
                    (name.to_owned(), all.collect::<Map<_, _>>().into())
                }
                (name, _) => (name.to_owned(), documented(value)),
            };
            fields.iter().map(of).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// The expected requests were recorded with google-adk 2.13.0 and google-genai 2.34.0.
#[tokio::test]
async fn requests_are_those_of_google_adk() {
    for case in recorded(include_str!("../../fixtures/gemini/requests.json")) {
        let server =
            ModelServer::always(ScriptedAnswer::json(200, &json!({"candidates": [{"finishReason": "STOP"}]}))).await;
        let of = |name: &str| case.get(name).cloned().unwrap_or_default();
        let mut request = LlmRequest::default();
        request.contents = serde_json::from_value(of("contents")).unwrap();
        request.system_instruction = serde_json::from_value(of("systemInstruction")).unwrap();
        request.output_schema = case.get("outputSchema").cloned();
        request.tools =
            case.get("tools").cloned().map_or_else(Vec::new, |tools| serde_json::from_value(tools).unwrap());
        request.config =
            case.get("config").cloned().map_or_else(Default::default, |c| serde_json::from_value(c).unwrap());
        answers(&model(&server), request).await.remove(0).unwrap();
        let (sent, expected) = (server.request().body, documented(&case["body"]));
        assert_eq!(with_floats(&sent), with_floats(&expected), "{}", case["name"]);
    }
}

#[tokio::test]
async fn a_schema_that_openapi_cannot_say_is_sent_as_json_schema() {
    let with_itself = json!({"$ref": "#/$defs/Tree", "$defs": {
        "Tree": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}},
    }});
    for schema in [
        with_itself,
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"type": "integer", "enum": [1, 2]}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"$ref": "#/$defs/Missing"}),
        json!(true),
    ] {
        let server = ModelServer::always(ScriptedAnswer::json(200, &json!({}))).await;
        let mut request = asks();
        request.output_schema = Some(schema.clone());
        answers(&model(&server), request).await.remove(0).unwrap();
        let sent = &server.request().body["generationConfig"];
        assert_eq!(sent, &json!({"responseMimeType": "application/json", "responseJsonSchema": schema}));
    }
}

#[tokio::test]
async fn a_schema_of_a_rust_type_is_one_of_openapi() {
    #[derive(schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Person {
        /// Who it is.
        name: String,
        age: Option<u32>,
        size: f64,
    }
    let server = ModelServer::always(ScriptedAnswer::json(200, &json!({}))).await;
    let mut request = asks();
    request.output_schema = Some(schemars::schema_for!(Person).into());
    answers(&model(&server), request).await.remove(0).unwrap();
    let expected = json!({
        "title": "Person",
        "type": "OBJECT",
        "properties": {
            "name": {"description": "Who it is.", "type": "STRING"},
            "age": {"type": "INTEGER", "nullable": true, "minimum": 0.0},
            "size": {"type": "NUMBER", "format": "double"},
        },
        "required": ["name", "size"],
        "propertyOrdering": ["name", "age", "size"],
    });
    assert_eq!(server.request().body["generationConfig"]["responseSchema"], expected);
}

#[tokio::test]
async fn a_request_goes_where_the_model_is() {
    for (name, path) in [
        ("gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash"),
        ("gemini-3-pro-preview-low", "/v1beta/models/gemini-3-pro-preview-low"),
        ("gemini::gemini-2.5-flash-high", "/v1beta/models/gemini-2.5-flash-high"),
        ("gemini/gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash"),
        ("tunedModels/mine-7", "/v1beta/tunedModels/mine-7"),
        ("gemma-3-27b-it", "/v1beta/models/gemma-3-27b-it"),
        ("gemini-a?b#c", "/v1beta/models/gemini-a%3Fb%23c"),
    ] {
        let server = ModelServer::always(ScriptedAnswer::events("data: {}\n\n")).await;
        let model = RemoteLlm::builder(name).endpoint(format!("{}/way/", server.url())).api_key(KEY);
        let model = model.header("x-team", "blue").build().unwrap();
        assert_eq!(model.name(), name);
        answers(&model, asks()).await;
        answers(&model, asks_streaming()).await;
        let requests = server.requests();
        assert_eq!(requests[0].path, format!("/way{path}:generateContent"));
        assert_eq!(requests[1].path, format!("/way{path}:streamGenerateContent?alt=sse"));
        for request in requests {
            assert_eq!(request.header("x-goog-api-key"), Some(KEY));
            assert_eq!(request.header("x-team"), Some("blue"));
            assert_eq!(request.header("content-type"), Some("application/json"));
            assert!(request.header("user-agent").unwrap().starts_with("scratchbook/"));
        }
    }
}

#[tokio::test]
async fn a_request_may_name_another_model_of_the_provider() {
    let server = ModelServer::always(ScriptedAnswer::json(200, &json!({}))).await;
    let mut request = asks();
    request.model = "gemini-2.5-pro".to_owned();
    answers(&model(&server), request.clone()).await.remove(0).unwrap();
    assert_eq!(server.request().path, "/v1beta/models/gemini-2.5-pro:generateContent");
    request.model = "openai::gpt-4o".to_owned();
    assert_eq!(failure(&model(&server), request).await.kind(), ErrorKind::InvalidArgument);
}

/// The API refuses names that it does not know.
#[tokio::test]
async fn what_a_newer_program_has_written_is_not_sent() {
    let parts = json!([{"text": "a", "new": 1}, {"newKind": {}}, {"functionCall": {"name": "f", "new": 1}},
        {"inlineData": {"data": "AA==", "mimeType": "image/png", "new": 1}}]);
    let told = json!({"role": "user", "new": 1, "parts": parts});
    let mut request = asks();
    request.contents = vec![serde_json::from_value(told).unwrap()];
    let server = ModelServer::always(ScriptedAnswer::json(200, &json!({"candidates": []}))).await;
    answers(&model(&server), request).await.remove(0).unwrap();
    let sent = json!([{"role": "user", "parts": [{"text": "a"}, {"functionCall": {"name": "f"}},
        {"inlineData": {"data": "AA==", "mimeType": "image/png"}}]}]);
    assert_eq!(server.request().body["contents"], sent);
}

/// Anthropic's signatures are base64 text that only Anthropic can read.
#[tokio::test]
async fn signatures_of_other_providers_are_not_sent() {
    let foreign = "RXJVQkNrWUlCUmdDS2tDMGZ1dDFVYnZ3eg==".as_bytes().to_vec();
    let own = b"\x0a\x8f\x02skip\xff\x10\x93\x80\x01\x02\x03\x04\x05\x06".to_vec();
    let waived = b"skip_thought_signature_validator".to_vec();
    let thought = |text: Option<&str>, signature: &Vec<u8>| Part {
        text: text.map(str::to_owned),
        thought: Some(true),
        thought_signature: Some(signature.clone()),
        ..Part::default()
    };
    let called = |signature: &Vec<u8>| Part {
        thought_signature: Some(signature.clone()),
        ..Part::function_call("f", serde_json::Map::new())
    };
    let mut request = asks();
    request.contents = vec![
        Content::user("Hello."),
        Content::new("model", vec![thought(None, &foreign)]),
        Content::new("model", vec![thought(Some("Hm."), &foreign), thought(None, &foreign), called(&own)]),
        Content::new("model", vec![called(&foreign), called(&waived)]),
        Content::user("Go on."),
    ];
    let server = ModelServer::always(ScriptedAnswer::json(200, &json!({"candidates": []}))).await;
    answers(&model(&server), request).await.remove(0).unwrap();
    let signed: Vec<Vec<bool>> = server.request().body["contents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|content| {
            content["parts"].as_array().unwrap().iter().map(|part| part.get("thoughtSignature").is_some()).collect()
        })
        .collect();
    assert_eq!(signed, [vec![false], vec![false, true], vec![false, true], vec![false]]);
}
