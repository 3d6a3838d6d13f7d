//! Installs a Python for the tests that need one: comparisons with google-adk, tests with schemathesis and with a
//! generated client, and the tests of the Python package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{program, root, run};
use crate::step::Stop;

/// The packages to install, with their versions.
const REQUIREMENTS: &str = "crates/scratchbook-cli/tests/google_adk/requirements.txt";
/// The environment variable with the path of the user's own Python, in which the packages are installed.
const VARIABLE: &str = "SCRATCHBOOK_TEST_PYTHON";
/// The modules whose tests need Python.
const MODULES: [&str; 3] = ["google_adk", "schemathesis", "generated_client"];

/// The packages that the tests of `import_adk` need besides an older google-adk.
const BESIDE_OLD: &str =
    "sqlalchemy[asyncio]==2.1.9\naiosqlite==0.22.1\nasyncpg==0.32.0\npytest==9.2.0\npytest-asyncio==1.5.0\n";

/// Returns a Python with an older version of google-adk. Makes its environment if it does not exist.
pub(crate) fn with_google_adk(version: &str) -> Result<PathBuf, Stop> {
    let folder = root().join(format!("target/python-google-adk-{version}"));
    let requirements = format!("google-adk=={version}\n{BESIDE_OLD}");
    ensure(&folder, &requirements, for_tests()).map_err(|stop| match stop {
        Stop::Failed(why) => Stop::LeftOut(format!("google-adk {version} could not be installed: {why}")),
        left_out => left_out,
    })
}

/// Returns a Python with one package from PyPI. Makes its environment if it does not exist.
pub(crate) fn with_package(package: &str) -> Result<PathBuf, Stop> {
    let folder = root().join(format!("target/python-{}", package.replace("==", "-")));
    with_requirements(&folder, package).map_err(|stop| match stop {
        Stop::Failed(why) => Stop::LeftOut(format!("{package} could not be installed: {why}")),
        left_out => left_out,
    })
}

/// Returns a Python with the packages of a list. Makes its environment in this folder if it does not exist.
pub(crate) fn with_requirements(folder: &Path, requirements: &str) -> Result<PathBuf, Stop> {
    ensure(folder, requirements, &[])
}

/// Returns options of pip for the environments of tests. Normally pip compiles no modules: tests import few of them,
/// and Python compiles a module when it is first imported. If Python may not keep the result, pip compiles all modules,
/// so that not every process compiles them again. Other systems in benchmarks are compiled in advance, as their users
/// have them.
fn for_tests() -> &'static [&'static str] {
    let is_kept = std::env::var_os("PYTHONDONTWRITEBYTECODE").is_none_or(|value| value.is_empty());
    if is_kept { &["--no-compile"] } else { &[] }
}

fn ensure(folder: &Path, requirements: &str, options: &[&str]) -> Result<PathBuf, Stop> {
    if !is_installed(folder, requirements) {
        make(folder, requirements, options)?;
    }
    Ok(interpreter_in(folder))
}

/// Returns a Python with only maturin, in the version that the tests use.
pub(crate) fn with_maturin() -> Result<PathBuf, Stop> {
    let requirements = fs::read_to_string(root().join(REQUIREMENTS)).unwrap_or_default();
    let maturin = requirements.lines().find(|line| line.starts_with("maturin=="));
    with_package(maturin.ok_or_else(|| Stop::Failed(format!("{REQUIREMENTS} has no maturin")))?)
}

/// Makes a new environment without packages. It replaces an existing one.
pub(crate) fn bare(folder: &Path) -> Result<PathBuf, Stop> {
    make(folder, "", &[])?;
    Ok(interpreter_in(folder))
}

/// Runs the step `python`: makes a virtual environment in the target folder, unless it is there with the right
/// packages.
pub(crate) fn install() -> Result<(), Stop> {
    if of_environment() {
        return Ok(());
    }
    let requirements = fs::read_to_string(root().join(REQUIREMENTS))
        .map_err(|error| Stop::Failed(format!("{REQUIREMENTS}: {error}")))?;
    ensure(&folder(), &requirements, for_tests()).map(drop).map_err(|stop| match stop {
        Stop::Failed(why) | Stop::LeftOut(why) => Stop::LeftOut(format!(
            "{why}. It takes Python 3.10 or newer with venv (on Debian and Ubuntu: python3-venv) and the package index \
             of pip; or set {VARIABLE} to a Python that has what {REQUIREMENTS} lists. Until then the tests in \
             modules named {} are not run",
            MODULES.join(" or ")
        )),
    })
}

/// Returns the modules whose tests are not run because Python is missing.
pub(crate) fn missing() -> Vec<&'static str> {
    let requirements = fs::read_to_string(root().join(REQUIREMENTS)).unwrap_or_default();
    let there = of_environment() || is_installed(&folder(), &requirements);
    if there { Vec::new() } else { MODULES.to_vec() }
}

/// Returns the Python with the packages: the user's own, or that of the virtual environment.
pub(crate) fn interpreter() -> PathBuf {
    match std::env::var_os(VARIABLE) {
        Some(path) if !path.is_empty() => path.into(),
        _ => interpreter_in(&folder()),
    }
}

fn of_environment() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|path| !path.is_empty())
}

fn folder() -> PathBuf {
    root().join("target/python")
}

/// Returns the path of the record of a finished installation: the text of its requirements. It is written last.
fn record(folder: &Path) -> PathBuf {
    folder.join("installed.txt")
}

fn interpreter_in(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

fn is_installed(folder: &Path, requirements: &str) -> bool {
    let same = fs::read_to_string(record(folder)).is_ok_and(|installed| installed == requirements);
    // A virtual environment stops working when the Python that it was made from is removed.
    same && answers(&mut program(interpreter_in(folder)))
}

fn answers(python: &mut Command) -> bool {
    python.arg("--version").output().is_ok_and(|output| output.status.success())
}

fn make(folder: &Path, requirements: &str, options: &[&str]) -> Result<(), Stop> {
    let found = ["python3", "python"].into_iter().find(|name| answers(&mut program(name)));
    let python = found.ok_or_else(|| Stop::LeftOut("there is no python3 in PATH".to_owned()))?;
    let failed = |error: std::io::Error| Stop::Failed(format!("{}: {error}", folder.display()));
    if folder.exists() {
        // An older list or an interrupted run may have left an environment.
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    run(program(python).args(["-m", "venv"]).arg(folder))?;
    if requirements.is_empty() {
        return Ok(());
    }
    let list = folder.join("requirements.txt");
    fs::write(&list, requirements).map_err(failed)?;
    let mut pip = program(interpreter_in(folder));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
    run(pip.args(options).arg("-r").arg(list))?;
    fs::write(record(folder), requirements).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_finished_installation_is_none() {
        let folder = std::env::temp_dir().join("scratchbook no such folder");
        assert!(!is_installed(&folder, "x"));
        assert!(fs::read_to_string(root().join(REQUIREMENTS)).unwrap().contains("google-adk"));
    }
}
