//! A server on this machine that records requests and sends scripted answers: in pieces cut anywhere, slowly, half, or
//! not at all. It is plain HTTP/1.1 on a socket, because the tests need answers that no proper server would send.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedModelRequest {
    /// The path, with the query.
    pub(crate) path: String,
    /// The headers, with their names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl ReceivedModelRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AnswerEnd {
    /// The body ends properly.
    Proper,
    /// The connection is closed before the body's end.
    Closed,
    /// The connection is reset before the body's end.
    Reset,
    /// Nothing more is sent, and the connection stays open.
    Silent,
}

/// A scripted answer.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    /// The pieces of the body. Each is sent and flushed as a chunk.
    pieces: Vec<Vec<u8>>,
    /// The pause before the head, and before each piece.
    pause: Duration,
    /// `None` for no answer at all.
    head: Option<AnswerEnd>,
    end: AnswerEnd,
}

impl ScriptedAnswer {
    fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            pieces: vec![body],
            pause: Duration::ZERO,
            head: None,
            end: AnswerEnd::Proper,
        }
    }

    /// A whole answer, or an error.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json; charset=UTF-8", serde_json::to_vec(body).unwrap())
    }

    /// A body of any kind.
    pub(crate) fn text(status: u16, content_type: &str, body: &str) -> Self {
        Self::new(status, content_type, body.as_bytes().to_vec())
    }

    /// Returns server-sent events, as they are sent.
    pub(crate) fn events(body: impl AsRef<[u8]>) -> Self {
        Self::new(200, "text/event-stream", body.as_ref().to_vec())
    }

    /// Returns the answer to a request after the end of the script.
    pub(crate) fn none() -> Self {
        Self::text(418, "text/plain", "no more answers in the script")
    }

    /// Returns lines of JSON, as they are sent.
    pub(crate) fn lines(body: impl AsRef<[u8]>) -> Self {
        Self::new(200, "application/x-ndjson", body.as_ref().to_vec())
    }

    /// No answer: the connection is reset once the request was read.
    pub(crate) fn reset() -> Self {
        Self { head: Some(AnswerEnd::Reset), ..Self::new(200, "", Vec::new()) }
    }

    /// No answer: the connection stays open.
    pub(crate) fn silence() -> Self {
        Self { head: Some(AnswerEnd::Silent), ..Self::new(200, "", Vec::new()) }
    }

    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Cuts the body at these places, in bytes from its beginning.
    pub(crate) fn cut_at(mut self, places: impl IntoIterator<Item = usize>) -> Self {
        let body = self.pieces.concat();
        let mut from = 0;
        self.pieces = Vec::new();
        for place in places.into_iter().chain([body.len()]) {
            self.pieces.push(body[from..place].to_vec());
            from = place;
        }
        self
    }

    /// Waits before the head, and before each piece.
    pub(crate) fn slowly(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Sends only this number of bytes of the body and closes the connection.
    pub(crate) fn closed_after(self, bytes: usize) -> Self {
        self.ending(bytes, AnswerEnd::Closed)
    }

    /// Sends only this number of bytes of the body and resets the connection.
    pub(crate) fn reset_after(self, bytes: usize) -> Self {
        self.ending(bytes, AnswerEnd::Reset)
    }

    /// Sends only this number of bytes of the body, and leaves the connection open.
    pub(crate) fn silent_after(self, bytes: usize) -> Self {
        self.ending(bytes, AnswerEnd::Silent)
    }

    fn ending(mut self, bytes: usize, end: AnswerEnd) -> Self {
        let mut body = self.pieces.concat();
        body.truncate(bytes);
        self.pieces = vec![body];
        self.end = end;
        self
    }
}

type AnswerScript = dyn Fn(&ReceivedModelRequest) -> ScriptedAnswer + Send + Sync;

/// The state that all connections share.
struct ModelServerState {
    script: Box<AnswerScript>,
    recorded: Mutex<Vec<ReceivedModelRequest>>,
    hung_up: Notify,
}

