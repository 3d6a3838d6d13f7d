//! A server as a process.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::http::HttpConnection;
use crate::fixture::Fixture;

/// A running server.
pub(crate) struct Served {
    pub(crate) process: Child,
    pub(crate) greeting: Value,
}

impl Served {
    pub(crate) fn new(fixture: &Fixture, args: &[&str]) -> Self {
        Self::of(fixture.command(&[&["--json", "serve", "--port", "0"], args].concat()))
    }

    /// Starts a command that prints its banner as JSON.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let greeting = serde_json::from_str(&line).unwrap_or_else(|e| {
            let mut said = String::new();
            process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{e}: '{line}', and on standard error: {said}")
        });
        Self { process, greeting }
    }

    /// Sends a GET request, and returns status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, "")
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.send(method, path, "", body)
    }

    /// Sends a request with headers, which are lines. Returns status and body.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let (status, _, body) =
            HttpConnection::open(&self.address()).unwrap().ask(method, path, headers, body).unwrap();
        (status, body)
    }

    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.greeting["host"].as_str().unwrap(), self.greeting["port"])
    }

    /// Creates a session, sends a message to an agent in it, and returns the events.
    pub(crate) fn talk(&self, app: &str, user: &str, session: &str, message: &str) -> Value {
        self.ask("POST", &format!("/apps/{app}/users/{user}/sessions/{session}"), "");
        let content = json!({"role": "user", "parts": [{"text": message}]});
        let run = json!({"appName": app, "userId": user, "sessionId": session, "newMessage": content});
        let (status, body) = self.ask("POST", "/run", &run.to_string());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap();
    }

    /// Ends the server with a signal, and returns its exit code.
    pub(crate) fn end(mut self, name: &str) -> Option<i32> {
        self.signal(name);
        self.process.wait().unwrap().code()
    }

    /// Returns the standard error of the ended server.
    pub(crate) fn logs(mut self) -> String {
        self.signal("-TERM");
        let mut logs = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut logs).unwrap();
        logs
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
