//! Conversations in a terminal, which is util-linux's `script`.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::models::{KEY, Model, gemini_stuck_after, gemini_text};
use crate::{Fixture, uri};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const UP: &str = "\u{1b}[A";

/// A terminal with a conversation.
struct Terminal {
    process: Child,
    keys: ChildStdin,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(fixture: &Fixture, args: &str, environment: &[(&str, &str)]) -> Self {
        let program = env!("CARGO_BIN_EXE_scratchbook");
        let database = uri(&fixture.path("agents.db"));
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command"]);
        // `exec` replaces the shell, because some shells react to Ctrl-C, too.
        command.arg(format!("exec '{program}' chat --database '{database}' {args}")).arg("/dev/null");
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
    fn until(&mut self, text: &str) -> String {
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

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn end(mut self) -> Option<i32> {
        drop(self.keys);
        self.process.wait().unwrap().code()
    }
}

#[test]
fn a_terminal_has_a_prompt_history_and_colours() {
    let fixture = Fixture::empty();
    let mut terminal = Terminal::open(&fixture, "--session s1", &[]);
    terminal.until("/help says what else there is");
    terminal.until("> ");
    terminal.press("Add a pear\r");
    let shown = terminal.until("Done. In your cart: 1 x pear.");
    assert!(shown.contains("\u{1b}[2m    cart = {\"pear\":1}"), "what is done is dim: {shown:?}");
    terminal.until("> ");
    terminal.press(&format!("{UP}\r"));
    terminal.until("2 x pear.");
    terminal.until("> ");
    terminal.press(CTRL_D);
    terminal.until("go on with: scratchbook chat --session s1");
    assert_eq!(terminal.end(), Some(0));

    let mut terminal = Terminal::open(&fixture, "--session s1", &[("NO_COLOR", "1")]);
    let shown = terminal.until("2 x pear.");
    assert!(shown.contains("> Add a pear") && !shown.contains("\u{1b}[2m"), "{shown:?}");
    terminal.until("> ");
    terminal.press(&format!("{UP}\r"));
    terminal.until("3 x pear.");
    terminal.until("> ");
    terminal.press(CTRL_C);
    terminal.until("Once more, or Ctrl-D");
    terminal.until("> ");
    terminal.press(CTRL_C);
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn ctrl_c_ends_an_answer_and_the_conversation_goes_on() {
    let fixture = Fixture::empty();
    let model = Model::start([gemini_stuck_after("Once upon "), gemini_text(&["Here."])]);
    let url = model.url();
    let environment = [("GOOGLE_GEMINI_BASE_URL", url.as_str()), ("GOOGLE_API_KEY", KEY)];
    let mut terminal = Terminal::open(&fixture, "--session s1 --model gemini-2.5-flash", &environment);
    terminal.until("> ");
    terminal.press("Tell me a story\r");
    terminal.until("Once upon ");
    terminal.press(CTRL_C);
    terminal.until("Cut off.");
    terminal.until("> ");
    terminal.press("Are you there?\r");
    terminal.until("Here.");
    terminal.until("> ");
    terminal.press("/quit\r");
    terminal.until("go on with");
    assert_eq!(terminal.end(), Some(0));
    fixture.text(&["verify"]);
}
