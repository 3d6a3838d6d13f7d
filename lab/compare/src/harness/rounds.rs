//! The order of a run: in each round of each group, every cell is measured by all systems one after the other.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use scratchbook_compare::protocol::{CellRequest, RunnerAnswer};
use scratchbook_test_servers::{Postgres, PostgresOptions};

use crate::Result;
use crate::cells::{self, Cell, CellGroup};
use crate::machine::{Machine, MachineMoment, MachineWatch};
use crate::options::RunOptions;
use crate::results::{ResultLine, ResultRow, Results};
use crate::runner::{RunnerProcess, empty_folder};
use crate::systems::{self, KnownSystems, System, SystemId};

/// Measures everything that is not in the results yet. The results also list what was left out for lack of time.
pub(crate) fn run(options: &RunOptions, results: &mut Results) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    empty_folder(&options.work)?;
    results.append(ResultLine::Machine(Machine::here(options.quick)))?;
    let KnownSystems { systems, unavailable, setups } = systems::all(&options.peers)?;
    for (system, why) in unavailable {
        results.append(ResultLine::Unavailable { system, why })?;
    }
    for (system, cost) in setups {
        results.append(ResultLine::Setup { system, cost })?;
    }
    let mut groups = cells::groups(options.quick);
    let systems = chosen(&options.only, &mut groups, systems)?;
    let mut run = RoundsRun {
        options,
        watch: MachineWatch::new(&options.work, Duration::from_secs(60 * options.wait))?,
        postgres: PostgresState::NotStarted,
        failed: HashSet::new(),
        unusable: HashSet::new(),
        started: 0,
        results,
    };
    for index in 0..groups.len() {
        // Each group gets its share of the time that is left.
        let left: usize = groups[index..].iter().map(|group| group.cells.len()).sum();
        let share =
            end.saturating_duration_since(Instant::now()).mul_f64(groups[index].cells.len() as f64 / left as f64);
        let times = Deadlines { group: Instant::now() + share, all: end };
        if let Some(why) = run.group(&groups[index], &systems, &times)? {
            println!("no time: {why}");
            run.results.append(ResultLine::Unavailable { system: "no time".to_owned(), why })?;
        }
    }
    drop(run);
    // After a run without errors, its databases are not needed.
    fs::remove_dir_all(&options.work).map_err(|error| format!("{}: {error}", options.work.display()))
}

/// Returns the systems that were chosen, and keeps the cells that were chosen.
fn chosen(only: &[String], groups: &mut Vec<CellGroup>, systems: Vec<System>) -> Result<Vec<System>> {
    let is_named = |name: &str| only.iter().any(|one| one == name);
    let names = |system: &System| {
        let id = &system.id;
        [Some(&id.system), Some(&id.store), id.service.as_ref()].into_iter().flatten().any(|name| is_named(name))
    };
    let workloads: HashSet<&str> = groups.iter().flat_map(|group| &group.cells).map(|cell| cell.workload).collect();
    if let Some(unknown) = only.iter().find(|one| {
        let is_system = systems
            .iter()
            .any(|it| [Some(&it.id.system), Some(&it.id.store), it.id.service.as_ref()].contains(&Some(one)));
        !workloads.contains(one.as_str()) && !is_system
    }) {
        return Err(format!(
            "nothing is called '{unknown}': give the name of a workload, a system, a service or a store"
        ));
    }
    if workloads.iter().any(|name| is_named(name)) {
        groups.iter_mut().for_each(|group| group.cells.retain(|cell| is_named(cell.workload)));
        groups.retain(|group| !group.cells.is_empty());
    }
    let any = systems.iter().any(names);
    Ok(systems.into_iter().filter(|system| !any || names(system)).collect())
}

/// The time at which a group should end once its first round is done, and the time at which the whole run has to end.
struct Deadlines {
    group: Instant,
    all: Instant,
}

/// The PostgreSQL server of the run.
enum PostgresState {
    NotStarted,
    Running(Postgres),
    Failed(String),
}

