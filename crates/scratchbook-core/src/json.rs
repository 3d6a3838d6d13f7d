//! Reading JSON without changing a number.
//!
//! `serde_json` silently turns an integer beyond 64 bits into a float. All incoming text therefore passes [`from_str`]
//! or [`from_slice`], which check the raw numbers first.

mod length;
mod texts;
mod weight;

use std::borrow::Cow;
use std::ops::Range;
use std::{io, iter};

use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, forward_to_deserialize_any};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::ser::{Formatter, Serializer};

use crate::error::{Error, Result};

pub(crate) use length::text_length;
pub use texts::{Field, texts};
pub use weight::Weight;

/// The maximum number of levels of arrays and objects in a value, so that it can still be read inside an event.
pub const MAX_DEPTH: usize = 100;

/// Reads a value from JSON text and refuses numbers that would not survive a round trip.
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
/// `InvalidArgument` for malformed JSON, for a shape that does not match `T`, for an integer beyond 64 bits and for a
/// float beyond `f64`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T> {
    from_slice(text.as_bytes())
}

/// Reads a value from JSON bytes; see [`from_str`].
///
/// # Errors
///
/// As [`from_str`]; also `InvalidArgument` for bytes that are not UTF-8.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let parsed = serde_json::from_slice(bytes).map_err(|e| Error::invalid(describe(&e)))?;
    check_numbers(bytes)?;
    Ok(parsed)
}

/// Describes an error in JSON and its place, without the value at that place, which may be a secret.
#[doc(hidden)]
pub fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match error.classify() {
        Category::Data => format!("JSON of another shape: {}", without_value(&text)),
        _ => format!("malformed JSON: {text}"),
    }
}

/// Removes quoted values from a message: `invalid type: string "hunter2", expected u64 at ...`.
fn without_value(text: &str) -> String {
    let quotes = |part: &str| part.find(['"', '`']).map(|at| part[..at].trim_end().to_owned());
    match (text.starts_with("invalid "), text.rfind(", expected")) {
        (true, Some(end)) => {
            let kind = quotes(&text[..end]).unwrap_or_else(|| text[..end].to_owned());
            format!("{kind}{}", &text[end..])
        }
        _ => text.to_owned(),
    }
}

/// Begins the strings that [`read_marked`] puts in place of numbers.
const MARK: &str = "\u{e000}number:";

/// Reads a value from JSON text, with a marked string in place of each number that would not survive. A model's answer
/// is read in this way: a call with such a number is refused, and the rest of the answer counts.
///
/// # Errors
///
/// `InvalidArgument` for malformed JSON.
#[doc(hidden)]
pub fn read_marked(text: &str) -> Result<Value> {
    let mut marked = String::new();
    let mut copied = 0;
    for number in numbers(text.as_bytes()) {
        if check_number(&text.as_bytes()[number.clone()]).is_err() {
            marked.push_str(&text[copied..number.start]);
            marked.extend(["\"", MARK, &text[number.clone()], "\""]);
            copied = number.end;
        }
    }
    marked.push_str(&text[copied..]);
    serde_json::from_str(&marked).map_err(|e| Error::invalid(describe(&e)))
}

/// Replaces the strings that [`read_marked`] has marked by the digits of their numbers. Returns why the first of these
/// numbers was refused.
#[doc(hidden)]
pub fn unmark(value: &mut Value) -> Option<Error> {
    match value {
        Value::String(text) => {
            let error = check_number(text.strip_prefix(MARK)?.as_bytes()).err()?;
            text.drain(..MARK.len());
            Some(error)
        }
        Value::Array(items) => items.iter_mut().filter_map(unmark).reduce(|first, _| first),
        Value::Object(fields) => fields.values_mut().filter_map(unmark).reduce(|first, _| first),
        _ => None,
    }
}

/// Refuses numbers that `serde_json` would change, in text that it has accepted.
fn check_numbers(bytes: &[u8]) -> Result<()> {
    numbers(bytes).try_for_each(|number| check_number(&bytes[number]))
}

/// Returns the places of the numbers in JSON text.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let in_number = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
    let mut at = 0;
    iter::from_fn(move || {
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at = end_of_string(bytes, at),
                b'-' | b'0'..=b'9' => {
                    let start = at;
                    at += bytes[at..].iter().take_while(|byte| in_number(byte)).count();
                    return Some(start..at);
                }
                _ => at += 1,
            }
        }
        None
    })
}

fn check_number(digits: &[u8]) -> Result<()> {
    let is_integer = !digits.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    // 18 digits and a sign always fit i64.
    if is_integer && digits.len() <= 18 && digits != b"-0" {
        return Ok(());
    }
    let digits = String::from_utf8_lossy(digits);
    if is_integer { check_integer(&digits) } else { check_float(&digits) }
}

