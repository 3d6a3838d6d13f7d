//! Writes how costs grow with the size of what is stored.

use crate::markdown::{header, row};
use crate::report::all_systems;
use crate::summary::Summary;

/// Workloads whose cost may grow with their size, the number of tasks with which several sizes are measured, and what
/// is counted.
pub(crate) const GROWING: [(&str, usize, &str); 16] = [
    ("create", 1, "create by keys"),
    ("append", 1, "append by events"),
    ("append_hot", 1, "append to one app key by events"),
    ("append_shared", 8, "append to one session by events"),
    ("get", 1, "get by events"),
    ("get_json", 1, "get as JSON by events"),
    ("get_recent", 1, "get the last 10 by events"),
    ("list", 1, "list by sessions"),
    ("state", 1, "append by state keys"),
    ("turn", 1, "turn by events"),
    ("http_create", 16, "HTTP create by keys"),
    ("http_get", 16, "HTTP get by events"),
    ("http_patch", 16, "HTTP PATCH by events"),
    ("http_turn", 1, "HTTP turn by events"),
    ("size_on_disk", 1, "bytes on disk by events"),
    ("memory", 1, "bytes in memory by events"),
];

/// A cost with a slope below this counts as not growing.
const FLAT: f64 = 0.05;

/// Returns a table with the slope of each workload that was measured at enough sizes, for each system.
pub(crate) fn table(summary: &Summary) -> String {
    let any = |workload| all_systems(summary).any(|id| summary.slope(id, workload).is_some());
    let growing: Vec<_> = GROWING.into_iter().filter(|(workload, tasks, _)| any((workload, *tasks))).collect();
    let names = growing.iter().map(|(_, _, what)| (*what).to_owned());
    let mut text = header(["slope".to_owned(), "store".to_owned()].into_iter().chain(names));
    for id in all_systems(summary).filter(|id| id.system != "limit") {
        let slopes = growing.iter().map(|(workload, tasks, _)| match summary.slope(id, (workload, *tasks)) {
            Some(slope) if slope < FLAT => format!("{slope:.2}, flat"),
            Some(slope) => format!("{slope:.2}"),
            None => "–".to_owned(),
        });
        row(&mut text, [id.name(), id.store.clone()].into_iter().chain(slopes));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::ResultLine;
    use crate::summary::tests::{measured, row as line};

    #[test]
    fn a_flat_cost_is_called_flat() {
        let sizes = [10, 100, 1_000, 10_000];
        let flat = sizes.map(|size| line("scratchbook", "memory", "append", size, measured(1_000, 0)));
        let linear = sizes.map(|size| line("scratchbook", "memory", "get", size, measured(1_000_000 / size, 0)));
        let table = table(&Summary::new(&[flat, linear].concat()));
        assert!(table.contains("| scratchbook | memory | 0.00, flat | 1.00 |"), "{table}");
    }

    #[test]
    fn sizes_are_compared_with_the_same_number_of_tasks() {
        let lines = [10, 30, 100, 300].map(|size| {
            let ResultLine::Row(mut row) = line("scratchbook", "sqlite", "http_get", size, measured(3_000 / size, 0))
            else {
                panic!("it is a row")
            };
            row.tasks = 16;
            ResultLine::Row(row)
        });
        let of_one = line("scratchbook", "sqlite", "http_get", 10, measured(7, 0));
        let table = table(&Summary::new(&[&lines[..], &[of_one]].concat()));
        assert!(table.starts_with("| slope | store | HTTP get by events |\n"), "{table}");
        assert!(table.contains("| scratchbook | sqlite | 1.00 |"), "{table}");
    }
}
