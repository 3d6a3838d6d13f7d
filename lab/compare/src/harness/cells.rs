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
    vec![
        group("create", [cells("create", [2, 10, 30, 100], [1]), cells("create", [2], [16, 64])].concat()),
        group(
            "append",
            [
                cells("append", [10, 100, 1_000, 10_000], [1]),
                cells("append", [10], [16, 64, 256]),
                cells("append_hot", [10, 100, 1_000, 10_000], [1]),
                cells("append_hot", [10], [16]),
                cells("append_shared", [10, 20, 50, 100], [8]),
            ]
            .concat(),
        ),
        // By default, a store of scratchbook takes 10,000 keys of a session.
        group("state", cells("state", [1, 10, 100, 1_000, 9_000], [1])),
        group("turn", cells("turn", [10, 100, 1_000, 10_000], [1])),
        group(
            "http",
            [
                cells("http_create", [2, 10, 30, 100], [16]),
                cells("http_get", [10, 20, 50, 100], [16]),
                cells("http_patch", [10, 20, 50, 100], [16]),
                cells("http_turn", [10, 20, 50, 100], [1]),
                cells("http_turn", [10], [16]),
            ]
            .concat(),
        ),
        group(
            "resources",
            [
                cells("size_on_disk", [100, 1_000, 10_000, 30_000], [1]),
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
        cells("create", [2], [1, 16]),
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
        cells("http_create", [2], [16]),
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
    use crate::slopes::GROWING;

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
        for (workload, tasks, _) in GROWING {
            let of_workload = cells.iter().filter(|cell| (cell.workload, cell.tasks) == (workload, tasks));
            let sizes: HashSet<_> = of_workload.map(|cell| cell.size).collect();
            assert!(sizes.len() >= 4, "{workload}: {sizes:?}");
        }
        let grows = |cell: &&Cell| cell.workload == "cold_start" || GROWING.iter().any(|it| it.0 == cell.workload);
        assert!(cells.iter().all(|cell| grows(&cell)));
    }
}
