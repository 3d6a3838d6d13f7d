//! Measures how soon a client of `/run_sse` receives the first event of a run with a scripted model, on SQLite. The
//! target is 2 ms, in addition to the flushes that come before. The user's message is committed before a piece of a
//! reply; before a whole reply, the reply is committed, too.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run has nothing to report")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use scratchbook::model::ScriptedLlm;
use scratchbook::store::Synchronous;
use scratchbook::{AppendOptions, CreateSessionConfig, Event, LlmAgent, SessionKey, SessionService};
use scratchbook_benches::{runtime, sqlite};
use scratchbook_server::Server;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How many runs are measured in each case.
const TIMES: usize = 1000;
/// The target for the first byte, in addition to the flushes.
const TARGET: Duration = Duration::from_millis(2);

fn main() {
    runtime().block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let sessions = sqlite(&folder.path().join("bench.db"), Synchronous::Full).await;
        let model = ScriptedLlm::from_fn(|_| Ok("Hello from the scripted model.".into()));
        let agent = LlmAgent::builder("demo").model(model).output_key("last_reply").build().unwrap();
        let store = scratchbook::Store::new(sessions.clone());
        let server = Server::builder(store).app("demo", agent).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(server.run(listener, std::future::pending()));

        let flush = flush(sessions.as_ref()).await;
        println!("one flush: {flush:?}");
        for (what, streaming, flushes) in [("a piece", true, 1), ("a whole reply", false, 2)] {
            let first = first_byte(sessions.as_ref(), address, streaming).await;
            let over = first.saturating_sub(flush * flushes);
            let verdict = if over < TARGET { "ok" } else { "MISSED" };
            println!(
                "{what}: first byte after {first:?}, {over:?} over {flushes} flush(es), target {TARGET:?}: {verdict}"
            );
        }
    });
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

async fn flush(sessions: &dyn SessionService) -> Duration {
    let config = CreateSessionConfig::default().with_session_id("flush");
    sessions.create_session("demo", "u", config).await.unwrap();
    let key = SessionKey::new("demo", "u", "flush").unwrap();
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        sessions.append(&key, Event::new("user"), AppendOptions::default()).await.unwrap();
        times.push(begun.elapsed());
    }
    median(times)
}

/// Returns the median time from the request to the first event of the body. Each run has its own session.
async fn first_byte(sessions: &dyn SessionService, address: SocketAddr, streaming: bool) -> Duration {
    let mut times = Vec::new();
    for n in 0..TIMES {
        let id = format!("{streaming}-{n}");
        let config = CreateSessionConfig::default().with_session_id(&id);
        sessions.create_session("demo", "u", config).await.unwrap();
        let message = json!({"role": "user", "parts": [{"text": "hello"}]});
        let body =
            json!({"appName": "demo", "userId": "u", "sessionId": id, "newMessage": message, "streaming": streaming});
        let (body, mut socket) = (body.to_string(), TcpStream::connect(address).await.unwrap());
        socket.set_nodelay(true).unwrap();
        let request = format!(
            "POST /run_sse HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
        let begun = Instant::now();
        socket.write_all(request.as_bytes()).await.unwrap();
        while !read.windows(6).any(|bytes| bytes == b"data: ") {
            let length = socket.read(&mut buffer).await.unwrap();
            assert_ne!(length, 0, "no frame: {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&buffer[..length]);
        }
        times.push(begun.elapsed());
        socket.read_to_end(&mut read).await.unwrap();
    }
    median(times)
}
