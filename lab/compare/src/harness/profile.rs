//! Shows in which functions single paths spend their processor time, as `perf` records them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use scratchbook_compare::protocol::{CellRequest, RunnerAnswer};
use scratchbook_test_servers::{Postgres, PostgresOptions};

use crate::Result;
use crate::markdown::{header, row};
use crate::page;
use crate::runner::{RunnerProcess, empty_folder};
use crate::systems;

/// How many samples perf takes in a second of processor time.
const FREQUENCY: &str = "999";
/// How long a path is measured, in seconds.
const SECONDS: f64 = 10.0;
/// How many functions are listed for each path.
const FUNCTIONS: usize = 8;
/// The command `scratchbook`, whose server answers requests over HTTP.
const SERVER: &str = "scratchbook";

/// A path that is recorded: what it is, its store, workload, size and number of tasks.
struct ProfiledPath(&'static str, &'static str, &'static str, u64, usize);

const PATHS: [ProfiledPath; 8] = [
    ProfiledPath("append, memory", "memory", "append", 10, 1),
    ProfiledPath("append, SQLite", "sqlite", "append", 10, 1),
    ProfiledPath("append, SQLite, 64 tasks", "sqlite", "append", 10, 64),
    ProfiledPath("append, PostgreSQL, 64 tasks", "postgres", "append", 10, 64),
    ProfiledPath("get, SQLite, 1,000 events", "sqlite", "get", 1_000, 1),
    ProfiledPath("get as JSON, memory, 1,000 events", "memory", "get_json", 1_000, 1),
    ProfiledPath("turn of an agent, memory, 100 events", "memory", "turn", 100, 1),
    ProfiledPath("HTTP PATCH, SQLite, 16 connections", "sqlite", "http_patch", 10, 16),
];

/// The parts that a program consists of, each with beginnings of the names of its functions.
const PARTS: [(&str, &[&str]); 8] = [
    ("allocator", &["mi_", "_mi_", "malloc", "free", "cfree", "realloc"]),
    ("copying and comparing bytes", &["mem", "__mem", "core::slice::memchr", "memchr::"]),
    ("hashing", &["sha2::", "sha256", "ring", "core::hash", "foldhash", "hashbrown", "std::hash"]),
    ("JSON", &["serde", "ryu", "zmij", "itoa", "scratchbook_core::json"]),
    ("HTTP", &["hyper", "http", "axum", "tower", "h2::"]),
    ("PostgreSQL's driver", &["postgres", "tokio_postgres", "deadpool"]),
    ("runtime", &["tokio", "mio", "futures", "parking_lot"]),
    ("scratchbook", &["scratchbook"]),
];
/// Names without a path of modules are those of C functions, which are all SQLite's if they are not the allocator's.
const SQLITE: &str = "SQLite";
const KERNEL: &str = "kernel";
const REST: &str = "the rest";

/// A function's part of the processor time, in percent.
struct FunctionShare {
    process: String,
    object: String,
    name: String,
    percent: f64,
}

/// Records each path, and writes the tables of a page.
pub(crate) fn write(work: &Path, page: &Path) -> Result<()> {
    empty_folder(work)?;
    let server = Postgres::start(&PostgresOptions::default().with_setting("shared_buffers", "512MB"));
    let server = server.map_err(|error| error.to_string())?;
    let mut profiles = Vec::new();
    for path in &PATHS {
        println!("{}", path.0);
        profiles.push((path.0, record(path, &server, work)?));
    }
    page::replace(page, "profile", |name| match name {
        "parts" => Some(parts(&profiles)),
        "functions" => Some(functions(&profiles)),
        _ => None,
    })
}

/// Runs a path under perf, and returns the functions by their shares.
fn record(path: &ProfiledPath, server: &Postgres, work: &Path) -> Result<Vec<FunctionShare>> {
    let ProfiledPath(what, store, workload, size, tasks) = *path;
    let known = systems::own()?;
    let mut system = known
        .into_iter()
        .find(|system| system.id.system == "scratchbook" && system.id.store == store)
        .ok_or_else(|| format!("there is no runner for {store}"))?;
    let (folder, data) = (work.join("store"), work.join("perf.data"));
    empty_folder(&folder)?;
    let recorder = ["perf", "record", "--quiet", "--event", "cpu-clock", "--freq", FREQUENCY, "--output"];
    let before = recorder.map(str::to_owned).into_iter().chain([data.display().to_string(), "--".to_owned()]);
    system.command = before.chain(system.command).collect();
    let location = if store == "postgres" { server.uri() } else { folder.display().to_string() };
    let (mut runner, _) = RunnerProcess::start(&system, &location, &work.join("runner.log"))?;
    let request = CellRequest { workload: workload.to_owned(), size, tasks, seconds: SECONDS, round: 1 };
    match runner.ask(&request)? {
        RunnerAnswer::Measured(_) => {}
        answer => return Err(format!("{what}: {answer:?}")),
    }
    // perf writes its file when the runner ends.
    drop(runner);
    let mut report = Command::new("perf");
    report.args(["report", "--quiet", "--stdio", "--no-children", "--fields=overhead,pid,dso,symbol"]);
    report.args(["--field-separator=;", "--input"]).arg(&data);
    let output = report.output().map_err(|error| format!("perf did not start: {error}"))?;
    let shares: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(share).collect();
    match of_one_process(shares) {
        shares if shares.is_empty() => Err(format!("{what}: perf recorded nothing")),
        shares => Ok(shares),
    }
}

/// Reads a line such as ` 2.30% ; 71:tokio-rt-worker;compare-runner;[.] pagerWalFrames`.
fn share(line: &str) -> Option<FunctionShare> {
    let fields: Vec<_> = line.splitn(4, ';').map(str::trim).collect();
    let [percent, process, object, symbol] = fields[..] else { return None };
    let name = symbol.split_once("] ").map_or(symbol, |(_, name)| name);
    Some(FunctionShare {
        process: process.split(':').next()?.to_owned(),
        object: object.to_owned(),
        name: name.to_owned(),
        percent: percent.strip_suffix('%')?.parse().ok()?,
    })
}

/// Keeps the functions of the server if there is one, and all functions otherwise. The shares are those of what is
/// kept.
fn of_one_process(mut shares: Vec<FunctionShare>) -> Vec<FunctionShare> {
    if let Some(server) = shares.iter().find(|share| share.object == SERVER).map(|share| share.process.clone()) {
        shares.retain(|share| share.process == server);
    }
    let sum: f64 = shares.iter().map(|share| share.percent).sum();
    shares.iter_mut().for_each(|share| share.percent *= 100.0 / sum);
    shares
}

/// Returns the part that a function belongs to.
fn part(share: &FunctionShare) -> &'static str {
    if share.object.starts_with("[kernel") {
        return KERNEL;
    }
    // A method of a trait is named `<Type as Trait>::method`.
    let name = share.name.trim_start_matches(['<', '&']).trim_start_matches("mut ");
    match PARTS.iter().find(|(_, names)| names.iter().any(|begin| name.starts_with(begin))) {
        Some((part, _)) => part,
        None if !name.contains("::") && !share.object.starts_with("lib") => SQLITE,
        None => REST,
    }
}

