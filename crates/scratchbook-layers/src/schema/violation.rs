//! Describes how a value breaks a schema, without showing the value.

use std::fmt;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;

/// One error in a value, or in a scope seen as one object.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Violation {
    /// The path in the value: names and indices.
    pub(super) path: Vec<String>,
    /// The part of the schema that is broken.
    schema_path: String,
    /// What the schema requires.
    wants: String,
    /// Set if the number of the object's members is wrong.
    pub(super) counts: Option<MemberCount>,
}

/// Whether there are too many or too few members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemberCount {
    TooMany,
    TooFew,
}

/// Returns the errors in a value. If a member is missing, not allowed or has an invalid name, the error gets that
/// member's path.
pub(super) fn violations(error: &ValidationError<'_>) -> Vec<Violation> {
    let path: Vec<String> = segments(error.instance_path().as_str());
    let schema_path = error.schema_path().as_str().to_owned();
    let violation = |member: Option<&str>, wants: String| {
        let path = path.iter().cloned().chain(member.map(str::to_owned)).collect();
        Violation { path, schema_path: schema_path.clone(), wants, counts: None }
    };
    match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected.iter().map(|name| violation(Some(name), "there may be none of this name".to_owned())).collect()
        }
        Kind::Required { property } => vec![violation(property.as_str(), "it is required".to_owned())],
        Kind::PropertyNames { error: of } => vec![violation(of.instance().as_str(), what(error))],
        Kind::MaxProperties { .. } => {
            vec![Violation { counts: Some(MemberCount::TooMany), ..violation(None, what(error)) }]
        }
        Kind::MinProperties { .. } => {
            vec![Violation { counts: Some(MemberCount::TooFew), ..violation(None, what(error)) }]
        }
        Kind::FalseSchema => vec![violation(None, "there may be nothing here".to_owned())],
        _ => vec![violation(None, what(error))],
    }
}

fn what(error: &ValidationError<'_>) -> String {
    masked(error, "the value").to_string()
}

/// Returns the text of an error with `value` in place of the real value. A long text is cut off.
pub(super) fn masked(error: &ValidationError<'_>, value: &str) -> String {
    const MOST: usize = 300;
    let text = match error.kind() {
        // The error's own text would show the name.
        Kind::PropertyNames { error } => format!("its name: {}", error.masked_with(value)),
        _ => error.masked_with(value).to_string(),
    };
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Returns the parts of a JSON pointer.
fn segments(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

/// The path as a JSON pointer, and the requirement at this path.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            f.write_str(" at ")?;
        }
        for part in &self.path {
            write!(f, "/{}", part.replace('~', "~0").replace('/', "~1"))?;
        }
        write!(f, ": {}", self.wants)
    }
}
