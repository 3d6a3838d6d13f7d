//! Finds idioms that an engineer has to read twice, in comments, docstrings and Markdown.
//!
//! A text is read as words, so line breaks do not matter. Code, strings and text in backticks are not read.

use std::path::Path;

/// A run of words that is not allowed, and its replacement.
struct Idiom {
    /// The words in lower case. A word with `|` matches any of its parts.
    words: &'static [&'static str],
    /// The run is allowed if one of these words comes before it, because it then has another meaning.
    but_after: &'static [&'static str],
    /// The run is also allowed if one of these words comes after it.
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

/// Returns the idioms in the prose of one file, each as the rest of a line that begins with the path. Migrations are
/// not read: databases hold the checksums of their texts.
pub(crate) fn idioms(path: &str, text: &str) -> Vec<String> {
    if path.contains("/migrations/") {
        return Vec::new();
    }
    let words = words(&prose(path, text));
    let mut found = Vec::new();
    for at in 0..words.len() {
        let here = IDIOMS.iter().filter(|idiom| idiom.is_at(&words, at));
        found.extend(here.map(|idiom| idiom.breach(&words[at..])));
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

    fn breach(&self, found: &[(usize, String)]) -> String {
        let words: Vec<_> = found[..self.words.len()].iter().map(|(_, word)| word.as_str()).collect();
        format!(":{}: '{}'; better: {}", found[0].0, words.join(" "), self.better)
    }
}

/// Splits numbered lines into numbered words in lower case. Punctuation becomes an empty word, so no run crosses it.
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

/// Returns the numbered lines of prose in a file, without code and without the text in backticks.
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

/// Returns the text of a comment, which begins its line or follows code.
fn after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.trim_start().strip_prefix(mark).or_else(|| {
        let (code, rest) = line.split_once(&format!(" {mark} "))?;
        // The mark is a comment, and not part of a string.
        (code.matches('"').count() % 2 == 0).then_some(rest)
    })
}

/// Removes code, which is every second part between backticks.
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

    /// Returns the line and the words of each idiom that is found.
    fn found(path: &str, text: &str) -> Vec<String> {
        idioms(path, text).iter().map(|breach| breach.split_once("; ").unwrap().0.to_owned()).collect()
    }

    #[test]
    fn idioms_are_found_in_any_case_and_across_lines() {
        assert_eq!(found("a.md", "Whoever waits"), [":1: 'whoever'"]);
        assert_eq!(found("a.rs", "/// It is taken\n    /// up again then."), [":1: 'taken up again'"]);
        assert_eq!(found("a.rs", "let a = 1; // told by b"), [":1: 'told'"]);
        assert_eq!(found("a.sql", "-- so many rows"), [":1: 'so many'"]);
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
            assert!(found("a.md", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn code_strings_and_backticks_are_not_read() {
        assert!(found("a.rs", "let told = \"told\";\n/// `told` is code.\n/// ```\n/// told()\n/// ```").is_empty());
        assert_eq!(found("a.md", "```sh\ntold\n```\nanew"), [":4: 'anew'"]);
        assert!(found("a.rs", "/// is\nfn f() {}\n/// none").is_empty());
        assert!(found("a.json", "\"told\"").is_empty());
        assert!(found("src/migrations/V1.sql", "-- told").is_empty());
    }

    #[test]
    fn docstrings_of_python_are_read_and_other_strings_are_not() {
        let text = "def f():\n    \"\"\"Is told.\n\n    anew\n    \"\"\"\n    sql = \"\"\"\n    anew\n    \"\"\"\n    # anew\n";
        assert_eq!(found("a.py", text), [":2: 'told'", ":4: 'anew'", ":9: 'anew'"]);
    }
}
