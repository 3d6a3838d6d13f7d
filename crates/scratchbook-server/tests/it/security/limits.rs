//! Limits of sizes and times, over connections.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use futures_util::stream;
use scratchbook::agent::{FunctionAgent, InvocationContext};
use scratchbook::{CreateSessionConfig, Event, connect};
use scratchbook_server::{RateLimit, Right, Server, ServerLimits};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{LoginFiles, LoopbackServer, demo, get, read_to_end, session, token_of_u1};

const SHORT: Duration = Duration::from_millis(300);

async fn start(limits: ServerLimits) -> LoopbackServer {
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    LoopbackServer::start(server.limits(limits).build().unwrap()).await
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_in_the_form_of_its_surface() {
    let server = start(ServerLimits::default().with_body_bytes(100)).await;
    let long = "x".repeat(101);
    let told = format!("POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 101\r\n\r\n{long}");
    let answer = server.exchange(told.as_bytes()).await;
    assert_eq!(status(&answer), "413", "{answer}");
    assert!(answer.contains("connection: close") && answer.contains(r#"{"detail":"the body has more than the 100"#));
    let untold =
        format!("POST /v1/x HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n65\r\n{long}\r\n");
    let answer = server.exchange(untold.as_bytes()).await;
    assert_eq!(status(&answer), "413", "{answer}");
    assert!(answer.contains(r#"{"error":{"kind":"payload_too_large""#), "{answer}");
    // The server does not wait for the announced body.
    let huge = "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n";
    assert_eq!(status(&server.exchange(huge.as_bytes()).await), "413");
    let fits = "POST /nowhere HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc";
    assert_eq!(status(&server.exchange(fits.as_bytes()).await), "404");
}

#[tokio::test]
async fn a_slow_body_is_not_waited_for() {
    let server = start(ServerLimits::default().with_body_time(SHORT)).await;
    let begun = "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc";
    let answer = server.exchange(begun.as_bytes()).await;
    assert_eq!(status(&answer), "408", "{answer}");
    assert!(answer.contains(r#"{"detail":"the body did not come"#), "{answer}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_bad_request() {
    let server = start(ServerLimits::default()).await;
    for begun in ["content-length: 10\r\n\r\nabc", "transfer-encoding: chunked\r\n\r\nzz\r\n"] {
        let mut stream = server.connect().await;
        stream.write_all(format!("POST /nowhere HTTP/1.1\r\nhost: localhost\r\n{begun}").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert_eq!(status(&answer), "400", "{begun}: {answer}");
        assert!(answer.contains("There was an error parsing the body"), "{answer}");
    }
}

#[tokio::test]
async fn headers_that_do_not_end_are_not_waited_for() {
    let server = start(ServerLimits::default().with_header_time(SHORT).with_idle_time(2 * SHORT)).await;
    let start = Instant::now();
    // A client that sends nothing, a part of a request, or nothing after a whole request does not keep its connection.
    let get = "GET /health HTTP/1.1\r\nhost: localhost\r\n";
    for bytes in ["", "GET / HT", get, &format!("{get}\r\n")] {
        let answer = server.exchange(bytes.as_bytes()).await;
        assert!(answer.is_empty() || ["200", "408"].contains(&status(&answer)), "{answer}");
    }
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn headers_that_are_too_many_or_too_long_are_refused() {
    let server = start(ServerLimits::default().with_headers(10).with_header_bytes(8 << 10)).await;
    let many: String = (0..20).map(|n| format!("x-{n}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "x".repeat(9 << 10));
    for headers in [many, long] {
        let answer = server.exchange(format!("GET /health HTTP/1.1\r\n{headers}\r\n").as_bytes()).await;
        assert_eq!(status(&answer), "431", "{answer}");
    }
    let answer = server.exchange(format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70 << 10)).as_bytes()).await;
    assert!(["414", "431"].contains(&status(&answer)), "{answer}");

    // Headers are refused by their size, however many pieces they come in.
    let server = start(ServerLimits::default()).await;
    for (length, expected) in [(60_000, "200"), (100_000, "431")] {
        let request = format!("GET /health HTTP/1.1\r\nconnection: close\r\nx-long: {}\r\n\r\n", "x".repeat(length));
        let answer = server.exchange(request.as_bytes()).await;
        assert_eq!(status(&answer), expected, "{length}: {answer}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_a_bad_request() {
    let server = start(ServerLimits::default()).await;
    for bytes in [
        "hello\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header: 1\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    ] {
        let answer = server.exchange(bytes.as_bytes()).await;
        assert_eq!(status(&answer), "400", "{bytes}: {answer}");
    }
    let answer = server.exchange(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(answer.is_empty() || ["400", "505"].contains(&status(&answer)), "{answer}");
    // The next connection is served.
    assert_eq!(status(&server.exchange(b"GET /health HTTP/1.0\r\n\r\n").await), "200");
}

#[tokio::test]
async fn who_has_said_all_still_gets_the_answer() {
    let store = connect("memory:").await.unwrap();
    session(&store, "u1", "s-1").await;
    let slow = FunctionAgent::new("slow", |context: InvocationContext| {
        stream::once(async move {
            sleep(SHORT).await;
            Ok(Event::new("slow").with_invocation_id(context.invocation_id()).with_content("Hello."))
        })
    });
    let server = LoopbackServer::start(Server::builder(store).app("demo", slow).build().unwrap()).await;
    let body = r#"{"appName":"demo","userId":"u1","sessionId":"s-1","newMessage":{"parts":[{"text":"x"}]}}"#;
    let length = body.len();
    let head =
        format!("POST /run HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}");
    let mut stream = server.connect().await;
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.contains("Hello."), "{answer}");
}

#[tokio::test]
async fn who_takes_nothing_is_left() {
    let (store, server) = demo().await;
    let state = json!({"text": "x".repeat(1 << 20)});
    let config = CreateSessionConfig::default().with_session_id("s-1").with_state(state);
    store.sessions.create_session("demo", "u1", config).await.unwrap();
    let limits = ServerLimits::default().with_stall_time(SHORT);
    let server = LoopbackServer::start(server.limits(limits).build().unwrap()).await;
    let mut stream = server.connect().await;
    let ask = "GET /apps/demo/users/u1/sessions/s-1 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(ask.repeat(16).as_bytes()).await.unwrap();
    // The client reads nothing, so it notices the end of the connection only by writing.
    let begun = Instant::now();
    while stream.write_all(b"\r\n").await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "what nobody takes is kept for ever");
        sleep(SHORT).await;
    }
}

#[tokio::test]
async fn a_connection_without_a_request_is_kept_for_longer_than_clients_keep_theirs() {
    // A client that finds its connection closed when it has sent a request cannot know whether it was carried out.
    assert!(ServerLimits::default().idle_time > Duration::from_secs(90), "hyper and Go keep theirs for 90 seconds");
    let header_time = 4 * SHORT;
    let server = start(ServerLimits::default().with_header_time(header_time)).await;
    let mut unused = server.connect().await;
    let mut kept = server.connect().await;
    let get = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    kept.write_all(get.as_bytes()).await.unwrap();
    let mut part = [0; 512];
    assert!(kept.read(&mut part).await.unwrap() > 0);
    let start = Instant::now();
    assert_eq!(server.exchange(b"GET / HT").await, "");
    assert!(start.elapsed() >= header_time && start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    // The time for headers that arrive in pieces begins with the first piece.
    let slow = async |stream: &mut TcpStream| {
        for piece in get.as_bytes().chunks(get.len() / 2) {
            stream.write_all(piece).await.unwrap();
            sleep(SHORT / 3).await;
        }
        let mut part = [0; 512];
        stream.read(&mut part).await.unwrap()
    };
    for stream in [&mut kept, &mut unused] {
        assert!(slow(stream).await > 0, "it is kept");
        sleep(header_time).await;
        assert!(slow(stream).await > 0, "the time of the last request's headers does not count on");
    }
}

#[tokio::test]
async fn a_connection_that_is_not_in_use_makes_room() {
    let server = start(ServerLimits::default().with_connections(1)).await;
    let mut first = server.connect().await;
    first.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut part = [0; 512];
    assert!(first.read(&mut part).await.unwrap() > 0);
    assert_eq!(status(&server.exchange(b"GET /health HTTP/1.0\r\n\r\n").await), "200");
    assert_eq!(first.read(&mut part).await.unwrap(), 0);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_a_little_for_those_at_work() {
    let server = start(ServerLimits::default().with_connections(1)).await;
    let watch = "GET /v1/apps/demo/users/u1/watch HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let follow = async || {
        let mut stream = server.connect().await;
        stream.write_all(watch.as_bytes()).await.unwrap();
        let mut part = [0; 512];
        assert!(stream.read(&mut part).await.unwrap() > 0);
        stream
    };
    let first = follow().await;
    let mut second = server.connect().await;
    second.write_all(b"GET /health HTTP/1.0\r\n\r\n").await.unwrap();
    let mut part = [0; 512];
    let early = tokio::time::timeout(SHORT, second.read(&mut part)).await;
    assert!(early.is_err(), "the second has its answer while the first is at work");
    drop(first);
    // The server notices that the client is gone when it writes to the connection.
    let answer = read_to_end(&mut second).await;
    assert!(["200", "503"].contains(&status(&answer)), "{answer}");
    assert!(status(&answer) == "200" || answer.contains("retry-after: 1"), "{answer}");
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_back() {
    let files = LoginFiles::new();
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let limits = ServerLimits::default().with_rate(RateLimit::per_second(NonZeroU32::MIN));
    let (_, server) = demo().await;
    let router = server.login(login).limits(limits).build().unwrap().router();
    let token = [("authorization", token.as_str())];
    assert_eq!(get(&router, "/list-apps", &token).await.status, 200);
    let answer = get(&router, "/list-apps", &token).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    assert!(answer.json()["detail"].is_string());
    // Requests without a token are counted separately, and health checks are not counted.
    assert_eq!(get(&router, "/list-apps", &[]).await.status, 401);
    assert_eq!(get(&router, "/list-apps", &[]).await.status, 429);
    for _ in 0..3 {
        assert_eq!(get(&router, "/health", &[]).await.status, 200);
    }
}
