//! Checks of a body against the models of ADK, with the errors of pydantic.
//!
//! A model is a table of fields. [`check`] compares a value with it, records every problem, and converts the value to
//! the form in which the model would be written: camelCase names, no `null` if a field may be absent, no unknown names
//! if the model ignores them, and numbers and booleans in place of strings.

use std::borrow::Cow;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::scalar::{boolean, bytes, float, integer};
use crate::adk::AdkError;
use crate::wire_names::snake_case;

/// The type that a value has to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldType {
    Any,
    Str,
    Bool,
    Int,
    Float,
    /// A string in base64.
    Bytes,
    Dict(&'static Self),
    List(&'static Self),
    /// A list whose order does not matter.
    Set(&'static Self),
    Model(&'static BodyModel),
}

/// An object with known fields.
#[derive(Debug)]
pub(crate) struct BodyModel {
    fields: &'static [ModelField],
    unknown: UnknownNames,
}

/// How a model treats names that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownNames {
    Ignored,
    Forbidden,
}

/// A field of a model. Clients may send its name in camelCase or snake_case.
#[derive(Debug)]
pub(crate) struct ModelField {
    name: &'static str,
    kind: FieldType,
    need: FieldNeed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldNeed {
    Required,
    Defaulted,
    Optional,
}

impl BodyModel {
    /// Returns a model that ignores unknown names.
    pub(super) const fn ignoring(fields: &'static [ModelField]) -> Self {
        Self { fields, unknown: UnknownNames::Ignored }
    }

    /// Returns a model that refuses unknown names.
    pub(super) const fn forbidding(fields: &'static [ModelField]) -> Self {
        Self { fields, unknown: UnknownNames::Forbidden }
    }
}

/// Returns a field that has to be present.
pub(super) const fn required(name: &'static str, kind: FieldType) -> ModelField {
    ModelField { name, kind, need: FieldNeed::Required }
}

/// Returns a field that may be absent but not `null`.
pub(super) const fn defaulted(name: &'static str, kind: FieldType) -> ModelField {
    ModelField { name, kind, need: FieldNeed::Defaulted }
}

/// Returns a field that may be absent or `null`, which mean the same.
pub(super) const fn optional(name: &'static str, kind: FieldType) -> ModelField {
    ModelField { name, kind, need: FieldNeed::Optional }
}

/// The location of a value in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loc<'a> {
    Body,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl Loc<'_> {
    fn path(&self) -> Vec<Value> {
        let (mut path, last) = match self {
            Self::Body => return vec![json!("body")],
            Self::Key(parent, key) => (parent.path(), json!(key)),
            Self::Index(parent, index) => (parent.path(), json!(index)),
        };
        path.push(last);
        path
    }
}

/// The problems of a body, up to a thousand.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Value>);

impl Problems {
    /// An error takes about a hundred bytes. Without the limit, a body with a million wrong items would get a million
    /// errors.
    const MAX: usize = 1000;

    pub(crate) fn add(&mut self, kind: &str, loc: &Loc<'_>, message: &str, input: &Value) {
        self.add_with(kind, loc, message, input, None);
    }

    pub(super) fn add_with(&mut self, kind: &str, loc: &Loc<'_>, message: &str, input: &Value, context: Option<Value>) {
        if self.0.len() == Self::MAX {
            return;
        }
        let mut problem = json!({"type": kind, "loc": loc.path(), "msg": message, "input": input});
        if let (Some(problem), Some(context)) = (problem.as_object_mut(), context) {
            problem.insert("ctx".to_owned(), context);
        }
        self.0.push(problem);
    }

    /// # Errors
    ///
    /// An error with the recorded problems, if there are any.
    pub(crate) fn into_result(self) -> Result<(), AdkError> {
        if self.0.is_empty() { Ok(()) } else { Err(self.into_error()) }
    }

    /// Returns the error 422 with all recorded problems.
    pub(crate) fn into_error(self) -> AdkError {
        AdkError::new(StatusCode::UNPROCESSABLE_ENTITY, Value::Array(self.0))
    }
}

/// Records the problems of a value, and converts the value to the form of its kind.
pub(crate) fn check(value: &mut Value, kind: FieldType, loc: &Loc<'_>, problems: &mut Problems) {
    match kind {
        FieldType::Any => {}
        FieldType::Str if value.is_string() => {}
        FieldType::Str => problems.add("string_type", loc, "Input should be a valid string", value),
        FieldType::Bool => boolean(value, loc, problems),
        FieldType::Int => integer(value, loc, problems),
        FieldType::Float => float(value, loc, problems),
        FieldType::Bytes => bytes(value, loc, problems),
        FieldType::Dict(kind) => match value {
            Value::Object(map) => {
                map.iter_mut().for_each(|(key, value)| check(value, *kind, &Loc::Key(loc, key), problems));
            }
            _ => problems.add("dict_type", loc, "Input should be a valid dictionary", value),
        },
        FieldType::List(kind) => list(value, *kind, ("list_type", "Input should be a valid list"), loc, problems),
        FieldType::Set(kind) => list(value, *kind, ("set_type", "Input should be a valid set"), loc, problems),
        FieldType::Model(model) => check_model(value, model, loc, problems),
    }
}

fn list(value: &mut Value, kind: FieldType, (name, message): (&str, &str), loc: &Loc<'_>, problems: &mut Problems) {
    let Value::Array(items) = value else {
        return problems.add(name, loc, message, value);
    };
    for (index, item) in items.iter_mut().enumerate() {
        check(item, kind, &Loc::Index(loc, index), problems);
    }
}

fn check_model(value: &mut Value, model: &BodyModel, loc: &Loc<'_>, problems: &mut Problems) {
    let Value::Object(map) = value else {
        let message = "Input should be a valid dictionary or object to extract fields from";
        return problems.add("model_attributes_type", loc, message, value);
    };
    // Most bodies have no snake_case names. Then no such name has to be looked up.
    let has_snake_case = map.keys().any(|key| key.contains('_'));
    for field in model.fields {
        match sent_as(map, field, has_snake_case) {
            Some(key) => check_field(map, field, &key, loc, problems),
            None if field.need == FieldNeed::Required => {
                let input = Value::Object(map.clone());
                problems.add("missing", &Loc::Key(loc, field.name), "Field required", &input);
            }
            None => {}
        }
    }
    if model.unknown == UnknownNames::Forbidden {
        for (key, value) in map.iter().filter(|(key, _)| field_of(map, model, key).is_none()) {
            problems.add("extra_forbidden", &Loc::Key(loc, key), "Extra inputs are not permitted", value);
        }
    }
    write_as_model(map, model);
}

fn check_field(map: &mut Map<String, Value>, field: &ModelField, key: &str, loc: &Loc<'_>, problems: &mut Problems) {
    let sent = map.get_mut(key).filter(|value| !value.is_null() || field.need != FieldNeed::Optional);
    if let Some(value) = sent {
        check(value, field.kind, &Loc::Key(loc, key), problems);
    }
}

/// Returns the name under which a field was sent. If both spellings were sent, camelCase wins.
fn sent_as(map: &Map<String, Value>, field: &ModelField, has_snake_case: bool) -> Option<Cow<'static, str>> {
    if map.contains_key(field.name) {
        return Some(Cow::Borrowed(field.name));
    }
    if !has_snake_case {
        return None;
    }
    let snake = snake_case(field.name)?;
    map.contains_key(&snake).then_some(Cow::Owned(snake))
}

/// Returns the field to which a sent name refers.
fn field_of<'a>(map: &Map<String, Value>, model: &'a BodyModel, key: &str) -> Option<&'a ModelField> {
    let by_name = model.fields.iter().find(|field| field.name == key);
    by_name.or_else(|| {
        let mut fields = model.fields.iter().filter(|_| key.contains('_'));
        fields.find(|field| snake_case(field.name).as_deref() == Some(key) && !map.contains_key(field.name))
    })
}

/// Removes from an object the fields that its model would not write.
fn write_as_model(map: &mut Map<String, Value>, model: &BodyModel) {
    let is_written = |field: &ModelField, value: &Value| !value.is_null() || field.need != FieldNeed::Optional;
    if !map.keys().any(|key| key.contains('_')) {
        let known = |key: &str| model.fields.iter().find(|field| field.name == key);
        return map.retain(|key, value| known(key).is_some_and(|field| is_written(field, value)));
    }
    let fields: Vec<_> = map.keys().map(|key| field_of(map, model, key)).collect();
    let sent = std::mem::take(map).into_iter().zip(fields);
    let known = sent.filter_map(|((_, value), field)| field.map(|field| (field, value)));
    map.extend(known.filter(|(field, value)| is_written(field, value)).map(|(f, value)| (f.name.to_owned(), value)));
}
