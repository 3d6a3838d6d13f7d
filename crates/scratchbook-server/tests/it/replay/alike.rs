//! Compares two answers except for ids and times. Each of our ids and times has to correspond to the same recorded id
//! or time everywhere.

use std::collections::HashMap;

use serde_json::Value;

/// Placeholders in `differences.rs` for an id, a time or a text in our answer that the recorded answer does not have.
const ANY_ID: &str = "<id>";
const ANY_TIME: &str = "<time>";
const ANY_TEXT: &str = "<text>";

/// The seconds in which the exchanges were recorded.
const RECORDED: std::ops::Range<f64> = 1_795_194_000.0..1_795_195_000.0;

/// Which ids and times of ours correspond to the recorded ones.
#[derive(Default)]
pub(super) struct Alike {
    ids: HashMap<String, String>,
    taken: HashMap<String, String>,
    times: HashMap<u64, f64>,
}

impl Alike {
    /// Returns a request with our ids in place of the recorded ids.
    pub(super) fn ours(&self, recorded: &str) -> String {
        self.ids.iter().fold(recorded.to_owned(), |text, (recorded, ours)| text.replace(recorded, ours))
    }

    /// Compares two values, and remembers which ids and times correspond. An error names the place of the difference.
    pub(super) fn compare(&mut self, recorded: &Value, ours: &Value) -> Result<(), String> {
        let unlike = || Err(String::new());
        match (recorded, ours) {
            (Value::Object(a), Value::Object(b)) => {
                if let Some(name) = a.keys().find(|name| !b.contains_key(*name)) {
                    return Err(format!("/{name} is not there"));
                }
                if let Some(name) = b.keys().find(|name| !a.contains_key(*name)) {
                    return Err(format!("/{name} is more than there was"));
                }
                a.iter().try_for_each(|(name, a)| self.compare(a, &b[name]).map_err(|at| format!("/{name}{at}")))
            }
            (Value::Array(a), Value::Array(b)) => {
                if a.len() != b.len() {
                    return Err(format!(" has {} items, not {}", b.len(), a.len()));
                }
                let mut pairs = a.iter().zip(b).enumerate();
                pairs.try_for_each(|(i, (a, b))| self.compare(a, b).map_err(|at| format!("/{i}{at}")))
            }
            (Value::String(a), Value::String(b)) if a == ANY_ID && id_of(b).is_some() => Ok(()),
            (Value::String(a), Value::String(_)) if a == ANY_TEXT => Ok(()),
            (Value::String(a), Value::Number(b)) if a == ANY_TIME && b.is_f64() => Ok(()),
            (Value::String(a), Value::String(b)) => match (id_of(a), id_of(b)) {
                (Some((kind, a)), Some((ours, b))) if kind == ours && self.stands_for(a, b) => Ok(()),
                (None, _) if a == b => Ok(()),
                _ => unlike(),
            },
            (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
                (Some(time), Some(ours)) if a.is_f64() && b.is_f64() && RECORDED.contains(&time) => {
                    let known = *self.times.entry(time.to_bits()).or_insert(ours);
                    // Sessions keep their times to the microsecond, events exactly.
                    if (known - ours).abs() <= 1e-6 { Ok(()) } else { unlike() }
                }
                _ if a == b => Ok(()),
                _ => unlike(),
            },
            _ if recorded == ours => Ok(()),
            _ => unlike(),
        }
    }

    fn stands_for(&mut self, recorded: &str, ours: &str) -> bool {
        let known = self.ids.entry(recorded.to_owned()).or_insert_with(|| ours.to_owned());
        let taken = self.taken.entry(ours.to_owned()).or_insert_with(|| recorded.to_owned());
        known == ours && taken == recorded
    }
}

/// Splits a generated id into its prefix (`e-`, `p-`, `adk-` or nothing) and its UUID.
fn id_of(text: &str) -> Option<(&str, &str)> {
    let (kind, id) = text.split_at_checked(text.len().checked_sub(36)?)?;
    let is_uuid = id.char_indices().all(|(at, c)| match at {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit(),
    });
    (is_uuid && ["", "e-", "p-", "adk-"].contains(&kind)).then_some((kind, id))
}
