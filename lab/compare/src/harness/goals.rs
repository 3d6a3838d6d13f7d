//! The goals of the comparison, and which of them are met.

use crate::outcome::CellOutcome;
use crate::summary::{CellKey, Summary};
use crate::systems::{FOR_PYTHON, SystemId};

/// A goal: on this store, scratchbook should run this workload `times` times as fast as another system.
struct Goal {
    /// The name of ours: scratchbook, or its Python package.
    ours: &'static str,
    store: &'static str,
    cell: (&'static str, u64, usize),
    what: &'static str,
    /// The other system, and its service if only one of its services counts.
    other: (&'static str, Option<&'static str>),
    times: f64,
}

const fn goal(
    store: &'static str,
    cell: (&'static str, u64, usize),
    what: &'static str,
    other: (&'static str, Option<&'static str>),
    times: f64,
) -> Goal {
    Goal { ours: OURS, store, cell, what, other, times }
}

impl Goal {
    const fn for_python(self) -> Self {
        Self { ours: FOR_PYTHON, ..self }
    }
}

const OURS: &str = "scratchbook";
const ADK: (&str, Option<&str>) = ("google-adk", None);
const ADK_DATABASE: (&str, Option<&str>) = ("google-adk", Some("DatabaseSessionService"));
const ADK_FILE: (&str, Option<&str>) = ("google-adk", Some("SqliteSessionService"));
const RUST: (&str, Option<&str>) = ("adk-session", None);

const LIMIT: &str = "limit";
/// The limit on each store that writes and reads all rows of an event. `COPY` writes some of them, and a copy in memory
/// none.
const LIMITS: [(&str, &str); 2] = [("sqlite", "rusqlite"), ("postgres", "UNNEST")];

const GOALS: [Goal; 34] = [
    goal("sqlite", ("append", 10, 1), "append", (LIMIT, Some("rusqlite")), 0.85),
    goal("sqlite", ("append", 10, 64), "append, 64 tasks", (LIMIT, Some("rusqlite")), 0.75),
    goal("postgres", ("append", 10, 64), "append, 64 tasks", (LIMIT, Some("UNNEST")), 0.75),
    goal("sqlite", ("append", 10, 16), "append, 16 tasks", ADK_DATABASE, 50.0),
    goal("sqlite", ("append", 10, 16), "append, 16 tasks", RUST, 5.0),
    goal("postgres", ("append", 10, 16), "append, 16 tasks", ADK_DATABASE, 50.0),
    goal("postgres", ("append", 10, 16), "append, 16 tasks", RUST, 5.0),
    goal("memory", ("append", 10, 1), "append", RUST, 1.5),
    goal("memory", ("create", 2, 1), "create", RUST, 1.0),
    goal("sqlite", ("create", 2, 1), "create", RUST, 1.0),
    goal("sqlite", ("create", 2, 16), "create, 16 tasks", RUST, 1.0),
    goal("postgres", ("create", 2, 1), "create", RUST, 1.0),
    goal("postgres", ("create", 2, 16), "create, 16 tasks", RUST, 1.0),
    goal("memory", ("get", 1_000, 1), "get 1,000 events", ADK, 20.0),
    goal("sqlite", ("get", 1_000, 1), "get 1,000 events", ADK, 20.0),
    goal("postgres", ("get", 1_000, 1), "get 1,000 events", ADK, 20.0),
    goal("memory", ("get_json", 1_000, 1), "get 1,000 events, JSON", ADK, 20.0),
    goal("sqlite", ("get_json", 1_000, 1), "get 1,000 events, JSON", ADK, 20.0),
    goal("postgres", ("get_json", 1_000, 1), "get 1,000 events, JSON", ADK, 20.0),
    goal("memory", ("get", 1_000, 1), "get 1,000 events", RUST, 5.0),
    goal("sqlite", ("get", 1_000, 1), "get 1,000 events", RUST, 5.0),
    goal("postgres", ("get", 1_000, 1), "get 1,000 events", RUST, 5.0),
    goal("memory", ("get_json", 1_000, 1), "get 1,000 events, JSON", RUST, 5.0),
    goal("sqlite", ("get_json", 1_000, 1), "get 1,000 events, JSON", RUST, 5.0),
    goal("postgres", ("get_json", 1_000, 1), "get 1,000 events, JSON", RUST, 5.0),
    goal("memory", ("turn", 100, 1), "turn of an agent", ADK, 20.0),
    goal("sqlite", ("turn", 100, 1), "turn of an agent", ADK, 20.0),
    goal("postgres", ("turn", 100, 1), "turn of an agent", ADK, 20.0),
    goal("sqlite", ("http_create", 2, 16), "HTTP create, 16 connections", ADK, 55.0),
    goal("sqlite", ("http_get", 10, 16), "HTTP get, 16 connections", ADK, 70.0),
    goal("sqlite", ("http_patch", 10, 16), "HTTP PATCH, 16 connections", ADK, 40.0),
    goal("sqlite", ("list", 10_000, 1), "list a user's sessions", ADK, 5.0),
    goal("sqlite", ("append", 10, 1), "append from Python", ADK_FILE, 5.0).for_python(),
    goal("sqlite", ("append", 10, 16), "append from Python, 16 tasks", ADK_FILE, 25.0).for_python(),
];

/// The maximum time of 99 of 100 requests over 16 connections, in milliseconds.
const P99: f64 = 10.0;

const SHARED_PROCESSORS: &str = "the server and its 16 clients share two processors";

/// A goal, and whether it is met.
pub(crate) struct Standing {
    pub(crate) what: String,
    pub(crate) beside: String,
    pub(crate) goal: String,
    pub(crate) measured: String,
    /// How many times as fast the limit is as the other system. A goal above it cannot be met on this machine.
    pub(crate) limit: String,
    pub(crate) is_met: bool,
    /// What takes the time, for a goal that is missed.
    pub(crate) why: &'static str,
}

/// Returns the results for all goals that were measured, in the order of the goals.
pub(crate) fn standings(summary: &Summary) -> Vec<Standing> {
    let mut standings: Vec<_> = GOALS.iter().filter_map(|goal| goal.standing(summary)).collect();
    for (workload, size) in [("http_create", 2), ("http_get", 10), ("http_patch", 10)] {
        let outcome = outcome_of(summary, OURS, "sqlite", &key((workload, size, 16)));
        if let Some(p99) = outcome.and_then(|outcome| outcome.latencies).map(|it| it.p99 / 1e3) {
            standings.push(Standing {
                what: format!("{}, 16 connections, p99", workload.replace("http_", "HTTP ")),
                beside: "–".to_owned(),
                goal: format!("under {P99} ms"),
                measured: format!("{p99:.1} ms"),
                limit: "–".to_owned(),
                is_met: p99 < P99,
                why: SHARED_PROCESSORS,
            });
        }
    }
    standings.extend(mistakes(summary));
    standings
}

/// Returns how often scratchbook lost, refused, disordered or doubled something, in all cells.
fn mistakes(summary: &Summary) -> Option<Standing> {
    let cells = summary.cells();
    let outcomes: Vec<_> = ["memory", "sqlite", "postgres"]
        .into_iter()
        .flat_map(|store| [OURS, FOR_PYTHON].map(|name| (store, name)))
        .flat_map(|(store, name)| cells.iter().filter_map(move |key| outcome_of(summary, name, store, key)))
        .collect();
    if outcomes.is_empty() {
        return None;
    }
    let count: u64 =
        outcomes.iter().map(|it| it.wrong.lost + it.wrong.refused + it.wrong.disordered + it.wrong.doubled).sum();
    Some(Standing {
        what: "lost, refused, disordered and doubled events".to_owned(),
        beside: "–".to_owned(),
        goal: "0".to_owned(),
        measured: count.to_string(),
        limit: "–".to_owned(),
        is_met: count == 0,
        why: "",
    })
}

impl Goal {
    fn standing(&self, summary: &Summary) -> Option<Standing> {
        let key = key(self.cell);
        let ours = outcome_of(summary, self.ours, self.store, &key)?;
        // The other system's fastest service counts.
        let others = summary.systems(self.store).into_iter().filter(|id| {
            id.system == self.other.0 && self.other.1.is_none_or(|service| id.service.as_deref() == Some(service))
        });
        let measured = others.filter_map(|id| Some((id, summary.measured(id, &key)?.per_second)));
        let (other, rate) = measured.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let times = ours.per_second / rate;
        let limit = LIMITS
            .iter()
            .find(|(store, _)| *store == self.store && self.other.0 != LIMIT)
            .and_then(|(_, name)| summary.measured(&SystemId::new(LIMIT, Some(name), self.store), &key));
        Some(Standing {
            what: format!("{} on {}", self.what, self.store),
            beside: other.name(),
            goal: format!("{} ×", self.times),
            measured: multiple(times),
            limit: limit.map_or_else(|| "–".to_owned(), |limit| multiple(limit.per_second / rate)),
            is_met: times >= self.times,
            why: self.why(),
        })
    }

    /// Returns what takes the time.
    fn why(&self) -> &'static str {
        match (self.ours, self.store, self.cell.0, self.other.0) {
            (FOR_PYTHON, ..) => "each append waits for Python, the writer and the runtime, which wake one another",
            (.., "append", LIMIT) if self.cell.2 == 1 => {
                "the caller and the writer are two threads, which wake each other"
            }
            (.., "append", LIMIT) => "the statements also look for the id, lock the session and read its hash",
            (_, "memory", "get_json", _) => "each event is written as JSON",
            (_, "memory", ..) => "more is written: logs for feeds, blame and past states",
            (.., "create", _) => "more rows are written: one for each key, and the initial state",
            (.., "append", _) => "the rows of an event, each on the disk",
            (.., "turn", _) => "four commits a turn, each on the disk",
            (.., workload, _) if workload.starts_with("http") => SHARED_PROCESSORS,
            _ => "each event is parsed",
        }
    }
}

fn multiple(times: f64) -> String {
    if times < 10.0 { format!("{times:.2} ×") } else { format!("{times:.0} ×") }
}

fn outcome_of<'a>(summary: &'a Summary, name: &str, store: &str, key: &CellKey) -> Option<&'a CellOutcome> {
    summary.measured(&SystemId::new(name, None, store), key)
}

