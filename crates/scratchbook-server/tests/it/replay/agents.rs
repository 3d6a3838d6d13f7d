//! The agents that were hosted when the exchanges were recorded.

use std::sync::Arc;

use scratchbook::agent::{FunctionTool, SequentialAgent, ToolContext};
use scratchbook::content::Part;
use scratchbook::model::{Llm, LlmRequest, LlmResponse, LlmStream};
use scratchbook::{Agent, Error, ErrorKind, LlmAgent, Result};
use serde_json::{Map, Value, json};

/// Answers by rule: fails at `boom`, calls a tool at `add` and `artifact`, and otherwise speaks.
#[derive(Debug)]
struct RuleModel;

impl Llm for RuleModel {
    fn name(&self) -> &str {
        "scripted"
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        Box::pin(futures_util::stream::iter(answers(&request)))
    }
}

fn answers(request: &LlmRequest) -> Vec<Result<LlmResponse>> {
    let last = request.contents.last().unwrap();
    let (text, has_response) = (last.text(), last.function_responses().next().is_some());
    if text.contains("boom") {
        return vec![Err(Error::new(ErrorKind::Unavailable, "scripted model failure"))];
    }
    if !has_response && text.contains("artifact") {
        return vec![Ok(whole(LlmResponse::call("save_note", json!({"note": "hello"}))))];
    }
    if !has_response && text.contains("add") {
        return vec![Ok(whole(LlmResponse::call("add_to_cart", json!({"item": "widget", "qty": 2}))))];
    }
    let said = if has_response { "Done: cart updated." } else { "Hello from the scripted model." };
    let mut answers = Vec::new();
    if request.stream {
        let pieces = said.as_bytes().chunks(10).map(|piece| std::str::from_utf8(piece).unwrap());
        answers.extend(pieces.map(|piece| Ok(LlmResponse::piece(piece))));
    }
    let partial = request.stream.then_some(false);
    answers.push(Ok(LlmResponse { partial, ..whole(LlmResponse::text(said)) }));
    answers
}

fn whole(answer: LlmResponse) -> LlmResponse {
    let usage = json!({"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18});
    LlmResponse { usage_metadata: Some(usage), finish_reason: Some("STOP".to_owned()), ..answer }
}

async fn add_to_cart(args: Map<String, Value>, context: ToolContext) -> Result<Value> {
    let state = context.state();
    let mut cart: Vec<Value> = state.get_as("cart")?.unwrap_or_default();
    cart.push(json!({"item": args["item"], "qty": args["qty"]}));
    state.set("cart", &cart)?;
    state.set("user:theme", "dark")?;
    state.set("app:x", 42)?;
    state.set("temp:y", "scratch")?;
    Ok(json!({"status": "ok", "items": cart.len()}))
}

async fn save_note(args: Map<String, Value>, context: ToolContext) -> Result<Value> {
    let note = args["note"].as_str().unwrap_or_default();
    let version = context.save_artifact("note.txt", Part::bytes(note, "text/plain")).await?;
    Ok(json!({"version": version}))
}

pub(super) fn demo() -> LlmAgent {
    let add_to_cart = FunctionTool::new("add_to_cart", "Adds an item to the cart.", add_to_cart);
    let add_to_cart = add_to_cart.with_parameters_json_schema(json!({
        "properties": {"item": {"title": "Item", "type": "string"}, "qty": {"title": "Qty", "type": "integer"}},
        "required": ["item", "qty"],
        "title": "add_to_cartParams",
        "type": "object",
    }));
    let save_note = FunctionTool::new("save_note", "Saves a note as an artifact.", save_note);
    let save_note = save_note.with_parameters_json_schema(json!({
        "properties": {"note": {"title": "Note", "type": "string"}},
        "required": ["note"],
        "title": "save_noteParams",
        "type": "object",
    }));
    LlmAgent::builder("demo_agent")
        .description("Scripted demo agent")
        .instruction("You are scripted. cart={cart?}")
        .model(RuleModel)
        .tool(add_to_cart)
        .tool(save_note)
        .output_key("last_reply")
        .build()
        .unwrap()
}

pub(super) fn second() -> SequentialAgent {
    let step = |name: &str, key: &str| {
        let agent = LlmAgent::builder(name).model(RuleModel).output_key(key).build().unwrap();
        Arc::new(agent) as Arc<dyn Agent>
    };
    SequentialAgent::new("seq", vec![step("a", "a_out"), step("b", "b_out")]).with_description("two steps")
}
