//! A loop of your own, or the loop of another agent framework, on a session. Before each model call, the conversation
//! is read from the session's events. The results are appended as events, which carry their changes to the state. This
//! needs only the session service: no runner, no agent, and not the feature `agent`.
//!
//! The model here speaks OpenAI's Chat Completions. `cargo run --locked --example own_loop -- memory: gpt-4o-mini` asks a
//! real model, at OPENAI_BASE_URL and with the key in OPENAI_API_KEY. Without a model's name, a server in this file
//! answers, so that the example runs offline.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use scratchbook::content::{FunctionCall, Part};
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
    let model = match args.next() {
        Some(name) => {
            let address = std::env::var("OPENAI_BASE_URL").unwrap_or_else(|_| "https://api.openai.com/v1".to_owned());
            Model { http: reqwest::Client::new(), address, key: std::env::var("OPENAI_API_KEY")?, name }
        }
        None => offline()?,
    };
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let mut session = sessions.create_session("groceries", "alice", Default::default()).await?;
    for message in ["We are out of milk.", "Thanks."] {
        println!("> {message}\n{}", turn(&model, sessions.as_ref(), &mut session, message).await?);
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
    model: &Model,
    sessions: &dyn SessionService,
    session: &mut Session,
    message: &str,
) -> Result<String, Box<dyn Error>> {
    sessions.append_event(session, Event::new("user").with_content(message)).await?;
    loop {
        let list = session.state().get("user:list").cloned().unwrap_or_else(|| json!([]));
        let mut messages =
            vec![json!({"role": "system", "content": format!("You keep a shopping list. It has: {list}")})];
        messages.extend(history(session));
        let answer = model.ask(&messages).await?;
        let calls = answer["tool_calls"].as_array().cloned().unwrap_or_default();
        if calls.is_empty() {
            let text = answer["content"].as_str().unwrap_or_default().to_owned();
            let delta = StateDelta::new().with("last_reply", text.as_str())?;
            let event = Event::new(AGENT).with_content(Content::model(text.as_str())).with_state_delta(delta);
            sessions.append_event(session, event).await?;
            return Ok(text);
        }
        let calls: Vec<_> = calls.iter().map(function_call).collect();
        let made = calls.iter().map(|call| Part { function_call: Some(Box::new(call.clone())), ..Part::default() });
        sessions.append_event(session, Event::new(AGENT).with_content(Content::new("model", made.collect()))).await?;

        // Runs the tools. Their responses and changes are one event, and so one commit.
        let mut delta = StateDelta::new();
        let mut answers = Vec::new();
        for call in calls {
            let item = call.args.unwrap_or_default().remove("item").unwrap_or_default();
            // Applied at the commit: items that others add to the list in the meantime are kept.
            delta.append("user:list", item.clone())?;
            let (id, name) = (call.id.unwrap_or_default(), call.name.unwrap_or_default());
            answers.push(Part::function_response(id, name, json!({"added": item})));
        }
        let event = Event::new(AGENT).with_content(Content::new("user", answers)).with_state_delta(delta);
        sessions.append_event(session, event).await?;
    }
}

struct Model {
    http: reqwest::Client,
    address: String,
    key: String,
    name: String,
}

impl Model {
    /// Returns the model's next message.
    async fn ask(&self, messages: &[Value]) -> Result<Value, Box<dyn Error>> {
        let schema = json!({"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]});
        let add =
            json!({"name": "add_to_list", "description": "Puts an item on the shopping list.", "parameters": schema});
        let tools = json!([{"type": "function", "function": add}]);
        let body = json!({"model": self.name, "messages": messages, "tools": tools}).to_string();
        let request = self.http.post(format!("{}/chat/completions", self.address)).bearer_auth(&self.key);
        let response =
            request.header("content-type", "application/json").body(body).send().await?.error_for_status()?;
        let mut answer: Value = scratchbook::json::from_str(&response.text().await?)?;
        Ok(answer["choices"][0]["message"].take())
    }
}

/// Converts the events of a session to the model's messages.
fn history(session: &Session) -> Vec<Value> {
    let mut messages = Vec::new();
    for event in session.events().iter() {
        let Some(content) = &event.content else { continue };
        let text = content.text();
        let calls: Vec<_> = content.function_calls().map(tool_call).collect();
        if !calls.is_empty() {
            messages.push(json!({"role": "assistant", "tool_calls": calls}));
        } else if !text.is_empty() {
            messages.push(json!({"role": if event.author == "user" { "user" } else { "assistant" }, "content": text}));
        }
        for answer in content.function_responses() {
            let text = json!(answer.response).to_string();
            messages.push(json!({"role": "tool", "tool_call_id": answer.id, "content": text}));
        }
    }
    messages
}

/// Converts a call to an event's form. Some models need what they attach to a call back, or they refuse to continue:
/// Gemini's signature comes as `extra_content` and stays with the call as a field that this version does not know.
fn function_call(call: &Value) -> FunctionCall {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let args = text(&call["function"]["arguments"]).and_then(|args| scratchbook::json::from_str(&args).ok());
    let mut made =
        FunctionCall { id: text(&call["id"]), name: text(&call["function"]["name"]), args, ..Default::default() };
    if let Some(attached) = call.get("extra_content") {
        made.extra.insert("extra_content".to_owned(), attached.clone());
    }
    made
}

fn tool_call(call: &FunctionCall) -> Value {
    let args: &Map<String, Value> = &call.args.clone().unwrap_or_default();
    let mut sent = json!({"id": call.id, "type": "function", "function": {"name": call.name}});
    sent["function"]["arguments"] = json!(args).to_string().into();
    if let Some(attached) = call.extra.get("extra_content") {
        sent["extra_content"] = attached.clone();
    }
    sent
}

/// A model on this machine that gives scripted answers.
fn offline() -> Result<Model, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}/v1", listener.local_addr()?);
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
    Ok(Model { http: reqwest::Client::new(), address, key: "no key".to_owned(), name: "scripted".to_owned() })
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