fn key((workload, size, tasks): (&str, u64, usize)) -> CellKey {
    CellKey { workload: workload.to_owned(), size, tasks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;
    use crate::results::ResultLine;
    use crate::summary::tests::{measured, row};

    #[test]
    fn goals_are_about_cells_that_a_run_measures() {
        let cells: Vec<_> = cells::groups(false).into_iter().flat_map(|group| group.cells).collect();
        for goal in &GOALS {
            assert!(cells.iter().any(|cell| (cell.workload, cell.size, cell.tasks) == goal.cell), "{}", goal.what);
        }
    }

    /// Returns the row of a system on SQLite that has read this many sessions of 1,000 events.
    fn reads(system: &str, service: Option<&str>, count: u64) -> ResultLine {
        let ResultLine::Row(mut row) = row(system, "sqlite", "get", 1_000, measured(count, 0)) else {
            panic!("it is a row")
        };
        row.id.service = service.map(str::to_owned);
        ResultLine::Row(row)
    }

    #[test]
    fn a_goal_is_met_beside_the_fastest_service() {
        let lines = |ours| {
            let other = |service, count| reads("google-adk", Some(service), count);
            [reads("scratchbook", None, ours), other("slow", 10), other("fast", 100)]
        };
        let standing = |ours| standings(&Summary::new(&lines(ours))).into_iter().next().unwrap();
        let (met, missed) = (standing(2_000), standing(1_999));
        assert_eq!((met.beside.as_str(), met.is_met, missed.is_met), ("google-adk, fast", true, false));
    }

    #[test]
    fn a_goal_stands_beside_the_limit() {
        let (other, limit) = (reads("google-adk", Some("S"), 10), reads(LIMIT, Some("rusqlite"), 150));
        let lines = [reads("scratchbook", None, 100), other, limit];
        let standing = standings(&Summary::new(&lines)).into_iter().next().unwrap();
        assert_eq!((standing.measured.as_str(), standing.limit.as_str(), standing.is_met), ("10 ×", "15 ×", false));
        let without = standings(&Summary::new(&lines[..2])).into_iter().next().unwrap();
        assert_eq!(without.limit, "–");
    }

    #[test]
    fn a_mistake_of_ours_misses_a_goal() {
        let lines = [row("scratchbook", "sqlite", "append", 10, measured(100, 1))];
        let standings = standings(&Summary::new(&lines));
        assert!(standings.iter().any(|standing| standing.goal == "0" && !standing.is_met));
    }
}