fn end_of_string(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn check_integer(digits: &str) -> Result<()> {
    if digits == "-0" {
        return Err(Error::invalid("the integer -0 would become a float; send 0, or -0.0"));
    }
    if digits.parse::<i64>().is_ok() || digits.parse::<u64>().is_ok() {
        return Ok(());
    }
    let count = digits.trim_start_matches('-').len();
    Err(Error::invalid(format!("an integer of {count} digits does not fit 64 bits; send it as a string or as a float")))
}

/// Refuses a decimal that would be read as infinity, or as zero although its digits are not zero. Any other decimal is
/// read as the nearest float.
fn check_float(digits: &str) -> Result<()> {
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'));
    match digits.parse::<f64>() {
        Ok(float) if float.is_finite() && (float != 0.0 || is_zero) => Ok(()),
        _ => Err(Error::invalid("a float is too large or too small for 64 bits; send it as a string")),
    }
}

/// Refuses a value that is nested too deeply to be read back.
pub(crate) fn check_depth(value: &Value, what: impl Fn() -> String) -> Result<()> {
    check_levels(value, MAX_DEPTH, what)
}

/// Refuses a value that is nested too deeply to be an item of a list.
pub(crate) fn check_item_depth(value: &Value, what: impl Fn() -> String) -> Result<()> {
    check_levels(value, MAX_DEPTH - 1, what)
}

#[doc(hidden)]
pub fn check_levels(value: &Value, levels: usize, what: impl Fn() -> String) -> Result<()> {
    fn fits(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|v| fits(v, levels - 1)),
            Value::Object(map) => levels > 0 && map.values().all(|v| fits(v, levels - 1)),
            _ => true,
        }
    }
    if fits(value, levels) {
        return Ok(());
    }
    Err(Error::invalid(format!("{} is nested deeper than {levels} levels", what())))
}

/// Converts a snake_case name to the camelCase of proto-JSON.
#[doc(hidden)]
pub fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut chars = word.chars();
        camel.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(chars.as_str());
    }
    camel
}

/// A writer that only counts bytes.
#[derive(Debug, Default)]
pub struct ByteCount(pub u64);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the length of a value as JSON text, in bytes, without building the text.
///
/// ```
/// use scratchbook::json;
/// use serde_json::json;
///
/// assert_eq!(json::bytes_of(&json!({"k": [1, 2]})), 11);
/// ```
pub fn bytes_of(value: &(impl Serialize + ?Sized)) -> u64 {
    let mut count = ByteCount::default();
    // A value that cannot be serialized is reported when it is written.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Returns the length of a value as JSON text, in bytes. Counting stops when the length exceeds `most`; the result is
/// then `None`.
///
/// ```
/// use scratchbook::json;
///
/// assert_eq!(json::bytes_up_to("four", 6), Some(6));
/// assert_eq!(json::bytes_up_to("fives", 6), None);
/// ```
pub fn bytes_up_to(value: &(impl Serialize + ?Sized), most: u64) -> Option<u64> {
    let mut count = CountUpTo { count: ByteCount::default(), most };
    serde_json::to_writer(&mut count, value).ok().map(|()| count.count.0)
}

/// A writer that counts bytes and fails above a maximum.
struct CountUpTo {
    count: ByteCount,
    most: u64,
}

impl io::Write for CountUpTo {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.count.write(bytes)?;
        if self.count.0 > self.most { Err(io::ErrorKind::WriteZero.into()) } else { Ok(written) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes the characters of JSON text at which some clients end a line although JSON does not: U+0085, U+2028 and
/// U+2029. For lines of JSON and for server-sent events.
///
/// ```
/// use scratchbook::json;
///
/// let text = serde_json::to_vec("one\u{2028}two\u{85}")?;
/// assert_eq!(*json::escape_line_ends(&text), *br#""one\u2028two\u0085""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn escape_line_ends(text: &[u8]) -> Cow<'_, [u8]> {
    // Their encodings begin with these bytes, and most texts have neither.
    if !text.iter().any(|byte| matches!(byte, 0xc2 | 0xe2)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = Vec::with_capacity(text.len() + 8);
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let (escape, length) = match rest {
            [0xc2, 0x85, ..] => (b"\\u0085", 2),
            [0xe2, 0x80, 0xa8, ..] => (b"\\u2028", 3),
            [0xe2, 0x80, 0xa9, ..] => (b"\\u2029", 3),
            _ => {
                escaped.push(*first);
                rest = after;
                continue;
            }
        };
        escaped.extend_from_slice(escape);
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(escaped)
}

/// Serializes one of our types to JSON text, no deeper than `serde_json` can read.
#[doc(hidden)]
pub fn to_text(value: &(impl Serialize + ?Sized), what: &str) -> Result<String> {
    let mut text = Vec::with_capacity(256);
    write(value, &mut text, what)?;
    String::from_utf8(text).map_err(|e| Error::internal("JSON that is not UTF-8").with_source(e))
}

fn write(value: &(impl Serialize + ?Sized), to: impl io::Write, what: &str) -> Result<()> {
    let mut serializer = Serializer::with_formatter(to, Bounded { depth: 0 });
    value.serialize(&mut serializer).map_err(|e| match e.classify() {
        Category::Io => Error::invalid(format!("{what} is nested deeper than {MAX_TEXT_DEPTH} levels")),
        _ => Error::internal(format!("{what} cannot be written as JSON")).with_source(e),
    })
}

/// serde_json reads at most 127 levels.
const MAX_TEXT_DEPTH: usize = 127;

/// A formatter of compact JSON. It fails if the text would be too deep to be read back, which also keeps deep values
/// from overflowing the stack.
struct Bounded {
    depth: usize,
}

impl Bounded {
    fn enter(&mut self) -> io::Result<()> {
        self.depth += 1;
        if self.depth > MAX_TEXT_DEPTH { Err(io::Error::other("too deep")) } else { Ok(()) }
    }
}

impl Formatter for Bounded {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }
}

/// Reads a field that is an object. Serde alone would also accept an array of the fields in order.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    StrictObject::deserialize(deserializer).map(|object| object.0)
}

/// Reads a field that is an object, `null` or absent: for `#[serde(deserialize_with)]`. Serde alone would also accept
/// an array of a struct's fields in order.
///
/// # Errors
///
/// The deserializer's errors, for any other value.
pub fn optional_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let object: Option<StrictObject<T>> = Option::deserialize(deserializer)?;
    Ok(object.map(|object| object.0))
}

