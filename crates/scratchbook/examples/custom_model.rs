//! A model of your own: two methods turn a request into a stream of answers. This one imitates the client of a hosted
//! model; replace `call` by the HTTP call.

use std::sync::Arc;

use futures_util::{TryStreamExt, stream};
use scratchbook::agent::{FunctionTool, RunConfig, ToolContext};
use scratchbook::content::Part;
use scratchbook::model::{Llm, LlmRequest, LlmResponse, LlmStream};
use scratchbook::{Content, Error, ErrorKind, LlmAgent, RunRequest, Runner};
use serde_json::{Value, json};

#[derive(Debug)]
struct HostedModel {
    client: Arc<Client>,
}

/// Imitates an HTTP client with its address and key.
#[derive(Debug)]
struct Client;

impl Client {
    /// Imitates the HTTP call. It returns an answer in the API's form: a call of a tool, or text.
    async fn call(&self, body: Value) -> std::io::Result<Value> {
        let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
        Ok(match last["tool_answer"]["celsius"].as_i64() {
            Some(degrees) => json!({"text": format!("It is {degrees} degrees in Oslo.")}),
            None => json!({"call": {"name": body["tools"][0]["name"], "arguments": {"city": "Oslo"}}}),
        })
    }
}

impl Llm for HostedModel {
    fn name(&self) -> &str {
        "hosted-1"
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        // The stream lives longer than this function call, so it owns everything it needs.
        let client = Arc::clone(&self.client);
        let answers = async move {
            let wants_pieces = request.stream;
            let answer = client.call(body(&request)).await.map_err(|e| {
                // The error's kind says whether a retry may help; the source keeps the cause.
                Error::new(ErrorKind::Unavailable, "the model's API does not answer").with_source(e)
            })?;
            let whole = match answer["text"].as_str() {
                Some(text) => LlmResponse::text(text),
                None => {
                    let call = &answer["call"];
                    LlmResponse::call(call["name"].as_str().unwrap_or_default(), call["arguments"].clone())
                }
            };
            let mut answers = if wants_pieces { pieces(answer["text"].as_str().unwrap_or_default()) } else { vec![] };
            answers.push(whole);
            Ok::<_, Error>(stream::iter(answers.into_iter().map(Ok)))
        };
        Box::pin(stream::once(answers).try_flatten())
    }
}

/// The request in the API's form.
fn body(request: &LlmRequest) -> Value {
    let message = |part: &Part, role: &Option<String>| match &part.function_response {
        Some(answer) => json!({"role": "tool", "tool_answer": answer.response}),
        None => json!({"role": role, "text": part.text}),
    };
    let messages = request.contents.iter().flat_map(|content| {
        content.parts().iter().filter(|part| part.function_call.is_none()).map(|part| message(part, &content.role))
    });
    let tools = request
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "schema": tool.parameters_json_schema}));
    json!({
        "model": request.model,
        "system": request.system_instruction,
        "messages": messages.collect::<Vec<_>>(),
        "tools": tools.collect::<Vec<_>>(),
    })
}

/// The words of a text as partial answers, as they would arrive over the network, and then the whole answer.
fn pieces(text: &str) -> Vec<LlmResponse> {
    let piece =
        |word| LlmResponse { content: Some(Content::model(word)), partial: Some(true), ..LlmResponse::default() };
    text.split_inclusive(' ').map(piece).collect()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Place {
    city: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let weather = FunctionTool::new("weather", "The temperature.", |place: Place, context: ToolContext| async move {
        context.state().set("user:last_city", place.city)?;
        Ok(json!({"celsius": 7}))
    });
    let agent = LlmAgent::builder("forecaster")
        .model(HostedModel { client: Arc::new(Client) })
        .instruction("Tell the weather.")
        .tool(weather)
        .output_key("last_forecast")
        .build()?;
    let runner = Runner::builder("weather", agent, sessions.clone()).build()?;

    let session = sessions.create_session("weather", "alice", Default::default()).await?;
    let request = RunRequest::message("How is Oslo?").with_config(RunConfig::default().with_streaming());
    let mut events = runner.run("alice", session.id(), request);
    let mut said = String::new();
    while let Some(event) = events.try_next().await? {
        if event.is_partial() {
            said += &event.content.map(|content| content.text()).unwrap_or_default();
        }
    }
    println!("{said}");
    assert_eq!(said, "It is 7 degrees in Oslo.");

    let stored = sessions.get_session(session.key(), &Default::default()).await?;
    let state = stored.map(|session| json!(session.state())).unwrap_or_default();
    assert_eq!(state, json!({"last_forecast": "It is 7 degrees in Oslo.", "user:last_city": "Oslo"}));
    sessions.close().await
}
