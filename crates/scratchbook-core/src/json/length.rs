//! The length of a value's JSON text, without writing the text.
//!
//! Measuring takes a fraction of the time of writing, because a string is looked through and not copied.

use std::fmt;

use serde::Serialize;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::{MAX_TEXT_DEPTH, bytes_of};
use crate::error::{Error, Result};

/// Returns the length of one of our types as JSON text, in bytes, and refuses what [`to_text`](super::to_text) refuses.
pub(crate) fn text_length(value: &(impl Serialize + ?Sized), what: &str) -> Result<u64> {
    let mut length = Length { bytes: 0, depth: 0, strings: 0 };
    value.serialize(&mut length).map(|()| length.bytes).map_err(|failure| match failure {
        Failure::TooDeep => Error::invalid(format!("{what} is nested deeper than {MAX_TEXT_DEPTH} levels")),
        Failure::Other(_) => Error::internal(format!("{what} cannot be written as JSON")).with_source(failure),
    })
}

/// A serializer that only counts.
struct Length {
    bytes: u64,
    depth: usize,
    /// The number of strings so far.
    strings: u64,
}

#[derive(Debug)]
enum Failure {
    TooDeep,
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => f.write_str("too deep"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Failure {}

impl serde::ser::Error for Failure {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }
}

type Counted = Result<(), Failure>;

impl Length {
    fn add(&mut self, bytes: u64) -> Counted {
        self.bytes += bytes;
        Ok(())
    }

    fn integer(&mut self, magnitude: u64, sign: u64) -> Counted {
        self.add(u64::from(magnitude.checked_ilog10().unwrap_or_default()) + 1 + sign)
    }

    /// Begins an array or an object, whose brackets are counted at once.
    fn enter(&mut self) -> Counted {
        self.depth += 1;
        if self.depth > MAX_TEXT_DEPTH { Err(Failure::TooDeep) } else { self.add(2) }
    }

    fn inner(&mut self) -> Result<Inner<'_>, Failure> {
        self.enter()?;
        Ok(Inner { length: self, is_empty: true, closes: 0 })
    }

    /// Begins an object whose only field is a variant of an enum.
    fn variant(&mut self, name: &str) -> Counted {
        self.enter()?;
        self.serialize_str(name)?;
        self.add(1)
    }
}

/// An array or an object.
struct Inner<'l> {
    length: &'l mut Length,
    is_empty: bool,
    /// The number of enclosing objects that end together with this value.
    closes: usize,
}

impl Inner<'_> {
    /// Counts the comma before an item that is not the first.
    fn item<T: Serialize + ?Sized>(&mut self, item: &T) -> Counted {
        self.length.bytes += u64::from(!self.is_empty);
        self.is_empty = false;
        item.serialize(&mut *self.length)
    }

    fn name<T: Serialize + ?Sized>(&mut self, name: &T) -> Counted {
        let strings = self.length.strings;
        self.item(name)?;
        if self.length.strings == strings {
            return Err(Failure::custom("the name of a field is not a string"));
        }
        self.length.add(1)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Counted {
        self.name(name)?;
        value.serialize(&mut *self.length)
    }

    fn finish(self) -> Counted {
        self.length.depth -= 1 + self.closes;
        Ok(())
    }
}

/// Returns the length of a string as JSON.
fn string(text: &str) -> u64 {
    let (bytes, length) = (text.as_bytes(), text.len() as u64 + 2);
    if is_plain(bytes) {
        return length;
    }
    let more = bytes.iter().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        // `\u001b`, because these control characters have no letter.
        0..b' ' => 5,
        _ => 0,
    });
    length + more.sum::<u64>()
}

/// Whether no byte is escaped. Whole chunks are compared at once, and the last chunk overlaps the one before it.
fn is_plain(bytes: &[u8]) -> bool {
    fn is_plain<const N: usize>(chunk: &[u8; N]) -> bool {
        !chunk.iter().fold(false, |any, byte| any | (*byte < b' ') | (*byte == b'"') | (*byte == b'\\'))
    }
    match (bytes.last_chunk::<16>(), bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(last), _, _) => is_plain(last) && bytes.as_chunks::<16>().0.iter().all(is_plain),
        (None, Some(first), Some(last)) => is_plain(first) && is_plain(last),
        _ => bytes.iter().all(|byte| is_plain(&[*byte])),
    }
}

