//! Fields of a whole event that this version does not know of, inside its actions and its content. A newer server or client
//! may send them at any time; who reads what others have written leaves them out.

use serde::Deserialize;
use serde::de::value::Error as NoValue;
use serde::de::{Deserializer, Error as _, Visitor};
use serde_json::{Map, Value};

use super::message::either;
use crate::content::{
    Blob, CodeExecutionResult, Content, ExecutableCode, FileData, FunctionCall, FunctionResponse, Part,
};
use crate::event::{EventActions, EventCompaction};

/// What becomes of fields that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// A server refuses them: what it does not know it cannot keep as it was meant.
    Refused,
    /// A client leaves them out.
    LeftOut,
}

/// The names of a type's fields.
type Names = fn() -> &'static [&'static str];

/// What a part has in it, by name.
const OF_PART: [(&str, Names); 6] = [
    ("functionCall", names::<FunctionCall>),
    ("functionResponse", names::<FunctionResponse>),
    ("inlineData", names::<Blob>),
    ("fileData", names::<FileData>),
    ("executableCode", names::<ExecutableCode>),
    ("codeExecutionResult", names::<CodeExecutionResult>),
];

/// Leaves what is not known out of a whole event. The event itself keeps it.
pub(super) fn leave_out(event: &mut Map<String, Value>) {
    if let Some(actions) = event.get_mut("actions") {
        keep(actions, names::<EventActions>());
        if let Some(compaction) = actions.get_mut("compaction") {
            keep(compaction, names::<EventCompaction>());
            if let Some(content) = either(compaction, "compactedContent") {
                of_content(content);
            }
        }
    }
    if let Some(content) = event.get_mut("content") {
        of_content(content);
    }
}

fn of_content(content: &mut Value) {
    keep(content, names::<Content>());
    for part in content.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
        keep(part, names::<Part>());
        for (name, known) in OF_PART {
            if let Some(inner) = either(part, name) {
                keep(inner, known());
            }
        }
    }
}

fn keep(object: &mut Value, known: &[&str]) {
    if let Value::Object(object) = object {
        object.retain(|name, _| known.contains(&name.as_str()));
    }
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
    fn what_is_not_known_is_left_out_wherever_it_is() {
        let mut sent = json!({"author": "a", "actions": {"stateDelta": {"new": 1}, "new": 1, "compaction": {
                "startTimestamp": 1.0, "endTimestamp": 2.0, "new": [], "compacted_content": {"parts": [{"new": 2}]}}},
            "content": {"new": {}, "parts": [{"text": "x"}, {"function_call": {"args": {"new": 1}, "new": null}, "n": 3}]}});
        let known = json!({"author": "a", "actions": {"stateDelta": {"new": 1}, "compaction": {
                "startTimestamp": 1.0, "endTimestamp": 2.0, "compacted_content": {"parts": [{}]}}},
            "content": {"parts": [{"text": "x"}, {"function_call": {"args": {"new": 1}}}]}});
        leave_out(sent.as_object_mut().unwrap());
        assert_eq!(sent, known);
        for odd in [json!({"actions": 1, "content": []}), json!({"content": {"parts": {"a": 1}}})] {
            let mut same = odd.clone();
            leave_out(same.as_object_mut().unwrap());
            assert_eq!(same, odd);
        }
    }
}
