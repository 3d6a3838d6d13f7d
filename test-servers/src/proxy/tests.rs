//! Tests the proxy before a server that answers each line with the same line.

use std::io::{BufRead, BufReader};
use std::time::Instant;

use super::*;

/// Starts a server that answers each line with the same line. The line is in the list before it is answered.
fn echo() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (connection, list) = (connection.unwrap(), Arc::clone(&list));
            thread::spawn(move || {
                for line in BufReader::new(connection.try_clone().unwrap()).lines().map_while(|line| line.ok()) {
                    lock(&list).push(line.clone());
                    (&connection).write_all(format!("{line}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    (port, seen)
}

struct ProxyClient(BufReader<TcpStream>);

impl ProxyClient {
    fn new(proxy: &Proxy) -> Self {
        Self(BufReader::new(TcpStream::connect(local(proxy.port())).unwrap()))
    }

    /// Returns the answer; `None` if the connection was cut.
    fn ask(&mut self, line: &str) -> Option<String> {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).ok()?;
        self.read()
    }

    fn read(&mut self) -> Option<String> {
        let mut answer = String::new();
        let count = self.0.read_line(&mut answer).ok()?;
        (count > 0).then(|| answer.trim_end().to_owned())
    }
}

#[test]
fn turns_are_counted_not_messages() {
    let proxy = Proxy::start(echo().0).unwrap();
    let mut client = ProxyClient::new(&proxy);
    for n in 1..=10 {
        assert_eq!(client.ask("hello").unwrap(), "hello");
        assert_eq!(proxy.turns(), n);
    }
    // Lines that are sent at once, or in pieces before an answer, are one turn.
    assert_eq!(client.ask("one\ntwo").unwrap(), "one");
    assert_eq!(client.read().unwrap(), "two");
    assert_eq!(proxy.turns(), 11);
    client.0.get_mut().write_all(b"be").unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(client.ask("gun").unwrap(), "begun");
    assert_eq!(proxy.turns(), 12);
    ProxyClient::new(&proxy).ask("another").unwrap();
    assert_eq!((proxy.turns(), proxy.connections()), (13, 2));
}

#[test]
fn a_turn_is_delayed() {
    let proxy = Proxy::start(echo().0).unwrap();
    let mut client = ProxyClient::new(&proxy);
    proxy.delay(Duration::from_millis(40));
    let start = Instant::now();
    client.ask("one").unwrap();
    client.ask("two").unwrap();
    assert!(start.elapsed() >= Duration::from_millis(80), "{:?}", start.elapsed());
    proxy.delay(Duration::ZERO);
    let start = Instant::now();
    client.ask("three").unwrap();
    assert!(start.elapsed() < Duration::from_millis(40), "{:?}", start.elapsed());
}

#[test]
fn all_connections_are_cut_and_new_ones_are_not() {
    let proxy = Proxy::start(echo().0).unwrap();
    let mut clients = [ProxyClient::new(&proxy), ProxyClient::new(&proxy)];
    for client in &mut clients {
        client.ask("hello").unwrap();
    }
    proxy.cut();
    for client in &mut clients {
        assert_eq!(client.ask("hello"), None);
    }
    assert!(ProxyClient::new(&proxy).ask("hello").is_some());
}

#[test]
fn an_answer_is_swallowed_after_the_server_has_done_what_it_was_asked() {
    let (port, seen) = echo();
    let proxy = Proxy::start(port).unwrap();
    let mut client = ProxyClient::new(&proxy);
    client.ask("first").unwrap();
    proxy.swallow(2);
    assert_eq!(client.ask("commit"), None);
    assert_eq!(ProxyClient::new(&proxy).ask("again"), None);
    assert_eq!(proxy.swallowed(), 2);
    assert_eq!(ProxyClient::new(&proxy).ask("last").unwrap(), "last");
    assert_eq!(*lock(&seen), ["first", "commit", "again", "last"]);
}

#[test]
fn a_server_that_is_gone_ends_the_connection_and_another_takes_over() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = unused.local_addr().unwrap().port();
    drop(unused);
    let proxy = Proxy::start(port).unwrap();
    assert_eq!(ProxyClient::new(&proxy).ask("anybody"), None);
    proxy.forward_to(echo().0);
    assert!(ProxyClient::new(&proxy).ask("anybody").is_some());
}

#[test]
fn a_uri_is_led_through_the_proxy() {
    let proxy = Proxy::before("mysql://a:b@127.0.0.1:3306/c").unwrap();
    for (before, after) in [("mysql://a:p%40@localhost:3306", ""), ("postgresql://a@", "/c?d=e@f"), ("x://", "?d")] {
        let uri =
            if before.ends_with('@') || after == "?d" { format!("{before}db:1{after}") } else { before.to_owned() };
        let led = proxy.uri(&uri).unwrap();
        let expected = format!("{}127.0.0.1:{}{after}", before.trim_end_matches("localhost:3306"), proxy.port());
        assert_eq!(led, expected);
    }
    assert!(proxy.uri("nothing").is_err());
}

#[test]
fn nobody_listens_when_it_is_dropped() {
    let proxy = Proxy::start(echo().0).unwrap();
    let port = proxy.port();
    drop(proxy);
    // The thread that listens ends when it is woken.
    let start = Instant::now();
    while TcpStream::connect(local(port)).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
