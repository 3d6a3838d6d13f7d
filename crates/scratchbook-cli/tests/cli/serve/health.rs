//! `scratchbook health`: whether a server is ready.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use super::Served;
use crate::{Fixture, fails, scratchbook, text};

fn health(args: &[&str]) -> Command {
    let mut command = scratchbook();
    command.arg("health").args(args);
    command
}

/// Returns the command for the server on this machine whose settings have this port.
fn own(port: &str) -> Command {
    let mut command = health(&[]);
    command.env("SCRATCHBOOK_PORT", port).env("SCRATCHBOOK_HOST", "0.0.0.0");
    command
}

#[test]
fn a_server_that_is_ready_is_healthy() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &[]);
    let (url, port) = (served.greeting["url"].as_str().unwrap().to_owned(), served.greeting["port"].to_string());
    assert_eq!(text(own(&port)), format!("{url} is ready\n"));
    assert_eq!(text(health(&[&url])), format!("{url} is ready\n"));
    assert_eq!(text(health(&[&format!("{url}/health")])), format!("{url}/health is ready\n"));
    let file = fixture.path("scratchbook.toml");
    fs::write(&file, format!("port = {port}\nlog-level = \"warn\"")).unwrap();
    let said = text(health(&["--json", "--config", file.to_str().unwrap()]));
    assert_eq!(said, format!("{{\"status\":\"ready\",\"url\":\"{url}\"}}\n"));
    assert_eq!(served.end("-TERM"), Some(0));
    let said = fails(10, own(&port));
    assert!(said.contains(&format!("{url} does not answer")) && said.contains("refused"), "{said}");
}

#[test]
fn a_server_with_tls_is_asked_by_tls() {
    let fixture = Fixture::empty();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (fixture.path("tls.crt"), fixture.path("tls.key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let served = Served::new(&fixture, &["--tls-cert", certificate, "--tls-key", key]);
    let port = served.greeting["port"].to_string();
    let mut command = own(&port);
    command.env("SCRATCHBOOK_TLS_CERT", certificate).env("SCRATCHBOOK_TLS_KEY", key);
    assert_eq!(text(command), format!("https://127.0.0.1:{port} is ready\n"));
    // At a URL, the certificate has to be trusted and has to name the host.
    let url = format!("https://localhost:{port}");
    assert_eq!(text(health(&[&url, "--ca", certificate])), format!("{url} is ready\n"));
    let said = fails(10, health(&[&url]));
    assert!(said.contains("does not answer") && said.contains("invalid peer certificate"), "{said}");
    let said = fails(10, health(&[&format!("https://127.0.0.1:{port}"), "--ca", certificate]));
    assert!(said.contains("invalid peer certificate"), "{said}");
    let said = fails(2, health(&[&url, "--ca", key]));
    assert!(said.contains("holds no certificate"), "{said}");
}

#[test]
fn a_server_that_is_not_ready_or_does_not_answer_is_unhealthy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        assert!(first.read(&mut [0; 1024]).unwrap() > 0);
        first.write_all(b"HTTP/1.1 503 -\r\nContent-Length: 5\r\n\r\nstore").unwrap();
        // The second connection gets no answer.
        let _second = listener.accept().unwrap();
        thread::park();
    });
    let said = fails(10, own(&port));
    assert!(said.contains(&format!("http://127.0.0.1:{port} is not ready: 503 store")), "{said}");
    let mut late = own(&port);
    late.args(["--deadline", "0.2"]);
    let said = fails(10, late);
    assert!(said.contains("has not answered within 0.2 s"), "{said}");
}

#[test]
fn what_names_no_server_is_refused() {
    for (args, reason) in [
        (&["localhost:8000"][..], "is not the URL of a server"),
        (&["http://localhost", "--ca", "ca.crt"], "--ca is for https"),
        (&["https://localhost", "--ca", "no such file"], "'no such file' cannot be read"),
        (&["--config", "scratchbook.toml", "http://localhost"], "cannot be used with"),
    ] {
        let said = fails(2, health(args));
        assert!(said.contains(reason), "{args:?}: {said}");
    }
    assert!(fails(2, own("0")).contains("give its URL"));
    assert!(fails(2, own("none")).contains("invalid value 'none'"));
    assert!(fails(3, health(&["--config", "nowhere.toml"])).contains("nowhere.toml is not there"));
}
