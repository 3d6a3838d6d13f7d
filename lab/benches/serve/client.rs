//! A minimal HTTP client: one connection, one request after the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A persistent connection.
pub(crate) struct ServeClient {
    port: u16,
    connection: BufReader<TcpStream>,
}

impl ServeClient {
    /// Connects to a port; `None` if no server listens there.
    pub(crate) fn connect(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self { port, connection: BufReader::new(stream) })
    }

    /// Sends a request and reads the head of the answer. Returns the status, and the length of the body if the head has
    /// it.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> Option<(u16, Option<usize>)> {
        let (port, length) = (self.port, body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n");
        let request = format!("{head}Content-Length: {length}\r\n\r\n{body}");
        self.connection.get_mut().write_all(request.as_bytes()).ok()?;
        let status = self.line()?.split(' ').nth(1)?.parse().ok()?;
        let mut length = None;
        loop {
            let line = self.line()?;
            if line.trim().is_empty() {
                return Some((status, length));
            }
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            }
        }
    }

    /// Sends a request, which has to succeed, and returns the body of its answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> String {
        let (status, length) = self.send(method, path, body).unwrap();
        let mut answer = vec![0; length.unwrap()];
        self.connection.read_exact(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    /// Reads the next line of a body.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.connection.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line)
    }
}
