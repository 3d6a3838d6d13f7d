//! Names on the wire: percent-encoding in paths, camelCase and snake_case, and the content types of JSON.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// The characters that are percent-encoded in a segment of a path.
pub(crate) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Converts `appName` to `app_name`. Returns `None` if both names are the same.
pub(crate) fn snake_case(name: &str) -> Option<String> {
    if !name.contains(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    Some(snake)
}

/// Returns whether a content type is `application/json`, or one with the suffix `+json`.
pub(crate) fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/").unwrap_or_default();
    !subtype.contains('/') && (subtype == "json" || subtype.ends_with("+json"))
}
