//! Operations on state as Python passes them: `{"user:n": [{"increment": 1}]}`.

use scratchbook::state::Operation;
use scratchbook::{Result, StateDelta, json};
use serde_json::{Map, Value};

/// Parses the operations in a text as a delta. The operations of one key are applied in order.
pub(crate) fn delta(text: &[u8]) -> Result<StateDelta> {
    let keys: Map<String, Value> = json::from_slice(text).map_err(|e| e.context("the operations"))?;
    let mut delta = StateDelta::new();
    for (key, steps) in keys {
        let steps: Vec<Operation> = serde_json::from_value(steps).map_err(|_| {
            scratchbook::Error::invalid(format!(
                "'{key}' is incremented by a number of at most 64 bits; every other operation takes any value"
            ))
        })?;
        steps.into_iter().try_for_each(|step| delta.apply(key.clone(), step))?;
    }
    Ok(delta)
}
