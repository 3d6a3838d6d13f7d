//! Requests to models that use Anthropic's Messages API.

use scratchbook::content::Part;
use scratchbook::model::GenerateContentConfig;
use scratchbook::{Content, ErrorKind};
use serde_json::{Value, json};

use super::anthropic::SPOKEN;
use super::ask::{call, conversation, model, part, question, result, weather, whole};
use super::server::{ModelServer, ScriptedAnswer};

#[tokio::test]
async fn a_question_is_asked_in_anthropics_words() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let mut request = question("Hello!");
    request.system_instruction = Some("Be kind.".to_owned());
    request.tools = vec![weather()];
    request.config = GenerateContentConfig {
        temperature: Some(0.5),
        top_p: Some(0.9),
        top_k: Some(40.0),
        max_output_tokens: Some(1024),
        stop_sequences: Some(vec!["END".to_owned()]),
        tool_config: Some(json!({"functionCallingConfig": {"mode": "ANY"}})),
        // Anthropic has no parameters for these.
        seed: Some(7),
        presence_penalty: Some(0.25),
        ..GenerateContentConfig::default()
    };
    whole(&model(SPOKEN.model, &server, ""), request).await.unwrap();
    let asked = server.request();
    assert_eq!(asked.path, "/v1/messages");
    assert_eq!(
        (asked.header("x-api-key"), asked.header("anthropic-version")),
        (Some("secret-key"), Some("2023-06-01"))
    );
    let expected = json!({
        "model": "claude-opus-4-5",
        "stream": false,
        "system": "Be kind.",
        "messages": [{"role": "user", "content": "Hello!"}],
        "tools": [{
            "name": "get_weather",
            "description": "The weather at a place.",
            "input_schema": weather().parameters_json_schema,
        }],
        "tool_choice": {"type": "any"},
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_tokens": 1024,
        "stop_sequences": ["END"],
    });
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn how_much_to_think_is_asked_in_anthropics_words() {
    let cases = [
        (json!({"thinkingBudget": 2000}), json!({"type": "enabled", "budget_tokens": 2000}), Value::Null, Value::Null),
        (
            json!({"thinking_budget": -1}),
            json!({"type": "adaptive", "display": "summarized"}),
            Value::Null,
            Value::Null,
        ),
        (json!({"thinkingBudget": 0}), json!({"type": "disabled"}), Value::Null, json!(0.5)),
        (json!({"thinkingLevel": "HIGH"}), Value::Null, json!({"effort": "high"}), Value::Null),
        (json!({"includeThoughts": false}), Value::Null, Value::Null, json!(0.5)),
    ];
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "");
    for (config, thinking, output_config, temperature) in cases {
        let mut request = question("Hello!");
        request.config.temperature = Some(0.5);
        request.config.thinking_config = Some(config.clone());
        whole(&model, request).await.unwrap();
        let body = server.requests().pop().unwrap().body;
        assert_eq!(body["thinking"], thinking, "{config}");
        assert_eq!(body["output_config"], output_config, "{config}");
        assert_eq!(body["temperature"], temperature, "{config}: a model that thinks refuses it");
    }
    let mut request = question("Hello!");
    request.config.thinking_config = Some(json!({"includeThoughts": true}));
    assert_eq!(whole(&model, request).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_conversation_alternates_and_begins_with_the_user() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let with_image = part(json!({"functionResponse": {
        "id": "toolu_2", "name": "draw", "response": {"result": "done"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}],
    }}));
    let request = conversation([
        Content::model("Welcome."),
        Content::user("Hello!"),
        Content::user("Weather in Rome, and draw it."),
        Content::new("model", vec![Part::text("Let me see.")]),
        Content::new(
            "model",
            vec![call("toolu_1", "get_weather", json!({"location": "Rome"})), call("toolu_2", "draw", json!({}))],
        ),
        Content::new("user", vec![result("toolu_1", "get_weather", json!({"result": "sun"}))]),
        Content::new("user", vec![with_image]),
        Content::user("Well?"),
    ]);
    whole(&model(SPOKEN.model, &server, ""), request).await.unwrap();
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let expected = json!([
        {"role": "user", "content": "Handle the requests as specified in the System Instruction."},
        {"role": "assistant", "content": "Welcome."},
        {"role": "user", "content": "Hello!\n\nWeather in Rome, and draw it."},
        {"role": "assistant", "content": [
            text("Let me see."),
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"location": "Rome"}},
            {"type": "tool_use", "id": "toolu_2", "name": "draw", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "{\"result\":\"sun\"}"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": [text("{\"result\":\"done\"}"), image]},
            text("Well?"),
        ]},
    ]);
    assert_eq!(server.request().body["messages"], expected);
}

