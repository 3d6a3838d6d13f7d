//! Clients that disconnect before they get their answer.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use scratchbook::{CreateSessionConfig, Event, StateDelta};
use serde_json::json;
use tokio::net::TcpListener;

use super::support::{Api, server};

const EVENTS: usize = 8000;

async fn served(api: &Api) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server(&api.store).run(listener, std::future::pending()));
    address
}

fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    socket
}

fn status(mut socket: TcpStream) -> String {
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

/// The test has more workers than are busy with answers. An answer is made without a pause, and a runtime whose workers
/// are all busy does not check its sockets.
#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn reads_of_clients_that_left_hold_up_nobody() {
    let [_, api] = Api::all().await;
    let event = |n: usize| {
        Event::new("agent")
            .with_state_delta(StateDelta::new().with("n", "x".repeat(200)).unwrap())
            .with_id(n.to_string())
    };
    let config = CreateSessionConfig::default().with_session_id("long").with_events((0..EVENTS).map(event).collect());
    api.store.sessions.create_session("shop", "alice", config).await.unwrap();
    api.ok("POST", "/v1/apps/shop/users/bob/sessions", Some(json!({"id": "small"}))).await;
    let address = served(&api).await;
    let waited = tokio::task::spawn_blocking(move || {
        let left: Vec<_> = (0..100).map(|_| ask(address, "/apps/shop/users/alice/sessions/long")).collect();
        std::thread::sleep(Duration::from_millis(100));
        drop(left);
        // This is longer than the server works for a client that has closed its side.
        std::thread::sleep(Duration::from_millis(600));
        let begun = Instant::now();
        assert_eq!(status(ask(address, "/apps/shop/users/bob/sessions/small")), "HTTP/1.1 200 OK");
        begun.elapsed()
    });
    let waited = waited.await.unwrap();
    println!("behind 100 reads of {EVENTS} events whose clients left: {waited:?}");
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_said_all_is_answered() {
    let [api, _] = Api::all().await;
    api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s"}))).await;
    let address = served(&api).await;
    let answered = tokio::task::spawn_blocking(move || {
        let socket = ask(address, "/apps/shop/users/alice/sessions/s");
        socket.shutdown(Shutdown::Write).unwrap();
        status(socket)
    });
    assert_eq!(answered.await.unwrap(), "HTTP/1.1 200 OK");
}
