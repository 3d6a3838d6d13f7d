//! Instruction templates: parsed once, rendered for every model call.
//!
//! `{name}` and `{name?}` are replaced by state values, `{{ ... }}` is a literal `{ ... }`, and anything else in braces
//! (JSON, code, an unbalanced brace) is left unchanged. Inserted text is never scanned again.

use std::collections::BTreeMap;

use serde_json::Value;

use scratchbook_core::error::{Error, Result};
use scratchbook_core::state::{Scope, StateMap};

/// An instruction with placeholders.
///
/// ```
/// use scratchbook::agent::InstructionTemplate;
/// use scratchbook::StateMap;
/// use serde_json::json;
///
/// let template = InstructionTemplate::parse("Write about {topic}{mood?}. Answer as {{\"title\": ...}}.");
/// let state = StateMap::from(json!({"topic": "friendship"}).as_object().unwrap().clone());
/// assert_eq!(template.render(&state)?, "Write about friendship. Answer as {\"title\": ...}.");
/// # Ok::<(), scratchbook::Error>(())
/// ```
///
/// | written | becomes |
/// |---|---|
/// | `{name}`, `{ user:name }` | the value; an error if the key is missing |
/// | `{name?}` | the value; nothing if the key is missing |
/// | `{user:profile.name?}`, `{items[0]}` | a part of the value; unchanged if the first key is missing |
/// | `{artifact.notes.txt}` | the artifact's text |
/// | `{{ ... }}` | `{ ... }`; so `{{{x}}}` is `{`, the value, `}` |
/// | `${x}`, `\{x}` | unchanged |
/// | anything else in braces, a lone `}}` | unchanged |
///
/// A string is inserted as it is, `null` as nothing, and any other value as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct InstructionTemplate {
    source: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Text(String),
    Placeholder(Placeholder),
}

#[derive(Clone, Debug, PartialEq)]
struct Placeholder {
    target: PlaceholderTarget,
    optional: bool,
    /// The placeholder as it is written in the template, including its braces.
    raw: String,
    line: usize,
    column: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum PlaceholderTarget {
    Key { key: String, path: Vec<PathSegment> },
    Artifact(String),
}

#[derive(Clone, Debug, PartialEq)]
enum PathSegment {
    Field(String),
    Index(usize),
}

impl InstructionTemplate {
    /// Parses a template. Every text is a valid template: whatever is not a placeholder is plain text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Parser::new(text).run()
    }

    /// Returns the text of the template.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a template without artifacts, with values from a state.
    ///
    /// # Errors
    ///
    /// `NotFound` names a missing key, with its line and column; `FailedPrecondition` if the template uses an artifact.
    pub fn render(&self, state: &StateMap) -> Result<String> {
        self.render_with(|key| state.get(key).cloned(), None)
    }

    /// Returns the names of the artifacts that the template uses.
    pub(crate) fn artifact_names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Placeholder(Placeholder { target: PlaceholderTarget::Artifact(name), .. }) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Refuses a template that uses a secret key.
    pub(crate) fn refuse_keys(&self, is_secret: impl Fn(&str) -> bool) -> Result<()> {
        for segment in &self.segments {
            if let Segment::Placeholder(placeholder) = segment
                && let PlaceholderTarget::Key { key, .. } = &placeholder.target
                && is_secret(key)
            {
                let place = placeholder.place();
                let way = "leave it out, or allow it by RunConfig::with_secrets_in_templates";
                let message = format!("{place}: the key '{key}' is marked as secret; {way}");
                return Err(Error::new(scratchbook_core::error::ErrorKind::PermissionDenied, message));
            }
        }
        Ok(())
    }

