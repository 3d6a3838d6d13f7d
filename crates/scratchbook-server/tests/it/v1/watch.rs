//! Watching, over TCP.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::support::{Api, S1, server, soon};

/// A server on a port of its own.
struct Serving {
    address: SocketAddr,
    task: JoinHandle<scratchbook::Result<()>>,
}

impl Serving {
    async fn over(store: &scratchbook::Store) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(server(store).run(listener, std::future::pending()));
        Self { address, task }
    }
}

/// A client of a stream.
struct Stream {
    lines: BufReader<TcpStream>,
    last_id: String,
}

impl Stream {
    async fn open(address: SocketAddr, path: &str, last_id: Option<&str>) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let resume = last_id.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        // HTTP/1.0 is used, so that the body comes without the sizes of chunks.
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{resume}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut stream = Self { lines: BufReader::new(socket), last_id: String::new() };
        let head = stream.block().await;
        assert!(head[0].contains(" 200 "), "{head:?}");
        assert!(head.iter().any(|line| line.to_lowercase().starts_with("content-type: text/event-stream")), "{head:?}");
        let first = stream.block().await;
        assert!(first[0].starts_with("retry: "), "{first:?}");
        stream.take_id(&first);
        stream
    }

    /// Reads lines up to an empty one.
    async fn block(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = soon(self.lines.read_line(&mut line)).await.unwrap();
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                assert!(read > 0, "the stream has ended after {lines:?}");
                return lines;
            }
            lines.push(line.to_owned());
        }
    }

    fn take_id(&mut self, block: &[String]) {
        if let Some(id) = block.iter().find_map(|line| line.strip_prefix("id: ")) {
            self.last_id = id.to_owned();
        }
    }

    /// Reads the next entry.
    async fn next(&mut self) -> Value {
        loop {
            let block = self.block().await;
            self.take_id(&block);
            if let Some(data) = block.iter().find_map(|line| line.strip_prefix("data: ")) {
                let entry: Value = serde_json::from_str(data).unwrap();
                assert!(entry["cursor"] == self.last_id.as_str() || entry.get("error").is_some());
                return entry;
            }
        }
    }

    /// Reads the next events and returns their numbers.
    async fn numbers(&mut self, count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            numbers.push(self.next().await["seq"].as_u64().unwrap());
        }
        numbers
    }
}

async fn append(api: &Api, n: u64) {
    let event = json!({"id": format!("e {n} "), "author": "agent", "actions": {"stateDelta": {"n": n}}});
    api.ok("POST", &format!("{S1}/events"), Some(json!({"event": event}))).await;
}

#[tokio::test]
async fn a_watch_has_no_gap_and_no_double_across_reconnects_and_servers() {
    for api in Api::all().await {
        api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s1"}))).await;
        for path in [format!("{S1}/watch"), "/v1/apps/shop/users/alice/watch".into(), "/v1/apps/shop/watch".into()] {
            let begun = api.ok("GET", S1, None).await["eventCount"].as_u64().unwrap();
            let mut serving = Serving::over(&api.store).await;
            let mut stream = Stream::open(serving.address, &path, None).await;
            // The stream is cut off before anything arrives, while something is committed.
            let id = stream.last_id.clone();
            drop(stream);
            let mut found = Vec::new();
            append(&api, begun + 1).await;
            stream = Stream::open(serving.address, &path, Some(&id)).await;
            for n in 2..=12 {
                append(&api, begun + n).await;
                if n % 4 == 0 {
                    // Some of the committed events are read, then the server ends too.
                    found.extend(stream.numbers(2).await);
                    serving.task.abort();
                    serving = Serving::over(&api.store).await;
                    stream = Stream::open(serving.address, &path, Some(&stream.last_id.clone())).await;
                }
            }
            found.extend(stream.numbers(12 - found.len()).await);
            assert_eq!(found, (begun + 1..=begun + 12).collect::<Vec<_>>(), "{path}");
            serving.task.abort();
        }
    }
}

#[tokio::test]
async fn a_watch_begins_where_it_is_told_and_shows_what_it_is_told() {
    for api in Api::all().await {
        api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s1", "state": {"n": 0}}))).await;
        append(&api, 1).await;
        append(&api, 2).await;
        let serving = Serving::over(&api.store).await;
        let path = format!("{S1}/watch?from=beginning");
        let mut all = Stream::open(serving.address, &path, None).await;
        assert_eq!(all.numbers(2).await, [1, 2]);
        let cursor = api.ok("GET", &format!("{S1}/feed?limit=1"), None).await["cursor"].as_str().unwrap().to_owned();
        let mut rest = Stream::open(serving.address, &format!("{S1}/watch?cursor={cursor}"), None).await;
        assert_eq!(rest.numbers(1).await, [2]);
        // The last cursor that the client has seen wins over the cursor in the address.
        let mut resumed = Stream::open(serving.address, &path, Some(&cursor)).await;
        assert_eq!(resumed.numbers(1).await, [2]);

        let mut keys = Stream::open(serving.address, "/v1/apps/shop/watch?prefix=user:", None).await;
        append(&api, 3).await;
        api.ok("PATCH", "/v1/apps/shop/users/alice/state", Some(json!({"author": "x", "stateDelta": {"u": 1}}))).await;
        let entry = keys.next().await;
        assert_eq!((&entry["type"], &entry["changes"][0]["key"]), (&json!("state"), &json!("u")));

        // The end of a session is reported.
        let mut ended = Stream::open(serving.address, &format!("{S1}/watch"), None).await;
        api.send("DELETE", S1, None).await;
        api.ok("PATCH", "/v1/apps/shop/state", Some(json!({"author": "x", "stateDelta": {"wake": 1}}))).await;
        assert_eq!(ended.next().await["error"]["kind"], "not_found");
        let mut rest = Vec::new();
        soon(ended.lines.read_to_end(&mut rest)).await.unwrap();
        assert!(rest.is_empty());
        serving.task.abort();
    }
}

#[tokio::test]
async fn a_bad_place_to_begin_is_refused_before_the_stream() {
    let api = Api::memory().await;
    api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s1"}))).await;
    let watch = format!("{S1}/watch");
    api.refused(400, "GET", &format!("{watch}?cursor=nonsense"), None).await;
    api.refused(400, "GET", &format!("{watch}?from=then"), None).await;
    api.refused(404, "GET", "/v1/apps/shop/users/alice/sessions/none/watch", None).await;
    let other = api.ok("GET", "/v1/apps/shop/feed?from=now", None).await["cursor"].as_str().unwrap().to_owned();
    let request = axum::http::Request::get(&watch).header("last-event-id", other).body(axum::body::Body::empty());
    assert_eq!(api.call(request.unwrap()).await.0, 400);
}