/// A server that runs until this value is dropped.
pub(crate) struct ModelServer {
    address: SocketAddr,
    shared: Arc<ModelServerState>,
    accepting: tokio::task::JoinHandle<()>,
}

impl ModelServer {
    /// Answers each request with the next answer; requests after the last answer are refused with 418.
    pub(crate) async fn start(answers: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect::<VecDeque<_>>());
        Self::by(move |_| answers.lock().unwrap().pop_front().unwrap_or_else(ScriptedAnswer::none)).await
    }

    /// Gives the same answer to every request.
    pub(crate) async fn always(answer: ScriptedAnswer) -> Self {
        Self::by(move |_| answer.clone()).await
    }

    /// Computes each answer from its request.
    pub(crate) async fn by(script: impl Fn(&ReceivedModelRequest) -> ScriptedAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared =
            Arc::new(ModelServerState { script: Box::new(script), recorded: Mutex::default(), hung_up: Notify::new() });
        let of_connections = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            // Dropping the set also ends the connections.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&of_connections)));
            }
        });
        Self { address, shared, accepting }
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedModelRequest> {
        self.shared.recorded.lock().unwrap().clone()
    }

    /// The only request that was made.
    pub(crate) fn request(&self) -> ReceivedModelRequest {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "one request is expected");
        requests.into_iter().next().unwrap()
    }

    /// Waits until a client has closed a connection before its answer was over.
    pub(crate) async fn hung_up(&self) {
        tokio::time::timeout(Duration::from_secs(10), self.shared.hung_up.notified()).await.expect("nobody hung up");
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(stream: TcpStream, shared: Arc<ModelServerState>) {
    stream.set_nodelay(true).unwrap();
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    while let Some(request) = read_request(&mut read).await {
        let answer = (shared.script)(&request);
        shared.recorded.lock().unwrap().push(request);
        let end = tokio::select! {
            end = send(&answer, &mut write) => end,
            // A client sends nothing before it has the answer, so this means that the connection has ended.
            _ = read.fill_buf() => {
                shared.hung_up.notify_one();
                return;
            }
        };
        match end {
            Ok(AnswerEnd::Proper) => {}
            Ok(AnswerEnd::Reset) => {
                let stream = write.reunite(read.into_inner()).unwrap();
                stream.set_zero_linger().unwrap();
                return;
            }
            _ => return,
        }
    }
}

async fn send(answer: &ScriptedAnswer, write: &mut OwnedWriteHalf) -> std::io::Result<AnswerEnd> {
    wait(answer.pause).await;
    match answer.head {
        Some(AnswerEnd::Silent) => return std::future::pending().await,
        Some(end) => return Ok(end),
        None => {}
    }
    let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    write.write_all(format!("{head}\r\n").as_bytes()).await?;
    for piece in answer.pieces.iter().filter(|piece| !piece.is_empty()) {
        wait(answer.pause).await;
        write.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        write.write_all(piece).await?;
        write.write_all(b"\r\n").await?;
        write.flush().await?;
        // This lets the client read each piece separately.
        tokio::task::yield_now().await;
    }
    match answer.end {
        AnswerEnd::Proper => write.write_all(b"0\r\n\r\n").await?,
        AnswerEnd::Silent => std::future::pending().await,
        // The client needs time to read the data before it is lost with the connection.
        AnswerEnd::Reset => tokio::time::sleep(Duration::from_millis(50)).await,
        AnswerEnd::Closed => {}
    }
    Ok(answer.end)
}

/// Tokio's timer would take a millisecond even for an empty pause.
async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

async fn read_request(read: &mut BufReader<OwnedReadHalf>) -> Option<ReceivedModelRequest> {
    let mut line = String::new();
    read.read_line(&mut line).await.ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        read.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
    let mut body = vec![0; length];
    read.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(ReceivedModelRequest { path, headers, body })
}
