//! Fields of a whole event that this version does not know of, inside its actions and its content: put aside when it is
//! read, and put back where they were when it is shown.

use serde::Deserialize;
use serde::de::value::Error as NoValue;
use serde::de::{Deserializer, Error as _, Visitor};
use serde_json::{Map, Value};

use crate::content::{
    Blob, CodeExecutionResult, Content, ExecutableCode, FileData, FunctionCall, FunctionResponse, Part,
};
use crate::event::{Event, EventActions, EventCompaction};

/// Under which name an event keeps them: places in the event, as JSON pointers, and the values there.
const KEPT: &str = "vertexFields";

/// What a part has in it, by name.
const OF_PART: [(&str, fn() -> &'static [&'static str]); 6] = [
    ("functionCall", names::<FunctionCall>),
    ("functionResponse", names::<FunctionResponse>),
    ("inlineData", names::<Blob>),
    ("fileData", names::<FileData>),
    ("executableCode", names::<ExecutableCode>),
    ("codeExecutionResult", names::<CodeExecutionResult>),
];

/// Takes what is not known out of a whole event, and keeps it beside.
pub(super) fn put_aside(event: &mut Map<String, Value>) {
    let mut found = Map::new();
    // A client's own field of this name is put aside like any that is not known.
    found.extend(event.shift_remove(KEPT).map(|value| (format!("/{KEPT}"), value)));
    if let Some(actions) = event.get_mut("actions") {
        take(actions, names::<EventActions>(), "/actions", &mut found);
        if let Some(compaction) = actions.get_mut("compaction") {
            take(compaction, names::<EventCompaction>(), "/actions/compaction", &mut found);
            if let Some(content) = either(compaction, "compactedContent") {
                take_of_content(content, "/actions/compaction/compactedContent", &mut found);
            }
        }
    }
    if let Some(content) = event.get_mut("content") {
        take_of_content(content, "/content", &mut found);
    }
    if !found.is_empty() {
        event.insert(KEPT.to_owned(), Value::Object(found));
    }
}

/// Puts what an event keeps beside back where it was.
pub(super) fn put_back(event: &Event, whole: &mut Value) {
    let Some(Value::Object(kept)) = event.extra().get(KEPT) else { return };
    if let Value::Object(whole) = &mut *whole {
        whole.shift_remove(KEPT);
    }
    for (place, value) in kept {
        let Some((object, name)) = place.rsplit_once('/') else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Object(object)) = whole.pointer_mut(object) {
            object.entry(name).or_insert_with(|| value.clone());
        }
    }
}

fn take_of_content(content: &mut Value, place: &str, found: &mut Map<String, Value>) {
    take(content, names::<Content>(), place, found);
    let parts = content.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten();
    for (number, part) in parts.enumerate() {
        let place = format!("{place}/parts/{number}");
        take(part, names::<Part>(), &place, found);
        for (name, known) in OF_PART {
            if let Some(inner) = either(part, name) {
                take(inner, known(), &format!("{place}/{name}"), found);
            }
        }
    }
}

fn take(object: &mut Value, known: &[&str], place: &str, found: &mut Map<String, Value>) {
    let Value::Object(object) = object else { return };
    if object.keys().all(|name| known.contains(&name.as_str())) {
        return;
    }
    for (name, value) in std::mem::take(object) {
        if known.contains(&name.as_str()) {
            object.insert(name, value);
        } else {
            found.insert(format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), value);
        }
    }
}

/// A field, in either spelling.
fn either<'a>(object: &'a mut Value, camel: &str) -> Option<&'a mut Value> {
    let object = object.as_object_mut()?;
    let name = object.keys().find(|name| super::message::is_either(camel, name))?.clone();
    object.get_mut(&name)
}

/// The names that a type reads, in both spellings. What refuses others tells them when it is asked for.
fn names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    struct Asked<'a>(&'a mut &'static [&'static str]);
    impl<'de> Deserializer<'de> for Asked<'_> {
        type Error = NoValue;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, NoValue> {
            *self.0 = fields;
            Err(NoValue::custom("the names alone are asked for"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
            Err(NoValue::custom("the names alone are asked for"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let mut found: &'static [&'static str] = &[];
    let _ = T::deserialize(Asked(&mut found));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_tell_their_names_in_both_spellings() {
        for name in ["parts", "role"] {
            assert!(names::<Content>().contains(&name), "{name}");
        }
        assert!(names::<EventActions>().contains(&"stateDelta") && names::<EventActions>().contains(&"state_delta"));
        for (name, known) in OF_PART {
            assert!(names::<Part>().contains(&name) && !known().is_empty(), "{name}");
        }
    }

    #[test]
    fn what_is_not_known_comes_back_where_it_was() {
        let sent = json!({"author": "a", "actions": {"stateDelta": {"new": 1}, "a/b~": 1, "compaction": {
                "startTimestamp": 1.0, "endTimestamp": 2.0, "new": [], "compactedContent": {"parts": [{"new": 2}]}}},
            "content": {"new": {}, "parts": [{"text": "x"}, {"functionCall": {"args": {"new": 1}, "new": null}, "n": 3}]},
            "vertexFields": {"/actions/escalate": true}});
        let mut known = sent.as_object().unwrap().clone();
        put_aside(&mut known);
        let event: Event = serde_json::from_value(known.into()).unwrap();
        assert_eq!(event.extra()[KEPT].as_object().unwrap().len(), 7);
        let mut back = serde_json::to_value(&event).unwrap();
        put_back(&event, &mut back);
        for place in ["/actions/a~1b~0", "/actions/compaction", "/content", "/vertexFields", "/actions/stateDelta"] {
            assert_eq!(back.pointer(place), sent.pointer(place), "{place}");
        }
        assert!(back["actions"].get("escalate").is_none());
    }
}