#[tokio::test]
async fn images_and_documents_are_told() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "");
    let request = conversation([Content::new(
        "user",
        vec![
            Part::bytes(b"\x89PNG", "image/png"),
            part(json!({"fileData": {"fileUri": "https://example.com/cat.jpg"}})),
            Part::bytes(b"%PDF", "application/pdf"),
            part(json!({"fileData": {"fileUri": "https://example.com/a.pdf"}})),
        ],
    )]);
    whole(&model, request).await.unwrap();
    let expected = json!([
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.jpg"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
    ]);
    assert_eq!(server.request().body["messages"][0]["content"], expected);
    let tiff = conversation([Content::new("user", vec![Part::bytes(b"II", "image/tiff")])]);
    assert_eq!(whole(&model, tiff).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn an_answer_is_held_to_its_schema_where_the_model_can() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
    let mut request = question("How old?");
    request.output_schema = Some(schema.clone());
    whole(&model(SPOKEN.model, &server, ""), request.clone()).await.unwrap();
    whole(&model("anthropic::claude-sonnet-4-20250514", &server, ""), request).await.unwrap();
    let [new, old] = server.requests().try_into().unwrap();
    assert_eq!(new.body["output_config"]["format"]["type"], "json_schema");
    assert_eq!(new.body["output_config"]["format"]["schema"]["properties"], schema["properties"]);
    assert_eq!(old.body.get("output_config"), None);
    assert!(old.body["system"].as_str().unwrap().contains(&schema.to_string()), "{}", old.body);
}

/// Anthropic answers 400 to text that is blank, wherever in the conversation it is.
#[tokio::test]
async fn blank_text_is_left_out() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let request = conversation([
        Content::user("Hello!"),
        Content::new("model", vec![Part::text("\n"), call("toolu_1", "f", json!({}))]),
        Content::new("user", vec![result("toolu_1", "f", json!({}))]),
        Content::model(" \n"),
        Content::new("user", vec![Part::text(" "), Part::text("Go on.")]),
    ]);
    whole(&model(SPOKEN.model, &server, ""), request).await.unwrap();
    let expected = json!([
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "{}"},
            {"type": "text", "text": "Go on."},
        ]},
    ]);
    assert_eq!(server.request().body["messages"], expected);
}

/// Another agent's tools may have names that only another provider accepts.
#[tokio::test]
async fn names_of_tools_in_the_conversation_are_ones_that_are_taken() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let long = "n".repeat(80);
    let request = conversation([
        Content::user("Hello!"),
        Content::new("model", vec![call("toolu_1", "maps.find:place", json!({})), call("toolu_2", &long, json!({}))]),
        Content::new(
            "user",
            vec![result("toolu_1", "maps.find:place", json!({})), result("toolu_2", &long, json!({}))],
        ),
        Content::user("Go on."),
    ]);
    whole(&model(SPOKEN.model, &server, ""), request.clone()).await.unwrap();
    let said = &server.request().body["messages"][1]["content"];
    assert_eq!((&said[0]["name"], &said[1]["name"]), (&json!("maps_find_place"), &json!(&long[..64])));
}

#[tokio::test]
async fn data_that_was_not_taken_does_not_end_the_conversation() {
    let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", SPOKEN.whole)).await;
    let model = model(SPOKEN.model, &server, "");
    let tiff = Content::new("user", vec![Part::text("Look."), Part::bytes(b"II", "image/tiff")]);
    let error = whole(&model, conversation([tiff.clone()])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let by_address =
        Content::new("user", vec![part(json!({"fileData": {"fileUri": "gs://b/a.tiff", "mimeType": "image/tiff"}}))]);
    whole(&model, conversation([tiff, by_address, Content::user("Never mind.")])).await.unwrap();
    let named = "(data of type 'image/tiff', which cannot be shown)";
    let expected = format!("Look.\n\n{named}\n\n{named}\n\nNever mind.");
    assert_eq!(server.request().body["messages"][0]["content"], expected);
}