fn parts(profiles: &[(&str, Vec<FunctionShare>)]) -> String {
    let mut names = vec![KERNEL, SQLITE];
    names.extend(PARTS.iter().map(|(name, _)| *name));
    names.push(REST);
    let mut text =
        header(["percent of the processor time"].into_iter().chain(names.iter().copied()).map(str::to_owned));
    for (what, shares) in profiles {
        let mut sums = BTreeMap::new();
        for share in shares {
            *sums.entry(part(share)).or_insert(0.0) += share.percent;
        }
        let fields = names.iter().map(|name| match sums.get(name) {
            Some(sum) if *sum >= 0.5 => format!("{sum:.0}"),
            _ => "–".to_owned(),
        });
        row(&mut text, std::iter::once((*what).to_owned()).chain(fields));
    }
    text
}

fn functions(profiles: &[(&str, Vec<FunctionShare>)]) -> String {
    let mut text =
        header(["path", "functions outside of the kernel, with their percent"].map(str::to_owned).into_iter());
    for (what, shares) in profiles {
        let mut sums = BTreeMap::new();
        for share in shares.iter().filter(|share| part(share) != KERNEL) {
            *sums.entry(short(&share.name)).or_insert(0.0) += share.percent;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named = sums.iter().take(FUNCTIONS).map(|(name, percent)| format!("`{name}` {percent:.1}"));
        row(&mut text, [(*what).to_owned(), named.collect::<Vec<_>>().join(", ")].into_iter());
    }
    text
}

/// Returns a function's name without generic arguments and without the hash that the compiler adds. A method of a trait,
/// `<Type as Trait>::method`, becomes `Type::method`.
fn short(name: &str) -> String {
    let name = match name.rsplit_once("::h") {
        Some((before, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => before,
        _ => name,
    };
    let method = name.strip_prefix('<').and_then(|name| Some((name.split_once(" as ")?.0, name.rsplit_once(">::")?.1)));
    let name = match method {
        Some((of, method)) => format!("{}::{method}", of.trim_start_matches(['&', '<']).trim_start_matches("mut ")),
        None => name.to_owned(),
    };
    let (mut text, mut depth) = (String::new(), 0_u32);
    for character in name.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '|' => {}
            _ if depth == 0 => text.push(character),
            _ => {}
        }
    }
    text.replace("::::", "::").replace("::_::", "::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> (&'static str, String) {
        let share = share(line).unwrap();
        (part(&share), short(&share.name))
    }

    #[test]
    fn a_function_belongs_to_a_part() {
        let of = |object: &str, name: &str| found(&format!(" 2.30% ; 71:a;{object};[.] {name}"));
        assert_eq!(of("[kernel.kallsyms]", "do_syscall_64").0, KERNEL);
        assert_eq!(of("compare-runner", "pagerWalFrames"), (SQLITE, "pagerWalFrames".to_owned()));
        assert_eq!(of("compare-runner", "mi_malloc").0, "allocator");
        assert_eq!(of("compare-runner", "sha2::sha256::compress256").0, "hashing");
        assert_eq!(of("compare-runner", "<f64 as zmij::Sealed>::write").0, REST);
        let method = "<&mut serde_json::ser::Serializer<W,F> as serde_core::ser::Serializer>::serialize_str";
        assert_eq!(of("compare-runner", method), ("JSON", "serde_json::ser::Serializer::serialize_str".to_owned()));
        let rust = "scratchbook_core::memory::append<T, U>::hfc20174bce66a6e3";
        assert_eq!(of("compare-runner", rust), ("scratchbook", "scratchbook_core::memory::append".to_owned()));
    }

    #[test]
    fn a_server_counts_without_the_program_that_calls_it() {
        let lines = [
            "60.00%;71:compare-runner;compare-runner;[.] a::b",
            "30.00%;72:tokio-rt-worker;scratchbook;[.] c::d",
            "10.00%;72:tokio-rt-worker;[kernel.kallsyms];[k] futex",
        ];
        let shares = of_one_process(lines.into_iter().filter_map(share).collect());
        assert_eq!(shares.iter().map(|share| share.percent).collect::<Vec<_>>(), [75.0, 25.0]);
    }
}
