//! Writes the tables in Markdown.

use std::fmt::Write as _;

use crate::markdown::{header, number, ratio, row, thousands};
use crate::outcome::CellOutcome;
use crate::summary::{CellKey, Summary};
use crate::systems::SystemId;
use crate::{goals, inventory, slopes};

/// The names of the tables in the pages on benchmarks.
pub(crate) const TABLES: [&str; 11] =
    ["machine", "memory", "sqlite", "postgres", "goals", "limit", "growth", "resources", "setup", "systems", "missing"];

/// The rows of a store's table: workload, number of tasks, the size that is shown, and the row's name.
const ROWS: [(&str, usize, u64, &str); 20] = [
    ("create", 1, 2, "create a session"),
    ("create", 16, 2, "create, 16 tasks"),
    ("create", 64, 2, "create, 64 tasks"),
    ("append", 1, 10, "append"),
    ("append", 16, 10, "append, 16 tasks"),
    ("append", 64, 10, "append, 64 tasks"),
    ("append", 256, 10, "append, 256 tasks"),
    ("append_hot", 16, 10, "append to one app key, 16 tasks"),
    ("append_shared", 8, 10, "append to one session, 8 tasks"),
    ("get", 1, 1_000, "get"),
    ("get_json", 1, 1_000, "get, as JSON"),
    ("get_recent", 1, 10_000, "get the last 10"),
    ("list", 1, 10_000, "list a user's sessions"),
    ("state", 1, 1_000, "append to a state"),
    ("turn", 1, 100, "turn of an agent"),
    ("http_create", 16, 2, "HTTP: create, 16 connections"),
    ("http_get", 16, 10, "HTTP: get, 16 connections"),
    ("http_patch", 16, 10, "HTTP: PATCH, 16 connections"),
    ("http_turn", 1, 10, "HTTP: turn"),
    ("http_turn", 16, 10, "HTTP: turn, 16 connections"),
];

const STORES: [&str; 3] = ["memory", "sqlite", "postgres"];

/// Returns all tables, each under its name.
pub(crate) fn all(summary: &Summary) -> String {
    TABLES.iter().map(|name| format!("## {name}\n\n{}\n", table(summary, name).unwrap_or_default())).collect()
}

/// Returns a table by its name.
pub(crate) fn table(summary: &Summary, name: &str) -> Option<String> {
    Some(match name {
        "machine" => machine(summary),
        "memory" | "sqlite" | "postgres" => of_store(summary, name),
        "goals" => goals(summary),
        "limit" => limit(summary),
        "growth" => slopes::table(summary),
        "resources" => resources(summary),
        "setup" => setup(summary),
        "systems" => inventory::systems(summary),
        "missing" => inventory::missing(summary),
        _ => return None,
    })
}

fn machine(summary: &Summary) -> String {
    let Some(machine) = summary.machines.last() else { return String::new() };
    let mut commits: Vec<_> = summary.machines.iter().map(|machine| machine.commit.as_str()).collect();
    commits.dedup();
    let kind = match machine.quick {
        true => "a quick run of one round".to_owned(),
        false => format!("the median of {} interleaved rounds", summary.rounds),
    };
    format!(
        "{} UTC, {}; {} processors ({}), {}; {} build of commit {}.\n",
        machine.date,
        kind,
        machine.processors,
        machine.processor,
        machine.system,
        machine.build,
        commits.join(" and ")
    )
}

/// Returns a table with the operations per second of all systems on a store, and how many times as fast scratchbook is.
fn of_store(summary: &Summary, store: &str) -> String {
    let systems = summary.systems(store);
    let names = systems.iter().map(|id| summary.label(id));
    let mut text = header(std::iter::once("operations in a second".to_owned()).chain(names));
    let cells = summary.cells();
    for (workload, tasks, size, what) in ROWS {
        let Some(key) = nearest(&cells, &systems, summary, workload, tasks, size) else { continue };
        let ours = systems.first().and_then(|id| summary.measured(id, &key)).map(|outcome| outcome.per_second);
        let fields = systems.iter().map(|id| field(id, summary.outcome(id, &key), ours, workload));
        let size = if ["create", "http_create"].contains(&workload) {
            String::new()
        } else {
            format!(", {}", key.size_in_words())
        };
        row(&mut text, std::iter::once(format!("{what}{size}")).chain(fields));
    }
    text
}

