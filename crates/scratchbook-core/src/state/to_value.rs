//! Converts any serde type to a JSON value. It refuses what `serde_json::to_value` changes silently: NaN and infinities
//! (which become null), integers beyond 64 bits, and map keys that are not strings.

use std::fmt;

use serde::ser::{self, Impossible, Serialize, Serializer};
use serde_json::{Map, Number, Value};

use crate::error::{Error, Result};
use crate::json;
use crate::json::MAX_DEPTH;

/// Converts any serializable value to a JSON value.
///
/// # Errors
///
/// `InvalidArgument` for a value that JSON cannot hold exactly.
#[doc(hidden)]
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value> {
    value.serialize(ToValue { levels: MAX_DEPTH }).map_err(|ValueError(message)| Error::invalid(message))
}

#[derive(Debug)]
pub(super) struct ValueError(String);

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ValueError {}

impl ser::Error for ValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

fn too_large() -> ValueError {
    ValueError("an integer does not fit 64 bits; store it as a string or as a float".to_owned())
}

/// Serializes a value with a limited number of levels.
#[derive(Clone, Copy)]
struct ToValue {
    levels: usize,
}

impl ToValue {
    /// Returns the serializer for the contents of an array or an object.
    fn inside(self) -> Result<Self, ValueError> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Self { levels }),
            None => Err(ValueError(format!("it is nested deeper than {MAX_DEPTH} levels"))),
        }
    }

    fn list(self, len: usize, variant: Option<&'static str>) -> Result<ListBuilder, ValueError> {
        let inner = self.within(variant)?;
        // The length is a hint from outside: it must not cause a larger allocation than the data.
        Ok(ListBuilder { items: Vec::with_capacity(len.min(1024)), variant, inner: inner.inside()? })
    }

    fn object(self, variant: Option<&'static str>) -> Result<ObjectBuilder, ValueError> {
        let inner = self.within(variant)?.inside()?;
        Ok(ObjectBuilder { map: Map::new(), key: None, variant, text: None, inner })
    }

    /// Returns the serializer for the contents of a variant. The variant's name counts as a level.
    fn within(self, variant: Option<&'static str>) -> Result<Self, ValueError> {
        if variant.is_some() { self.inside() } else { Ok(self) }
    }
}

impl Serializer for ToValue {
    type Ok = Value;
    type Error = ValueError;
    type SerializeSeq = ListBuilder;
    type SerializeTuple = ListBuilder;
    type SerializeTupleStruct = ListBuilder;
    type SerializeTupleVariant = ListBuilder;
    type SerializeMap = ObjectBuilder;
    type SerializeStruct = ObjectBuilder;
    type SerializeStructVariant = ObjectBuilder;

    fn serialize_bool(self, v: bool) -> Result<Value, ValueError> {
        Ok(Value::Bool(v))
    }

    fn serialize_i8(self, v: i8) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_i16(self, v: i16) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_i32(self, v: i32) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_i64(self, v: i64) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_i128(self, v: i128) -> Result<Value, ValueError> {
        match (i64::try_from(v), u64::try_from(v)) {
            (Ok(v), _) => Ok(v.into()),
            (_, Ok(v)) => Ok(v.into()),
            _ => Err(too_large()),
        }
    }

    fn serialize_u8(self, v: u8) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_u16(self, v: u16) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_u32(self, v: u32) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_u64(self, v: u64) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_u128(self, v: u128) -> Result<Value, ValueError> {
        u64::try_from(v).map(Value::from).map_err(|_| too_large())
    }

    fn serialize_f32(self, v: f32) -> Result<Value, ValueError> {
        self.serialize_f64(f64::from(v))
    }

