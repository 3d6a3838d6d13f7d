//! Traces arrive at a collector as part of the client's trace.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use super::Served;
use crate::Fixture;

/// How long to wait for the spans of a server that has ended.
const LONGEST: Duration = Duration::from_secs(60);

/// Receives batches of spans as a collector, until they contain all words. Returns the path and all bytes.
fn receive(collector: &TcpListener, words: &[&str]) -> (String, Vec<u8>) {
    let mut all = Vec::new();
    loop {
        let (stream, _) = collector.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if path.is_empty() {
                path.clone_from(&line);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        all.extend(body);
        if words.iter().all(|word| has(&all, word.as_bytes())) {
            return (path, all);
        }
    }
}

/// Starts a collector, and returns its address and what it receives.
fn start(words: &'static [&str]) -> (String, Receiver<(String, Vec<u8>)>) {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let (send, received) = mpsc::channel();
    thread::spawn(move || send.send(receive(&collector, words)));
    (endpoint, received)
}

fn has(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_trace_of_the_client_goes_on_in_the_server() {
    let fixture = Fixture::with_session(1);
    let (endpoint, received) = start(&["GET /apps/{app}/users/{user}/sessions/{session}", "get_session"]);
    let served = Served::new(&fixture, &["--otlp-endpoint", &endpoint]);
    let trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    assert_eq!(served.send("GET", "/apps/shop/users/alice/sessions/s1", trace, "").0, 200);
    // The remaining spans are sent when the server ends.
    assert_eq!(served.end("-TERM"), Some(0));
    let (path, body) = received.recv_timeout(LONGEST).unwrap();
    assert!(path.starts_with("POST /v1/traces "), "{path}");
    let (trace, parent) = (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128, 0xb7ad_6b71_6920_3331_u64);
    assert!(has(&body, &trace.to_be_bytes()) && has(&body, &parent.to_be_bytes()));
    assert!(has(&body, b"scratchbook") && has(&body, b"http.route"));
    assert!(!has(&body, b"alice"), "no names of users");
}

/// Runs the demo agent, and returns the spans of this run as a collector receives them.
fn spans_of_a_run(options: &[&str]) -> Vec<u8> {
    let fixture = Fixture::empty();
    let (endpoint, received) = start(&["invoke_agent ", "generate_content "]);
    let served = Served::new(&fixture, &[&["--otlp-endpoint", &endpoint], options].concat());
    served.talk("demo", "alice", "private-id", "private words");
    assert_eq!(served.end("-TERM"), Some(0));
    received.recv_timeout(LONGEST).unwrap().1
}

#[test]
fn spans_of_runs_have_ids_and_texts_only_if_somebody_says_so() {
    let plain = spans_of_a_run(&[]);
    assert!(has(&plain, b"gen_ai.operation.name") && has(&plain, b"gen_ai.request.model"));
    assert!(!has(&plain, b"private-id") && !has(&plain, b"private words") && !has(&plain, b"alice"));
    let told = spans_of_a_run(&["--trace-session-ids", "--trace-texts"]);
    assert!(has(&told, b"private-id") && has(&told, b"private words"));
}
