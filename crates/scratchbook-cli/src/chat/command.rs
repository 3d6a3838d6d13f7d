//! The lines of a conversation: messages, and commands that begin with a slash.

/// The answer to `/help`.
pub(super) const HELP: &str = "\
/state [BEGINNING]  show the state, or the keys that begin with BEGINNING
/history            show the messages of this session
/answer VALUE       answer a tool that waits for an answer, with JSON or text
/retry              ask for the answer again, after Ctrl-C or a failure
/new                begin a new session
/quit               end, as Ctrl-D does; the session stays

Ctrl-C stops an answer. Begin a message that starts with a slash with two slashes.";

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    Blank,
    /// A message to the agent.
    Message(&'a str),
    Help,
    State(&'a str),
    History,
    Answer(&'a str),
    Retry,
    New,
    Quit,
    /// A command that does not exist.
    Unknown(&'a str),
}

/// Parses a line.
pub(super) fn parse(line: &str) -> Said<'_> {
    let line = line.trim();
    let Some(command) = line.strip_prefix('/') else {
        return if line.is_empty() { Said::Blank } else { Said::Message(line) };
    };
    if command.starts_with('/') {
        return Said::Message(command);
    }
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match (name, rest.trim()) {
        ("help" | "?", "") => Said::Help,
        ("state", beginning) => Said::State(beginning),
        ("history", "") => Said::History,
        ("answer", value) if !value.is_empty() => Said::Answer(value),
        ("retry", "") => Said::Retry,
        ("new", "") => Said::New,
        ("quit" | "exit", "") => Said::Quit,
        _ => Said::Unknown(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_unless_they_begin_with_one_slash() {
        for (line, said) in [
            ("  ", Said::Blank),
            (" Add two apples ", Said::Message("Add two apples")),
            ("//etc is a folder", Said::Message("/etc is a folder")),
            ("/help", Said::Help),
            ("/state", Said::State("")),
            ("/state  user: ", Said::State("user:")),
            ("/history", Said::History),
            ("/answer {\"ok\": true}", Said::Answer("{\"ok\": true}")),
            ("/answer", Said::Unknown("/answer")),
            ("/retry", Said::Retry),
            ("/new", Said::New),
            ("/exit", Said::Quit),
            ("/quit now", Said::Unknown("/quit now")),
            ("/etc", Said::Unknown("/etc")),
            ("/", Said::Unknown("/")),
        ] {
            assert_eq!(parse(line), said, "{line}");
        }
    }
}