    fn serialize_f64(self, v: f64) -> Result<Value, ValueError> {
        match Number::from_f64(v) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(ValueError(format!("{v} is no JSON number; store null or a string"))),
        }
    }

    fn serialize_char(self, v: char) -> Result<Value, ValueError> {
        Ok(v.to_string().into())
    }

    fn serialize_str(self, v: &str) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<Value, ValueError> {
        Ok(v.into())
    }

    fn serialize_none(self) -> Result<Value, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, v: &T) -> Result<Value, ValueError> {
        v.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value, ValueError> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, v: &T) -> Result<Value, ValueError> {
        v.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        v: &T,
    ) -> Result<Value, ValueError> {
        Ok(Value::Object(Map::from_iter([(variant.to_owned(), v.serialize(self.inside()?)?)])))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<ListBuilder, ValueError> {
        self.list(len.unwrap_or(0), None)
    }

    fn serialize_tuple(self, len: usize) -> Result<ListBuilder, ValueError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<ListBuilder, ValueError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ListBuilder, ValueError> {
        self.list(0, Some(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<ObjectBuilder, ValueError> {
        self.object(None)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<ObjectBuilder, ValueError> {
        let object = self.object(None)?;
        // These are not structs. Under these names serde_json carries JSON text: for its `RawValue`, and for numbers if
        // its feature `arbitrary_precision` is enabled anywhere in the program.
        let is_text = matches!(name, "$serde_json::private::Number" | "$serde_json::private::RawValue");
        Ok(ObjectBuilder { text: is_text.then(String::new), ..object })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ObjectBuilder, ValueError> {
        self.object(Some(variant))
    }
}

struct ListBuilder {
    items: Vec<Value>,
    variant: Option<&'static str>,
    inner: ToValue,
}

impl ListBuilder {
    fn push<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), ValueError> {
        self.items.push(v.serialize(self.inner)?);
        Ok(())
    }

    fn finish(self) -> Value {
        under(self.variant, Value::Array(self.items))
    }
}

fn under(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        Some(name) => Value::Object(Map::from_iter([(name.to_owned(), value)])),
        None => value,
    }
}

macro_rules! list {
    ($($trait:ident $method:ident),*) => {$(
        impl ser::$trait for ListBuilder {
            type Ok = Value;
            type Error = ValueError;

            fn $method<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), ValueError> {
                self.push(v)
            }

            fn end(self) -> Result<Value, ValueError> {
                Ok(self.finish())
            }
        }
    )*};
}
list!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

struct ObjectBuilder {
    map: Map<String, Value>,
    key: Option<String>,
    variant: Option<&'static str>,
    /// The text, if this is not an object but a value in text form.
    text: Option<String>,
    inner: ToValue,
}

impl ser::SerializeMap for ObjectBuilder {
    type Ok = Value;
    type Error = ValueError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), ValueError> {
        self.key = Some(key.serialize(KeyOnly)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, v: &T) -> Result<(), ValueError> {
        let key = self.key.take().ok_or_else(|| ValueError("a map value came before its key".to_owned()))?;
        self.map.insert(key, v.serialize(self.inner)?);
        Ok(())
    }

    fn end(self) -> Result<Value, ValueError> {
        Ok(under(self.variant, Value::Object(self.map)))
    }
}

macro_rules! object {
    ($($trait:ident),*) => {$(
        impl ser::$trait for ObjectBuilder {
            type Ok = Value;
            type Error = ValueError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, v: &T) -> Result<(), ValueError> {
                match &mut self.text {
                    Some(text) => *text = v.serialize(KeyOnly)?,
                    None => drop(self.map.insert(key.to_owned(), v.serialize(self.inner)?)),
                }
                Ok(())
            }

            fn end(self) -> Result<Value, ValueError> {
                match self.text {
                    Some(text) => json::from_str(&text).map_err(|e| ValueError(e.to_string())),
                    None => Ok(under(self.variant, Value::Object(self.map))),
                }
            }
        }
    )*};
}
object!(SerializeStruct, SerializeStructVariant);

/// Serializes a map key, which has to be a string.
struct KeyOnly;

fn not_a_string<T>() -> Result<T, ValueError> {
    Err(ValueError("a map has a key that is not a string; JSON object keys are strings".to_owned()))
}

macro_rules! refuse {
    ($($method:ident $type:ty),*) => {$(
        fn $method(self, _: $type) -> Result<String, ValueError> {
            not_a_string()
        }
    )*};
}

impl Serializer for KeyOnly {
    type Ok = String;
    type Error = ValueError;
    type SerializeSeq = Impossible<String, ValueError>;
    type SerializeTuple = Impossible<String, ValueError>;
    type SerializeTupleStruct = Impossible<String, ValueError>;
    type SerializeTupleVariant = Impossible<String, ValueError>;
    type SerializeMap = Impossible<String, ValueError>;
    type SerializeStruct = Impossible<String, ValueError>;
    type SerializeStructVariant = Impossible<String, ValueError>;

    refuse!(
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_f32 f32,
        serialize_f64 f64, serialize_bytes &[u8], serialize_unit_struct &'static str
    );

    fn serialize_char(self, v: char) -> Result<String, ValueError> {
        Ok(v.to_string())
    }

    fn serialize_str(self, v: &str) -> Result<String, ValueError> {
        Ok(v.to_owned())
    }

    fn serialize_none(self) -> Result<String, ValueError> {
        not_a_string()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, v: &T) -> Result<String, ValueError> {
        v.serialize(self)
    }

    fn serialize_unit(self) -> Result<String, ValueError> {
        not_a_string()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<String, ValueError> {
        Ok(variant.to_owned())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, v: &T) -> Result<String, ValueError> {
        v.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<String, ValueError> {
        not_a_string()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, ValueError> {
        not_a_string()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, ValueError> {
        not_a_string()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, ValueError> {
        not_a_string()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, ValueError> {
        not_a_string()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, ValueError> {
        not_a_string()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, ValueError> {
        not_a_string()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, ValueError> {
        not_a_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;
    use serde_json::json;

    use super::to_value;

    #[derive(Serialize)]
    enum ShapeSample {
        Unit,
        New(i32),
        Pair(i32, f32),
        Named { a: Option<u8>, b: char },
    }

    #[test]
    fn agrees_with_serde_json_on_what_json_can_hold() {
        let map = BTreeMap::from([("x", vec![1, 2]), ("y", vec![])]);
        assert_eq!(to_value(&map).unwrap(), serde_json::to_value(&map).unwrap());
        let shapes = [
            ShapeSample::Unit,
            ShapeSample::New(-1),
            ShapeSample::Pair(1, 0.5),
            ShapeSample::Named { a: None, b: 'é' },
        ];
        assert_eq!(to_value(&shapes).unwrap(), serde_json::to_value(&shapes).unwrap());
        let value = json!({"a": [null, true, -1, 1.5, u64::MAX, i64::MIN, "\u{0}😀"], "b": {}});
        assert_eq!(to_value(&value).unwrap(), value);
        assert_eq!(to_value(&(i128::from(u64::MAX))).unwrap(), json!(u64::MAX));
    }

    #[test]
    fn refuses_what_would_be_changed_silently() {
        assert!(to_value(&f64::NAN).is_err());
        assert!(to_value(&vec![1.0, f64::INFINITY]).is_err());
        assert!(to_value(&f32::NEG_INFINITY).is_err());
        assert!(to_value(&(i128::from(u64::MAX) + 1)).is_err());
        assert!(to_value(&BTreeMap::from([(1, "one")])).is_err());
        assert!(to_value(&BTreeMap::from([((1, 2), "pair")])).is_err());
        let mut deep = json!(1);
        for _ in 0..2000 {
            deep = serde_json::Value::Array(vec![deep]);
        }
        assert!(to_value(&deep).is_err());
    }
}
