//! Which systems were measured, and what could not be run.

use crate::markdown::{header, row};
use crate::summary::Summary;
use crate::systems::SystemId;

/// Returns what was measured, with versions and configurations.
pub(crate) fn systems(summary: &Summary) -> String {
    let mut text = header(["system", "version", "store", "configuration"].map(str::to_owned).into_iter());
    for hello in &summary.hellos {
        let id = SystemId::new(&hello.system, hello.service.as_deref(), &hello.store);
        let configuration = hello.configuration.replace('|', "\\|");
        row(&mut text, [id.name(), hello.version.clone(), hello.store.clone(), configuration].into_iter());
    }
    text
}

/// Returns the systems and workloads that could not be run. Workloads with the same reason are listed together.
pub(crate) fn missing(summary: &Summary) -> String {
    let mut lines: Vec<String> = summary.unavailable.iter().map(|(system, why)| format!("{system}: {why}")).collect();
    // The limit lacks most workloads, so these are not listed.
    let found = summary.missing().into_iter().filter(|(id, _, _)| id.system != "limit");
    let cells = found.map(|(id, key, why)| {
        // The workload is named beside the reason.
        let has_none = why.starts_with("the runner has no workload");
        let why = if has_none { "the runner does not have this workload." } else { why };
        ((format!("{} on {}", id.name(), id.store), why), format!("`{}, {}`", key.workload, key.size_in_words()))
    });
    let reasons = by_first(by_first(cells).into_iter().map(|((system, why), cells)| ((why, cells.join(", ")), system)));
    lines.extend(reasons.into_iter().map(|((why, cells), systems)| format!("{}: {why} ({cells})", systems.join("; "))));
    if lines.is_empty() {
        return "Everything was run.\n".to_owned();
    }
    lines.iter().map(|line| format!("- {}\n", line.replace('\n', " ").trim_end())).collect()
}

/// Groups pairs by their first part, in the order in which the first parts occur. No second part occurs twice in a
/// group.
fn by_first<A: PartialEq, B: PartialEq>(pairs: impl Iterator<Item = (A, B)>) -> Vec<(A, Vec<B>)> {
    let mut found: Vec<(A, Vec<B>)> = Vec::new();
    for (first, second) in pairs {
        match found.iter_mut().find(|(known, _)| *known == first) {
            Some((_, seconds)) if seconds.contains(&second) => {}
            Some((_, seconds)) => seconds.push(second),
            None => found.push((first, vec![second])),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_same_first_part_comes_together_and_once() {
        let pairs = [("b", 1), ("a", 2), ("b", 3), ("b", 1)];
        assert_eq!(by_first(pairs.into_iter()), [("b", vec![1, 3]), ("a", vec![2])]);
    }
}