struct RoundsRun<'a> {
    options: &'a RunOptions,
    results: &'a mut Results,
    watch: MachineWatch,
    postgres: PostgresState,
    /// Cells that failed in this run.
    failed: HashSet<(SystemId, Cell)>,
    /// Systems whose runner does not start.
    unusable: HashSet<SystemId>,
    /// How many runners were started.
    started: usize,
}

impl RoundsRun<'_> {
    /// Measures a group, and ends its runners. Returns what was left out for lack of time.
    fn group(&mut self, group: &CellGroup, systems: &[System], times: &Deadlines) -> Result<Option<String>> {
        let mut runners = HashMap::new();
        let left_out = self.rounds(&mut runners, group, systems, times);
        for (_, (runner, place)) in runners {
            drop(runner);
            self.remove(&place)?;
        }
        left_out
    }

    fn rounds(
        &mut self,
        runners: &mut Runners,
        group: &CellGroup,
        systems: &[System],
        times: &Deadlines,
    ) -> Result<Option<String>> {
        for round in 1..=self.options.rounds() {
            if round > 1 && Instant::now() >= times.group {
                return Ok(Some(format!("{}, from round {round} of {} on", group.name, self.options.rounds())));
            }
            println!("{}, round {round} of {}", group.name, self.options.rounds());
            for cell in &group.cells {
                let waiting: Vec<_> = systems.iter().filter(|system| self.is_missing(system, cell, round)).collect();
                if waiting.is_empty() {
                    continue;
                }
                let moment = self.watch.wait()?;
                for system in waiting {
                    if Instant::now() >= times.all {
                        return Ok(Some(format!("{}, from {} in round {round} on", group.name, cell.workload)));
                    }
                    self.measure(runners, system, cell, round, moment)?;
                }
            }
        }
        Ok(None)
    }

    fn is_missing(&self, system: &System, cell: &Cell, round: usize) -> bool {
        let key = (system.id.clone(), *cell);
        !self.results.has(&system.id, cell, round) && !self.failed.contains(&key) && !self.unusable.contains(&system.id)
    }

    fn measure(
        &mut self,
        runners: &mut Runners,
        system: &System,
        cell: &Cell,
        round: usize,
        at: MachineMoment,
    ) -> Result<()> {
        let id = &system.id;
        if !runners.contains_key(id) {
            match self.start(system) {
                Ok(started) => {
                    runners.insert(id.clone(), started);
                }
                Err(why) => {
                    println!("  {} on {}: {why}", id.name(), id.store);
                    self.unusable.insert(id.clone());
                    let system = format!("{} on {}", id.name(), id.store);
                    return self.results.append(ResultLine::Unavailable { system, why });
                }
            }
        }
        let Some((runner, _)) = runners.get_mut(id) else { return Ok(()) };
        let (workload, seconds) = (cell.workload.to_owned(), self.options.seconds());
        let request = CellRequest { workload, size: cell.size, tasks: cell.tasks, seconds, round };
        let answer = runner.ask(&request).unwrap_or_else(|error| {
            // The next cell gets a new process and an empty database.
            runners.remove(id);
            RunnerAnswer::Failed { error }
        });
        // The limit has only a few workloads, so an unsupported one is no news.
        if id.system != "limit" || !matches!(answer, RunnerAnswer::Unsupported { .. }) {
            println!("  {}", shown(id, cell, &answer));
        }
        if matches!(answer, RunnerAnswer::Failed { .. }) {
            self.failed.insert((id.clone(), *cell));
        }
        let (id, workload, size, tasks) = (id.clone(), cell.workload.to_owned(), cell.size, cell.tasks);
        self.results.append(ResultLine::Row(ResultRow { id, workload, size, tasks, round, at, answer }))
    }

    fn start(&mut self, system: &System) -> Result<(RunnerProcess, DataLocation)> {
        self.started += 1;
        let name = format!("{}-{}", system.id.file_name(), self.started);
        let (location, place) = if system.id.store == "postgres" {
            let database = format!("bench{}", self.started);
            let server = self.server()?;
            server.ask(&format!("CREATE DATABASE {database}")).map_err(|error| error.to_string())?;
            let uri = server.uri();
            let base = uri.rsplit_once('/').map_or(uri.as_str(), |(base, _)| base);
            (format!("{base}/{database}"), DataLocation::Database(database))
        } else {
            let folder = self.options.work.join(&name);
            empty_folder(&folder)?;
            let folder = fs::canonicalize(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            (folder.display().to_string(), DataLocation::Folder(folder))
        };
        let log = self.options.results.with_file_name(format!("{}.log", system.id.file_name()));
        let (runner, hello) = RunnerProcess::start(system, &location, &log)?;
        if !self.results.knows(&hello) {
            self.results.append(ResultLine::System(hello))?;
        }
        Ok((runner, place))
    }

    /// Removes the data of a runner that has ended.
    fn remove(&mut self, place: &DataLocation) -> Result<()> {
        match place {
            DataLocation::Folder(folder) => {
                fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
            }
            DataLocation::Database(name) => {
                let dropped = self.server()?.ask(&format!("DROP DATABASE {name} WITH (FORCE)"));
                dropped.map(drop).map_err(|error| error.to_string())
            }
        }
    }

    fn server(&mut self) -> Result<&Postgres> {
        if matches!(self.postgres, PostgresState::NotStarted) {
            let options = PostgresOptions::default().with_setting("shared_buffers", "512MB");
            // pgbench has up to 256 connections, while the other runners of a group hold theirs.
            let options = options.with_setting("max_wal_size", "4GB").with_setting("max_connections", "600");
            self.postgres = match Postgres::start(&options) {
                Ok(server) => PostgresState::Running(server),
                Err(error) => PostgresState::Failed(error.to_string()),
            };
        }
        match &self.postgres {
            PostgresState::Running(server) => Ok(server),
            PostgresState::Failed(why) => Err(format!("there is no PostgreSQL: {why}")),
            PostgresState::NotStarted => Err("PostgreSQL was not started".to_owned()),
        }
    }
}

