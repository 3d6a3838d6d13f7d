//! `scratchbook serve` as a process: its address, its responses and its end.
#![cfg(unix)]

mod access;
mod agents;
mod apps;
mod attacks;
mod availability;
mod config;
mod download;
mod health;
mod http;
mod load;
mod login;
mod models;
mod operations;
mod own_token;
mod served;
#[cfg(feature = "otel")]
mod traces;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;

pub(crate) use self::served::Served;
use crate::{Fixture, scratchbook, text};

#[test]
fn it_creates_its_database_prints_its_url_and_ends_at_a_signal() {
    let fixture = Fixture::empty();
    for signal in ["-INT", "-TERM"] {
        let served = Served::new(&fixture, &[]);
        let greeting = &served.greeting;
        assert_eq!((&greeting["host"], &greeting["apps"]), (&json!("127.0.0.1"), &json!(["demo", "story"])));
        assert_eq!(greeting["url"], format!("http://127.0.0.1:{}", greeting["port"]));
        assert!(greeting["port"].as_u64().unwrap() > 0);
        assert_eq!(served.get("/health"), (200, r#"{"status":"ok"}"#.to_owned()));
        assert_eq!(served.get("/list-apps").1, r#"["demo","story"]"#);
        assert_eq!(served.end(signal), Some(0), "{signal}");
    }
    assert!(fixture.path("agents.db").exists());
}

#[test]
fn a_hangup_ends_it_unless_it_has_files_to_read_again_or_nohup_started_it() {
    let fixture = Fixture::empty();
    let served_by = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).arg(env!("CARGO_BIN_EXE_scratchbook"));
        command.args(["--json", "serve", "--port", "0", "--database", "memory:"]);
        Served::of(command)
    };
    // The tests themselves may have been started by nohup.
    let with_default: &[&str] = if cfg!(target_os = "linux") { &["--default-signal=HUP"] } else { &[] };
    assert_eq!(served_by("env", with_default).end("-HUP"), Some(0));
    let tokens = fixture.path("tokens.toml");
    std::fs::write(&tokens, "").unwrap();
    let with_files = Served::new(&fixture, &["--tokens", tokens.to_str().unwrap()]);
    for served in [with_files, served_by("nohup", &[])] {
        served.signal("-HUP");
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(served.get("/health").0, 200);
        assert_eq!(served.end("-TERM"), Some(0));
    }
}

#[test]
fn the_banner_shows_what_to_try() {
    let fixture = Fixture::empty();
    let mut process = fixture.command(&["serve", "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let shown: Vec<_> = out.by_ref().take_while(|line| !line.starts_with("Ctrl-C")).collect();
    let shown = shown.join("\n");
    for word in ["http://127.0.0.1:", "/docs", "demo, story", "users/me/sessions/first", "/run_sse", "newMessage"] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn the_banner_shows_how_to_log_in() {
    let fixture = Fixture::empty();
    let tokens = fixture.path("tokens.toml");
    std::fs::write(&tokens, "").unwrap();
    let mut command = fixture.command(&["serve", "--port", "0", "--host", "0.0.0.0", "--tokens"]);
    let mut process = command.arg(tokens).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let shown: Vec<_> = out.by_ref().take_while(|line| !line.starts_with("Ctrl-C")).collect();
    let shown = shown.join("\n");
    for word in ["http://127.0.0.1:", "-H \"Authorization: Bearer $TOKEN\" ", "users/USER/", "\"userId\":\"USER\""] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    assert!(!shown.contains("0.0.0.0"), "{shown}");
    Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn where_it_cannot_listen_it_says_why() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &[]);
    let port = served.greeting["port"].to_string();
    let said = fixture.fails(6, &["serve", "--port", &port]);
    assert!(said.contains(&format!("port {port} of 127.0.0.1 is in use")), "{said}");
    let said = fixture.fails(2, &["serve", "--port", "0", "--host", "no such host"]);
    assert!(said.contains("'no such host' is no address of this machine"), "{said}");
    let said = fixture.fails(2, &["serve", "--port", "70000"]);
    assert!(said.contains("70000 is not in 0..=65535"), "{said}");
    let said = fixture.fails(2, &["serve", "--port", "0", "-d", "sqlite+aiosqlite:///./agents.db"]);
    assert!(said.contains("written as sqlite://PATH"), "{said}");
    assert!(
        text({
            let mut c = scratchbook();
            c.args(["serve", "--help"]);
            c
        })
        .contains("--port")
    );
}
