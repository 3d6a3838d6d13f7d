//! Estimates the size of JSON text before it is parsed.

use std::mem::size_of;

use serde_json::Value;

/// The minimum size of an allocation, with the allocator's overhead.
const ALLOCATION: u64 = 32;
/// An array allocates room for four values at first.
const ARRAY: u64 = 3 * VALUE + ALLOCATION;
/// A non-empty object: its table, and room for three entries.
const OBJECT: u64 = 512;
/// An empty object that is parsed as a part of a message. As a plain value, it needs no more than any other value.
const EMPTY_OBJECT: u64 = 256;
/// A name with its entry in an object, without the value.
const NAME: u64 = 32 + ALLOCATION;
const VALUE: u64 = size_of::<Value>() as u64;

/// The number of values in JSON text, their depth, and about how much memory they take once parsed.
///
/// The estimate takes one pass over the bytes, allocates nothing, and does not validate the text. For valid JSON the
/// counts are exact. For invalid text, they are at least the counts of the values that a parser builds before it finds
/// the error.
///
/// ```
/// use scratchbook::json::Weight;
///
/// let weight = Weight::of(br#"{"a": [1, {}], "b": "x"}"#);
/// assert_eq!((weight.values, weight.depth), (5, 3));
/// let many = Weight::of(format!("[{}0]", "{},".repeat(1000)).as_bytes());
/// assert!(many.memory > 1000 * 72, "three bytes of text are much more than three in memory");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Weight {
    /// Strings, numbers, literals, arrays and objects; names of objects are not counted.
    pub values: u64,
    /// The maximum nesting of arrays and objects.
    pub depth: u64,
    /// About how many bytes of memory the text takes as a [`Value`], or parsed as events and their parts.
    pub memory: u64,
}

/// An array or an object whose end has not been reached.
#[derive(Clone, Copy)]
enum OpenContainer {
    Array,
    Object,
}

impl Weight {
    /// Estimates the size of a text.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut weight = Self::default();
        let (mut depth, mut begun, mut rest) = (0_u64, None, bytes);
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            if matches!(first, b' ' | b'\t' | b'\n' | b'\r') {
                continue;
            }
            match (begun.take(), first) {
                (None, _) | (Some(OpenContainer::Array), b']') => {}
                (Some(OpenContainer::Object), b'}') => weight.memory += EMPTY_OBJECT,
                (Some(OpenContainer::Array), _) => weight.memory += ARRAY,
                (Some(OpenContainer::Object), _) => weight.memory += OBJECT,
            }
            match first {
                b'[' | b'{' => {
                    weight.values += 1;
                    depth += 1;
                    weight.depth = weight.depth.max(depth);
                    begun = Some(if first == b'[' { OpenContainer::Array } else { OpenContainer::Object });
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                b'"' => {
                    let length = string(rest);
                    rest = rest.get(length..).unwrap_or_default();
                    weight.values += 1;
                    weight.memory += ALLOCATION + length as u64;
                }
                // The string before it was a name.
                b':' => {
                    weight.values = weight.values.saturating_sub(1);
                    weight.memory += NAME;
                }
                b',' => {}
                _ => {
                    rest = rest.get(word(rest)..).unwrap_or_default();
                    weight.values += 1;
                }
            }
        }
        weight.memory += weight.values * VALUE;
        weight
    }
}

/// Returns the length in bytes of the rest of a string after its first quote, including the last quote.
fn string(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the length of the rest of a number or a literal, in bytes.
fn word(bytes: &[u8]) -> usize {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b",:\"[]{}".contains(byte);
    bytes.iter().position(ends).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the number and the depth of parsed values.
    fn built(value: &Value) -> (u64, u64) {
        let inner: Vec<_> = match value {
            Value::Array(items) => items.iter().map(built).collect(),
            Value::Object(map) => map.values().map(built).collect(),
            _ => return (1, 0),
        };
        let deepest = inner.iter().map(|(_, depth)| *depth).max().unwrap_or_default();
        (1 + inner.iter().map(|(values, _)| values).sum::<u64>(), 1 + deepest)
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_counts_are_those_of_what_is_built(value in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
            let weight = Weight::of(&text);
            prop_assert_eq!((weight.values, weight.depth), built(&value));
            prop_assert!(weight.memory >= weight.values * VALUE);
        }

        #[test]
        fn any_bytes_are_weighed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let weight = Weight::of(&bytes);
            prop_assert!(weight.values <= bytes.len() as u64 && weight.depth <= bytes.len() as u64);
        }
    }

    #[test]
    fn what_is_small_as_text_and_large_in_memory_weighs_what_it_takes() {
        for (text, least) in [("[]", VALUE), ("[1]", 5 * VALUE), ("{}", VALUE), ("{\"\":1}", 5 * VALUE)] {
            let many = format!("[{}]", vec![text; 1000].join(","));
            let memory = Weight::of(many.as_bytes()).memory;
            assert!((1000 * least..1000 * (least + 1000)).contains(&memory), "{text}: {memory}");
        }
    }
}