/// The runners of a group, with the places of their data.
type Runners = HashMap<SystemId, (RunnerProcess, DataLocation)>;

/// The place of a runner's data.
enum DataLocation {
    Folder(PathBuf),
    Database(String),
}

/// Returns a line for the terminal.
fn shown(id: &SystemId, cell: &Cell, answer: &RunnerAnswer) -> String {
    let what = format!("{} {} x{}: {} on {}", cell.workload, cell.size, cell.tasks, id.name(), id.store);
    match answer {
        RunnerAnswer::Measured(measured) => match measured.bytes {
            Some(bytes) => format!("{what}: {bytes:.0} bytes"),
            None => format!("{what}: {:.1}/s", measured.per_second()),
        },
        RunnerAnswer::Unsupported { unsupported } => format!("{what}: not possible: {unsupported}"),
        RunnerAnswer::Failed { error } => format!("{what}: failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(name: &str, store: &str) -> System {
        let argument = store.to_owned();
        System { id: SystemId::new(name, None, store), argument, command: Vec::new(), folder: PathBuf::new() }
    }

    fn systems() -> Vec<System> {
        vec![system("a", "memory"), system("a", "sqlite"), system("b", "sqlite")]
    }

    #[test]
    fn names_choose_workloads_and_systems() {
        let choose = |only: &[&str]| {
            let mut groups = cells::groups(false);
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            let systems = chosen(&only, &mut groups, systems())?;
            let cells: HashSet<_> = groups.iter().flat_map(|group| &group.cells).map(|cell| cell.workload).collect();
            Ok::<_, String>((cells.len(), systems.len()))
        };
        let (all, count) = choose(&[]).unwrap();
        assert!(all > 10 && count == 3);
        assert_eq!(choose(&["append"]), Ok((1, 3)));
        assert_eq!(choose(&["append", "get", "a"]), Ok((2, 2)));
        assert_eq!(choose(&["b"]), Ok((all, 1)));
        assert!(choose(&["no such"]).unwrap_err().contains("'no such'"));
    }
}
