//! The systems that are measured: scratchbook, the limit, and the peers that were set up.

use std::fs;
use std::path::{Path, PathBuf};

use scratchbook_compare::protocol::Hello;
use serde::{Deserialize, Serialize};

use crate::Result;

/// The name of scratchbook's Python package among the systems, as its `peer.json` in `lab/peers` says.
pub(crate) const FOR_PYTHON: &str = "scratchbook for Python";

/// A system on a store, and how its runner is started.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) id: SystemId,
    /// The store, as it is passed to the runner.
    pub(crate) argument: String,
    pub(crate) command: Vec<String>,
    pub(crate) folder: PathBuf,
}

/// What distinguishes systems.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct SystemId {
    pub(crate) system: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<String>,
    pub(crate) store: String,
}

impl SystemId {
    pub(crate) fn new(system: &str, service: Option<&str>, store: &str) -> Self {
        Self { system: system.to_owned(), service: service.map(str::to_owned), store: store.to_owned() }
    }

    /// Returns the name of the system and its service, without the store.
    pub(crate) fn name(&self) -> String {
        match &self.service {
            Some(service) => format!("{}, {service}", self.system),
            None => self.system.clone(),
        }
    }

    /// Returns a name for files.
    pub(crate) fn file_name(&self) -> String {
        let name = format!("{}-{}-{}", self.system, self.service.as_deref().unwrap_or("all"), self.store);
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
    }

    /// Returns whether a runner's first line agrees with the system that was started.
    pub(crate) fn is_said_by(&self, hello: &Hello) -> bool {
        hello.system == self.system && hello.store == self.store
    }
}

/// A peer as it was set up, or the reason why it was not.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PeerSetup {
    Unavailable {
        system: String,
        unavailable: String,
    },
    Ready {
        system: String,
        run: Vec<String>,
        folder: PathBuf,
        stores: Vec<PeerStore>,
        setup: Option<SetupCost>,
    },
    /// A system of this repository, whose runner is beside this program.
    Built(BuiltSystem),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BuiltSystem {
    system: String,
    setup: SetupCost,
}

/// What it takes to build or install a system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetupCost {
    /// The bytes of the installed files.
    pub(crate) bytes: u64,
    /// How long it took; `None` if something of it was there already.
    pub(crate) seconds: Option<f64>,
}

/// The systems that can be measured, and what is known about others.
#[derive(Debug)]
pub(crate) struct KnownSystems {
    pub(crate) systems: Vec<System>,
    /// Peers that cannot be measured, each with the reason.
    pub(crate) unavailable: Vec<(String, String)>,
    pub(crate) setups: Vec<(String, SetupCost)>,
}

#[derive(Debug, Deserialize)]
struct PeerStore {
    store: String,
    service: Option<String>,
    /// The argument that the runner gets in place of `store`.
    argument: Option<String>,
}

/// Returns all systems.
pub(crate) fn all(peers: &Path) -> Result<KnownSystems> {
    let mut known = KnownSystems { systems: own()?, unavailable: Vec::new(), setups: Vec::new() };
    let text = fs::read_to_string(peers).map_err(|error| format!("{}: {error}", peers.display()))?;
    let peers: Vec<PeerSetup> = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", peers.display()))?;
    for peer in peers {
        match peer {
            PeerSetup::Unavailable { system, unavailable } => known.unavailable.push((system, unavailable)),
            PeerSetup::Built(BuiltSystem { system, setup }) => known.setups.push((system, setup)),
            PeerSetup::Ready { system, run, folder, stores, setup } => {
                known.setups.extend(setup.map(|setup| (system.clone(), setup)));
                known.systems.extend(stores.into_iter().map(|store| System {
                    id: SystemId::new(&system, store.service.as_deref(), &store.store),
                    argument: store.argument.unwrap_or(store.store),
                    command: run.clone(),
                    folder: folder.clone(),
                }));
            }
        }
    }
    Ok(known)
}

/// Returns the systems of the runner beside this program.
pub(crate) fn own() -> Result<Vec<System>> {
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let runner = program.with_file_name(format!("compare-runner{}", std::env::consts::EXE_SUFFIX));
    if !runner.is_file() {
        return Err(format!("there is no {}; cargo build --locked -p scratchbook-compare makes it", runner.display()));
    }
    let folder = program.parent().unwrap_or(Path::new(".")).to_owned();
    let system = |(name, service, store): (&str, Option<&str>, &str)| System {
        id: SystemId::new(name, service, store),
        argument: store.to_owned(),
        command: vec![runner.display().to_string(), name.to_owned()],
        folder: folder.clone(),
    };
    let own = [
        ("scratchbook", None, "memory"),
        ("scratchbook", None, "sqlite"),
        ("scratchbook", None, "postgres"),
        ("limit", Some("memcpy"), "memory"),
        ("limit", Some("rusqlite"), "sqlite"),
        ("limit", Some("UNNEST"), "postgres"),
        ("limit", Some("COPY"), "postgres"),
        ("limit", Some("pgbench"), "postgres"),
    ];
    Ok(own.map(system).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_ready_or_say_why_not() {
        let text = r#"[{"system":"a","unavailable":"no node"},
            {"system":"b","run":["python","r.py"],"folder":"/b","stores":[{"store":"memory"},{"store":"sqlite","service":"S"}]},
            {"system":"c","setup":{"bytes":7,"seconds":null}}]"#;
        let peers: Vec<PeerSetup> = serde_json::from_str(text).unwrap();
        assert!(matches!(&peers[0], PeerSetup::Unavailable { unavailable, .. } if unavailable == "no node"));
        assert!(matches!(&peers[1], PeerSetup::Ready { stores, .. } if stores.len() == 2));
        let cost = SetupCost { bytes: 7, seconds: None };
        assert!(matches!(&peers[2], PeerSetup::Built(built) if built.setup == cost));
    }

    #[test]
    fn names_of_files_have_no_odd_characters() {
        assert_eq!(SystemId::new("a", Some("b/c d"), "sqlite").file_name(), "a-b_c_d-sqlite");
    }
}
