//! Idioms that an engineer has to read twice, refused in comments, docstrings and Markdown.
//!
//! A text is read as words, so that it does not matter where its lines break. Code, strings and what stands in
//! backticks are not read.

use std::path::Path;

/// A run of words that is not to be used, and what to write in its place.
struct Idiom {
    /// The words in lower case; of words with `|` between them any will do.
    words: &'static [&'static str],
    /// Before and after these words it means something else.
    but_after: &'static [&'static str],
    but_before: &'static [&'static str],
    better: &'static str,
}

const fn idiom(words: &'static [&'static str], better: &'static str) -> Idiom {
    Idiom { words, but_after: &[], but_before: &[], better }
}

const IDIOMS: [Idiom; 6] = [
    idiom(&["anew"], "again"),
    Idiom {
        but_after: &["there"],
        but_before: &["of"],
        ..idiom(&["is|are|was|were", "none"], "is invalid, is not set")
    },
    Idiom { but_before: &["that"], ..idiom(&["so", "many"], "this many") },
    idiom(&["take|takes|took|taken|taking", "up", "again"], "resume"),
    idiom(&["whoever"], "a subject: a caller, a client, an operator"),
    Idiom { but_before: &["to", "apart"], ..idiom(&["told"], "reported, returned, shown") },
];

/// The idioms in the prose of one file: the line of each, and what to write instead.
pub(crate) fn idioms(path: &str, text: &str) -> Vec<(usize, String)> {
    // A migration cannot change once it was applied: databases keep a checksum of its text.
    if path.contains("/migrations/") {
        return Vec::new();
    }
    let words = words(&prose(path, text));
    let mut found = Vec::new();
    for at in 0..words.len() {
        found.extend(IDIOMS.iter().filter(|idiom| idiom.is_at(&words, at)).map(|idiom| {
            let said: Vec<_> = words[at..at + idiom.words.len()].iter().map(|(_, word)| word.as_str()).collect();
            (words[at].0, format!("'{}'; better: {}", said.join(" "), idiom.better))
        }));
    }
    found
}

impl Idiom {
    fn is_at(&self, words: &[(usize, String)], at: usize) -> bool {
        let word = |index: usize| words.get(index).map_or("", |(_, word)| word.as_str());
        let mut pairs = self.words.iter().enumerate();
        pairs.all(|(offset, any)| any.split('|').any(|one| one == word(at + offset)))
            && !self.but_after.contains(&at.checked_sub(1).map_or("", word))
            && !self.but_before.contains(&word(at + self.words.len()))
    }
}

/// Numbered lines as numbered words in lower case. The end of a sentence is a word of its own, so that none goes over it.
fn words(lines: &[(usize, String)]) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut before = 0;
    for (number, line) in lines {
        if *number != before + 1 {
            words.push((*number, String::new()));
        }
        before = *number;
        let mut word = String::new();
        for c in line.chars().chain([' ']) {
            if c.is_alphanumeric() || c == '_' || c == '\'' {
                word.extend(c.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push((*number, std::mem::take(&mut word)));
            }
            if !c.is_whitespace() {
                words.push((*number, String::new()));
            }
        }
    }
    words
}

/// The numbered lines of a file that somebody reads as text: without code and without what stands in backticks.
fn prose(path: &str, text: &str) -> Vec<(usize, String)> {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let mut in_fence = false;
    let mut docstring = Docstring::default();
    let lines = text.lines().enumerate().filter_map(|(index, line)| {
        let read = match extension {
            "md" => Some(line),
            "rs" => after(line, "//").map(|rest| rest.trim_start_matches(['/', '!'])),
            "py" | "pyi" => docstring.line(line).or_else(|| after(line, "#")),
            "sql" => after(line, "--"),
            "toml" | "yaml" | "yml" | "sh" => after(line, "#"),
            _ => None,
        };
        let Some(read) = read else {
            in_fence = false;
            return None;
        };
        if read.trim_start().starts_with("```") {
            in_fence = !in_fence;
            return None;
        }
        (!in_fence).then(|| (index + 1, without_code(read)))
    });
    lines.collect()
}

/// What stands behind the mark of a comment, at the beginning of a line or behind code.
fn after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.trim_start().strip_prefix(mark).or_else(|| {
        let (code, rest) = line.split_once(&format!(" {mark} "))?;
        // Not in a string.
        (code.matches('"').count() % 2 == 0).then_some(rest)
    })
}

/// Every second part between backticks is code.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" code ")
}

/// Whether a line of Python is in a docstring: a long string that begins its line.
#[derive(Default)]
struct Docstring {
    in_string: bool,
    in_docstring: bool,
}

impl Docstring {
    fn line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let was_in_docstring = self.in_docstring;
        let opens = !self.in_string && line.trim_start().starts_with("\"\"\"");
        if line.matches("\"\"\"").count() % 2 == 1 {
            self.in_string = !self.in_string;
            self.in_docstring = self.in_string && opens;
        }
        (was_in_docstring || opens).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let quoted = |said: String| said.split('\'').nth(1).unwrap_or_default().to_owned();
        idioms(path, text).into_iter().map(|(line, said)| (line, quoted(said))).collect()
    }

    fn one(line: usize, words: &str) -> Vec<(usize, String)> {
        vec![(line, words.to_owned())]
    }

    #[test]
    fn idioms_are_found_whatever_their_case_and_wherever_lines_break() {
        assert_eq!(found("a.md", "Whoever waits"), one(1, "whoever"));
        assert_eq!(found("a.rs", "/// It is taken\n    /// up again then."), one(1, "taken up again"));
        assert_eq!(found("a.rs", "let a = 1; // told by b"), one(1, "told"));
        assert_eq!(found("a.sql", "-- so many rows"), one(1, "so many"));
    }

    #[test]
    fn the_same_words_in_plain_english_are_left_alone() {
        for text in [
            "There is none.",
            "It is none of these.",
            "so many that it ends",
            "told to end",
            "told apart",
            "It is. None",
        ] {
            assert_eq!(found("a.md", text), [], "{text}");
        }
    }

    #[test]
    fn code_strings_and_backticks_are_not_read() {
        assert_eq!(found("a.rs", "let told = \"told\";\n/// `told` is code.\n/// ```\n/// told()\n/// ```"), []);
        assert_eq!(found("a.md", "```sh\ntold\n```\nanew"), one(4, "anew"));
        assert_eq!(found("a.rs", "/// is\nfn f() {}\n/// none"), []);
        assert_eq!(found("a.json", "\"told\""), []);
    }

    #[test]
    fn docstrings_of_python_are_read_and_other_strings_are_not() {
        let text = "def f():\n    \"\"\"Is told.\n\n    anew\n    \"\"\"\n    sql = \"\"\"\n    anew\n    \"\"\"\n    # anew\n";
        let lines: Vec<_> = found("a.py", text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 4, 9]);
    }

    #[test]
    fn what_was_applied_to_databases_is_left_alone() {
        assert_eq!(found("crates/a/src/migrations/V1__init.sql", "-- so many rows"), []);
        assert_eq!(found("crates/a/src/sql/append.sql", "-- so many rows"), one(1, "so many"));
    }
}
