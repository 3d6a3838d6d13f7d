//! Data that a provider attaches to its answers goes back unchanged to the same model.

use scratchbook::Content;
use scratchbook::content::Part;
use scratchbook::model::LlmResponse;
use serde_json::{Value, json};

use super::ask::{conversation, model, part, parts, question, result, streamed, whole};
use super::server::{ModelServer, ScriptedAnswer};

fn chunks(deltas: &[Value]) -> ScriptedAnswer {
    let finish = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let chunks = deltas.iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta}]})).chain([finish]);
    ScriptedAnswer::events(chunks.map(|chunk| format!("data: {chunk}\n\n")).collect::<String>())
}

fn message(message: &Value) -> ScriptedAnswer {
    ScriptedAnswer::json(200, &json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
}

fn tool_call(id: &str) -> Value {
    json!({"index": 0, "id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
}

/// Returns the answer as it was stored, followed by the response to its first call.
fn continued(answer: &LlmResponse) -> Vec<Content> {
    let stored: Content = serde_json::from_value(serde_json::to_value(&answer.content).unwrap()).unwrap();
    let call = stored.function_calls().next().unwrap().clone();
    let response = result(&call.id.unwrap(), "f", json!({"result": 1}));
    vec![Content::user("Hello!"), stored, Content::new("user", vec![response])]
}

/// Returns the message with which an answer goes back to a model, for the streamed and for the whole answer.
async fn sent_back(stream: &[Value], whole_message: &Value, to: &str, thinking: Option<Value>) -> [Value; 2] {
    let end = || message(&json!({"content": "Done."}));
    let server = ModelServer::start([chunks(stream), end(), message(whole_message), end()]).await;
    let (from, to) = (model("openai::m", &server, "/v1"), model(to, &server, "/v1"));
    let mut asked = question("Hello!");
    asked.config.thinking_config = thinking;
    let first = streamed(&from, asked.clone()).await.1.unwrap();
    whole(&to, conversation(continued(&first))).await.unwrap();
    let second = whole(&from, asked).await.unwrap();
    whole(&to, conversation(continued(&second))).await.unwrap();
    let requests = server.requests();
    [&requests[1], &requests[3]].map(|request| request.body["messages"][1].clone())
}

#[tokio::test]
async fn signature_of_a_call_goes_back_to_the_same_model() {
    let attached = json!({"google": {"thought_signature": "U0lH_+/=", "n": 1.50}});
    let mut call = tool_call("c1");
    call["extra_content"] = attached.clone();
    let said = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let messages = sent_back(std::slice::from_ref(&said), &said, "openai::m", None).await;
    for message in messages {
        assert_eq!(message["tool_calls"][0]["extra_content"], attached, "{message}");
    }
    for message in sent_back(std::slice::from_ref(&said), &said, "openai::other", None).await {
        assert_eq!(message["tool_calls"][0].get("extra_content"), None, "another model might refuse the field");
    }
}

#[tokio::test]
async fn thoughts_before_a_call_go_back_in_the_field_in_which_they_came() {
    for field in ["reasoning_content", "reasoning"] {
        let stream = [json!({field: "must "}), json!({field: "add"}), json!({"tool_calls": [tool_call("c1")]})];
        let said = json!({field: "must add", "content": "", "tool_calls": [tool_call("c1")]});
        for thinking in [None, Some(json!({"includeThoughts": false}))] {
            for message in sent_back(&stream, &said, "openai::m", thinking).await {
                assert_eq!(message[field], "must add", "{message}");
                assert_eq!(message.get("thoughtField"), None);
            }
        }
    }
}

#[tokio::test]
async fn details_of_reasoning_go_back_with_the_message() {
    let sealed = json!({"type": "reasoning.encrypted", "data": "ENC", "format": "f", "id": "c1", "index": 1});
    let said = json!({"type": "reasoning.text", "text": "must add", "signature": "SIG", "index": 0});
    let pieces = [
        json!({"reasoning_details": [{"type": "reasoning.text", "text": "must ", "signature": null, "index": 0}]}),
        json!({"reasoning_details": [{"type": "reasoning.text", "text": "add", "signature": "SIG", "index": 0}]}),
        json!({"reasoning_details": [sealed]}),
        json!({"tool_calls": [tool_call("c1")]}),
    ];
    let whole_message = json!({"reasoning_details": [said, sealed], "tool_calls": [tool_call("c1")]});
    for message in sent_back(&pieces, &whole_message, "openai::m", None).await {
        assert_eq!(message["reasoning_details"], json!([said, sealed]), "{message}");
    }
}

/// LiteLLM's proxy keeps a signature in the id. OpenAI itself would refuse an id of more than 40 characters.
#[tokio::test]
async fn long_id_of_a_call_goes_back_whole() {
    let id = format!("call_7f3a9c__thought__{}", "Q2lF+/=".repeat(40));
    let said = json!({"content": null, "tool_calls": [tool_call(&id)]});
    for message in sent_back(std::slice::from_ref(&said), &said, "openai::m", None).await {
        assert_eq!(message["tool_calls"][0]["id"], id);
    }
}

/// Some servers give the same id to all calls of an answer.
#[tokio::test]
async fn two_calls_with_one_id_get_their_results_in_order() {
    for (name, path) in [("openai::m", "/v1"), ("anthropic::claude-opus-4-5", ""), ("ollama::llama3", "")] {
        let server = ModelServer::always(ScriptedAnswer::json(200, &json!({}))).await;
        let call = || part(json!({"functionCall": {"id": "c", "name": "f", "args": {}}}));
        let request = conversation([
            Content::user("Hello!"),
            Content::new("model", vec![call(), call()]),
            Content::new("user", vec![result("c", "f", json!({"n": 1})), result("c", "f", json!({"n": 2}))]),
        ]);
        let _ = whole(&model(name, &server, path), request).await;
        let messages = server.request().body["messages"].to_string();
        let [first, second] = ["n\\\":1", "n\\\":2"].map(|text| messages.find(text));
        assert!(first.is_some() && first < second, "{messages}");
        assert!(!messages.contains("Missing tool result"), "{messages}");
    }
}

#[tokio::test]
async fn encrypted_reasoning_of_openais_responses_goes_back_as_it_came() {
    let reasoning = json!({
        "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "gAAAA==",
    });
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"});
    let answer = json!({"status": "completed", "model": "gpt-5", "output": [reasoning, call]});
    let server = ModelServer::always(ScriptedAnswer::json(200, &answer)).await;
    let model = model("openai_resp::gpt-5", &server, "/v1");
    let answer = whole(&model, question("Hello!")).await.unwrap();
    assert_eq!(parts(&answer)[0]["text"], "Hm.");
    whole(&model, conversation(continued(&answer))).await.unwrap();
    assert_eq!(server.requests()[1].body["input"][1], reasoning);
}

/// Thinking may come without its text, and is not the same as redacted thinking.
#[tokio::test]
async fn signed_thinking_without_text_goes_back_as_thinking() {
    let content = json!([
        {"type": "thinking", "thinking": "", "signature": "U0lH"},
        {"type": "redacted_thinking", "data": "UkVE"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ]);
    let answer = json!({"type": "message", "model": "m", "content": content, "stop_reason": "tool_use"});
    let server = ModelServer::always(ScriptedAnswer::json(200, &answer)).await;
    let model = model("anthropic::claude-opus-4-5", &server, "");
    let answer = whole(&model, question("Hello!")).await.unwrap();
    whole(&model, conversation(continued(&answer))).await.unwrap();
    assert_eq!(server.requests()[1].body["messages"][1]["content"], content);
}

#[tokio::test]
async fn gemini_gets_nothing_that_others_attached() {
    let answer = json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]});
    let server = ModelServer::always(ScriptedAnswer::json(200, &answer)).await;
    let data = json!({"providerData": {"openai::m": {"reasoning_details": [1]}}});
    let mut thought = json!({"thought": true, "partMetadata": data});
    let sealed = part(thought.clone());
    thought["text"] = json!("Hm.");
    thought["partMetadata"]["own"] = json!(1);
    let said = Content::new("model", vec![sealed, part(thought), Part::text("Hi.")]);
    let request = conversation([Content::user("Hello!"), said, Content::user("And?")]);
    whole(&model("gemini-2.5-flash", &server, ""), request).await.unwrap();
    let expected = json!([{"text": "Hm.", "thought": true, "partMetadata": {"own": 1}}, {"text": "Hi."}]);
    assert_eq!(server.request().body["contents"][1]["parts"], expected);
}
