//! Counts the events, parts and operations of a body before any of them is built.

use std::fmt;

use scratchbook::{Error, ErrorKind, Result};
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::limits::ServerLimits;

/// The shape of a body, which says what to count and where.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Nothing is counted.
    Any,
    /// An object with fields of interest.
    Fields(&'static [(&'static str, &'static Self)]),
    /// An object whose names are keys.
    Keys(&'static Self),
    /// A list whose items are counted.
    List(CountedItems, &'static Self),
}

/// The kind of items in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedItems {
    /// The events with which a session is created.
    Events,
    /// Parts of a content.
    Parts,
    /// Operations on keys. All operations of the body are counted together.
    Operations,
}

/// A part of a content.
pub(crate) static PART: Shape =
    Shape::Fields(&[("functionResponse", &FUNCTION_RESPONSE), ("function_response", &FUNCTION_RESPONSE)]);

static FUNCTION_RESPONSE: Shape = Shape::Fields(&[("parts", &Shape::List(CountedItems::Parts, &Shape::Any))]);

/// A content.
pub(crate) static CONTENT: Shape = Shape::Fields(&[("parts", &Shape::List(CountedItems::Parts, &PART))]);

/// An event.
pub(crate) static EVENT: Shape = Shape::Fields(&[("content", &CONTENT), ("actions", &ACTIONS)]);

static ACTIONS: Shape = Shape::Fields(&[("compaction", &COMPACTION)]);

static COMPACTION: Shape = Shape::Fields(&[("compactedContent", &CONTENT), ("compacted_content", &CONTENT)]);

/// An event in the form of Agent Engine.
pub(crate) static SESSION_EVENT: Shape =
    Shape::Fields(&[("content", &CONTENT), ("actions", &ACTIONS), ("rawEvent", &EVENT), ("raw_event", &EVENT)]);

/// Operations by key.
pub(crate) static OPERATIONS: Shape = Shape::Keys(&Shape::List(CountedItems::Operations, &Shape::Any));

impl CountedItems {
    fn limit(self, limits: &ServerLimits) -> usize {
        match self {
            Self::Events => limits.body_events,
            Self::Parts => limits.body_parts,
            Self::Operations => limits.body_operations,
        }
    }

    fn refusal(self, limits: &ServerLimits) -> Error {
        let limit = self.limit(limits);
        let message = match self {
            Self::Events => format!(
                "the body has more than {limit} events, and body_events is {limit}; begin with fewer, and append the others"
            ),
            Self::Parts => format!(
                "a content in the body has more than {limit} parts, and body_parts is {limit}; join parts, or send \
                 several events"
            ),
            Self::Operations => format!(
                "the body has more than {limit} operations, and body_operations is {limit}; send several changes"
            ),
        };
        Error::new(ErrorKind::PayloadTooLarge, message)
    }
}

/// The memory, in bytes, that an event and its stored form take in addition to the event's values.
const EVENT_MEMORY: u64 = 2 << 10;

/// Refuses a body with too many items of one kind, and returns how much memory the counted items take in addition to
/// their values. The reader of a body later refuses it if it is not JSON or has another shape.
///
/// # Errors
///
/// `PayloadTooLarge` names the kind of item and its limit.
pub(super) fn check(bytes: &[u8], shape: &'static Shape, limits: &ServerLimits) -> Result<u64> {
    // An item with the comma after it has at least two bytes.
    let least = limits.body_events.min(limits.body_parts).min(limits.body_operations);
    if bytes.len() / 2 <= least || matches!(shape, Shape::Any) {
        return Ok(0);
    }
    let mut pass = CountPass { limits, operations: 0, events: 0, exceeded: None };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    drop(CountWalk { shape, pass: &mut pass }.deserialize(&mut reader));
    pass.exceeded.map_or(Ok(pass.events * EVENT_MEMORY), |counted| Err(counted.refusal(limits)))
}

struct CountPass<'a> {
    limits: &'a ServerLimits,
    /// The number of operations in all lists so far.
    operations: usize,
    events: u64,
    exceeded: Option<CountedItems>,
}

struct CountWalk<'a, 'p> {
    shape: &'static Shape,
    pass: &'p mut CountPass<'a>,
}

