//! Reading JSON without losing a number.
//!
//! `serde_json` turns an integer beyond 64 bits into a float without a word. Everything that comes in as
//! text therefore passes [`from_str`] or [`from_slice`], which look at the raw numbers first.

use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::Value;

use crate::error::{Error, Result};

/// How many levels of arrays and objects a value may have, so that it can still be read inside an event.
pub const MAX_DEPTH: usize = 100;

/// Reads a value from JSON text, refusing what could not be given back exactly.
///
/// ```
/// use scratchbook::{ErrorKind, json};
///
/// let n: u64 = json::from_str("18446744073709551615")?;
/// assert_eq!(n, u64::MAX);
/// let error = json::from_str::<serde_json::Value>("18446744073709551616").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// # Ok::<(), scratchbook::Error>(())
/// ```
///
/// # Errors
///
/// `InvalidArgument` for malformed JSON, for a shape that is not `T`'s, for an integer beyond 64 bits and for
/// a float beyond `f64`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T> {
    from_slice(text.as_bytes())
}

/// Reads a value from JSON bytes; see [`from_str`].
///
/// # Errors
///
/// As [`from_str`]; bytes that are not UTF-8 are `InvalidArgument` too.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let parsed = serde_json::from_slice(bytes).map_err(|e| Error::invalid(format!("malformed JSON: {e}")))?;
    check_integers(bytes)?;
    Ok(parsed)
}

/// Finds integers that `serde_json` would read as floats, in text that it has accepted.
fn check_integers(bytes: &[u8]) -> Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let start = at;
                let mut integer = true;
                while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
                    integer &= !matches!(bytes[at], b'.' | b'e' | b'E');
                    at += 1;
                }
                if integer {
                    check_integer(&bytes[start..at])?;
                }
            }
            _ => at += 1,
        }
    }
    Ok(())
}

fn end_of_string(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn check_integer(digits: &[u8]) -> Result<()> {
    // 18 digits and a sign fit i64 whatever they are.
    if digits.len() <= 18 {
        return Ok(());
    }
    let text = String::from_utf8_lossy(digits);
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the integer {text} does not fit 64 bits; send it as a string, or as a float such as {text}.0"
    )))
}

/// Refuses a value that is nested deeper than it could be read back.
pub(crate) fn check_depth(value: &Value, what: impl Fn() -> String) -> Result<()> {
    fn fits(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|v| fits(v, levels - 1)),
            Value::Object(map) => levels > 0 && map.values().all(|v| fits(v, levels - 1)),
            _ => true,
        }
    }
    if fits(value, MAX_DEPTH) {
        return Ok(());
    }
    Err(Error::invalid(format!("{} is nested deeper than {MAX_DEPTH} levels", what())))
}

/// Refuses JSON text of ours that `serde_json` would not read back for its depth.
pub(crate) fn check_text_depth(text: &str, what: &str) -> Result<()> {
    // serde_json stops at 128 levels.
    const LIMIT: usize = 127;
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > LIMIT {
            return Err(Error::invalid(format!("{what} is nested deeper than {LIMIT} levels")));
        }
        at += 1;
    }
    Ok(())
}

/// Reads a field that is an object. Serde alone would take an array for one, its fields in their order.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|object| object.0)
}

/// Reads a field that is an object, `null` or absent.
pub(crate) fn optional_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let object: Option<Object<T>> = Option::deserialize(deserializer)?;
    Ok(object.map(|object| object.0))
}

/// Reads a field that is a list of objects, `null` or absent.
pub(crate) fn optional_objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let objects: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|object| object.0).collect()))
}

struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(MapsOnly(deserializer)).map(Object)
    }
}

/// Gives a struct that asks for its fields a map of them, and nothing else.
struct MapsOnly<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for MapsOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_64_bits_are_read_exactly_and_larger_ones_refused() {
        for good in ["0", "-0", "9223372036854775807", "-9223372036854775808", "18446744073709551615"] {
            from_str::<Value>(good).unwrap();
        }
        for bad in ["18446744073709551616", "-9223372036854775809", "{\"a\":[123456789012345678901]}"] {
            assert!(from_str::<Value>(bad).is_err(), "{bad}");
        }
        from_str::<Value>("{\"18446744073709551616\":\"x \\\" 18446744073709551616\"}").unwrap();
        from_str::<Value>("[1e300, 12345678901234567890123.0]").unwrap();
        assert!(from_str::<Value>("1e400").is_err());
        assert!(from_str::<Value>("NaN").is_err());
    }

    #[test]
    fn floats_come_back_bit_for_bit() {
        for x in [0.1, -0.0, 1.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1_795_194_011.590_056_7] {
            let text = serde_json::to_string(&x).unwrap();
            assert_eq!(from_str::<f64>(&text).unwrap().to_bits(), x.to_bits(), "{text}");
        }
    }
}
