//! Commands in a terminal.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::{Fixture, uri};

/// A terminal, which is util-linux's `script`, with a command in it.
pub(crate) struct Terminal {
    process: Child,
    keys: ChildStdin,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    /// Starts a command in a terminal with this many columns.
    pub(crate) fn open(fixture: &Fixture, columns: u16, args: &str, environment: &[(&str, &str)]) -> Self {
        let program = crate::PROGRAM;
        let database = uri(&fixture.path("agents.db"));
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command"]);
        // `exec` replaces the shell, because some shells react to Ctrl-C, too.
        command
            .arg(format!("stty cols {columns} rows 24; exec '{program}' --database '{database}' {args}"))
            .arg("/dev/null");
        for key in crate::OF_MODELS {
            command.env_remove(key);
        }
        command.env("TERM", "xterm").env_remove("NO_COLOR").envs(environment.iter().copied());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("util-linux has script");
        let (keys, mut out) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (tell, shown) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut bytes) {
                let _ = tell.send(bytes[..read].to_vec());
            }
        });
        Self { process, keys, shown, seen: String::new() }
    }

    /// Waits until this text is shown after the last one, and returns the text between them.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let more = self.shown.recv_timeout(Duration::from_secs(30));
            let more = more.unwrap_or_else(|_| panic!("{text:?} is not shown after {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
    }

    /// Waits until the command has ended, and returns what it has shown since the last text.
    pub(crate) fn rest(mut self) -> String {
        while let Ok(more) = self.shown.recv_timeout(Duration::from_secs(30)) {
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
        self.process.wait().unwrap();
        self.seen
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Closes the terminal, and returns the exit code of the command.
    pub(crate) fn end(mut self) -> Option<i32> {
        drop(self.keys);
        self.process.wait().unwrap().code()
    }
}

/// Serves in a terminal, asks for the list of apps, ends the server, and returns what was shown.
fn shown_while_serving(fixture: &Fixture, args: &str) -> String {
    let mut terminal = Terminal::open(fixture, 200, &format!("serve --port 0 {args}"), &[]);
    let mut shown = terminal.until("API ");
    let url = terminal.until("\n");
    let address = url.split("http://").nth(1).unwrap().split(['\u{1b}', '\r', ',']).next().unwrap().to_owned();
    shown.push_str(&terminal.until("Ctrl-C ends it."));
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    write!(stream, "GET /list-apps HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    terminal.press("\u{3}");
    shown + &terminal.rest()
}

#[test]
fn a_server_in_a_terminal_logs_warnings_alone_unless_a_level_is_named() {
    let fixture = Fixture::empty();
    let shown = shown_while_serving(&fixture, "--show apps/demo/users/me/sessions/hello");
    assert!(!shown.contains("INFO"), "{shown}");
    assert!(shown.contains("/inspector/apps/demo/users/me/sessions/hello"), "{shown}");
    let shown = shown_while_serving(&fixture, "--log-level info");
    assert!(shown.contains("INFO"), "{shown}");
}

#[test]
fn a_server_without_a_terminal_logs_each_request() {
    let served = crate::serve::Served::new(&Fixture::empty(), &[]);
    assert_eq!(served.get("/list-apps").0, 200);
    let logs = served.logs();
    assert!(logs.contains("INFO") && logs.contains("/list-apps"), "{logs}");
}
