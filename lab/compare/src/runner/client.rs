//! A minimal HTTP client: one persistent connection, one request after the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::failure::{CellFailure, Result};

pub(crate) struct RunnerClient {
    port: u16,
    connection: BufReader<TcpStream>,
}

/// How the body of an answer ends.
enum BodyLength {
    Bytes(usize),
    Chunks,
}

impl RunnerClient {
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self { port, connection: BufReader::new(stream) })
    }

    /// Sends a request, which has to succeed, and returns the body of its answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Vec<u8>> {
        let (port, length) = (self.port, body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n");
        let request = format!("{head}Content-Length: {length}\r\n\r\n{body}");
        self.connection.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let mut length = BodyLength::Bytes(0);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = BodyLength::Bytes(value.trim().parse()?);
            } else if line.starts_with("transfer-encoding:") {
                length = BodyLength::Chunks;
            }
        }
        let body = self.body(&length)?;
        if status.split(' ').nth(1) == Some("200") {
            return Ok(body);
        }
        Err(CellFailure::new(format!("{method} {path}: {status}: {}", String::from_utf8_lossy(&body))))
    }

    fn body(&mut self, length: &BodyLength) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        match length {
            BodyLength::Bytes(count) => {
                body.resize(*count, 0);
                self.connection.read_exact(&mut body)?;
            }
            BodyLength::Chunks => loop {
                let count = usize::from_str_radix(self.line()?.trim(), 16)?;
                let start = body.len();
                body.resize(start + count, 0);
                self.connection.read_exact(&mut body[start..])?;
                self.line()?;
                if count == 0 {
                    break;
                }
            },
        }
        Ok(body)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.connection.read_line(&mut line)? {
            0 => Err(CellFailure::new("the server has closed the connection")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}
