//! A loop of your own, or the loop of another agent framework, on a session. Before each model call, the conversation
//! is read from the session's events. The results are appended as events, which carry their changes to the state. This
//! needs only the session service: no runner, no agent, and not the feature `agent`.
//!
//! The framework here is genai, a client for models. `cargo run --locked --example own_loop -- memory: gpt-5-mini` asks a
//! real model, whose key is in the environment. Without a model's name, a server in this file answers, so that the
//! example runs offline.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use base64::prelude::{BASE64_STANDARD, Engine};
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatRequest, Tool, ToolCall, ToolResponse};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use scratchbook::content::{FunctionCall, FunctionResponse, Part};
use scratchbook::{Content, Event, Session, SessionService, SessionServiceExt, StateDelta};
use serde_json::{Map, Value, json};

/// The agent's name in the events.
const AGENT: &str = "assistant";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The client of models needs this for TLS.
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "another provider was installed")?;
    let mut args = std::env::args().skip(1);
    let uri = args.next().unwrap_or_else(|| "memory:".to_owned());
    let (client, model) = match args.next() {
        Some(model) => (Client::builder().build()?, model),
        None => offline()?,
    };
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let mut session = sessions.create_session("groceries", "alice", Default::default()).await?;
    for message in ["We are out of milk.", "Thanks."] {
        println!("> {message}\n{}", turn(&client, &model, sessions.as_ref(), &mut session, message).await?);
    }

    // This is what another process would read.
    let stored = sessions.get_session(session.key(), &Default::default()).await?.ok_or("the session is there")?;
    println!("{}", json!(stored.state()));
    assert_eq!(stored.events().len(), session.events().len());
    assert!(stored.state().contains("last_reply"));
    Ok(sessions.close().await?)
}

/// One turn: a message, and model calls until one of them calls no tool.
async fn turn(
    client: &Client,
    model: &str,
    sessions: &dyn SessionService,
    session: &mut Session,
    message: &str,
) -> Result<String, Box<dyn Error>> {
    sessions.append_event(session, Event::new("user").with_content(message)).await?;
    loop {
        let list = session.state().get("user:list").cloned().unwrap_or_else(|| json!([]));
        let request = ChatRequest::from_messages(history(session))
            .with_system(format!("You keep a shopping list. It has: {list}"))
            .with_tools([add_to_list()]);
        let answer = client.exec_chat(model, request, None).await?;
        if answer.tool_calls().is_empty() {
            let text = answer.into_first_text().unwrap_or_default();
            let delta = StateDelta::new().with("last_reply", text.as_str())?;
            let event = Event::new(AGENT).with_content(Content::model(text.as_str())).with_state_delta(delta);
            sessions.append_event(session, event).await?;
            return Ok(text);
        }
        let calls: Vec<_> = answer.tool_calls().into_iter().map(call_part).collect();
        sessions.append_event(session, Event::new(AGENT).with_content(Content::new("model", calls))).await?;

        // Runs the tools. Their responses and changes are one event, and so one commit.
        let mut delta = StateDelta::new();
        let mut answers = Vec::new();
        for call in answer.into_tool_calls() {
            let item = call.fn_arguments["item"].clone();
            // Applied at the commit: items that others add to the list in the meantime are kept.
            delta.append("user:list", item.clone())?;
            answers.push(Part::function_response(call.call_id, call.fn_name, json!({"added": item})));
        }
        let event = Event::new(AGENT).with_content(Content::new("user", answers)).with_state_delta(delta);
        sessions.append_event(session, event).await?;
    }
}

fn add_to_list() -> Tool {
    let schema = json!({"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]});
    Tool::new("add_to_list").with_description("Puts an item on the shopping list.").with_schema(schema)
}

/// Converts the events of a session to the framework's messages.
fn history(session: &Session) -> Vec<ChatMessage> {
    let mut messages = Vec::new();
    for event in session.events().iter() {
        let Some(content) = &event.content else { continue };
        let calls: Vec<_> = content.parts().iter().filter_map(tool_call).collect();
        let answers: Vec<_> = content.function_responses().map(tool_response).collect();
        let text = content.text();
        if !text.is_empty() {
            messages.push(if event.author == "user" { ChatMessage::user(text) } else { ChatMessage::assistant(text) });
        }
        if !calls.is_empty() {
            messages.push(calls.into());
        }
        if !answers.is_empty() {
            messages.push(answers.into());
        }
    }
    messages
}

/// Converts a call to an event's form. Gemini needs its signature back, or it refuses to continue.
fn call_part(call: &ToolCall) -> Part {
    let args = call.fn_arguments.as_object().cloned().unwrap_or_default();
    let (id, name) = (Some(call.call_id.clone()), Some(call.fn_name.clone()));
    let function_call = Some(Box::new(FunctionCall { id, name, args: Some(args), ..FunctionCall::default() }));
    let signature = call.thought_signatures.iter().flatten().next();
    let thought_signature = signature.and_then(|signature| BASE64_STANDARD.decode(signature).ok());
    Part { function_call, thought_signature, ..Part::default() }
}

fn tool_call(part: &Part) -> Option<ToolCall> {
    let call = part.function_call.clone()?;
    let thought_signatures = part.thought_signature.as_ref().map(|bytes| vec![BASE64_STANDARD.encode(bytes)]);
    let (call_id, fn_name) = (call.id.unwrap_or_default(), call.name.unwrap_or_default());
    let fn_arguments = Value::Object(call.args.unwrap_or_default());
    Some(ToolCall { call_id, fn_name, fn_arguments, thought_signatures })
}

fn tool_response(response: &FunctionResponse) -> ToolResponse {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let answer: &Map<String, Value> = &response.response.clone().unwrap_or_default();
    ToolResponse::new(text(&response.id), json!(answer).to_string()).with_fn_name(text(&response.name))
}

/// A client of a model on this machine that gives scripted answers in the form of OpenAI's API.
fn offline() -> Result<(Client, String), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        let call = json!({"name": "add_to_list", "arguments": "{\"item\": \"milk\"}"});
        let messages = [
            json!({"tool_calls": [{"id": "call_1", "type": "function", "function": call}]}),
            json!({"content": "Milk is on the list."}),
            json!({"content": "You are welcome."}),
        ];
        for (message, connection) in messages.iter().zip(listener.incoming()) {
            if let Err(error) = connection.and_then(|connection| respond(connection, message)) {
                eprintln!("the offline model: {error}");
            }
        }
    });
    let here = move |_| target(address);
    Ok((Client::builder().with_service_target_resolver_fn(here).build()?, "scripted".to_owned()))
}

fn target(address: SocketAddr) -> Result<ServiceTarget, genai::resolver::Error> {
    Ok(ServiceTarget {
        endpoint: Endpoint::from_owned(format!("http://{address}/v1/")),
        auth: AuthData::from_single("no key"),
        model: ModelIden::new(AdapterKind::OpenAI, "scripted"),
    })
}

fn respond(connection: TcpStream, message: &Value) -> std::io::Result<()> {
    let mut request = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        request.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    request.read_exact(&mut vec![0; length])?;
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    write!(request.get_mut(), "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
