//! Reads some text fields of a JSON object and skips the rest.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserializer, de};

use super::describe;
use crate::error::{Error, Result};

/// A field of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Field<'a> {
    /// The field is absent.
    #[default]
    Absent,
    /// The field is a string.
    Text(Cow<'a, str>),
    /// The field is a value of another kind.
    Other,
}

impl<'a> Field<'a> {
    /// Returns this field if it is present, otherwise the other one: for a name with two spellings.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self == Self::Absent { other } else { self }
    }

    /// Copies the text, so that it no longer borrows from the input.
    #[must_use]
    pub fn into_owned(self) -> Field<'static> {
        match self {
            Self::Absent => Field::Absent,
            Self::Text(text) => Field::Text(Cow::Owned(text.into_owned())),
            Self::Other => Field::Other,
        }
    }

    /// Returns the text, if the field is a string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads the fields with these names from a JSON object, and builds nothing else. If a name occurs twice, the last one
/// counts, as for [`Value`](serde_json::Value). All fields of a value that is not an object are
/// [`Absent`](Field::Absent).
///
/// ```
/// use scratchbook::json;
///
/// let [app, user] = json::texts(br#"{"appName": "shop", "rest": [1, 2, 3]}"#, ["appName", "userId"])?;
/// assert_eq!((app.text(), user.text()), (Some("shop"), None));
/// # Ok::<(), scratchbook::Error>(())
/// ```
///
/// # Errors
///
/// `InvalidArgument` for invalid JSON.
pub fn texts<'a, const N: usize>(bytes: &'a [u8], names: [&str; N]) -> Result<[Field<'a>; N]> {
    let mut found = [const { Field::Absent }; N];
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = reader.deserialize_any(FieldsVisitor { names: &names, found: &mut found });
    read.and_then(|()| reader.end()).map_err(|e| Error::invalid(describe(&e)))?;
    Ok(found)
}

struct FieldsVisitor<'f, 'n, 'a> {
    names: &'n [&'n str],
    found: &'f mut [Field<'a>],
}

impl<'a> Visitor<'a> for FieldsVisitor<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(place) = fields.next_key_seed(Name(self.names))? {
            match place.and_then(|place| self.found.get_mut(place)) {
                Some(found) => *found = fields.next_value_seed(TextVisitor)?,
                None => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, items: A) -> Result<(), A::Error> {
        IgnoredAny.visit_seq(items).map(drop)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads a name and returns its index in this list.
struct Name<'n>(&'n [&'n str]);

impl<'a> DeserializeSeed<'a> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|known| *known == name))
    }
}

/// A string as in the JSON, or an error if the value is not a string.
struct TextVisitor;

impl<'a> DeserializeSeed<'a> for TextVisitor {
    type Value = Field<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Field<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for TextVisitor {
    type Value = Field<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'a str) -> Result<Field<'a>, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Field<'a>, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Field<'a>, E> {
        Ok(Field::Other)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Field<'a>, E> {
        Ok(Field::Other)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Field<'a>, E> {
        Ok(Field::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Field<'a>, E> {
        Ok(Field::Other)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Field<'a>, E> {
        Ok(Field::Other)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, items: A) -> Result<Field<'a>, A::Error> {
        IgnoredAny.visit_seq(items).map(|_| Field::Other)
    }

    fn visit_map<A: MapAccess<'a>>(self, fields: A) -> Result<Field<'a>, A::Error> {
        IgnoredAny.visit_map(fields).map(|_| Field::Other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns the expected field, computed from the whole text.
    fn whole(text: &str, name: &str) -> Field<'static> {
        match serde_json::from_str::<Value>(text).unwrap().get(name) {
            None => Field::Absent,
            Some(Value::String(text)) => Field::Text(Cow::Owned(text.clone())),
            Some(_) => Field::Other,
        }
    }

    #[test]
    fn a_name_has_what_the_whole_text_has_under_it() {
        for text in [
            r#"{"a":"x","b":[{"a":"no"}],"c":{"b":"no"}}"#,
            r#"{"a":"x","a":"y"}"#,
            r#"{"a":"x","a":null,"b":1.5,"b":"\u00e9\n"}"#,
            r#"{"\u0061":"esc\"aped","b":true,"c":-1}"#,
            r#"{}"#,
            r#"[{"a":"x"},"a"]"#,
            r#""a""#,
            "null",
            " 1 ",
        ] {
            let found = texts(text.as_bytes(), ["a", "b"]).unwrap();
            assert_eq!(found, ["a", "b"].map(|name| whole(text, name)), "{text}");
        }
        for bad in ["", "{", r#"{"a":"x""#, r#"{"a":"x"} 1"#, r#"{"a":"\ud800"}"#, "nul"] {
            assert!(texts(bad.as_bytes(), ["a"]).is_err(), "{bad}");
        }
    }
}