    /// Renders the template with values from a lookup and texts of artifacts. `None` means that there is no artifact
    /// service.
    pub(crate) fn render_with(
        &self,
        lookup: impl Fn(&str) -> Option<Value>,
        artifacts: Option<&BTreeMap<String, String>>,
    ) -> Result<String> {
        let mut out = String::new();
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => out.push_str(text),
                Segment::Placeholder(placeholder) => match &placeholder.target {
                    PlaceholderTarget::Key { key, path } => {
                        placeholder.insert_value(&mut out, key, path, lookup(key))?;
                    }
                    PlaceholderTarget::Artifact(name) => placeholder.insert_artifact(&mut out, name, artifacts)?,
                },
            }
        }
        Ok(out)
    }
}

impl Placeholder {
    fn insert_value(&self, out: &mut String, key: &str, path: &[PathSegment], value: Option<Value>) -> Result<()> {
        let Some(value) = value else {
            if !path.is_empty() {
                out.push_str(&self.raw);
                return Ok(());
            }
            return self.missing(format!("the state has no key '{key}'"));
        };
        let mut found = Some(&value);
        for step in path {
            found = match (found, step) {
                (Some(Value::Object(map)), PathSegment::Field(name)) => map.get(name),
                (Some(Value::Array(items)), PathSegment::Index(index)) => items.get(*index),
                _ => None,
            };
        }
        match found {
            Some(Value::String(text)) => out.push_str(text),
            Some(Value::Null) => {}
            Some(other) => out.push_str(&other.to_string()),
            None => return self.missing(format!("the value of '{key}' has nothing at the path")),
        }
        Ok(())
    }

    fn insert_artifact(
        &self,
        out: &mut String,
        name: &str,
        artifacts: Option<&BTreeMap<String, String>>,
    ) -> Result<()> {
        let Some(artifacts) = artifacts else {
            let message = format!("{} asks for an artifact, but the runner has no artifact service", self.place());
            return Err(Error::new(scratchbook_core::error::ErrorKind::FailedPrecondition, message));
        };
        match artifacts.get(name) {
            Some(text) => out.push_str(text),
            None => return self.missing(format!("there is no artifact '{name}'")),
        }
        Ok(())
    }

    fn missing(&self, what: String) -> Result<()> {
        if self.optional {
            return Ok(());
        }
        let raw = self.raw.trim_start_matches('{').trim_end_matches('}').trim();
        Err(Error::not_found(format!("{}: {what}; set it before the run, or write {{{raw}?}}", self.place())))
    }

    fn place(&self) -> String {
        format!("the placeholder {} at line {}, column {}", self.raw, self.line, self.column)
    }
}

/// Parses the text in one pass. Opening braces stay on a stack until their closing brace is found.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    segments: Vec<Segment>,
    open: Vec<OpenBrace>,
    /// Line and column, in characters, of the position up to which the parser has counted.
    line: usize,
    column: usize,
    counted: usize,
}