/// Returns the cell of this workload with the wanted size, or else with the largest size below it, or else any cell.
fn nearest(
    cells: &[CellKey],
    systems: &[&SystemId],
    summary: &Summary,
    workload: &str,
    tasks: usize,
    size: u64,
) -> Option<CellKey> {
    let is_there = |key: &&CellKey| {
        key.workload == workload && key.tasks == tasks && systems.iter().any(|id| summary.measured(id, key).is_some())
    };
    let found: Vec<_> = cells.iter().filter(is_there).collect();
    let below = found.iter().filter(|key| key.size <= size).max_by_key(|key| key.size);
    below.or(found.first()).map(|key| (*key).clone())
}

/// Returns a field of a table: rate, spread, how many times as fast scratchbook is, and what went wrong.
fn field(id: &SystemId, outcome: Option<&CellOutcome>, ours: Option<f64>, workload: &str) -> String {
    let Some(outcome) = outcome else { return "–".to_owned() };
    if let Some(why) = &outcome.missing {
        return if why.starts_with("failed") { "failed".to_owned() } else { "–".to_owned() };
    }
    let mut text = format!("{} ±{:.0} %", number(outcome.per_second), outcome.spread * 50.0);
    if !outcome.quiet {
        text.push('°');
    }
    if id.system != "scratchbook"
        && let Some(ours) = ours
    {
        let _ = write!(text, " ({} ×)", ratio(ours / outcome.per_second));
    }
    if workload.starts_with("http")
        && let Some(latencies) = outcome.latencies
    {
        let _ = write!(text, ", p99 {} ms", number(latencies.p99 / 1e3));
    }
    let wrong = outcome.wrong;
    let counts = [
        (wrong.lost, "lost"),
        (wrong.refused, "refused"),
        (wrong.disordered, "disordered"),
        (wrong.doubled, "doubled"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        let (count, attempted) = (thousands(count as f64), thousands(outcome.attempted as f64));
        let _ = write!(text, ", **{what} {count} of {attempted}**");
    }
    if wrong.is_nothing() && workload == "append_shared" {
        text.push_str(", nothing wrong");
    }
    text
}

/// Returns a table of the goals, with the missed goals first.
fn goals(summary: &Summary) -> String {
    let mut text = header(
        ["goal", "beside", "wanted", "measured", "the limit", "met", "what takes the time"]
            .map(str::to_owned)
            .into_iter(),
    );
    let (met, missed): (Vec<_>, Vec<_>) = goals::standings(summary).into_iter().partition(|it| it.is_met);
    for it in missed.into_iter().chain(met) {
        let is_met = if it.is_met { "yes" } else { "**no**" }.to_owned();
        let why = if it.is_met { String::new() } else { it.why.to_owned() };
        row(&mut text, [it.what, it.beside, it.goal, it.measured, it.limit, is_met, why].into_iter());
    }
    text
}

/// Returns a table that shows which part of the limit scratchbook reaches, in each cell with a limit.
fn limit(summary: &Summary) -> String {
    let head = ["path", "limit", "scratchbook, per s", "limit, per s", "part of the limit"];
    let mut text = header(head.map(str::to_owned).into_iter());
    let cells = summary.cells();
    for (store, id) in
        STORES.into_iter().flat_map(|store| summary.systems(store).into_iter().map(move |id| (store, id)))
    {
        if id.system != "limit" {
            continue;
        }
        for (workload, tasks, size, what) in ROWS {
            let ours = SystemId::new("scratchbook", None, store);
            let Some(key) = nearest(&cells, &[id], summary, workload, tasks, size) else { continue };
            let Some((ours, limit)) = summary.measured(&ours, &key).zip(summary.measured(id, &key)) else { continue };
            let part = format!("{:.2}", ours.per_second / limit.per_second);
            let service = id.service.clone().unwrap_or_default();
            let rates = [number(ours.per_second), number(limit.per_second)];
            row(&mut text, [format!("{what}, {store}"), service].into_iter().chain(rates).chain([part]));
        }
    }
    text
}

fn resources(summary: &Summary) -> String {
    let head = [
        "system",
        "store",
        "bytes on disk, an event",
        "a session of 100 events",
        "bytes in memory, an event",
        "a session of 10 events",
        "cold start, ms",
    ];
    let mut text = header(head.map(str::to_owned).into_iter());
    let cells = summary.cells();
    for id in all_systems(summary) {
        let of = |workload, size| {
            let key = nearest(&cells, &[id], summary, workload, 1, size)?;
            summary.measured(id, &key)
        };
        let bytes = |workload| of(workload, 10_000).and_then(|it| it.bytes).map(|bytes| thousands(bytes.round()));
        let of_session = |workload: &str, events: u64| {
            let key = CellKey { workload: workload.to_owned(), size: events, tasks: 1 };
            let bytes = summary.measured(id, &key)?.bytes?;
            Some(thousands((bytes * events as f64).round()))
        };
        let start = of("cold_start", 1).map(|it| number(1e3 / it.per_second));
        let fields =
            [bytes("size_on_disk"), of_session("size_on_disk", 100), bytes("memory"), of_session("memory", 10), start];
        if fields.iter().any(Option::is_some) {
            let fields = fields.map(|field| field.unwrap_or_else(|| "–".to_owned()));
            row(&mut text, [id.name(), id.store.clone()].into_iter().chain(fields));
        }
    }
    text
}

fn setup(summary: &Summary) -> String {
    if summary.setups.is_empty() {
        return "Not measured.\n".to_owned();
    }
    let mut text = header(["system", "installed, MB", "build or installation, s"].map(str::to_owned).into_iter());
    for (system, cost) in &summary.setups {
        let seconds = cost.seconds.map_or_else(|| "–".to_owned(), number);
        row(&mut text, [system.clone(), number(cost.bytes as f64 / 1e6), seconds].into_iter());
    }
    text
}

/// Returns the systems of all stores.
pub(crate) fn all_systems(summary: &Summary) -> impl Iterator<Item = &SystemId> {
    STORES.into_iter().flat_map(|store| summary.systems(store))
}

#[cfg(test)]
mod tests {
    use scratchbook_compare::protocol::RunnerAnswer;

    use super::*;
    use crate::results::ResultLine;
    use crate::summary::tests::{measured, row as line};

    fn summary(lines: &[ResultLine]) -> Summary {
        Summary::new(lines)
    }

    #[test]
    fn a_wrong_number_is_shown_as_wrong_beside_the_speed() {
        let lines = [
            line("other", "sqlite", "append", 10, measured(100, 12)),
            line("scratchbook", "sqlite", "append", 10, measured(5_000, 0)),
        ];
        let table = of_store(&summary(&lines), "sqlite");
        let row = "| append, 10 events | 5,000 ±0 % | 100 ±0 % (50 ×), **lost 12 of 200** |";
        assert!(table.contains(row), "{table}");
        assert!(table.starts_with("| operations in a second | scratchbook | other |"), "{table}");
    }

    #[test]
    fn what_was_not_measured_is_a_dash_and_named_with_its_reason() {
        let no = RunnerAnswer::Unsupported { unsupported: "there is no such call".to_owned() };
        let lines = [
            line("other", "sqlite", "append", 10, no.clone()),
            line("other", "sqlite", "append", 100, no),
            line("scratchbook", "sqlite", "append", 10, measured(5_000, 0)),
            ResultLine::Unavailable { system: "third".to_owned(), why: "no node".to_owned() },
        ];
        assert!(of_store(&summary(&lines), "sqlite").contains("| append, 10 events | 5,000 ±0 % | – |"));
        let missing = inventory::missing(&summary(&lines));
        let both = "- other on sqlite: there is no such call (`append, 10 events`, `append, 100 events`)\n";
        assert_eq!(missing, format!("- third: no node\n{both}"));
    }
}
