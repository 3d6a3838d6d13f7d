//! Who can log in, what callers reach, and which loads and attacks the server withstands.

mod bodies;
mod browser;
mod guard;
mod jwt;
mod limits;
pub(crate) mod reach;
mod shutdown;
mod streams;
mod surfaces;
mod tls;
mod tokens;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::model::ScriptedLlm;
use scratchbook::{CreateSessionConfig, LlmAgent, Store, connect};
use scratchbook_server::{Login, NewToken, Right, Server, ServerBuilder};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// An answer, read whole.
#[derive(Debug)]
struct TextAnswer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl TextAnswer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// Sends one request to a router.
async fn send(router: &Router, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> TextAnswer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    TextAnswer { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

async fn get(router: &Router, path: &str, headers: &[(&str, &str)]) -> TextAnswer {
    send(router, Method::GET, path, headers, "").await
}

/// Creates a session of the app `demo`.
async fn session(store: &Store, user: &str, id: &str) {
    let config = CreateSessionConfig::default().with_session_id(id);
    store.sessions.create_session("demo", user, config).await.unwrap();
}

/// Returns a store, and the builder of a server with the app `demo`.
async fn demo() -> (Store, ServerBuilder) {
    let store = connect("memory:").await.unwrap();
    let agent = LlmAgent::builder("demo_agent").model(ScriptedLlm::new(["Hello."])).build().unwrap();
    (store.clone(), Server::builder(store).app("demo", agent))
}

/// A folder with the files of a login.
struct LoginFiles {
    folder: TempDir,
}

impl LoginFiles {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

/// Returns the header for a token.
fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Makes a token for the user `u1` of `demo`. Returns the login that accepts it, and the header with it.
fn token_of_u1(files: &LoginFiles, rights: &[Right]) -> (Login, String) {
    let token = NewToken::new("u1").with_app("demo").with_user("u1").with_rights(rights.to_vec()).make().unwrap();
    let path = files.write("tokens.toml", token.entry());
    (Login::new().with_tokens(path), bearer(token.secret()))
}

/// A clock that stands still.
#[derive(Debug)]
struct At(f64);

impl Environment for At {
    fn now(&self) -> f64 {
        self.0
    }

    fn new_id(&self) -> String {
        SystemEnvironment.new_id()
    }
}

/// A server that listens on loopback.
struct LoopbackServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<scratchbook::Result<()>>,
}

impl LoopbackServer {
    async fn start(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(server.run(listener, async { drop(stopped.await) }));
        Self { address, stop: Some(stop), ended }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the server closes.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_to_end(&mut stream).await
    }

    fn stop(&mut self) {
        drop(self.stop.take());
    }

    async fn ended(self) {
        tokio::time::timeout(Duration::from_secs(20), self.ended).await.unwrap().unwrap().unwrap();
    }
}

/// Reads everything that is left. A reset counts as the end.
async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = async {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut part).await {
            bytes.extend_from_slice(&part[..length]);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("the server leaves the connection open");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn shared(environment: impl Environment) -> Arc<dyn Environment> {
    Arc::new(environment)
}
