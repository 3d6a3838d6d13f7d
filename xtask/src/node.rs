//! Installs the packages that tests run with node: ADK for TypeScript, one of its database drivers, axe-core, which
//! checks pages, and an MCP server.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{program, root, run};
use crate::step::Stop;

/// The folder with the list of packages and the lock file.
const PACKAGES: &str = "crates/scratchbook-server/tests/node";
/// The list of packages.
const LIST: &str = "package.json";
/// The lock file, with the versions of the packages and of their dependencies.
const LOCK: &str = "package-lock.json";
/// The modules whose tests need the packages.
const MODULES: [&str; 3] = ["adk_js", "axe_core", "mcp_everything"];
/// The oldest major version of node on which the packages run.
const OLDEST: u32 = 20;

/// Runs the step `node`: installs the packages into the target folder, unless they are there in the right versions.
pub(crate) fn install() -> Result<(), Stop> {
    let lock = lock()?;
    if is_installed(&folder(), &lock) {
        return Ok(());
    }
    make(&folder(), &lock).map_err(|stop| match stop {
        Stop::Failed(why) | Stop::LeftOut(why) => Stop::LeftOut(format!(
            "{why}. It takes node {OLDEST} or newer with npm in PATH, and npm's registry. Until then the tests in \
             modules named {} are not run",
            MODULES.join(" or ")
        )),
    })
}

/// Returns the modules whose tests are not run because they need packages that are missing.
pub(crate) fn missing() -> Vec<&'static str> {
    let is_there = lock().is_ok_and(|lock| is_installed(&folder(), &lock));
    if is_there { Vec::new() } else { MODULES.to_vec() }
}

fn lock() -> Result<String, Stop> {
    let path = root().join(PACKAGES).join(LOCK);
    fs::read_to_string(&path).map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))
}

fn folder() -> PathBuf {
    root().join("target/node")
}

/// Returns the path of the record of a finished installation: the text of its lock file. It is written last.
fn record(folder: &Path) -> PathBuf {
    folder.join("installed.json")
}

fn is_installed(folder: &Path, lock: &str) -> bool {
    check_node().is_ok() && fs::read_to_string(record(folder)).is_ok_and(|installed| installed == lock)
}

/// Checks that node is installed and recent enough.
fn check_node() -> Result<(), Stop> {
    let output = program("node").arg("--version").output();
    let output = output.map_err(|_| Stop::LeftOut("there is no node in PATH".to_owned()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match major(&version) {
        Some(major) if major >= OLDEST => Ok(()),
        _ => Err(Stop::LeftOut(format!("node says it is '{version}'"))),
    }
}

/// Returns the first number of a version such as `v20.1.0`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn make(folder: &Path, lock: &str) -> Result<(), Stop> {
    check_node()?;
    let failed = |error: std::io::Error| Stop::Failed(format!("{}: {error}", folder.display()));
    if folder.exists() {
        // An older list or an interrupted run may have left packages.
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    for name in [LIST, LOCK] {
        fs::copy(root().join(PACKAGES).join(name), folder.join(name)).map_err(failed)?;
    }
    // Peer dependencies are installed only if they are in the list, because one of ADK's database drivers is enough.
    install_listed(folder, &["--ignore-scripts", "--legacy-peer-deps"])?;
    fs::write(record(folder), lock).map_err(failed)
}

/// Installs the packages of a folder's lock file into a copy of the folder, unless they are there. The folder's other
/// files are copied each time. Scripts of packages are run only if they are allowed.
pub(crate) fn install_copy(from: &Path, folder: &Path, with_scripts: bool) -> Result<(), Stop> {
    check_node()?;
    let failed = |error: std::io::Error| Stop::Failed(format!("{}: {error}", folder.display()));
    let lock = fs::read_to_string(from.join(LOCK)).map_err(failed)?;
    let is_there = is_installed(folder, &lock);
    if !is_there && folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            fs::copy(&path, folder.join(name)).map_err(failed)?;
        }
    }
    if !is_there {
        install_listed(folder, if with_scripts { &[] } else { &["--ignore-scripts"] })?;
        fs::write(record(folder), lock).map_err(failed)?;
    }
    Ok(())
}

fn install_listed(folder: &Path, options: &[&str]) -> Result<(), Stop> {
    let mut npm = program(if cfg!(windows) { "npm.cmd" } else { "npm" });
    npm.arg("ci").args(options).args(["--no-audit", "--no-fund", "--loglevel", "error"]);
    run(npm.current_dir(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_finished_installation_is_none() {
        let folder = std::env::temp_dir().join("scratchbook no such folder");
        assert!(!is_installed(&folder, "x"));
        assert!(lock().unwrap().contains("\"node_modules/@google/adk\""));
    }

    #[test]
    fn versions_are_read_by_their_first_number() {
        assert_eq!([major("v20.20.2"), major("v9"), major(""), major("20")], [Some(20), Some(9), None, None]);
    }
}
