//! Idioms that an engineer has to read twice, refused in comments, docstrings and Markdown.
//!
//! A text is read as words, so that it does not matter where its lines break. Code, strings and what stands in
//! backticks are not read.

use std::collections::BTreeMap;
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

/// How many places are left, by the beginnings of paths. The numbers only go down; a row at 0 is removed.
const LEFT: [(&str, usize); 6] =
    [("CHANGELOG.md", 4), ("README.md", 4), ("bindings/", 1), ("crates/", 325), ("docs/", 30), ("examples/", 3)];

/// One place in a text.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) words: String,
    pub(crate) better: &'static str,
}

/// What all files together come to.
#[derive(Default)]
pub(crate) struct Prose {
    places: BTreeMap<String, Vec<Place>>,
}

impl Prose {
    pub(crate) fn read(&mut self, path: &str, text: &str) {
        let found = places(path, text);
        if !found.is_empty() {
            self.places.insert(path.to_owned(), found);
        }
    }

    /// Every place in files whose path begins so, as lines for the reader.
    pub(crate) fn lines(&self, prefix: &str) -> Vec<String> {
        let files = self.places.iter().filter(|(path, _)| path.starts_with(prefix));
        let line =
            |path: &str, place: &Place| format!("{path}:{}: '{}'; better: {}", place.line, place.words, place.better);
        files.flat_map(|(path, places)| places.iter().map(move |place| line(path, place))).collect()
    }

    /// What breaks the rule: each place where none is left to be, or all of a prefix where there are more than before.
    pub(crate) fn breaches(&self) -> Vec<String> {
        self.breaches_over(&LEFT)
    }

    fn breaches_over(&self, left: &[(&str, usize)]) -> Vec<String> {
        let mut breaches = Vec::new();
        for (prefix, allowed) in left {
            let lines = self.lines(prefix);
            if lines.len() > *allowed {
                breaches.extend(lines.iter().cloned());
                breaches
                    .push(format!("{prefix}: {} idioms of LEFT in xtask/src/prose.rs, over {allowed}", lines.len()));
            }
        }
        let is_free = |path: &&String| !left.iter().any(|(prefix, _)| path.starts_with(prefix));
        breaches.extend(self.places.keys().filter(is_free).flat_map(|path| self.lines(path)));
        breaches
    }

    /// How many places are left, by folder; nothing if none are.
    pub(crate) fn summary(&self) -> Option<String> {
        let mut by_folder = BTreeMap::<&str, usize>::new();
        for (path, places) in &self.places {
            // A package of `crates/` by itself, anything else by the first name.
            let levels = if path.starts_with("crates/") { 2 } else { 1 };
            let end = path.match_indices('/').nth(levels - 1).map_or(path.len(), |(at, _)| at);
            *by_folder.entry(&path[..end]).or_default() += places.len();
        }
        let all: usize = by_folder.values().sum();
        let folders: Vec<_> = by_folder.iter().map(|(folder, count)| format!("{folder} {count}")).collect();
        (all > 0).then(|| format!("idioms left: {all} ({})", folders.join(", ")))
    }
}

/// The idioms in the prose of one file.
fn places(path: &str, text: &str) -> Vec<Place> {
    let words = words(&prose(path, text));
    let mut found = Vec::new();
    for at in 0..words.len() {
        found.extend(IDIOMS.iter().filter(|idiom| idiom.is_at(&words, at)).map(|idiom| Place {
            line: words[at].0,
            words:
                words[at..at + idiom.words.len()].iter().map(|(_, word)| word.as_str()).collect::<Vec<_>>().join(" "),
            better: idiom.better,
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
        places(path, text).into_iter().map(|place| (place.line, place.words)).collect()
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
    fn a_prefix_may_have_as_many_as_it_had_and_other_files_none() {
        let mut prose = Prose::default();
        prose.read("docs/a.md", "anew and anew");
        prose.read("b.md", "told");
        let breaches = prose.breaches_over(&[("docs/", 2)]);
        assert_eq!(breaches, ["b.md:1: 'told'; better: reported, returned, shown"]);
        assert_eq!(prose.breaches_over(&[("docs/", 1), ("b.md", 1)]).len(), 3);
        assert_eq!(prose.summary().unwrap(), "idioms left: 3 (b.md 1, docs 2)");
        assert_eq!(Prose::default().summary(), None);
    }
}
