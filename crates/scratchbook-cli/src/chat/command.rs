//! The lines of a conversation: messages, and commands that begin with a slash.

/// The answer to `/help`.
pub(super) const HELP: &str = "\
/state [BEGINNING]  show the state, or the keys that begin with BEGINNING
/history            show the last messages of this session
/answer             show the calls that wait for an answer
/answer VALUE       answer the first of these calls, with JSON or text
/retry              ask for the answer again, after Ctrl-C or a failure
/new                begin a new session
/quit               end the conversation, as Ctrl-D does; the session stays

Tab completes commands. Ctrl-C stops an answer. To send a message that begins with a slash, begin it with two slashes.";

/// The commands, as Tab completes them.
pub(super) const COMMANDS: [&str; 7] = ["/answer ", "/help", "/history", "/new", "/quit", "/retry", "/state "];

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedLine<'a> {
    Blank,
    /// A message to the agent.
    Message(&'a str),
    Help,
    State(&'a str),
    History,
    /// An answer to a call. If the answer is empty, the calls that wait for one are shown.
    Answer(&'a str),
    Retry,
    New,
    Quit,
    /// A command that does not exist.
    Unknown(&'a str),
}

/// Parses a line.
pub(super) fn parse(line: &str) -> ParsedLine<'_> {
    let line = line.trim();
    let Some(command) = line.strip_prefix('/') else {
        return if line.is_empty() { ParsedLine::Blank } else { ParsedLine::Message(line) };
    };
    if command.starts_with('/') {
        return ParsedLine::Message(command);
    }
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match (name, rest.trim()) {
        ("help" | "?", "") => ParsedLine::Help,
        ("state", beginning) => ParsedLine::State(beginning),
        ("history", "") => ParsedLine::History,
        ("answer", value) => ParsedLine::Answer(value),
        ("retry", "") => ParsedLine::Retry,
        ("new", "") => ParsedLine::New,
        ("quit" | "exit", "") => ParsedLine::Quit,
        _ => ParsedLine::Unknown(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_tab_completes_is_one() {
        for command in COMMANDS {
            assert!(!matches!(parse(command), ParsedLine::Unknown(_) | ParsedLine::Message(_)), "{command}");
            assert!(command == "/help" || HELP.contains(command.trim()), "{command}");
        }
    }

    #[test]
    fn lines_are_messages_unless_they_begin_with_one_slash() {
        for (line, said) in [
            ("  ", ParsedLine::Blank),
            (" Add two apples ", ParsedLine::Message("Add two apples")),
            ("//etc is a folder", ParsedLine::Message("/etc is a folder")),
            ("/help", ParsedLine::Help),
            ("/state", ParsedLine::State("")),
            ("/state  user: ", ParsedLine::State("user:")),
            ("/history", ParsedLine::History),
            ("/answer {\"ok\": true}", ParsedLine::Answer("{\"ok\": true}")),
            ("/answer", ParsedLine::Answer("")),
            ("/retry", ParsedLine::Retry),
            ("/new", ParsedLine::New),
            ("/exit", ParsedLine::Quit),
            ("/quit now", ParsedLine::Unknown("/quit now")),
            ("/etc", ParsedLine::Unknown("/etc")),
            ("/", ParsedLine::Unknown("/")),
        ] {
            assert_eq!(parse(line), said, "{line}");
        }
    }
}
