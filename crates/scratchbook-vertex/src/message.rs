//! Reading a proto message in JSON field by field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use scratchbook_core::error::{Error, Result};

/// How unknown fields are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownFields {
    /// A server refuses them, because it cannot store what it does not know.
    Refused,
    /// A client ignores them.
    LeftOut,
}

/// The fields of a message that were sent, with their names in camelCase.
#[derive(Debug)]
pub(super) struct Message {
    place: &'static str,
    fields: Map<String, Value>,
}

impl Message {
    /// Reads a message with these fields. `place` is its name in errors.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the value is not an object, has a field twice, or has an unknown field although unknown
    /// fields are refused.
    pub(super) fn new(value: Value, place: &'static str, known: &[&str], unknown: UnknownFields) -> Result<Self> {
        let Value::Object(sent) = value else {
            return Err(Error::invalid(format!("{place} is no JSON object; send one")));
        };
        let mut fields = Map::new();
        for (name, value) in sent {
            let found = known.iter().find(|known| is_either(known, &name));
            let Some(known) = found else {
                if unknown == UnknownFields::LeftOut {
                    continue;
                }
                return Err(Error::invalid(format!("unknown name {name:?} at {place}: there is no such field")));
            };
            if !value.is_null() && fields.insert((*known).to_owned(), value).is_some() {
                return Err(Error::invalid(format!(
                    "{place} has the field '{known}' twice, in two spellings; send one"
                )));
            }
        }
        Ok(Self { place, fields })
    }

    /// Removes a field and returns its value as it was sent.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.shift_remove(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// Reads a string; an empty one counts as absent.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    /// Reads an object with any values.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(self.wrong(name, "an object")),
        }
    }

    /// Reads an object with strings as values.
    pub(super) fn texts(&mut self, name: &str) -> Result<Option<BTreeMap<String, String>>> {
        let Some(map) = self.object(name)? else { return Ok(None) };
        let text = |(key, value)| match value {
            Value::String(value) => Ok((key, value)),
            _ => Err(self.wrong(name, "an object of strings")),
        };
        map.into_iter().map(text).collect::<Result<_>>().map(Some)
    }

    fn wrong(&self, name: &str, right: &str) -> Error {
        Error::invalid(format!("'{name}' of {} is not {right}; send one", self.place))
    }
}

/// Returns a field of an object, in either spelling.
pub(super) fn either<'a>(object: &'a mut Value, camel: &str) -> Option<&'a mut Value> {
    object.as_object_mut()?.iter_mut().find_map(|(name, value)| is_either(camel, name).then_some(value))
}

/// Whether a name is a camelCase name, in either spelling.
pub(super) fn is_either(camel: &str, name: &str) -> bool {
    camel == name || is_snake_of(camel, name)
}

/// Whether a name is the snake_case form of a camelCase name.
fn is_snake_of(camel: &str, name: &str) -> bool {
    let mut rest = name.chars();
    let mut is_same = |c: char| match c.is_ascii_uppercase() {
        true => rest.next() == Some('_') && rest.next() == Some(c.to_ascii_lowercase()),
        false => rest.next() == Some(c),
    };
    camel.chars().all(&mut is_same) && rest.next().is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_known_in_both_spellings_and_sent_in_one() {
        let known = ["userId", "labels"];
        let read = |value| Message::new(value, "it", &known, UnknownFields::Refused);
        assert_eq!(read(json!({"user_id": "a"})).unwrap().text("userId").unwrap().as_deref(), Some("a"));
        assert_eq!(
            read(json!({"user_id": null, "userId": "a"})).unwrap().text("userId").unwrap().as_deref(),
            Some("a")
        );
        assert!(read(json!({"user_id": "a", "userId": "a"})).is_err());
        for unknown in ["userid", "user__id", "user_Id", "UserId", "user_id_", "userId_", "", "bogus"] {
            assert!(read(json!({ unknown: null })).is_err(), "{unknown}");
        }
        assert!(read(json!([])).is_err());
    }

    #[test]
    fn a_value_of_another_type_is_refused_and_not_shown() {
        let mut message = Message::new(json!({"a": {"x": 7.25}}), "it", &["a"], UnknownFields::Refused).unwrap();
        let error = message.texts("a").unwrap_err().to_string();
        assert!(error.contains("'a' of it") && !error.contains("7.25"), "{error}");
    }
}
