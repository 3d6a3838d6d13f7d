//! Nothing blocks the server: neither many connections, nor an unread log, nor a client during its shutdown.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use super::Served;
use super::http::HttpConnection;
use crate::Fixture;

/// Starts a server under a limit that its shell sets.
fn served_under(limit: &str, fixture: &Fixture, args: &[&str]) -> Served {
    let command = fixture.command(&[&["--json", "serve", "--port", "0"], args].concat());
    let mut under = Command::new("sh");
    under.args(["-c", &format!("{limit} && exec \"$@\""), "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => under.env(name, value),
            None => under.env_remove(name),
        };
    }
    under.stdin(Stdio::null());
    Served::of(under)
}

/// Opens connections that send only this text.
fn connect(served: &Served, count: usize, said: &str) -> Vec<TcpStream> {
    // The connections are open files of this process, too.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let address = served.address();
    let open = |_| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        stream
    };
    (0..count).map(open).collect()
}

/// Measures how long another client waits for a response.
fn health(served: &Served) -> Duration {
    let begun = Instant::now();
    assert_eq!(served.get("/health").0, 200);
    begun.elapsed()
}

/// Sends a signal to the server. Returns its exit code and how long its end took.
fn end_in_time(mut served: Served, signal: &str) -> (Option<i32>, Duration) {
    let begun = Instant::now();
    served.signal(signal);
    loop {
        if let Some(status) = served.process.try_wait().unwrap() {
            return (status.code(), begun.elapsed());
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn idle_connections_keep_nobody_out() {
    let fixture = Fixture::empty();
    // The first limit cannot be raised. In the second case, the server may raise its limit on open files.
    for limit in ["ulimit -n 1024", "ulimit -S -n 1024"] {
        for said in ["", "GET /health HTTP/1.1\r\nhost:"] {
            let served = served_under(limit, &fixture, &["--log-level", "warn"]);
            let idle = connect(&served, 1100, said);
            for _ in 0..3 {
                let time = health(&served);
                assert!(time < Duration::from_secs(1), "{limit}, {said:?}: {time:?}");
            }
            drop(idle);
            assert_eq!(served.end("-TERM"), Some(0));
        }
    }
}

#[test]
fn bodies_that_do_not_come_keep_nobody_out() {
    let fixture = Fixture::empty();
    let served = served_under("ulimit -n 256", &fixture, &["--log-level", "warn"]);
    let half = "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc";
    let _slow = connect(&served, 200, half);
    let time = health(&served);
    assert!(time < Duration::from_secs(3), "{time:?}");
}

#[test]
fn a_log_that_nobody_reads_holds_up_nobody() {
    let fixture = Fixture::empty();
    for (signals, code) in [(1, 0), (2, 130)] {
        let served = Served::new(&fixture, &["--log-format", "json"]);
        let mut connection = HttpConnection::open(&served.address()).unwrap();
        for _ in 0..2000 {
            assert_eq!(connection.ask("GET", "/health", "", "").unwrap().0, 200);
        }
        let _half = (signals == 2).then(|| {
            let half =
                connect(&served, 1, "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc");
            sleep(Duration::from_millis(200));
            served.signal("-TERM");
            sleep(Duration::from_millis(200));
            half
        });
        let (ended, time) = end_in_time(served, "-TERM");
        assert_eq!(ended, Some(code));
        assert!(time < Duration::from_secs(3), "{signals} signals: {time:?}");
    }
}

#[test]
fn a_log_says_how_many_of_its_lines_nobody_read() {
    const REQUESTS: usize = 5000;
    let fixture = Fixture::empty();
    let mut served = Served::new(&fixture, &["--log-format", "json"]);
    let mut connection = HttpConnection::open(&served.address()).unwrap();
    let id = format!("x-request-id: {}\r\n", "i".repeat(128));
    for _ in 0..REQUESTS {
        assert_eq!(connection.ask("GET", "/health", &id, "").unwrap().0, 200);
    }
    let mut logs = BufReader::new(served.process.stderr.take().unwrap()).lines();
    let mut read = 0;
    let dropped = loop {
        let line: Value = serde_json::from_str(&logs.next().unwrap().unwrap()).unwrap();
        if let Some(dropped) = line["lines"].as_u64() {
            assert_eq!(line["level"], "ERROR");
            break dropped as usize;
        }
        read += usize::from(line["message"] == "answered");
    };
    assert!(dropped > 0);
    assert_eq!(read + dropped, REQUESTS);
}

#[test]
fn the_end_comes_when_it_is_said_to() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &["--shutdown-seconds", "1"]);
    let mut head = connect(&served, 1, "GET /health HTTP/1.1\r\nhost:").remove(0);
    let _body = connect(&served, 1, "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nab");
    sleep(Duration::from_millis(300));
    served.signal("-TERM");
    let begun = Instant::now();
    // The server does not wait for connections without a request.
    head.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(head.read(&mut [0; 16]).is_ok_and(|read| read == 0));
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    let mut served = served;
    let code = served.process.wait().unwrap().code();
    let time = begun.elapsed();
    assert_eq!(code, Some(0));
    assert!(time > Duration::from_millis(800) && time < Duration::from_millis(2500), "{time:?}");
}

#[test]
fn readiness_checks_cost_the_database_nothing() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &["--log-level", "warn"]);
    let begun = Instant::now();
    let mut connection = HttpConnection::open(&served.address()).unwrap();
    for _ in 0..500 {
        assert_eq!(connection.ask("GET", "/health/ready", "", "").unwrap().0, 200);
    }
    let seconds = begun.elapsed().as_secs();
    let (_, numbers) = served.get("/metrics");
    let line = r#"scratchbook_calls_total{operation="get_session",app="other",outcome="ok"} "#;
    let looks: u64 = numbers.lines().find_map(|read| read.strip_prefix(line)?.parse().ok()).unwrap();
    assert!(looks <= seconds + 1, "{looks} looks in {seconds} s");
}