/// Reads a field that is a list of objects, `null` or absent.
pub(crate) fn optional_objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let objects: Option<Vec<StrictObject<T>>> = Option::deserialize(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|object| object.0).collect()))
}

pub(crate) struct StrictObject<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for StrictObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(MapsOnly(deserializer)).map(StrictObject)
    }
}

/// A deserializer that only accepts maps for structs.
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
        for good in ["0", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551615"] {
            from_str::<Value>(good).unwrap();
        }
        for bad in ["18446744073709551616", "-9223372036854775809", "{\"a\":[123456789012345678901]}"] {
            assert!(from_str::<Value>(bad).is_err(), "{bad}");
        }
        from_str::<Value>("{\"18446744073709551616\":\"x \\\" 18446744073709551616\"}").unwrap();
        from_str::<Value>("[1e300, 12345678901234567890123.0]").unwrap();
        for bad in ["1e400", "1e-400", "-0", "[-0]"] {
            assert!(from_str::<Value>(bad).is_err(), "{bad}");
        }
        from_str::<Value>("[0.0, -0.0, 0e5, 0.000, 5e-324]").unwrap();
        assert!(from_str::<Value>("NaN").is_err());
    }

    #[test]
    fn numbers_that_do_not_fit_are_marked_and_keep_their_digits() {
        let text = r#"{"a": [123456789012345678901, 7, "1e400"], "b": 1e400, "c": -0}"#;
        let mut value = read_marked(text).unwrap();
        let error = unmark(&mut value).unwrap();
        assert!(error.to_string().starts_with("an integer of 21 digits does not fit 64 bits"), "{error}");
        let digits = serde_json::json!({"a": ["123456789012345678901", 7, "1e400"], "b": "1e400", "c": "-0"});
        assert_eq!(value, digits);
        assert!(unmark(&mut value).is_none());
        assert!(read_marked("[1").is_err());
    }

    #[test]
    fn messages_show_no_value() {
        for text in [r#""hunter2""#, "\"hunter\\\"2, expected\"", "7.25", "true", r#"["hunter2"]"#, r#"{"a":1}"#] {
            let message = from_str::<u64>(text).unwrap_err().to_string();
            assert!(!message.contains("hunter") && !message.contains("7.25"), "{message}");
            assert!(message.contains("expected u64"), "{message}");
        }
        assert!(from_str::<Value>("[1,").unwrap_err().to_string().contains("line 1 column 3"));
    }

    #[test]
    fn what_is_too_deep_is_refused_and_not_overflowed() {
        let mut value = Value::Null;
        for _ in 0..2000 {
            value = Value::Array(vec![value]);
        }
        assert!(to_text(&value, "it").is_err());
        let mut shallow = Value::Null;
        for _ in 0..MAX_TEXT_DEPTH {
            shallow = Value::Array(vec![shallow]);
        }
        let text = to_text(&shallow, "it").unwrap();
        assert_eq!(from_str::<Value>(&text).unwrap(), shallow);
    }

    #[test]
    fn floats_come_back_bit_for_bit() {
        for x in [0.1, -0.0, 1.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1_795_194_011.590_056_7] {
            let text = serde_json::to_string(&x).unwrap();
            assert_eq!(from_str::<f64>(&text).unwrap().to_bits(), x.to_bits(), "{text}");
        }
    }
}