/// An open brace.
enum OpenBrace {
    /// `{`, which is left unchanged.
    Single,
    /// `{{`, at this index in the segments. It becomes `{` when its partner is found.
    Double(usize),
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, segments: Vec::new(), open: Vec::new(), line: 1, column: 1, counted: 0 }
    }

    fn run(mut self) -> InstructionTemplate {
        while let Some(next) = self.text[self.at..].find(['{', '}']) {
            self.push_text(self.at, self.at + next);
            self.at += next;
            if self.text.as_bytes()[self.at] == b'{' { self.opening() } else { self.closing() }
        }
        self.push_text(self.at, self.text.len());
        InstructionTemplate { source: self.text.to_owned(), segments: join_texts(self.segments) }
    }

    fn push_text(&mut self, from: usize, to: usize) {
        if from < to {
            self.segments.push(Segment::Text(self.text[from..to].to_owned()));
        }
    }

    /// Handles a sequence of `{`.
    fn opening(&mut self) {
        let run = self.text[self.at..].bytes().take_while(|b| *b == b'{').count();
        let verbatim = matches!(self.text[..self.at].bytes().last(), Some(b'$' | b'\\'));
        if verbatim {
            self.push_text(self.at, self.at + run);
            self.open.extend((0..run).map(|_| OpenBrace::Single));
            self.at += run;
            return;
        }
        for _ in 0..run / 2 {
            self.open.push(OpenBrace::Double(self.segments.len()));
            self.segments.push(Segment::Text("{{".to_owned()));
            self.at += 2;
        }
        if run % 2 == 0 {
            return;
        }
        match self.placeholder() {
            Some((placeholder, end)) => {
                self.segments.push(Segment::Placeholder(placeholder));
                self.at = end;
            }
            None => {
                self.open.push(OpenBrace::Single);
                self.push_text(self.at, self.at + 1);
                self.at += 1;
            }
        }
    }

    /// Handles a `}`.
    fn closing(&mut self) {
        let double = self.text[self.at..].starts_with("}}");
        match self.open.last() {
            Some(OpenBrace::Single) => {
                self.open.pop();
            }
            Some(OpenBrace::Double(place)) if double => {
                self.segments[*place] = Segment::Text("{".to_owned());
                self.open.pop();
                self.push_text(self.at, self.at + 1);
                self.at += 2;
                return;
            }
            _ => {}
        }
        self.push_text(self.at, self.at + 1);
        self.at += 1;
    }

    /// Returns the placeholder that starts at a `{`, and the position where it ends.
    fn placeholder(&mut self) -> Option<(Placeholder, usize)> {
        let rest = &self.text[self.at + 1..];
        let len = rest.find(['{', '}'])?;
        if rest.as_bytes()[len] == b'{' {
            return None;
        }
        let (target, optional) = parse_target(rest[..len].trim())?;
        let end = self.at + 1 + len + 1;
        let (line, column) = self.position();
        let raw = self.text[self.at..end].to_owned();
        Some((Placeholder { target, optional, raw, line, column }, end))
    }

    /// Returns line and column of the parser's position, counted from 1, in characters. Counting continues from the
    /// last call.
    fn position(&mut self) -> (usize, usize) {
        for c in self.text[self.counted..self.at].chars() {
            (self.line, self.column) = if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.counted = self.at;
        (self.line, self.column)
    }
}

fn join_texts(segments: Vec<Segment>) -> Vec<Segment> {
    let mut joined: Vec<Segment> = Vec::new();
    for segment in segments {
        match (joined.last_mut(), segment) {
            (Some(Segment::Text(before)), Segment::Text(text)) => before.push_str(&text),
            (_, segment) => joined.push(segment),
        }
    }
    joined
}

/// Returns the target of a placeholder, and whether it is optional; `None` if the text is not a placeholder.
fn parse_target(inside: &str) -> Option<(PlaceholderTarget, bool)> {
    let (name, optional) = match inside.strip_suffix('?') {
        Some(name) => (name, true),
        None => (inside, false),
    };
    if let Some(artifact) = name.strip_prefix("artifact.") {
        return (!artifact.is_empty()).then(|| (PlaceholderTarget::Artifact(artifact.to_owned()), optional));
    }
    let (scope, rest) = Scope::split(name);
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (first, path) = rest.split_at(end);
    if !is_identifier(first) {
        return None;
    }
    let key = scope.key(first).into_owned();
    Some((PlaceholderTarget::Key { key, path: parse_path(path)? }, optional))
}

fn parse_path(mut rest: &str) -> Option<Vec<PathSegment>> {
    let mut path = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (field, next) = after.split_at(end);
            if !is_identifier(field) {
                return None;
            }
            path.push(PathSegment::Field(field.to_owned()));
            rest = next;
        } else {
            let (index, next) = rest.strip_prefix('[')?.split_once(']')?;
            if !index.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            path.push(PathSegment::Index(index.parse().ok()?));
            rest = next;
        }
    }
    Some(path)
}

