//! Reads large objects field by field into a value that exists already.
//!
//! The derived `Deserialize` of a struct collects all fields in variables, makes the struct of them, and returns it. An
//! event has some 1,000 bytes, which are then moved several times before the event is where it stays. This took a
//! sixth of the time of reading an event. Here the value is first made without fields, where it stays, and each field
//! is read into it.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};

use crate::extra::ExtraFields;

/// A struct whose fields can be read one by one. Implemented by [`fields!`].
pub(crate) trait Fields {
    /// One of the known fields.
    type Field: Copy;

    /// The name of the struct, for errors.
    const STRUCT: &'static str;

    /// Returns the field with a name.
    fn field(name: &str) -> Option<Self::Field>;

    /// Returns a bit for each field, and the field's name.
    fn bit_and_name(field: Self::Field) -> (u64, &'static str);

    /// Reads the value of a field.
    fn read<'de, A: MapAccess<'de>>(&mut self, field: Self::Field, object: &mut A) -> Result<(), A::Error>;

    /// Returns the fields that are unknown to this version.
    fn extra(&mut self) -> &mut ExtraFields;
}

/// Reads an object into a value that has no fields yet.
pub(crate) struct ReadInto<'a, T>(pub(crate) &'a mut T);

impl<'de, T: Fields> DeserializeSeed<'de> for ReadInto<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Fields> Visitor<'de> for ReadInto<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "struct {}", T::STRUCT)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let (mut seen, mut unknown) = (0, String::new());
        while let Some(field) = object.next_key_seed(FieldName::<T>(&mut unknown, PhantomData))? {
            let Some(field) = field else {
                let value = object.next_value()?;
                self.0.extra().insert(std::mem::take(&mut unknown), value);
                continue;
            };
            let (bit, name) = T::bit_and_name(field);
            if seen & bit != 0 {
                return Err(A::Error::duplicate_field(name));
            }
            seen |= bit;
            self.0.read(field, &mut object)?;
        }
        Ok(())
    }
}

/// Reads the name of a field. A name that is unknown is kept.
struct FieldName<'a, T>(&'a mut String, PhantomData<T>);

impl<'de, T: Fields> DeserializeSeed<'de> for FieldName<'_, T> {
    type Value = Option<T::Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<T: Fields> Visitor<'_> for FieldName<'_, T> {
    type Value = Option<T::Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a field of {}", T::STRUCT)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let field = T::field(name);
        if field.is_none() {
            name.clone_into(self.0);
        }
        Ok(field)
    }
}

/// Implements [`Fields`] and `Deserialize` for a struct with the field `extra`. Each field has its names in JSON, and
/// how it is read if its type does not say so: as an `object`, as an `optional_object`, or in `place`.
macro_rules! fields {
    ($struct:ident { $($name:literal $(or $alias:literal)? => $field:ident $(as $way:ident)?,)* }) => {
        const _: () = {
            #[derive(Clone, Copy)]
            #[allow(non_camel_case_types)]
            pub(crate) enum Field { $($field,)* }

            impl $crate::fields::Fields for $struct {
                type Field = Field;

                const STRUCT: &'static str = stringify!($struct);

                fn field(name: &str) -> Option<Field> {
                    Some(match name {
                        $($name $(| $alias)? => Field::$field,)*
                        _ => return None,
                    })
                }

                fn bit_and_name(field: Field) -> (u64, &'static str) {
                    let name = match field {
                        $(Field::$field => $name,)*
                    };
                    (1 << field as u64, name)
                }

                fn read<'de, A: serde::de::MapAccess<'de>>(
                    &mut self,
                    field: Field,
                    object: &mut A,
                ) -> std::result::Result<(), A::Error> {
                    match field {
                        $(Field::$field => $crate::fields::fields!(@read $($way)? self.$field, object),)*
                    }
                    Ok(())
                }

                fn extra(&mut self) -> &mut $crate::extra::ExtraFields {
                    &mut self.extra
                }
            }

            impl<'de> serde::Deserialize<'de> for $struct {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                    let mut value = Self::default();
                    deserializer.deserialize_map($crate::fields::ReadInto(&mut value))?;
                    Ok(value)
                }
            }
        };
    };
    (@read $place:expr, $object:ident) => {
        $place = $object.next_value()?
    };
    (@read object $place:expr, $object:ident) => {
        $place = $object.next_value::<$crate::json::StrictObject<_>>()?.0
    };
    (@read optional_object $place:expr, $object:ident) => {
        $place = $object.next_value::<Option<$crate::json::StrictObject<_>>>()?.map(|object| object.0)
    };
    (@read place $place:expr, $object:ident) => {
        $object.next_value_seed($crate::fields::ReadInto(&mut $place))?
    };
}
pub(crate) use fields;