impl<'de> DeserializeSeed<'de> for CountWalk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.shape {
            Shape::Any => IgnoredAny::deserialize(deserializer).map(drop),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for CountWalk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(shape) = fields.next_key_seed(Below(self.shape))? {
            fields.next_value_seed(CountWalk { shape, pass: self.pass })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Shape::List(counted, shape) = self.shape else { return IgnoredAny.visit_seq(items).map(drop) };
        let before = if *counted == CountedItems::Operations { self.pass.operations } else { 0 };
        let mut count = before;
        while items.next_element_seed(CountWalk { shape, pass: self.pass })?.is_some() {
            count += 1;
            self.pass.events += u64::from(*counted == CountedItems::Events);
            if count > counted.limit(self.pass.limits) {
                self.pass.exceeded = Some(*counted);
                return Err(de::Error::custom("too many"));
            }
        }
        if *counted == CountedItems::Operations {
            self.pass.operations = count;
        }
        Ok(())
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

/// The shape below a name.
struct Below(&'static Shape);

impl<'de> DeserializeSeed<'de> for Below {
    type Value = &'static Shape;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static Shape, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Below {
    type Value = &'static Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<&'static Shape, E> {
        Ok(match self.0 {
            Shape::Fields(fields) => {
                fields.iter().find(|(known, _)| *known == name).map_or(&Shape::Any, |(_, shape)| *shape)
            }
            Shape::Keys(shape) => shape,
            Shape::Any | Shape::List(..) => &Shape::Any,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static APPEND: Shape = Shape::Fields(&[("event", &EVENT), ("operations", &OPERATIONS)]);
    static CREATE: Shape = Shape::Fields(&[("events", &Shape::List(CountedItems::Events, &EVENT))]);

    fn refused(shape: &'static Shape, body: &str) -> Option<String> {
        let limits = ServerLimits::default().with_body_events(2).with_body_parts(2).with_body_operations(3);
        let error = check(body.as_bytes(), shape, &limits).err()?;
        assert_eq!(error.kind(), ErrorKind::PayloadTooLarge);
        Some(error.to_string())
    }

    #[test]
    fn what_is_counted_is_refused_at_its_limit_wherever_it_stands() {
        for (shape, body, limit) in [
            (&CREATE, r#"{"events":[{},{},{}]}"#, "body_events is 2"),
            (&CREATE, r#"{"x":1,"events":[{"content":{"parts":[{},1,[]]}}]}"#, "body_parts is 2"),
            (&CREATE, r#"{"events":[1],"events":[{},{},{}"#, "body_events is 2"),
            (&APPEND, r#"{"event":{"actions":{"compaction":{"compacted_content":{"parts":[1,2,3]}}}}}"#, "body_parts"),
            (&APPEND, r#"{"event":{"content":{"parts":[{"functionResponse":{"parts":[1,2,3]}}]}}}"#, "body_parts"),
            (&APPEND, r#"{"operations":{"a":[1,2],"b":[3,4]}}"#, "body_operations is 3"),
            (&SESSION_EVENT, r#"{"rawEvent":{"content":{"parts":[{},{},{}]}}}"#, "body_parts is 2"),
        ] {
            let message = refused(shape, body).unwrap_or_default();
            assert!(message.contains(limit), "{body}: {message}");
        }
    }

    #[test]
    fn what_fits_and_what_is_something_else_is_for_the_reader() {
        for (shape, body) in [
            (&CREATE, r#"{"events":[{},{}],"state":{"events":[1,2,3],"parts":[1,2,3,4]}}"#),
            (&CREATE, r#"{"events":[{"content":{"parts":[1,2]}},{"content":{"parts":[1,2]}}]}"#),
            (&CREATE, r#"{"events":{"a":[1,2,3,4]}} trailing"#),
            (&CREATE, r#"[[1,2,3,4],{"events":[1,2,3]}]"#),
            (&CREATE, r#""events and more events""#),
            (&APPEND, r#"{"operations":{"a":[1],"b":[2],"c":[3]}}"#),
            (&APPEND, r#"{"event":{"actions":{"stateDelta":{"parts":[1,2,3,4]}}}}"#),
            (&APPEND, r#"{"operations":{"a":[1,2"#),
        ] {
            assert_eq!(refused(shape, body), None, "{body}");
        }
    }
}
