//! The memory that idle watchers cost.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;

use super::support::{Api, S1, server};

/// The variable that is set in the process that measures. In the process of all tests, the memory of the other tests
/// would be counted too.
const MEASURES: &str = "SCRATCHBOOK_TEST_IDLE_WATCHERS";

const WATCHERS: usize = 1000;

#[test]
fn a_thousand_idle_watchers_cost_less_than_32_mb() {
    if std::env::var_os(MEASURES).is_some() {
        return measure();
    }
    // Both ends of each connection are open files of that process.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 4096 && exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "v1::idle::a_thousand_idle_watchers_cost_less_than_32_mb", "--nocapture"]);
    let output = command.env(MEASURES, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
}

fn measure() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (api, address) = runtime.block_on(async {
        let api = Api::memory().await;
        api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s1"}))).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(server(&api.store).run(listener, std::future::pending()));
        (api, address)
    });
    let paths =
        [format!("{S1}/watch?from=beginning"), "/v1/apps/shop/users/alice/watch".into(), "/v1/apps/shop/watch".into()];
    let some: Vec<_> = (0..10).map(|n| watcher(address, &paths[n % 3])).collect();
    let before = resident();
    let mut all: Vec<_> = (0..WATCHERS).map(|n| watcher(address, &paths[n % 3])).collect();
    println!("watchers connected: {} kB", (resident() - before) / 1000);
    // All watchers are woken and then wait again.
    for n in 1..=5 {
        let event = json!({"author": "agent", "actions": {"stateDelta": {"n": n}}});
        runtime.block_on(api.ok("POST", &format!("{S1}/events"), Some(json!({ "event": event }))));
    }
    for socket in &mut all {
        until(socket, "\"seq\":5");
    }
    let cost = resident().saturating_sub(before);
    println!("{WATCHERS} watchers: {:.1} MB, {:.1} kB each", cost as f64 / 1e6, cost as f64 / 1e3 / WATCHERS as f64);
    assert!(cost < 32_000_000, "{cost} bytes");
    drop(some);
}

/// Opens a connection that watches. The client's side is only a socket.
fn watcher(address: SocketAddr, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    until(&mut socket, "retry: ");
    socket
}

/// Reads until the text has arrived.
fn until(socket: &mut TcpStream, what: &str) {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&read).contains(what) {
        let count = socket.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream has ended");
        read.extend_from_slice(&buffer[..count]);
    }
}

/// Returns how many bytes of this process are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
