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
    let mut length = LengthSerializer { bytes: 0, depth: 0, strings: 0 };
    value.serialize(&mut length).map(|()| length.bytes).map_err(|failure| match failure {
        LengthError::TooDeep => Error::invalid(format!("{what} is nested deeper than {MAX_TEXT_DEPTH} levels")),
        LengthError::Other(_) => Error::internal(format!("{what} cannot be written as JSON")).with_source(failure),
    })
}

/// A serializer that only counts.
struct LengthSerializer {
    bytes: u64,
    depth: usize,
    /// The number of strings so far.
    strings: u64,
}

#[derive(Debug)]
enum LengthError {
    TooDeep,
    Other(String),
}

impl fmt::Display for LengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => f.write_str("too deep"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for LengthError {}

impl serde::ser::Error for LengthError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }
}

type LengthResult = Result<(), LengthError>;

impl LengthSerializer {
    fn add(&mut self, bytes: u64) -> LengthResult {
        self.bytes += bytes;
        Ok(())
    }

    fn integer(&mut self, magnitude: u64, sign: u64) -> LengthResult {
        self.add(u64::from(magnitude.checked_ilog10().unwrap_or_default()) + 1 + sign)
    }

    /// Begins an array or an object, whose brackets are counted at once.
    fn enter(&mut self) -> LengthResult {
        self.depth += 1;
        if self.depth > MAX_TEXT_DEPTH { Err(LengthError::TooDeep) } else { self.add(2) }
    }

    fn inner(&mut self) -> Result<ContainerLength<'_>, LengthError> {
        self.enter()?;
        Ok(ContainerLength { length: self, is_empty: true, closes: 0 })
    }

    /// Begins an object whose only field is a variant of an enum.
    fn variant(&mut self, name: &str) -> LengthResult {
        self.enter()?;
        self.serialize_str(name)?;
        self.add(1)
    }
}

/// An array or an object.
struct ContainerLength<'l> {
    length: &'l mut LengthSerializer,
    is_empty: bool,
    /// The number of enclosing objects that end together with this value.
    closes: usize,
}

impl ContainerLength<'_> {
    /// Counts the comma before an item that is not the first.
    fn item<T: Serialize + ?Sized>(&mut self, item: &T) -> LengthResult {
        self.length.bytes += u64::from(!self.is_empty);
        self.is_empty = false;
        item.serialize(&mut *self.length)
    }

    fn name<T: Serialize + ?Sized>(&mut self, name: &T) -> LengthResult {
        let strings = self.length.strings;
        self.item(name)?;
        if self.length.strings == strings {
            return Err(LengthError::custom("the name of a field is not a string"));
        }
        self.length.add(1)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> LengthResult {
        self.name(name)?;
        value.serialize(&mut *self.length)
    }

    fn finish(self) -> LengthResult {
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
        fn $name(self, value: $of) -> LengthResult {
            // The magnitude of every integer of these types fits into 64 bits.
            #[allow(unused_comparisons, reason = "some of them have no sign")]
            let sign = u64::from(value < 0);
            self.integer((value as i128).unsigned_abs() as u64, sign)
        }
    )*};
}

impl<'l> Serializer for &'l mut LengthSerializer {
    type Ok = ();
    type Error = LengthError;
    type SerializeSeq = ContainerLength<'l>;
    type SerializeTuple = ContainerLength<'l>;
    type SerializeTupleStruct = ContainerLength<'l>;
    type SerializeTupleVariant = ContainerLength<'l>;
    type SerializeMap = ContainerLength<'l>;
    type SerializeStruct = ContainerLength<'l>;
    type SerializeStructVariant = ContainerLength<'l>;

    integers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_u8: u8,
        serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    fn serialize_bool(self, value: bool) -> LengthResult {
        self.add(if value { 4 } else { 5 })
    }

    fn serialize_f32(self, value: f32) -> LengthResult {
        self.add(bytes_of(&value))
    }

    fn serialize_f64(self, value: f64) -> LengthResult {
        self.add(bytes_of(&value))
    }

    fn serialize_char(self, value: char) -> LengthResult {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> LengthResult {
        self.strings += 1;
        self.add(string(value))
    }

    fn serialize_bytes(self, value: &[u8]) -> LengthResult {
        value.serialize(self)
    }

    fn serialize_none(self) -> LengthResult {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> LengthResult {
        value.serialize(self)
    }

    fn serialize_unit(self) -> LengthResult {
        self.add(4)
    }

    fn serialize_unit_struct(self, _: &'static str) -> LengthResult {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> LengthResult {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> LengthResult {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> LengthResult {
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ContainerLength<'l>, LengthError> {
        self.inner()
    }

    fn serialize_tuple(self, _: usize) -> Result<ContainerLength<'l>, LengthError> {
        self.inner()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<ContainerLength<'l>, LengthError> {
        self.inner()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ContainerLength<'l>, LengthError> {
        self.variant(variant)?;
        Ok(ContainerLength { closes: 1, ..self.inner()? })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<ContainerLength<'l>, LengthError> {
        self.inner()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<ContainerLength<'l>, LengthError> {
        self.inner()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ContainerLength<'l>, LengthError> {
        self.variant(variant)?;
        Ok(ContainerLength { closes: 1, ..self.inner()? })
    }
}

impl SerializeMap for ContainerLength<'_> {
    type Ok = ();
    type Error = LengthError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> LengthResult {
        self.name(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> LengthResult {
        value.serialize(&mut *self.length)
    }

    fn end(self) -> LengthResult {
        self.finish()
    }
}

macro_rules! items {
    ($($of:ident: $method:ident),*) => {$(
        impl $of for ContainerLength<'_> {
            type Ok = ();
            type Error = LengthError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> LengthResult {
                self.item(value)
            }

            fn end(self) -> LengthResult {
                self.finish()
            }
        }
    )*};
}

macro_rules! fields {
    ($($of:ident),*) => {$(
        impl $of for ContainerLength<'_> {
            type Ok = ();
            type Error = LengthError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> LengthResult {
                self.field(name, value)
            }

            fn end(self) -> LengthResult {
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
    enum VariantKind {
        Unit,
        One(u8),
        Two(i8, &'static str),
        Named { a: Option<char>, b: () },
    }

    #[test]
    fn every_kind_of_value_has_the_length_of_its_text() {
        check(&[
            VariantKind::Unit,
            VariantKind::One(255),
            VariantKind::Two(-128, "\u{8}\u{1b}"),
            VariantKind::Named { a: Some('\n'), b: () },
        ]);
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
