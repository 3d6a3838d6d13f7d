//! The attacks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::stage::{AttackStage, Strike};

const MIB: usize = 1 << 20;

/// Sends a request and reads the beginning of its response. The server may refuse either.
fn strike(stage: &AttackStage, method: &str, path: &str, login: &str, body: &[u8]) -> Option<TcpStream> {
    let address = stage.address();
    let mut stream = TcpStream::connect(&address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n{login}Content-Type: application/json\r\n");
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    stream.read_exact(&mut [0; 12]).ok()?;
    Some(stream)
}

/// Sends a request and reads the whole response.
fn strike_and_read(stage: &AttackStage, method: &str, path: &str, login: &str, body: &[u8]) {
    let login = format!("{login}Connection: close\r\n");
    if let Some(mut stream) = strike(stage, method, path, &login, body) {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

/// Returns `[{},{},…]` with this many bytes.
fn empty_objects(bytes: usize) -> String {
    format!("[{}{{}}]", "{},".repeat(bytes / 3))
}

pub(super) fn runs_of_many_parts(stage: &AttackStage) -> Strike {
    let (login, parts) = (stage.reader().to_owned(), empty_objects(16 * MIB - 200));
    let who = r#""appName":"helper","userId":"mallory","sessionId":"s""#;
    let body = format!(r#"{{{who},"newMessage":{{"role":"user","parts":{parts}}}}}"#).into_bytes();
    Box::new(move |stage, _| strike_and_read(stage, "POST", "/run", &login, &body))
}

pub(super) fn creations_of_many_events() -> Strike {
    let body = format!(r#"{{"events":{}}}"#, empty_objects(MIB)).into_bytes();
    Box::new(move |stage, client| {
        let path = if client % 2 == 0 { "/apps" } else { "/v1/apps" };
        let path = format!("{path}/helper/users/mallory/sessions");
        strike_and_read(stage, "POST", &path, stage.login("mallory"), &body);
    })
}

pub(super) fn make_large_lists(stage: &AttackStage) {
    stage.make_with("mallory", &json!({"id": "first", "state": {"user:large": "x".repeat(4 * MIB - 2)}}));
    let mut connection = stage.connect().unwrap();
    for n in 1..1000 {
        let (path, body) = ("/v1/apps/helper/users/mallory/sessions", json!({"id": format!("s{n}")}).to_string());
        let (status, ..) = connection.ask("POST", path, stage.login("mallory"), &body).unwrap();
        assert_eq!(status, 201);
    }
}

pub(super) fn large_lists() -> Strike {
    Box::new(|stage, client| {
        let path = match client % 3 {
            0 => "/v1/apps/helper/users/mallory/sessions?pageSize=1000",
            1 => "/apps/helper/users/mallory/sessions",
            _ => "/v1/projects/p/locations/l/reasoningEngines/helper/sessions?pageSize=1000",
        };
        strike_and_read(stage, "GET", path, stage.login("mallory"), b"");
    })
}

pub(super) fn runs_on_one_session() -> Strike {
    let body = json!({"message": "Hello"}).to_string().into_bytes();
    Box::new(move |stage, _| {
        let path = "/v1/apps/helper/users/mallory/sessions/s1/runs";
        drop(strike(stage, "POST", path, stage.login("mallory"), &body));
    })
}

/// Opens connections that send nothing.
pub(super) fn idle_connections(stage: &AttackStage, count: usize) -> Vec<TcpStream> {
    let address = stage.address();
    (0..count).filter_map(|_| TcpStream::connect(&address).ok()).collect()
}

pub(super) fn watches() -> Strike {
    Box::new(|stage, _| {
        let watch = strike(stage, "GET", "/v1/apps/helper/users/mallory/watch", stage.reader(), b"");
        std::thread::sleep(Duration::from_millis(500));
        drop(watch);
    })
}

pub(super) fn reads_of(session: &'static str) -> Strike {
    Box::new(move |stage, _| {
        let path = format!("/apps/helper/users/mallory/sessions/{session}");
        strike_and_read(stage, "GET", &path, stage.login("mallory"), b"");
    })
}

pub(super) fn large_appends() -> Strike {
    let event = json!({"event": {"author": "mallory", "content": {"parts": [{"text": "x".repeat(3 * MIB)}]}}});
    append(event.to_string())
}

pub(super) fn small_appends() -> Strike {
    append(json!({"event": {"author": "mallory", "actions": {"stateDelta": {"step": 1}}}}).to_string())
}

fn append(body: String) -> Strike {
    Box::new(move |stage, client| {
        let path = format!("/v1/apps/helper/users/mallory/sessions/own-{client}");
        let events = format!("{path}/events");
        if strike(stage, "GET", &path, stage.login("mallory"), b"").is_none() {
            return;
        }
        let made = json!({"id": format!("own-{client}")}).to_string();
        let sessions = "/v1/apps/helper/users/mallory/sessions";
        strike_and_read(stage, "POST", sessions, stage.login("mallory"), made.as_bytes());
        for _ in 0..4 {
            strike_and_read(stage, "POST", &events, stage.login("mallory"), body.as_bytes());
        }
    })
}

/// Writes this many values of nearly 4 MiB to mallory's state.
pub(super) fn make_large_state(stage: &AttackStage, session: &str, keys: usize) {
    stage.make("mallory", session);
    let mut connection = stage.connect().unwrap();
    for n in 0..keys {
        let delta =
            json!({"author": "mallory", "stateDelta": {format!("k{n}"): "x".repeat(4 * MIB - 300)}}).to_string();
        let asked = connection.ask("PATCH", "/v1/apps/helper/users/mallory/state", stage.login("mallory"), &delta);
        let (status, _, body) = asked.unwrap();
        assert_eq!(status, 200, "{body}");
    }
}

/// Sends every kind of request that reads the whole state of a session.
pub(super) fn whole_states(session: &'static str) -> Strike {
    Box::new(move |stage, client| {
        let v1 = "/v1/apps/helper/users/mallory/sessions";
        let adk = "/apps/helper/users/mallory/sessions";
        let run = json!({"appName": "helper", "userId": "mallory", "sessionId": session,
            "newMessage": {"role": "user", "parts": [{"text": "Hello"}]}});
        let vertex = json!({"userId": "mallory"});
        let (method, path, body) = match client % 13 {
            0 => ("POST", v1.to_owned(), json!({})),
            1 => ("POST", adk.to_owned(), json!({})),
            2 => ("GET", format!("{v1}/{session}"), json!(null)),
            3 => ("GET", format!("{adk}/{session}"), json!(null)),
            4 => ("GET", format!("{v1}/{session}/state?at=0"), json!(null)),
            5 => ("POST", format!("{v1}/{session}/fork"), json!({})),
            6 => ("GET", format!("{v1}/{session}/diff?before=0&after=0"), json!(null)),
            7 => ("GET", format!("{v1}/{session}/verify"), json!(null)),
            8 => ("PATCH", format!("{adk}/{session}"), json!({"stateDelta": {"q": client}})),
            9 => ("POST", "/run".to_owned(), run),
            10 => ("POST", "/v1beta1/reasoningEngines/helper/sessions".to_owned(), vertex),
            11 => ("GET", format!("/inspector/apps/helper/users/mallory/sessions/{session}?at=0"), json!(null)),
            _ => ("POST", format!("{v1}/{session}/rewind"), json!({"beforeInvocationId": "none"})),
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        strike_and_read(stage, method, &path, stage.login("mallory"), body.as_bytes());
    })
}

/// Saves versions of an artifact with as much metadata as a version may have.
pub(super) fn make_versions(stage: &AttackStage, session: &str, count: usize) {
    stage.make("mallory", session);
    let path = format!("/apps/helper/users/mallory/sessions/{session}/artifacts");
    let mut connection = stage.connect().unwrap();
    let mut save = |metadata: usize| {
        let body =
            json!({"filename": "m.txt", "artifact": {"text": "x"}, "customMetadata": {"k": "v".repeat(metadata)}});
        connection.ask("POST", &path, stage.login("mallory"), &body.to_string()).unwrap().0
    };
    assert_eq!(save(15 * MIB), 413);
    for _ in 0..count {
        assert_eq!(save(65_000), 200);
    }
}

pub(super) fn versions(session: &'static str) -> Strike {
    Box::new(move |stage, client| {
        let path = format!("/apps/helper/users/mallory/sessions/{session}/artifacts/m.txt/versions");
        let path = match client % 3 {
            0 => format!("{path}/metadata"),
            1 => path,
            _ => format!("/v1{path}"),
        };
        strike_and_read(stage, "GET", &path, stage.login("mallory"), b"");
    })
}

pub(super) fn patches_of(session: &'static str) -> Strike {
    let body = json!({"stateDelta": {"step": 1}}).to_string().into_bytes();
    Box::new(move |stage, _| {
        let path = format!("/apps/helper/users/mallory/sessions/{session}");
        strike_and_read(stage, "PATCH", &path, stage.login("mallory"), &body);
    })
}

/// Opens watches of mallory's sessions. They receive no events of others.
pub(super) fn watchers(stage: &AttackStage, count: usize) -> Vec<TcpStream> {
    let path = "/v1/apps/helper/users/mallory/watch";
    (0..count).filter_map(|_| strike(stage, "GET", path, stage.reader(), b"")).collect()
}

pub(super) fn reads_left_at_once(session: &'static str) -> Strike {
    Box::new(move |stage, _| {
        let address = stage.address();
        let Ok(mut stream) = TcpStream::connect(&address) else { return };
        let login = stage.login("mallory");
        let path = format!("/apps/helper/users/mallory/sessions/{session}");
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n{login}\r\n");
        std::thread::sleep(Duration::from_millis(20));
    })
}
