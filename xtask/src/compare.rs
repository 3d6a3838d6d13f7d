//! The side-by-side benchmark: sets up everything that is measured, and starts the harness of `lab/compare`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::command::{cargo, lab, program, root, run};
use crate::package::MEASURED;
use crate::servers;
use crate::step::Stop;
use crate::steps::built;
use crate::tools::is_there;
use crate::{node, package, packages, python};

/// The folder of the peers, which are systems that are measured beside ours.
const PEERS: &str = "lab/peers";
/// Each folder with this file is a peer.
const PEER: &str = "peer.json";
/// The folder for what was set up, for the databases, and for the results of runs that are not published.
const WORK: &str = "target/compare";
/// The published results, from which the plots and the tables of docs/benchmarks*.md are made.
const PUBLISHED: &str = "lab/compare/results.jsonl";
/// Systems without a setup of their own.
const OWN: [&str; 2] = ["scratchbook", "limit"];

/// The task that the command line names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    /// Measure, with these arguments of the harness.
    Run(Vec<String>),
    /// Draw the plots and write the tables.
    Plots,
    /// Record where the processor time goes.
    Profile,
}

impl Task {
    /// Reads the words after `cargo xtask bench`. Returns `None` if they are for something else.
    pub(crate) fn of(words: &[&str]) -> Option<Self> {
        match words {
            ["plots"] => return Some(Self::Plots),
            ["profile"] => return Some(Self::Profile),
            _ => {}
        }
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match *word {
                "--quick" | "--fresh" | "--publish" => {}
                "--only" => drop(rest.next()?),
                "--minutes" | "--wait" => drop(rest.next()?.parse::<u32>().ok()?),
                _ => return None,
            }
        }
        Some(Self::Run(words.iter().map(|word| (*word).to_owned()).collect()))
    }

    /// Carries out the task.
    pub(crate) fn run(&self) -> Result<(), Stop> {
        match self {
            Self::Run(words) => measure(words),
            Self::Plots => {
                let mut harness = built_harness()?;
                run(harness.args(["plots", "--results", PUBLISHED, "--docs", "docs"]))
            }
            Self::Profile => {
                packages::ensure(|| if is_there("perf", &["--version"]) { vec![] } else { vec!["linux-perf"] })?;
                servers::install()?;
                let mut harness = built_harness()?;
                run(harness.args(["profile", "--work", &format!("{WORK}/profile"), "--docs", "docs"]))
            }
        }
    }
}

/// What it takes to build or install a system.
fn setup_cost(bytes: u64, from_nothing: bool, begun: Instant) -> Value {
    json!({"bytes": bytes, "seconds": from_nothing.then(|| begun.elapsed().as_secs_f64())})
}

/// Returns the bytes of a file, or of all files in a folder.
fn bytes_in(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| bytes_in(&entry.path())).sum()
}

/// Builds the harness, its runner and the command, and returns a call of the harness.
fn built_harness() -> Result<Command, Stop> {
    run(cargo(&["build", "-p", "scratchbook-cli", "--features", "full"]).args(MEASURED))?;
    run(lab(&["build", "-p", "scratchbook-compare"]).args(MEASURED))?;
    Ok(program(built(&MEASURED).join("compare")))
}

fn measure(words: &[String]) -> Result<(), Stop> {
    // Without a server, the harness reports that PostgreSQL could not be run.
    if let Err(Stop::Failed(why) | Stop::LeftOut(why)) = servers::install() {
        println!("{why}");
    }
    let command = built(&MEASURED).join(format!("scratchbook{}", std::env::consts::EXE_SUFFIX));
    let (is_new, begun) = (!command.exists(), Instant::now());
    let mut harness = built_harness()?;
    let setup = setup_cost(bytes_in(&command), is_new, begun);
    let mut systems = vec![json!({"system": "scratchbook", "setup": setup})];
    systems.extend(set_up_peers(words)?);
    let peers = root().join(WORK).join("peers.json");
    write(&peers, &Value::Array(systems).to_string())?;
    let is_quick = words.iter().any(|word| word == "--quick");
    let results = format!("{WORK}/{}.jsonl", if is_quick { "quick" } else { "results" });
    harness.args(["run", "--results", &results, "--work", &format!("{WORK}/work"), "--peers"]).arg(peers);
    for word in words {
        harness.arg(word);
        if word == "--publish" {
            harness.arg(PUBLISHED);
        }
    }
    run(&mut harness)
}

/// Sets up the peers, and returns for each how it is started, or why it cannot be started.
fn set_up_peers(words: &[String]) -> Result<Vec<Value>, Stop> {
    let folder = root().join(PEERS);
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|path| path.join(PEER).is_file());
    folders.sort();
    let mut peers = Vec::new();
    for path in folders {
        peers.push(Peer::read(&path)?);
    }
    let named: Vec<&str> = words.windows(2).filter(|pair| pair[0] == "--only").map(|pair| pair[1].as_str()).collect();
    let names_system = named.iter().any(|name| OWN.contains(name) || peers.iter().any(|peer| peer.system == *name));
    peers.retain(|peer| !names_system || named.contains(&peer.system.as_str()));
    Ok(peers.iter().map(Peer::set_up).collect())
}

