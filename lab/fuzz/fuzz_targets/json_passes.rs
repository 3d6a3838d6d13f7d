//! Compares what the passes over unparsed JSON find with the parsed value. The numbers of values and levels that they
//! find may be too large but not too small, and the texts of fields are the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scratchbook::json::{self, Field, Weight};
use serde_json::Value;

/// Returns the number of values and the depth. A repeated name has one value here and two in the text.
fn built(value: &Value) -> (u64, u64) {
    let inner: Vec<_> = match value {
        Value::Array(items) => items.iter().map(built).collect(),
        Value::Object(map) => map.values().map(built).collect(),
        _ => return (1, 0),
    };
    let deepest = inner.iter().map(|(_, depth)| *depth).max().unwrap_or_default();
    (1 + inner.iter().map(|(values, _)| values).sum::<u64>(), 1 + deepest)
}

fuzz_target!(|bytes: &[u8]| {
    let weight = Weight::of(bytes);
    let found = json::texts(bytes, ["a", "userId"]);
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let (values, depth) = built(&value);
    assert!(weight.values >= values && weight.depth >= depth, "{weight:?} of {values} values, {depth} deep");
    assert!(weight.memory >= 72 * values);
    for (name, found) in ["a", "userId"].into_iter().zip(found.expect("what is JSON is read")) {
        match (value.get(name), found) {
            (None, Field::Absent) => {}
            (Some(Value::String(text)), Field::Text(found)) => assert_eq!(*text, *found),
            (Some(value), Field::Other) => assert!(!value.is_string()),
            (value, found) => panic!("{name}: {value:?} read as {found:?}"),
        }
    }
});
