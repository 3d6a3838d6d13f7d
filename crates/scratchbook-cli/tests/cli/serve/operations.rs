//! Operating a server: logs, metrics and readiness.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Served;
use crate::Fixture;

#[test]
fn each_request_is_one_line_without_names_or_values() {
    let fixture = Fixture::with_session(1);
    let served = Served::new(&fixture, &["--log-format", "json"]);
    assert_eq!(served.get("/apps/shop/users/alice/sessions/s1").0, 200);
    assert_eq!(served.get("/nowhere/alice").0, 404);
    let logs = served.logs();
    let lines: Vec<Value> = logs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered: Vec<_> = lines.iter().filter(|line| line["message"] == "answered").collect();
    assert_eq!(answered.len(), 2, "{logs}");
    assert_eq!(answered[0]["route"], "/apps/{app}/users/{user}/sessions/{session}");
    assert_eq!((&answered[0]["method"], &answered[0]["status"]), (&"GET".into(), &200.into()));
    assert!(answered[0]["milliseconds"].as_f64().unwrap() > 0.0 && answered[0]["span"]["id"].is_string(), "{logs}");
    assert_eq!((&answered[1]["route"], &answered[1]["status"]), (&"none".into(), &404.into()));
    for word in ["alice", "s1", "step", "theme"] {
        assert!(!logs.contains(word), "{word} in {logs}");
    }
}

#[test]
fn logs_are_as_many_as_are_asked_for() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &["--log-level", "warn"]);
    served.get("/health");
    assert_eq!(served.logs(), "");
    let served = Served::new(&fixture, &[]);
    served.get("/health");
    let logs = served.logs();
    assert!(
        logs.contains(" INFO request{id=") && logs.contains("answered method=GET route=/health status=200"),
        "{logs}"
    );
    assert!(!logs.contains('\u{1b}'), "{logs}");
}

#[test]
fn prometheus_reads_what_was_done() {
    let fixture = Fixture::with_session(1);
    let served = Served::new(&fixture, &[]);
    served.get("/apps/shop/users/alice/sessions/s1");
    served.get("/apps/never-heard-of/users/alice/sessions/s1");
    let (status, numbers) = served.get("/metrics");
    assert_eq!(status, 200);
    for line in [
        r#"scratchbook_http_requests_total{method="GET",route="/apps/{app}/users/{user}/sessions/{session}",status="2xx"} 1"#,
        r#"scratchbook_http_requests_total{method="GET",route="/apps/{app}/users/{user}/sessions/{session}",status="4xx"} 1"#,
        r#"scratchbook_http_request_seconds_count{method="GET""#,
        r#"scratchbook_calls_total{operation="get_session",app="other",outcome="ok"} 2"#,
        r#"scratchbook_call_seconds_bucket{operation="get_session""#,
        "scratchbook_info{version=",
    ] {
        assert!(numbers.contains(line), "{line} in {numbers}");
    }
    assert!(!numbers.contains("alice") && !numbers.contains("never-heard-of"), "{numbers}");
}

#[test]
fn it_is_ready_as_long_as_the_store_answers() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &[]);
    assert_eq!(served.get("/health/ready"), (200, r#"{"status":"ready"}"#.to_owned()));
}

#[test]
fn server_below_a_path_prints_and_serves_it_and_closes_idle_connections_when_told() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &["--url-prefix", "/agents/shop", "--idle-seconds", "1.5"]);
    let url = format!("http://{}/agents/shop", served.address());
    assert_eq!(served.greeting["url"], url);
    assert_eq!(served.greeting["inspector"], format!("{url}/inspector"));
    assert_eq!(served.get("/agents/shop/health").0, 200);
    assert_eq!(served.get("/health").0, 200);

    let begun = Instant::now();
    let mut connection = TcpStream::connect(served.address()).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    connection.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    connection.read_to_end(&mut Vec::new()).unwrap();
    assert!(begun.elapsed() > Duration::from_millis(1400), "{:?}", begun.elapsed());
}
