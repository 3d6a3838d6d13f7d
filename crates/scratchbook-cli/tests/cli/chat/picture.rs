//! The picture of a terminal in README shows what the command prints.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::{Fixture, scratchbook, text};

const COLUMNS: usize = 96;
const PICTURE: &str = "../../docs/images/chat.svg";

/// Returns the lines of the picture: a conversation, and the state after it.
fn lines_of_the_terminal() -> Vec<StyledLine> {
    let fixture = Fixture::empty();
    let mut lines = conversation(&fixture, "monday", &["Add two apples and a book, please", "My name is Ann"]);
    lines.push(StyledLine::new());
    let words = ["state", "get", "--app", "demo", "--user", "user", "--session", "monday"];
    let mut command = scratchbook();
    command.current_dir(fixture.folder.path()).env("COLUMNS", COLUMNS.to_string()).args(words);
    let mut screen = DrawnScreen::default();
    screen.show(&format!("$ scratchbook {}\r\n{}", words.join(" "), text(command).replace('\n', "\r\n")));
    lines.extend(screen.lines());
    lines
}

fn conversation(fixture: &Fixture, session: &str, messages: &[&str]) -> Vec<StyledLine> {
    let mut terminal = PictureTerminal::open(fixture, session);
    let mut screen = DrawnScreen::default();
    screen.show(&format!("$ scratchbook chat --session {session}\r\n"));
    screen.show(&terminal.until("Ctrl-D ends."));
    for message in messages {
        screen.show(&terminal.until("> "));
        terminal.press(&format!("{message}\r"));
        screen.show(&terminal.until("last_reply = "));
        screen.show(&terminal.until("\r\n"));
    }
    terminal.until("> ");
    terminal.press("\u{4}");
    assert!(terminal.process.wait().unwrap().success());
    screen.lines()
}

/// A terminal, which is util-linux's `script`. It runs in the folder of the database, so that the database has a short
/// name.
struct PictureTerminal {
    process: Child,
    keys: ChildStdin,
    output: ChildStdout,
    seen: String,
}

impl PictureTerminal {
    fn open(fixture: &Fixture, session: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_scratchbook");
        let line = format!("stty cols {COLUMNS} rows 40; exec '{program}' chat --session {session}");
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(fixture.folder.path());
        for variable in crate::OF_MODELS.iter().chain(&["NO_COLOR", "SCRATCHBOOK_DATABASE", "SCRATCHBOOK_KEYRING"]) {
            command.env_remove(variable);
        }
        command.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("util-linux has script");
        let (keys, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, keys, output, seen: String::new() }
    }

    /// Waits until this text is shown after the last one, and returns what is shown up to it.
    fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let mut bytes = [0; 4096];
            let count = self.output.read(&mut bytes).unwrap();
            assert!(count > 0, "{text:?} is not shown after {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Style {
    dim: bool,
    bold: bool,
}

type StyledLine = Vec<(char, Style)>;

/// The part of a terminal that a conversation uses.
#[derive(Default)]
struct DrawnScreen {
    cells: Vec<StyledLine>,
    row: usize,
    column: usize,
    style: Style,
}

impl DrawnScreen {
    fn show(&mut self, text: &str) {
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\u{1b}' if rest.next_if_eq(&'[').is_some() => {
                    let mut parameters = String::new();
                    while let Some(c) = rest.next_if(|c| !c.is_ascii_alphabetic()) {
                        parameters.push(c);
                    }
                    let end = rest.next().expect("a whole sequence");
                    self.control(&parameters, end);
                }
                '\r' => self.column = 0,
                '\n' => self.row += 1,
                '\u{8}' => self.column -= 1,
                c if c.is_control() => panic!("the screen does not know {c:?}"),
                c => self.put(c),
            }
        }
    }

    fn put(&mut self, c: char) {
        if self.column == COLUMNS {
            (self.row, self.column) = (self.row + 1, 0);
        }
        let (column, cell) = (self.column, (c, self.style));
        let line = self.line();
        if line.len() <= column {
            line.resize(column + 1, (' ', Style::default()));
        }
        line[column] = cell;
        self.column += 1;
    }

    fn line(&mut self) -> &mut StyledLine {
        if self.cells.len() <= self.row {
            self.cells.resize(self.row + 1, StyledLine::new());
        }
        &mut self.cells[self.row]
    }

    fn control(&mut self, parameters: &str, end: char) {
        let count = parameters.parse().unwrap_or(1);
        match end {
            'A' => self.row -= count,
            'B' => self.row += count,
            'C' => self.column += count,
            'D' => self.column -= count,
            'K' | 'J' => {
                let column = self.column;
                self.line().truncate(column);
            }
            'm' => parameters.split(';').for_each(|code| self.shade(code)),
            'h' | 'l' => {}
            other => panic!("the screen does not know ESC [ {parameters} {other}"),
        }
    }

    fn shade(&mut self, code: &str) {
        match code {
            "" | "0" => self.style = Style::default(),
            "1" => self.style.bold = true,
            "2" => self.style.dim = true,
            _ => {}
        }
    }

    fn lines(self) -> Vec<StyledLine> {
        self.cells
    }
}

fn svg(lines: &[StyledLine]) -> String {
    let (width, height) = (COLUMNS * 8 + 40, lines.len() * 20 + 36);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>scratchbook chat in a terminal</title>\n\
         <!-- Written by `cargo xtask picture` from the command's output; a test compares the two. -->\n\
         <style>\n\
         svg {{ --back: #f6f8fa; --ink: #1f2328; --dim: #656d76; }}\n\
         @media (prefers-color-scheme: dark) {{ svg {{ --back: #151b23; --ink: #f0f6fc; --dim: #9198a1; }} }}\n\
         rect {{ fill: var(--back); }}\n\
         text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: var(--ink); white-space: pre; }}\n\
         .d {{ fill: var(--dim); }}\n\
         .b {{ font-weight: 700; }}\n\
         </style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let mut spans = String::new();
        for span in line.chunk_by(|a, b| a.1 == b.1) {
            let said: String = span.iter().map(|(c, _)| *c).collect();
            let said = said.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let class = match span[0].1 {
                Style { dim: true, .. } => " class=\"d\"",
                Style { bold: true, .. } => " class=\"b\"",
                Style { .. } => "",
            };
            write!(spans, "<tspan{class}>{said}</tspan>").unwrap();
        }
        let y = row * 20 + 32;
        writeln!(svg, "<text x=\"20\" y=\"{y}\" xml:space=\"preserve\">{spans}</text>").unwrap();
    }
    svg + "</svg>\n"
}

#[test]
fn the_terminal_in_the_readme_is_what_the_command_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PICTURE);
    let printed = svg(&lines_of_the_terminal());
    if std::env::var_os("SCRATCHBOOK_WRITE_PICTURE").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let shown = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        shown == printed,
        "{PICTURE} is old; `cargo xtask picture` writes it from what the command prints:\n{printed}"
    );
}
