//! The part of HTTP that these tests need: a persistent connection and complete responses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A connection to a server on this machine.
pub(super) struct HttpConnection {
    address: String,
    stream: BufReader<TcpStream>,
}

impl HttpConnection {
    pub(super) fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { address: address.to_owned(), stream: BufReader::new(stream) })
    }

    /// Sends a request, and returns status, head and body. `headers` are lines.
    pub(super) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> io::Result<(u16, String, String)> {
        let (address, length) = (&self.address, body.len());
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{headers}");
        self.stream.get_mut().write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes())?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let value =
            |name: &str| head.lines().find_map(|line| Some(line.to_ascii_lowercase().strip_prefix(name)?.to_owned()));
        let body = match value("content-length:") {
            Some(length) => self.read(length.trim().parse().unwrap())?,
            None => self.chunks()?,
        };
        Ok((status, head, String::from_utf8(body).unwrap()))
    }
    fn read(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a body in chunks. Before each chunk, a line has its length in hexadecimal digits; the last length is 0.
    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut length = String::new();
            self.stream.read_line(&mut length)?;
            let length = usize::from_str_radix(length.trim(), 16).unwrap();
            body.extend(self.read(length)?);
            self.read(2)?;
            if length == 0 {
                return Ok(body);
            }
        }
    }
}
