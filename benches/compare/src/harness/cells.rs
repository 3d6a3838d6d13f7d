//! What is measured: workloads at several sizes, with several numbers of tasks.

/// One measurement that is made of every system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) workload: &'static str,
    pub(crate) size: u64,
    pub(crate) tasks: usize,
}

/// Cells that are measured by the same processes, in databases that begin empty.
#[derive(Debug)]
pub(crate) struct CellGroup {
    pub(crate) name: &'static str,
    pub(crate) cells: Vec<Cell>,
}

/// Returns the groups of a run.
pub(crate) fn groups(quick: bool) -> Vec<CellGroup> {
    if quick { vec![quick_group()] } else { all_groups() }
}

fn all_groups() -> Vec<CellGroup> {
    let hundred_thousand = [10, 100, 1_000, 10_000, 100_000];
    let reads = ["get", "get_json", "get_recent"];
    let http = [("http_create", 16), ("http_get", 16), ("http_patch", 16), ("http_turn", 1), ("http_turn", 16)];
    vec![
        group("create", cells("create", [1], [1, 16, 64])),
        group(
            "append",
            [
                cells("append", [10, 100, 1_000, 10_000], [1]),
                cells("append", [10], [16, 64, 256]),
                cells("append_hot", [10], [16]),
                cells("append_shared", [10], [8]),
            ]
            .concat(),
        ),
        group("state", cells("state", [1, 10, 100, 1_000, 10_000], [1])),
        group("turn", cells("turn", [10, 100, 1_000, 10_000], [1])),
        group("http", http.map(|(name, tasks)| cells(name, [10], [tasks])).concat()),
        group(
            "resources",
            [
                cells("size_on_disk", [100, 1_000, 10_000, 100_000], [1]),
                cells("memory", [10, 100, 1_000, 10_000], [1]),
                cells("cold_start", [1], [1]),
            ]
            .concat(),
        ),
        // These cells need the longest preparation. They come last, so that they cannot use up the time of the others.
        group("list", cells("list", [100, 1_000, 10_000, 100_000], [1])),
        group("reads", reads.map(|name| cells(name, hundred_thousand, [1])).concat()),
    ]
}

/// Returns one group with all cells, because each start of a runner takes seconds.
fn quick_group() -> CellGroup {
    let cells = [
        cells("create", [1], [1, 16]),
        cells("append", [10, 1_000], [1]),
        cells("append", [10], [16, 64]),
        cells("append_hot", [10], [16]),
        cells("append_shared", [10], [8]),
        cells("get", [10, 100, 1_000], [1]),
        cells("get_json", [1_000], [1]),
        cells("get_recent", [1_000], [1]),
        cells("list", [100], [1]),
        cells("state", [10, 1_000], [1]),
        cells("turn", [10, 100], [1]),
        cells("http_create", [10], [16]),
        cells("http_get", [10], [16]),
        cells("http_patch", [10], [16]),
        cells("http_turn", [10], [1]),
        cells("size_on_disk", [100], [1]),
        cells("memory", [100], [1]),
        cells("cold_start", [1], [1]),
    ];
    group("quick", cells.concat())
}

fn group(name: &'static str, cells: Vec<Cell>) -> CellGroup {
    CellGroup { name, cells }
}

fn cells<const S: usize, const T: usize>(workload: &'static str, sizes: [u64; S], tasks: [usize; T]) -> Vec<Cell> {
    let of_size = |size| tasks.map(move |tasks| Cell { workload, size, tasks });
    sizes.into_iter().flat_map(of_size).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_cell_is_measured_twice() {
        for groups in [groups(true), groups(false)] {
            let cells: Vec<_> = groups.iter().flat_map(|group| &group.cells).collect();
            assert_eq!(cells.iter().collect::<HashSet<_>>().len(), cells.len());
        }
    }

    #[test]
    fn what_grows_is_measured_at_four_sizes_at_least() {
        let cells: Vec<_> = groups(false).into_iter().flat_map(|group| group.cells).collect();
        for workload in ["append", "get", "get_json", "get_recent", "list", "state", "turn", "size_on_disk", "memory"] {
            let sizes: HashSet<_> =
                cells.iter().filter(|cell| cell.workload == workload).map(|cell| cell.size).collect();
            assert!(sizes.len() >= 4, "{workload}: {sizes:?}");
        }
    }
}
