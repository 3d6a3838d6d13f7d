//! Runs over real connections: what is sent, in which pieces, and what happens to a run whose client disconnects.

mod adk;
mod follow;
mod life;
mod resumed;
mod shares;
mod told;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use scratchbook::agent::{FunctionAgent, InvocationContext};
use scratchbook::content::Part;
use scratchbook::session::Events;
use scratchbook::{Agent, Content, CreateSessionConfig, Event, GetSessionConfig, SessionKey, Store, connect};
use scratchbook_server::{Server, ServerBuilder};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use wire::StreamedAnswer;

/// A server on a port of its own, with the session `s` of the user `u` in the app `demo`.
struct Host {
    store: Store,
    address: SocketAddr,
    shutdown: Option<oneshot::Sender<()>>,
    serving: JoinHandle<scratchbook::Result<()>>,
}

const RUNS: &str = "/v1/apps/demo/users/u/sessions/s/runs";

impl Host {
    /// Starts a server over a store in memory, with an agent as the app `demo`.
    async fn start(agent: impl Agent) -> Self {
        Self::over(connect("memory:").await.unwrap(), agent, |server| server).await
    }

    async fn over(store: Store, agent: impl Agent, options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let config = CreateSessionConfig::default().with_session_id("s");
        // If the session already exists, the server is started again over the same store.
        let _ = store.sessions.create_session("demo", "u", config).await;
        let server = options(Server::builder(store.clone()).app("demo", agent)).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, end) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run(listener, async move { drop(end.await) }));
        Self { store, address, shutdown: Some(shutdown), serving }
    }

    async fn post(&self, path: &str, body: &Value) -> StreamedAnswer {
        StreamedAnswer::of(self.address, "POST", path, &[], &body.to_string()).await
    }

    async fn get(&self, path: &str) -> StreamedAnswer {
        StreamedAnswer::of(self.address, "GET", path, &[], "").await
    }

    async fn run_sse(&self, text: &str) -> StreamedAnswer {
        self.post("/run_sse", &asked(text)).await
    }

    /// Returns the stored events of the agents.
    async fn stored(&self) -> Vec<Arc<Event>> {
        let all = self.events().await;
        all.iter().filter(|event| event.author != "user").cloned().collect()
    }

    async fn events(&self) -> Events {
        let key = SessionKey::new("demo", "u", "s").unwrap();
        let session = self.store.sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap();
        session.unwrap().events().clone()
    }

    /// Waits until this many of the agents' events are stored.
    async fn has_stored(&self, count: usize) {
        let all_there = async {
            while self.stored().await.len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all_there).await.expect("the run goes on");
    }

    async fn stop(mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
        self.serving.await.unwrap().unwrap();
    }
}

/// Returns the body of a request for a run of `demo`.
fn asked(text: &str) -> Value {
    json!({"appName": "demo", "userId": "u", "sessionId": "s", "newMessage": {"role": "user", "parts": [{"text": text}]}})
}

/// Returns an agent that says numbers, one for each permit of `lets`.
fn counter(count: usize, lets: &Arc<Semaphore>) -> FunctionAgent {
    let lets = Arc::clone(lets);
    FunctionAgent::new("counter", move |context: InvocationContext| {
        let lets = Arc::clone(&lets);
        stream::unfold(0, move |said| {
            let (lets, context) = (Arc::clone(&lets), context.clone());
            async move {
                if said == count {
                    return None;
                }
                lets.acquire().await.unwrap().forget();
                Some((Ok(saying(&context, &said.to_string())), said + 1))
            }
        })
    })
}

fn saying(context: &InvocationContext, text: &str) -> Event {
    let mut event = context.event();
    event.content = Some(Content::new("model", vec![Part::text(text)]));
    event
}

fn text(event: &Value) -> &str {
    event["content"]["parts"][0]["text"].as_str().unwrap_or_default()
}