/// A system that is measured beside ours, as its folder describes it.
struct Peer {
    system: String,
    description: Value,
    folder: PathBuf,
}

/// A peer that can be started.
struct Prepared {
    /// The command of its runner.
    run: Vec<String>,
    /// The folder in which the runner is started.
    folder: PathBuf,
    /// The file or folder whose size counts.
    installed: PathBuf,
}

impl Peer {
    fn read(folder: &Path) -> Result<Self, Stop> {
        let path = folder.join(PEER);
        let text = read(&path)?;
        let description: Value =
            serde_json::from_str(&text).map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))?;
        match description["system"].as_str() {
            Some(system) => Ok(Self { system: system.to_owned(), description, folder: folder.to_owned() }),
            None => Err(Stop::Failed(format!("{} has no system", path.display()))),
        }
    }

    /// Installs or builds the peer. A peer that cannot be set up does not end the run.
    fn set_up(&self) -> Value {
        let (is_new, begun) = (!self.place().exists(), Instant::now());
        match self.prepared() {
            Ok(Prepared { run, folder, installed }) => {
                let (stores, setup) = (&self.description["stores"], setup_cost(bytes_in(&installed), is_new, begun));
                json!({"system": self.system, "run": run, "folder": folder, "stores": stores, "setup": setup})
            }
            Err(Stop::Failed(why) | Stop::LeftOut(why)) => json!({"system": self.system, "unavailable": why}),
        }
    }

    /// Returns the folder that the peer is installed in.
    fn place(&self) -> PathBuf {
        match self.description["of"].as_str() {
            Some(_) => package::site(),
            None => root().join(WORK).join(self.folder.file_name().unwrap_or_default()),
        }
    }

    fn prepared(&self) -> Result<Prepared, Stop> {
        if let Some(other) = self.description["of"].as_str() {
            return self.as_other(other);
        }
        let words = self.description["run"].as_array().into_iter().flatten();
        let mut run: Vec<String> = words.filter_map(|word| word.as_str().map(str::to_owned)).collect();
        let place = self.place();
        let (mut folder, mut installed) = (self.folder.clone(), place.clone());
        let first = run.first_mut().ok_or_else(|| Stop::Failed(format!("{PEER} of {} has no run", self.system)))?;
        if self.folder.join("requirements.txt").is_file() {
            let requirements = read(&self.folder.join("requirements.txt"))?;
            *first = python::with_requirements(&place, &requirements)?.display().to_string();
        } else if self.folder.join("package-lock.json").is_file() {
            let with_scripts = self.description["scripts"].as_bool().unwrap_or_default();
            node::install_copy(&self.folder, &place, with_scripts)?;
            folder = place;
        } else if self.folder.join("Cargo.toml").is_file() {
            let manifest = self.folder.join("Cargo.toml");
            let mut build = cargo(&["build", "--release", "--quiet", "--manifest-path"]);
            // A peer is not part of the workspace, and not checked by clippy.
            build.arg(manifest).arg("--target-dir").arg(&place).env_remove("RUSTC_WORKSPACE_WRAPPER");
            crate::command::run(&mut build)?;
            installed = place.join("release").join(&*first);
            *first = installed.display().to_string();
        }
        Ok(Prepared { run, folder, installed })
    }

    /// Returns the command of another peer's runner, with our Python package on its path.
    fn as_other(&self, name: &str) -> Result<Prepared, Stop> {
        let other = Self::read(&self.folder.with_file_name(name))?;
        package::optimize()?;
        let Prepared { run, folder, .. } = other.prepared()?;
        let path = format!("PYTHONPATH={}", package::site().display());
        let run = ["env".to_owned(), path].into_iter().chain(run).collect();
        Ok(Prepared { run, folder, installed: package::site() })
    }
}

fn read(path: &Path) -> Result<String, Stop> {
    fs::read_to_string(path).map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Stop> {
    let failed = |error| Stop::Failed(format!("{}: {error}", path.display()));
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(words: &[&str]) -> Option<Task> {
        Task::of(words)
    }

    #[test]
    fn arguments_of_the_comparison_are_not_those_of_cargo_bench() {
        assert_eq!([task(&["plots"]), task(&["profile"])], [Some(Task::Plots), Some(Task::Profile)]);
        assert_eq!(task(&[]), Some(Task::Run(Vec::new())));
        let words = ["--quick", "--only", "append", "--minutes", "30"];
        assert_eq!(task(&words), Some(Task::Run(words.map(str::to_owned).to_vec())));
        for words in [&["--bench", "ratios"][..], &["--only"], &["--minutes", "soon"], &["SQLite"]] {
            assert_eq!(task(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_peer_that_cannot_be_set_up_says_why() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Peer::read(folder.path()).is_err());
        fs::write(folder.path().join(PEER), r#"{"system": "x", "run": [], "stores": []}"#).unwrap();
        let peer = Peer::read(folder.path()).unwrap();
        assert!(peer.set_up()["unavailable"].as_str().unwrap().contains("has no run"));
    }
}
