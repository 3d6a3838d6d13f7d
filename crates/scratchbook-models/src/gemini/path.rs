//! JSON paths such as `$.route.stops[2].name`, which locate streamed pieces in the arguments of a call.

use serde_json::{Map, Value};

use scratchbook_core::json::MAX_DEPTH;

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    Key(String),
    Index(usize),
}

/// Returns the value at a path.
pub(super) fn get<'a>(args: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let steps = parse(path)?;
    let (PathStep::Key(first), rest) = steps.split_first()? else {
        return None;
    };
    rest.iter().try_fold(args.get(first)?, |value, step| match step {
        PathStep::Key(key) => value.get(key),
        PathStep::Index(index) => value.get(index),
    })
}

/// Sets the value at a path and creates the values on the way. A path changes nothing if it contradicts the existing
/// values or is deeper than values may be.
pub(super) fn set(args: &mut Map<String, Value>, path: &str, value: Value) {
    let steps = parse(path).unwrap_or_default();
    let Some((PathStep::Key(first), rest)) = steps.split_first() else {
        return;
    };
    let mut place = args.entry(first.as_str()).or_insert(Value::Null);
    for step in rest {
        if place.is_null() {
            *place = match step {
                PathStep::Key(_) => Value::Object(Map::new()),
                PathStep::Index(_) => Value::Array(Vec::new()),
            };
        }
        place = match (step, place) {
            (PathStep::Key(key), Value::Object(fields)) => fields.entry(key.as_str()).or_insert(Value::Null),
            // Items arrive in order. Allowing gaps would let a few bytes of path allocate megabytes.
            (PathStep::Index(index), Value::Array(items)) if *index <= items.len() => {
                if items.len() == *index {
                    items.push(Value::Null);
                }
                &mut items[*index]
            }
            _ => return,
        };
    }
    *place = value;
}

/// Parses a sequence of `$.name`, `[0]`, `['name']` and `["name"]`. Returns `None` if there are more steps than a value
/// may have levels: dropping a deep value uses stack for each level.
fn parse(path: &str) -> Option<Vec<PathStep>> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, after) = bracket(rest).unwrap_or_else(|| name(rest));
        steps.extend(step);
        if steps.len() > MAX_DEPTH {
            return None;
        }
        rest = after;
    }
    Some(steps)
}

/// Reads a step in brackets. Returns the step and the rest of the path.
fn bracket(text: &str) -> Option<(Option<PathStep>, &str)> {
    let inner = text.strip_prefix('[')?;
    let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let Some(quote) = quote else {
        let (digits, after) = inner.split_once(']')?;
        return Some((Some(PathStep::Index(digits.trim().parse().ok()?)), after));
    };
    let mut key = String::new();
    let mut chars = inner.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => key.push(escaped(&mut chars)?),
            _ if c == quote => return Some((Some(PathStep::Key(key)), inner[at + 1..].strip_prefix(']')?)),
            _ => key.push(c),
        }
    }
    None
}

fn escaped(chars: &mut impl Iterator<Item = (usize, char)>) -> Option<char> {
    Some(match chars.next()?.1 {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => {
            let digits: String = chars.take(4).map(|(_, c)| c).collect();
            char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
        }
        other => other,
    })
}

/// Reads a step that is a plain name. Returns the step and the rest of the path.
fn name(text: &str) -> (Option<PathStep>, &str) {
    let text = text.strip_prefix('.').unwrap_or(text);
    // Stray brackets are skipped, so that parsing always ends.
    let from = text.find(|c| !matches!(c, '[' | ']')).filter(|from| *from > 0).map_or(text, |from| &text[from..]);
    let end = from.find(['.', '[', ']']).unwrap_or(from.len());
    let key = &from[..end];
    (
        (!key.is_empty()).then(|| PathStep::Key(key.to_owned())),
        if end == 0 { &from[from.len().min(1)..] } else { &from[end..] },
    )
}
