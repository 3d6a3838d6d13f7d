//! The Python package: built as users get it, and tested in the Python environment of the tests.

use std::fs;
use std::process::Command;

use crate::command::{cargo, program, root, run};
use crate::step::Stop;
use crate::{python, servers};

/// Where the wheel is built to, and where it is unpacked for the tests: no Python of anybody's is changed.
const WHEELS: &str = "target/package/wheels";
const SITE: &str = "target/package/site";

/// The step `package`.
pub(crate) fn test() -> Result<(), Stop> {
    python::install()?;
    for words in [["format", "--check"], ["check", "--quiet"]] {
        run(program(python::interpreter()).args(["-m", "ruff"]).args(words).arg("bindings/python"))?;
    }
    install("dev")?;
    run(&mut of_package(&["-m", "mypy", "--config-file", "bindings/python/pyproject.toml", "-p", "scratchbook"]))?;
    run(&mut of_package(&["-m", "mypy.stubtest", "scratchbook._scratchbook"]))?;
    // Without a server its tests are skipped, and the step says so at its end.
    let installed = servers::install();
    let mut tests = cargo(&["run", "--quiet", "-p", "scratchbook-servers", "--bin", "with-servers", "--"]);
    tests.arg(python::interpreter()).args(["-m", "pytest", "--quiet", "bindings/python"]).env("PYTHONPATH", site());
    run(&mut tests)?;
    installed
}

/// The package beside google-adk's services.
pub(crate) fn bench() -> Result<(), Stop> {
    python::install()?;
    install("release")?;
    run(&mut of_package(&["bindings/python/benches/beside_adk.py"]))
}

/// Builds a wheel and unpacks it.
fn install(profile: &str) -> Result<(), Stop> {
    for folder in [WHEELS, SITE] {
        let path = root().join(folder);
        if path.exists() {
            fs::remove_dir_all(&path).map_err(|error| Stop::Failed(format!("{folder}: {error}")))?;
        }
    }
    let manifest = ["--manifest-path", "bindings/python/Cargo.toml"];
    let mut build = program(python::interpreter());
    build.args(["-m", "maturin", "build", "--quiet", "--locked", "--profile", profile, "--out", WHEELS]).args(manifest);
    run(build.arg("--interpreter").arg(python::interpreter()))?;
    let pip =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--no-index"];
    run(program(python::interpreter()).args(pip).args(["--find-links", WHEELS, "--target", SITE, "scratchbook"]))
}

fn site() -> std::path::PathBuf {
    root().join(SITE)
}

/// Python with the package in its reach.
fn of_package(arguments: &[&str]) -> Command {
    let mut command = program(python::interpreter());
    command.args(arguments).env("PYTHONPATH", site());
    command
}
