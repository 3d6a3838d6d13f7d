//! Whether each acknowledged element is there once, none that was refused, and none without the rest of its commit.

use std::collections::{HashMap, HashSet};

use crate::history::{Entry, Kind, Step};

/// Returns which elements are lost, doubled, stored though they were refused, or stored in part of a commit. The last
/// read of a list says what is stored.
pub(super) fn violations(entries: &[Entry]) -> Vec<String> {
    let stored = last_reads(entries);
    let mut violations = Vec::new();
    for (list, elements) in &stored {
        let mut seen = HashSet::new();
        violations
            .extend(elements.iter().filter(|element| !seen.insert(**element)).map(|n| format!("{list} has {n} twice")));
    }
    let is_stored = |list: &String, element: &u64| stored.get(list).is_some_and(|all| all.contains(element));
    for entry in entries.iter().filter(|entry| entry.kind != Kind::Invoke) {
        let appends = entry.value.iter().filter_map(|step| match step {
            Step::Append { list, element } => Some((list, element)),
            Step::Read { .. } => None,
        });
        let (there, missing): (Vec<_>, Vec<_>) = appends.partition(|(list, element)| is_stored(list, element));
        let place = entry.index;
        match entry.kind {
            Kind::Ok if !missing.is_empty() => violations.push(format!("lost, of the commit at {place}: {missing:?}")),
            Kind::Fail if !there.is_empty() => violations.push(format!("stored, but refused at {place}: {there:?}")),
            Kind::Info if !there.is_empty() && !missing.is_empty() => {
                violations.push(format!("stored in part, at {place}: {there:?} without {missing:?}"));
            }
            _ => {}
        }
    }
    violations
}

/// Returns what the last read of each list found.
fn last_reads(entries: &[Entry]) -> HashMap<&String, &Vec<u64>> {
    let of_ended = entries.iter().filter(|entry| entry.kind == Kind::Ok).flat_map(|entry| &entry.value);
    let reads = of_ended.filter_map(|step| match step {
        Step::Read { list, elements } => elements.as_ref().map(|elements| (list, elements)),
        Step::Append { .. } => None,
    });
    reads.collect()
}
