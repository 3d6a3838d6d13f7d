//! Instruction templates: parsed once, rendered for every model call.
//!
//! `{name}` and `{name?}` are replaced by state values, `{{name}}` is a literal `{name}`, and anything else in braces
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
/// let template = InstructionTemplate::parse("Write about {topic}{mood?}. Answer as {\"title\": ...}, not {{topic}}.");
/// let state = StateMap::from(json!({"topic": "friendship"}).as_object().unwrap().clone());
/// assert_eq!(template.render(&state)?, "Write about friendship. Answer as {\"title\": ...}, not {topic}.");
/// # Ok::<(), scratchbook::Error>(())
/// ```
///
/// | written | becomes |
/// |---|---|
/// | `{name}`, `{ user:name }` | the value; an error if the key is missing |
/// | `{name?}` | the value; nothing if the key is missing |
/// | `{user:profile.name?}`, `{items[0]}` | a part of the value; unchanged if the first key is missing |
/// | `{artifact.notes.txt}` | the artifact's text |
/// | `{{name}}`, `{{user:name?}}`, `{{some words}}` | `{name}`, `{user:name?}`, `{some words}` |
/// | `{{{x}}}` | `{`, the value, `}` |
/// | `${x}`, `${{x}}`, `\{x}` | unchanged |
/// | anything else in braces, such as `{"a": 1}`, `{{ x \| upper }}` or `{{}}`; a lone `}}` | unchanged |
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

/// Parses the text in one pass.
struct Parser<'a> {
    text: &'a str,
    segments: Vec<Segment>,
    /// Line and column, in characters, of the position up to which the parser has counted.
    line: usize,
    column: usize,
    counted: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, segments: Vec::new(), line: 1, column: 1, counted: 0 }
    }

    fn run(mut self) -> InstructionTemplate {
        let text = self.text;
        // Text before `done` is in the segments.
        let mut done = 0;
        let mut at = 0;
        while let Some(next) = text[at..].find('{') {
            let start = at + next;
            let opened = run_of(&text[start..], '{');
            let inside_at = start + opened;
            at = inside_at;
            let Some(len) = text[inside_at..].find(['{', '}']) else { break };
            let closed_at = inside_at + len;
            let inside = &text[inside_at..closed_at];
            // None if the brace that follows is another `{`.
            let closed = run_of(&text[closed_at..], '}');
            let is_verbatim = matches!(text[..start].bytes().last(), Some(b'$' | b'\\'));
            if closed == 0 || is_verbatim {
                continue;
            }
            // An odd number of braces holds a value, an even one a literal `{X}`; anything else is code.
            let target = parse_target(inside.trim());
            let is_literal = opened.is_multiple_of(2);
            let is_literal_text = closed >= 2 && (target.is_some() || is_words(inside));
            if (is_literal && !is_literal_text) || (!is_literal && target.is_none()) {
                continue;
            }
            // A placeholder has a brace of its own on each side. Of the others, each two with partners become one.
            let own = usize::from(!is_literal);
            let pairs = (opened / 2).min((closed - own) / 2);
            let from = inside_at - own - 2 * pairs;
            let to = closed_at + own + 2 * pairs;
            self.push_text(&text[done..from]);
            self.push_text(&"{".repeat(pairs));
            match target {
                Some((target, optional)) if !is_literal => {
                    let (line, column) = self.position(inside_at - 1);
                    let raw = text[inside_at - 1..=closed_at].to_owned();
                    self.segments.push(Segment::Placeholder(Placeholder { target, optional, raw, line, column }));
                }
                _ => self.push_text(inside),
            }
            self.push_text(&"}".repeat(pairs));
            done = to;
            at = to;
        }
        self.push_text(&text[done..]);
        InstructionTemplate { source: text.to_owned(), segments: self.segments }
    }

    fn push_text(&mut self, text: &str) {
        match self.segments.last_mut() {
            _ if text.is_empty() => {}
            Some(Segment::Text(before)) => before.push_str(text),
            _ => self.segments.push(Segment::Text(text.to_owned())),
        }
    }

    /// Returns line and column of a position, counted from 1, in characters. Counting continues from the last call.
    fn position(&mut self, at: usize) -> (usize, usize) {
        for c in self.text[self.counted..at].chars() {
            (self.line, self.column) = if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.counted = at;
        (self.line, self.column)
    }
}

/// Returns how many of these braces the text begins with.
fn run_of(text: &str, brace: char) -> usize {
    text.chars().take_while(|c| *c == brace).count()
}

/// Returns whether a text has words and spaces alone, such as `not a state variable`.
fn is_words(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().all(|c| c.is_whitespace() || unicode_ident::is_xid_continue(c))
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
        assert_eq!(
            render("{{user:profile.name?}} {{list[0]}} {{artifact.a b}}"),
            "{user:profile.name?} {list[0]} {artifact.a b}"
        );
        assert_eq!(render("{{ x }} {{two\nwords}} {{猫の手}} {{0}}"), "{ x } {two\nwords} {猫の手} {0}");
        assert_eq!(render("{{{x}} {{{x} {{x}}} {{{{x}}"), "{{X} {{X {x}} {{{x}");
        assert_eq!(render("{x}} and }}"), "X} and }}");
    }

    #[test]
    fn whatever_else_stands_in_braces_stays() {
        for text in [
            "${x} \\{x} ${{x}} \\{{x}}",
            r#"{"a": {"b": {"c": 1}}}"#,
            r#"{{"a": {{"b": 1}}}}"#,
            "{{a-b}} {{foo:bar}} {{ }} {{.x}} {{x()}} {{{a b}}} {{x}",
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

    /// Code of fourteen languages, as it appears in instructions.
    #[test]
    fn code_keeps_its_braces_unless_they_hold_a_name() {
        let state: StateMap = json!({"name": "N"}).as_object().unwrap().clone().into();
        for (template, expected) in [
            ("run: echo ${{ github.sha }} for {name}", "run: echo ${{ github.sha }} for N"),
            ("{{ user.name | upper }}", "{{ user.name | upper }}"),
            ("<p style={{color: 'red'}}/>", "<p style={{color: 'red'}}/>"),
            ("<b>{{ item.price }}</b>", "<b>{ item.price }</b>"),
            ("{{ .Values.image }}", "{{ .Values.image }}"),
            (r#"println!("{{}} {}", x)"#, r#"println!("{{}} {}", x)"#),
            (r"\frac{{a}}{{b}}", r"\frac{a}{b}"),
            ("{{{x.y}}}", "{{x.y}}"),
            ("int a[] = {{1,2},{3,4}};", "int a[] = {{1,2},{3,4}};"),
            (r#"f"{{{name}}}""#, r#"f"{N}""#),
            ("{{range .}}{{.}}{{end}}", "{{range .}}{{.}}{end}"),
            ("{{}}", "{{}}"),
            (r#"{"a": {"b": {"c": 1}}}"#, r#"{"a": {"b": {"c": 1}}}"#),
            (r#"{"k": {{name}}}"#, r#"{"k": {name}}"#),
        ] {
            assert_eq!(InstructionTemplate::parse(template).render(&state).unwrap(), expected, "{template}");
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
