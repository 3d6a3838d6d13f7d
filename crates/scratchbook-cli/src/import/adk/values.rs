//! Reads state from google-adk's databases. Python writes NaN, infinities and integers of any length into its JSON. The
//! state is therefore read key by key, and invalid keys are reported one by one.

use std::borrow::Cow;

use scratchbook::session::StateOwner;
use scratchbook::{Error, Scope, StateDelta, json};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::report::{ImportReport, RefusedRow};
use super::super::source::not_an_object;

/// A number out of range, which replaces NaN and infinities.
const OUT_OF_RANGE: &str = "1e9999";

/// The valid keys of a state, and the refused ones.
#[derive(Debug, Default)]
pub(super) struct Values {
    kept: Map<String, Value>,
    refused: Vec<(String, Error)>,
}

impl Values {
    /// Reads a session's own state.
    pub(super) fn of_session(text: &str) -> Result<Self, Error> {
        Self::read(text, |name| match Scope::split(name).0 {
            Scope::Session => Ok(Cow::Borrowed(name)),
            scope => {
                Err(Error::invalid(format!("the prefix '{}' makes it no key of the session's own", scope.prefix())))
            }
        })
    }

    /// Reads the state of a user or an app, whose names have no prefix.
    pub(super) fn of_owner(text: &str, owner: &StateOwner) -> Result<Self, Error> {
        let scope = if owner.user_id().is_some() { Scope::User } else { Scope::App };
        Self::read(text, |name| Ok(Cow::Owned(scope.key(name).into_owned())))
    }

    fn read(text: &str, key_of: impl Fn(&str) -> Result<Cow<'_, str>, Error>) -> Result<Self, Error> {
        let text = with_numbers(text);
        let raw: RawState =
            serde_json::from_str(&text).map_err(|e| Error::invalid(format!("its state: {}", not_an_object(&e))))?;
        let mut values = Self::default();
        for (name, text) in raw.0 {
            let value = key_of(&name).and_then(|key| read_value(&key, text.get()));
            match value {
                Ok(value) => drop(values.kept.insert(name, value)),
                Err(why) => values.refused.push((name, why)),
            }
        }
        Ok(values)
    }

    /// Returns the valid keys and the refused ones.
    pub(super) fn into_parts(self) -> (Map<String, Value>, Vec<(String, Error)>) {
        (self.kept, self.refused)
    }

    /// Reports the refused keys and returns the others.
    pub(super) fn report(self, whose: &str, report: &mut ImportReport) -> Map<String, Value> {
        for (name, why) in self.refused {
            report.refuse(RefusedRow::new(format!("key '{}' of {whose}", short(&name)), why));
        }
        self.kept
    }
}

/// Reads a value and checks it as a store would.
fn read_value(key: &str, text: &str) -> Result<Value, Error> {
    if text.contains(OUT_OF_RANGE) && has_no_number(text) {
        return Err(Error::invalid("it holds NaN or Infinity, which JSON has no form for"));
    }
    let value: Value = json::from_str(text)?;
    StateDelta::new().set(key, &value)?;
    Ok(value)
}

/// Truncates the name of a key for a message.
fn short(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(60) {
        Some((end, _)) => Cow::Owned(format!("{}...", &name[..end])),
        None => Cow::Borrowed(name),
    }
}

/// Returns whether a JSON text contains NaN or infinities outside of strings.
pub(super) fn has_no_number(text: &str) -> bool {
    matches!(with_numbers(text), Cow::Owned(_)) || outside(text).any(|(_, part)| part.contains(OUT_OF_RANGE))
}

/// Replaces `NaN`, `Infinity` and `-Infinity` outside of strings with a number that is refused as a value.
fn with_numbers(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !outside(text).any(|(_, part)| WORDS.iter().any(|word| part.contains(word))) {
        return Cow::Borrowed(text);
    }
    let (mut changed, mut end) = (String::with_capacity(text.len()), 0);
    for (start, part) in outside(text) {
        changed.push_str(&text[end..start]);
        changed.push_str(&WORDS.iter().fold(part.to_owned(), |part, word| part.replace(word, OUT_OF_RANGE)));
        end = start + part.len();
    }
    changed.push_str(&text[end..]);
    Cow::Owned(changed)
}

/// Returns the parts of a JSON text outside of strings, with their positions.
fn outside(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let start = at;
        let end = bytes[at..].iter().position(|byte| *byte == b'"').map_or(bytes.len(), |quote| at + quote);
        // Skip the following string.
        at = end + 1;
        while at < bytes.len() && bytes[at] != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        at += 1;
        Some((start, &text[start..end]))
    })
}

/// An object with unparsed values, in the order of its keys.
struct RawState(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for RawState {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> serde::de::Visitor<'de> for Entries {
            type Value = RawState;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of state keys")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<RawState, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(RawState(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_kept_takes_no_other_with_it() {
        let text = r#"{"a": 1, "nan": NaN, "in": [-Infinity, {"x": Infinity}], "big": 1180591620717411303424,
            "says": "NaN \" Infinity", "gone": "__ADK_SENTINEL_REMOVED__", "half": "\ud83d", "user:x": 1, "z": 0.1}"#;
        let values = Values::of_session(text).unwrap();
        assert_eq!(Value::from(values.kept), serde_json::json!({"a": 1, "says": "NaN \" Infinity", "z": 0.1}));
        let refused: Vec<_> = values.refused.iter().map(|(name, why)| (name.as_str(), why.to_string())).collect();
        let names: Vec<_> = refused.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["nan", "in", "big", "gone", "half", "user:x"]);
        assert!(refused[0].1.contains("NaN") && refused[1].1.contains("NaN"), "{refused:?}");
        assert!(refused[2].1.contains("22 digits"), "{refused:?}");
    }

    #[test]
    fn what_is_no_object_is_an_error_without_its_value() {
        for text in ["", "[]", "{\"a\": hunter2}", "\"hunter2\"", "{"] {
            let error = Values::of_session(text).unwrap_err();
            assert!(!error.to_string().contains("hunter"), "{error}");
        }
    }
}
