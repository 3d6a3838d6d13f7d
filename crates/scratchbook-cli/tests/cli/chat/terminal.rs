//! Conversations in a terminal, which is util-linux's `script`.

use crate::Fixture;
use crate::models::{KEY, RecordedModel, gemini_stuck_after, gemini_text};
use crate::terminal::Terminal;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const TAB: &str = "\t";
const UP: &str = "\u{1b}[A";

fn open(fixture: &Fixture, args: &str, environment: &[(&str, &str)]) -> Terminal {
    Terminal::open(fixture, 80, &format!("chat {args}"), environment)
}

#[test]
fn a_terminal_has_a_prompt_history_and_colours() {
    let fixture = Fixture::empty();
    let mut terminal = open(&fixture, "--session s1", &[]);
    terminal.until("/help says what else there is");
    terminal.until("> ");
    terminal.press(&format!("/sta{TAB}cart\r"));
    terminal.until("There is nothing.");
    terminal.until("> ");
    terminal.press("Add a pear\r");
    let shown = terminal.until("Done. In your cart: 1 x pear.");
    assert!(shown.contains("\u{1b}[2m    cart = {\"pear\":1}"), "what is done is dim: {shown:?}");
    terminal.until("> ");
    terminal.press(&format!("{UP}\r"));
    terminal.until("2 x pear.");
    terminal.until("> ");
    terminal.press(CTRL_D);
    terminal.until("Continue it with:");
    terminal.until("\r\nscratchbook chat --session s1 ");
    assert_eq!(terminal.end(), Some(0));

    let mut terminal = open(&fixture, "--session s1", &[("NO_COLOR", "1")]);
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
    let model = RecordedModel::start([gemini_stuck_after("Once upon "), gemini_text(&["Here."])]);
    let url = model.url();
    let environment = [("GOOGLE_GEMINI_BASE_URL", url.as_str()), ("GOOGLE_API_KEY", KEY)];
    let mut terminal = open(&fixture, "--session s1 --model gemini-2.5-flash", &environment);
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
    terminal.until("Continue it with");
    assert_eq!(terminal.end(), Some(0));
    fixture.text(&["verify"]);
}

#[test]
fn an_answer_is_wrapped_between_words() {
    let fixture = Fixture::empty();
    let model = RecordedModel::start([gemini_text(&[
        "Once upon a time there was a f",
        "ox who kept a diary of every he",
        "n.",
    ])]);
    let url = model.url();
    let environment = [("GOOGLE_GEMINI_BASE_URL", url.as_str()), ("GOOGLE_API_KEY", KEY)];
    let mut terminal = Terminal::open(&fixture, 40, "chat --session s1 --model gemini-2.5-flash", &environment);
    terminal.until("> ");
    terminal.press("Tell me a story\r");
    terminal.until("Once upon a time there was a fox who \r\nkept a diary of every hen.\r\n");
    terminal.until("> ");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end(), Some(0));
}
