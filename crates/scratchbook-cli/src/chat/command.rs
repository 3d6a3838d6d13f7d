//! What can be said to the program itself: lines that begin with a slash.

/// What `/help` says.
pub(super) const HELP: &str = "\
/state [BEGINNING]  the state, or its keys that begin so
/history            what was said in this session
/answer VALUE       answers a tool that waits for an answer: JSON, or text
/retry              asks for the answer again, after Ctrl-C or a failure
/new                begins a new session
/quit               ends, as Ctrl-D does; the session stays

Ctrl-C ends an answer. A message that begins with a slash is written with two.";

/// A line, understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// Nothing.
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
    /// A command that there is not.
    Unknown(&'a str),
}

/// Understands a line.
pub(super) fn understand(line: &str) -> Said<'_> {
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
            assert_eq!(understand(line), said, "{line}");
        }
    }
}
