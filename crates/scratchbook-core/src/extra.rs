//! Fields unknown to this version.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Fields of an object that are unknown to this version, by name, kept as received. They are written back with the
/// object, since a newer program may have written them.
///
/// It behaves like a [`Map`] but is smaller: an event has many of these objects, and nearly all have no unknown fields.
///
/// ```
/// use scratchbook::content::Part;
/// use serde_json::json;
///
/// let part: Part = serde_json::from_value(json!({"text": "hi", "newField": 7}))?;
/// assert_eq!(part.extra["newField"], 7);
/// assert_eq!(serde_json::to_value(&part)?, json!({"text": "hi", "newField": 7}));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ExtraFields(Option<Box<Map<String, Value>>>);

impl Deref for ExtraFields {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for ExtraFields {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for ExtraFields {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for ExtraFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<Map<String, Value>> for ExtraFields {
    fn from(fields: Map<String, Value>) -> Self {
        Self((!fields.is_empty()).then(|| Box::new(fields)))
    }
}

impl Serialize for ExtraFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.as_deref().into_iter().flatten())
    }
}

impl<'de> Deserialize<'de> for ExtraFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct ExtraVisitor;
        impl<'de> Visitor<'de> for ExtraVisitor {
            type Value = ExtraFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<ExtraFields, A::Error> {
                let mut extra = ExtraFields::default();
                while let Some((name, value)) = fields.next_entry()? {
                    extra.insert(name, value);
                }
                Ok(extra)
            }
        }
        deserializer.deserialize_map(ExtraVisitor)
    }
}

/// The unknown fields of one object, with a description of the object.
pub(crate) type Extra<'a> = (&'static str, &'a ExtraFields);

/// Refuses the first unknown field.
pub(crate) fn check_known<'a>(mut extras: impl Iterator<Item = Extra<'a>>) -> Result<()> {
    match extras.find_map(|(of, fields)| Some((of, fields.keys().next()?))) {
        None => Ok(()),
        Some((of, name)) => Err(Error::invalid(format!("unknown field {name:?} in '{of}': there is no such field"))),
    }
}