/// Returns whether a name is a Python identifier: Unicode letters, digits and underscores, no digit first.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c == '_' || unicode_ident::is_xid_start(c));
    first && chars.all(unicode_ident::is_xid_continue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state() -> StateMap {
        let state = json!({
            "topic": "friendship", "x": "X", "n": 3, "yes": true, "nothing": null, "häuser": "H",
            "list": ["a", {"b": 1}], "user:profile": {"name": "Ada", "tags": []}, "app:v": 1.0,
            "temp:t": "T", "braces": "{x} {{y}}",
        });
        state.as_object().unwrap().clone().into()
    }

    fn render(text: &str) -> String {
        InstructionTemplate::parse(text).render(&state()).unwrap()
    }

    #[test]
    fn values_are_inserted_by_name() {
        assert_eq!(render("about {topic}."), "about friendship.");
        assert_eq!(render("{ topic } {topic?} {häuser}"), "friendship friendship H");
        assert_eq!(render("{n} {yes} {nothing} {list} {app:v} {temp:t}"), "3 true  [\"a\",{\"b\":1}] 1.0 T");
        assert_eq!(render("猫：{topic}に"), "猫：friendshipに");
    }

    #[test]
    fn paths_reach_into_values() {
        assert_eq!(render("{user:profile.name} {list[0]} {list[1].b}"), "Ada a 1");
        assert_eq!(render("{user:profile.age?}|{list[9]?}"), "|");
        assert_eq!(render("{gone.field} {gone.field?} {gone[0]}"), "{gone.field} {gone.field?} {gone[0]}");
        assert!(InstructionTemplate::parse("{user:profile.age}").render(&state()).is_err());
    }

    #[test]
    fn double_braces_are_literal_single_ones() {
        assert_eq!(render("{{x}} {{not a state variable}}"), "{x} {not a state variable}");
        assert_eq!(render("{{{x}}}"), "{X}");
        assert_eq!(render("{{{{x}}}}"), "{{x}}");
        assert_eq!(render(r#"{{"a": {{"b": {n}}}}}"#), r#"{"a": {"b": 3}}"#);
        assert_eq!(render(r#"{{"a": {"b": 1}}}"#), r#"{"a": {"b": 1}}"#);
        assert_eq!(render("{x}} and }}"), "X} and }}");
    }

    #[test]
    fn whatever_else_stands_in_braces_stays() {
        for text in [
            "${x} \\{x} ${{x}} \\{{x}}",
            r#"{"a": {"b": {"c": 1}}}"#,
            "{a-b} {} { } {a b} {foo:bar} {1a} {a ?} {x??} {app:} {x.} {x[} {x[-1]} {x[+1]}",
            "{{x} {{ to open. JSON: {\"a\":{\"b\":1}}",
            "fn main() { println!(\"{:?}\", x); }",
            "{",
            "}",
            "{{",
            "}}",
            "{{{",
            "}{",
            "{artifact.}",
        ] {
            assert_eq!(render(text), text);
        }
    }

    #[test]
    fn inserted_text_is_not_scanned_again() {
        assert_eq!(render("{braces}"), "{x} {{y}}");
    }

    #[test]
    fn hostile_text_is_parsed_in_one_pass() {
        let started = std::time::Instant::now();
        for text in ["{x}".repeat(300_000), "{".repeat(1_000_000), "{{".repeat(300_000) + &"}}".repeat(300_000)] {
            let _ = InstructionTemplate::parse(&text);
        }
        // With quadratic work, this would take minutes.
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }

    #[test]
    fn a_missing_key_is_named_with_its_place() {
        let error = InstructionTemplate::parse("one\ntwö {gone}").render(&state()).unwrap_err();
        assert_eq!(error.kind(), scratchbook_core::error::ErrorKind::NotFound);
        let message = error.to_string();
        for part in ["'gone'", "line 2", "column 5", "{gone?}"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(render("a{gone?}b"), "ab");
    }
}
