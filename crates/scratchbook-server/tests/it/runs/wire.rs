//! A client that sees the chunks of a body as they arrive, and tests of the server's chunks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use scratchbook::agent::{FunctionAgent, InvocationContext};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::{Host, RUNS, asked, counter, saying, text};
use crate::support::TestClient;

/// An answer whose body is still to be read.
pub(super) struct StreamedAnswer {
    pub(super) status: u16,
    head: String,
    socket: BufReader<TcpStream>,
}

/// A frame of a stream of events.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Frame {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) data: Value,
}

impl StreamedAnswer {
    pub(super) async fn of(
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Self {
        let mut socket = BufReader::new(TcpStream::connect(address).await.unwrap());
        socket.get_ref().set_nodelay(true).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(socket.read_line(&mut head).await.unwrap(), 0, "no answer: {head}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, socket }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Reads the next chunk of the body. Returns `None` after the last chunk.
    pub(super) async fn chunk(&mut self) -> Option<String> {
        let mut size = String::new();
        self.socket.read_line(&mut size).await.unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.socket.read_exact(&mut chunk).await.unwrap();
        assert_eq!(chunk.split_off(size), b"\r\n");
        (size > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    pub(super) async fn chunks(mut self) -> Vec<String> {
        let mut chunks = Vec::new();
        while let Some(chunk) = self.chunk().await {
            chunks.push(chunk);
        }
        chunks
    }

    /// Reads the next frame. Each frame is one chunk. Comments, which keep a quiet connection alive, are skipped.
    pub(super) async fn frame(&mut self) -> Option<Frame> {
        let mut chunk = self.chunk().await?;
        while chunk.starts_with(':') {
            chunk = self.chunk().await?;
        }
        let body = chunk.strip_suffix("\n\n").expect("a chunk ends with its frame");
        assert!(!body.contains("\n\n") && !body.contains('\r'), "{body}");
        let mut frame = Frame::default();
        for line in body.lines() {
            match line.split_once(": ").unwrap() {
                ("id", id) => frame.id = Some(id.to_owned()),
                ("event", name) => name.clone_into(&mut frame.name),
                ("data", data) => frame.data = serde_json::from_str(data).unwrap(),
                _ => panic!("{line}"),
            }
        }
        Some(frame)
    }

    pub(super) async fn frames(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame().await {
            frames.push(frame);
        }
        frames
    }

    /// Reads the body of an answer of known length.
    pub(super) async fn body(mut self) -> String {
        let length = self.header("content-length").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).await.unwrap();
        String::from_utf8(body).unwrap()
    }

    pub(super) async fn json(self) -> Value {
        serde_json::from_str(&self.body().await).unwrap()
    }

    /// Closes the sending side of the connection.
    pub(super) async fn half_close(&mut self) {
        self.socket.shutdown().await.unwrap();
    }
}

/// Returns an agent that says many things at once, one of them long.
fn torrent() -> FunctionAgent {
    FunctionAgent::new("torrent", |context: InvocationContext| {
        let said = (0..50).map(move |n| {
            let length = if n == 25 { 700_000 } else { 10 };
            let mut event = saying(&context, &"x".repeat(length));
            event.partial = (n % 10 != 9).then_some(true);
            Ok(event)
        });
        stream::iter(said)
    })
}

#[tokio::test]
async fn each_frame_is_one_chunk_whatever_its_size() {
    let host = Host::start(torrent()).await;
    let answer = host.run_sse("go").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
    let chunks = answer.chunks().await;
    assert_eq!(chunks.len(), 50);
    for chunk in chunks {
        let data = chunk.strip_prefix("data: ").and_then(|chunk| chunk.strip_suffix("\n\n")).unwrap();
        assert!(!data.contains('\n'));
        serde_json::from_str::<Value>(data).unwrap();
    }
}

#[tokio::test]
async fn a_frame_is_sent_when_it_is_there() {
    let lets = Arc::new(Semaphore::new(0));
    let host = Host::start(counter(3, &lets)).await;
    let mut answer = host.run_sse("count").await;
    for n in 0..3 {
        lets.add_permits(1);
        // The next event has no permit yet.
        assert_eq!(text(&answer.frame().await.unwrap().data), n.to_string());
    }
    assert_eq!(answer.frame().await, None);
}

#[tokio::test]
async fn a_run_goes_on_without_its_client() {
    for path in ["/run_sse", "/run", RUNS] {
        let lets = Arc::new(Semaphore::new(0));
        let host = Host::start(counter(5, &lets)).await;
        let body = if path == RUNS { serde_json::json!({"message": "count"}) } else { asked("count") };
        if path == "/run" {
            // The head of this answer comes with its body, so the client disconnects before both.
            let asked = host.post(path, &body);
            tokio::time::timeout(Duration::from_millis(100), asked).await.err().unwrap();
        } else {
            let mut answer = host.post(path, &body).await;
            lets.add_permits(1);
            answer.frame().await.unwrap();
            drop(answer);
        }
        lets.add_permits(5);
        host.has_stored(5).await;
        let said: Vec<_> = host.stored().await.iter().map(|event| event.content.as_ref().unwrap().text()).collect();
        assert_eq!(said, ["0", "1", "2", "3", "4"], "{path}");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_run_goes_on_when_its_client_is_reset_or_half_closed() {
    let lets = Arc::new(Semaphore::new(1));
    let host = Host::start(counter(3, &lets)).await;
    let mut answer = host.run_sse("count").await;
    answer.frame().await.unwrap();
    // Because of unread data, closing the connection resets it.
    lets.add_permits(1);
    host.has_stored(2).await;
    drop(answer);
    lets.add_permits(1);
    host.has_stored(3).await;

    lets.add_permits(1);
    let mut answer = host.run_sse("again").await;
    answer.frame().await.unwrap();
    answer.half_close().await;
    lets.add_permits(2);
    host.has_stored(6).await;
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn quiet_stream_of_a_run_sends_a_comment_every_15_seconds() {
    let agent = FunctionAgent::new("slow", |context: InvocationContext| {
        stream::once(async move {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Ok(saying(&context, "one\u{2028}two\u{85}\u{2029}three"))
        })
    });
    let client = TestClient::with(|server| server.app("demo", agent)).await;
    client.session("demo", "u", "s").await;
    for (path, body) in [("/run_sse", asked("hello")), (RUNS, json!({"message": "hello"}))] {
        let answer = client.send("POST", path, Some(&body)).await;
        let text = answer.text();
        assert_eq!(text.split("\n\n").filter(|frame| *frame == ":").count(), 3, "{path}: {text}");
        assert!(text.contains(r"one\u2028two\u0085\u2029three"), "{path}: {text}");
        assert!(!text.contains(['\u{2028}', '\u{2029}', '\u{85}']), "{path}: {text}");
    }
}