macro_rules! integers {
    ($($name:ident: $of:ty),*) => {$(
        fn $name(self, value: $of) -> Counted {
            // The magnitude of every integer of these types fits into 64 bits.
            #[allow(unused_comparisons, reason = "some of them have no sign")]
            let sign = u64::from(value < 0);
            self.integer((value as i128).unsigned_abs() as u64, sign)
        }
    )*};
}

impl<'l> Serializer for &'l mut Length {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Inner<'l>;
    type SerializeTuple = Inner<'l>;
    type SerializeTupleStruct = Inner<'l>;
    type SerializeTupleVariant = Inner<'l>;
    type SerializeMap = Inner<'l>;
    type SerializeStruct = Inner<'l>;
    type SerializeStructVariant = Inner<'l>;

    integers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_u8: u8,
        serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    fn serialize_bool(self, value: bool) -> Counted {
        self.add(if value { 4 } else { 5 })
    }

    fn serialize_f32(self, value: f32) -> Counted {
        self.add(bytes_of(&value))
    }

    fn serialize_f64(self, value: f64) -> Counted {
        self.add(bytes_of(&value))
    }

    fn serialize_char(self, value: char) -> Counted {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Counted {
        self.strings += 1;
        self.add(string(value))
    }

    fn serialize_bytes(self, value: &[u8]) -> Counted {
        value.serialize(self)
    }

    fn serialize_none(self) -> Counted {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Counted {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Counted {
        self.add(4)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Counted {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Counted {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Counted {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Counted {
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Inner<'l>, Failure> {
        self.inner()
    }

    fn serialize_tuple(self, _: usize) -> Result<Inner<'l>, Failure> {
        self.inner()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Inner<'l>, Failure> {
        self.inner()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Inner<'l>, Failure> {
        self.variant(variant)?;
        Ok(Inner { closes: 1, ..self.inner()? })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Inner<'l>, Failure> {
        self.inner()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inner<'l>, Failure> {
        self.inner()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Inner<'l>, Failure> {
        self.variant(variant)?;
        Ok(Inner { closes: 1, ..self.inner()? })
    }
}

impl SerializeMap for Inner<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Counted {
        self.name(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Counted {
        value.serialize(&mut *self.length)
    }

    fn end(self) -> Counted {
        self.finish()
    }
}

macro_rules! items {
    ($($of:ident: $method:ident),*) => {$(
        impl $of for Inner<'_> {
            type Ok = ();
            type Error = Failure;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Counted {
                self.item(value)
            }

            fn end(self) -> Counted {
                self.finish()
            }
        }
    )*};
}

macro_rules! fields {
    ($($of:ident),*) => {$(
        impl $of for Inner<'_> {
            type Ok = ();
            type Error = Failure;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Counted {
                self.field(name, value)
            }

            fn end(self) -> Counted {
                self.finish()
            }
        }
    )*};
}

items!(SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field);
fields!(SerializeStruct, SerializeStructVariant);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::to_text;
    use super::*;

    fn check(value: &(impl Serialize + ?Sized)) {
        let text = serde_json::to_string(value).unwrap();
        assert_eq!(text_length(value, "it").unwrap(), text.len() as u64, "{text}");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\\x00-\\x7f]{0,9}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_length_is_that_of_the_text(value in value()) {
            check(&value);
        }
    }

    #[derive(Serialize)]
    enum Kind {
        Unit,
        One(u8),
        Two(i8, &'static str),
        Named { a: Option<char>, b: () },
    }

    #[test]
    fn every_kind_of_value_has_the_length_of_its_text() {
        check(&[Kind::Unit, Kind::One(255), Kind::Two(-128, "\u{8}\u{1b}"), Kind::Named { a: Some('\n'), b: () }]);
        check(&(i64::MIN, u64::MAX, 0, 9, 10, -1, 0.1_f32, f64::NAN, f64::MIN_POSITIVE, Some(1), None::<()>));
        check(&std::collections::BTreeMap::from([("a\"", json!([{}, [], {"b": [1.0]}])), ("", json!("\u{1f4da}"))]));
    }

    #[test]
    fn what_cannot_be_written_cannot_be_measured() {
        let nested = |levels| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        for value in [nested(MAX_TEXT_DEPTH), nested(MAX_TEXT_DEPTH + 1), nested(2000)] {
            let (length, text) = (text_length(&value, "it"), to_text(&value, "it"));
            assert_eq!(length.map_err(|e| e.to_string()), text.map(|t| t.len() as u64).map_err(|e| e.to_string()));
        }
        // Values side by side do not add up to a greater depth.
        check(&vec![nested(100); 3]);
        assert!(text_length(&std::collections::BTreeMap::from([(1, 2)]), "it").is_err());
    }
}
