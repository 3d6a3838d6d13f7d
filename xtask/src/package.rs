//! The Python package. It is built as users get it, and tested in the Python environment of the tests.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::build::checked;
use crate::command::{cargo, program, root, run};
use crate::step::Stop;
use crate::{python, servers, steps};

/// The folder of the built wheel.
const WHEELS: &str = "target/package/wheels";
/// The folder of the wheel's unpacked files. The tests use it, so that they change no installed Python.
const SITE: &str = "target/package/site";
/// The folder of the wheel that is built from the source package.
const FROM_SOURCE: &str = "target/package/from-source";
/// The target folder of this build.
const BUILD: &str = "target/package/build";
/// A program that fails if an installed package does not work. Without google-adk, the names that need it do not exist,
/// so other names are used.
const USED: &str = "from scratchbook import SessionService, wait; wait(SessionService('memory:').open())";
/// The profile of Cargo for shipped files.
pub(crate) const SHIPPED: &str = "dist";
/// The profile of measured programs. Cargo puts its programs into the folder of `release`.
pub(crate) const MEASURED: [&str; 2] = ["--profile", "bench"];
/// The environment in which the shipped wheel is installed.
const FROM_SHIPPED: &str = "target/package/from-shipped";
/// The folder of zig, which builds the wheel for older systems.
const ZIG: &str = "target/tools/ziglang-0.13.0";
/// The package of zig.
const ZIG_PACKAGE: &str = "ziglang==0.13.0";
/// The oldest systems that the shipped wheel runs on.
const SYSTEMS: &str = "manylinux_2_28";
/// Versions of google-adk whose databases the package can import, besides the version of the tests. The package supports
/// 2.0.0 and newer. Each version has an environment of its own, which takes a minute to make, so only `test full` does.
const OLDER: [&str; 4] = ["2.0.0", "2.1.0", "1.39.1", "1.28.0"];
/// The environment variable with the path of a checkout of google-adk's repository.
const CHECKOUT: &str = "SCRATCHBOOK_TEST_ADK";

/// Runs the step `package`: the package's tests on the library from the build of the workspace. The library is not
/// built again with fewer features.
pub(crate) fn test() -> Result<(), Stop> {
    python::install()?;
    for words in [["format", "--check"], ["check", "--quiet"]] {
        run(program(python::interpreter()).args(["-m", "ruff"]).args(words).arg("bindings/python"))?;
    }
    place(&mut library(), &steps::built(&[]))?;
    run(&mut of_package(&["-m", "mypy", "--config-file", "bindings/python/pyproject.toml", "-p", "scratchbook"]))?;
    run(&mut of_package(&["-m", "mypy.stubtest", "scratchbook._scratchbook"]))?;
    // Without the addresses of servers, the tests of servers are skipped.
    run(&mut of_package(&["-m", "pytest", "--quiet", "bindings/python"]))
}

/// Runs the step `package-servers`: the package's tests of database servers.
pub(crate) fn test_on_servers() -> Result<(), Stop> {
    python::install()?;
    place(&mut library(), &steps::built(&[]))?;
    on_servers(&["-k", "postgres or mariadb"])
}

/// Returns a build of the library with the features of the workspace, which the tests have built already.
fn library() -> Command {
    checked(&["build", "--quiet", "--workspace", "--all-features", "--lib", "--bin", "with-servers"])
}

/// Runs the step `wheel`: the same tests on a wheel that maturin has built.
pub(crate) fn wheel_test() -> Result<(), Stop> {
    python::install()?;
    install("dev")?;
    on_servers(&[])
}

/// Runs the package's tests with the addresses of servers.
fn on_servers(options: &[&str]) -> Result<(), Stop> {
    // Tests that need a missing server are skipped. The step reports this at its end.
    let installed = servers::install();
    let mut tests = with_servers()?;
    tests.arg(python::interpreter()).args(["-m", "pytest", "--quiet", "bindings/python"]);
    run(tests.args(options).env("PYTHONPATH", site()))?;
    installed
}

/// Builds the library, and assembles the package by hand: its Python files, the library beside them, and the metadata.
fn place(build: &mut Command, built: &Path) -> Result<(), Stop> {
    run(build)?;
    empty(&[SITE])?;
    let package = site().join("scratchbook");
    copy_files(&root().join("bindings/python/python/scratchbook"), &package)?;
    let library = built.join(format!("{DLL_PREFIX}_scratchbook{DLL_SUFFIX}"));
    let module = if cfg!(windows) { "_scratchbook.pyd" } else { "_scratchbook.abi3.so" };
    fs::copy(&library, package.join(module)).map_err(|error| failed(&library, &error))?;
    // These are the metadata of an installed package.
    let mut metadata = program(python::interpreter());
    metadata.args(["-m", "maturin", "pep517", "write-dist-info", "--metadata-directory"]).arg(site());
    run(metadata.arg("--interpreter").arg(python::interpreter()).current_dir(root().join("bindings/python")))
}

/// Copies the files of a folder and of its subfolders.
fn copy_files(from: &Path, to: &Path) -> Result<(), Stop> {
    fs::create_dir_all(to).map_err(|error| failed(to, &error))?;
    for entry in fs::read_dir(from).map_err(|error| failed(from, &error))? {
        let path = entry.map_err(|error| failed(from, &error))?.path();
        let Some(name) = path.file_name().filter(|name| *name != "__pycache__") else { continue };
        if path.is_dir() {
            copy_files(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name)).map_err(|error| failed(&path, &error))?;
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Failed(format!("{}: {error}", path.display()))
}

/// Runs the step `old-adk`: tests the import of databases of other versions of google-adk, each in a Python that has
/// this version.
pub(crate) fn beside_old() -> Result<(), Stop> {
    python::install()?;
    install("dev")?;
    let installed = servers::install();
    for version in OLDER {
        let mut tests = with_servers()?;
        tests.arg(python::with_google_adk(version)?);
        tests.args(["-m", "pytest", "--quiet", "bindings/python/tests/test_import.py"]).env("PYTHONPATH", site());
        run(&mut tests)?;
    }
    installed
}

/// Builds a wheel from the source package in a folder, as pip does if there is no wheel. Returns the folder of the
/// wheel. The build is unoptimized, because the profile does not change what the source package contains.
pub(crate) fn wheel_of_source(folder: &str) -> Result<&'static str, Stop> {
    let python = python::with_maturin()?;
    empty(&[FROM_SOURCE, BUILD])?;
    let mut build = program(&python);
    build.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    build.args(["--no-index", "--find-links", folder, "--wheel-dir", FROM_SOURCE]);
    build.args(["--no-binary", "scratchbook", "--no-build-isolation", "--no-cache-dir", "scratchbook"]);
    // The package's files have old times. In a shared folder, Cargo would take earlier builds of other sources for
    // current ones.
    build.env("CARGO_TARGET_DIR", root().join(BUILD)).env("MATURIN_PEP517_ARGS", "--profile dev");
    // pip looks for maturin in `PATH`.
    let found = env::var_os("PATH").unwrap_or_default();
    let path = python.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&found));
    build.env("PATH", env::join_paths(path).map_err(|error| Stop::Failed(error.to_string()))?);
    run(&mut build)?;
    empty(&[BUILD])?;
    Ok(FROM_SOURCE)
}

/// Builds the wheel for other machines into a folder. With the profile for shipped files, the wheel runs on older
/// systems, and contains no path of a folder of this machine.
pub(crate) fn wheel(folder: &str, profile: &str) -> Result<(), Stop> {
    let python = python::with_maturin()?;
    let mut build = maturin(&python, &["build", "--quiet", "--locked", "--profile", profile, "--out", folder]);
    build.arg("--interpreter").arg(&python);
    if profile != SHIPPED {
        return run(&mut build);
    }
    build.env("RUSTFLAGS", remapped(&private_folders()));
    if cfg!(target_os = "linux") {
        let zig = root().join(ZIG).join("ziglang/zig");
        if !zig.is_file() {
            let mut pip = program(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
            run(pip.args(["--target", ZIG, ZIG_PACKAGE]))?;
        }
        // maturin fails if the wheel needs something that such a system may lack.
        build.args(["--zig", "--compatibility", SYSTEMS, "--auditwheel", "check"]).env("CARGO_ZIGBUILD_ZIG_PATH", zig);
    }
    run(&mut build)?;
    let names: Vec<_> = private_folders().into_iter().map(|(folder, _)| folder).collect();
    let look = "import pathlib, sys, zipfile\n\
        [wheel] = pathlib.Path(sys.argv[1]).glob('*.whl')\n\
        files = zipfile.ZipFile(wheel)\n\
        found = [(n, f) for n in files.namelist() for f in sys.argv[2:] if f.encode() in files.read(n)]\n\
        sys.exit(f'{wheel.name} names folders of this machine: {found}' if found else 0)";
    run(program(&python).args(["-c", look, folder]).args(names))
}

/// Packs the source package into a folder.
pub(crate) fn source_into(folder: &str) -> Result<(), Stop> {
    run(&mut maturin(&python::with_maturin()?, &["sdist", "--out", folder]))
}

/// Installs the wheel of a folder into a new, empty environment, and returns the folder of its programs.
pub(crate) fn installed_from(folder: &str) -> Result<PathBuf, Stop> {
    let python = python::bare(&root().join(FROM_SHIPPED))?;
    let mut pip = program(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
    run(pip.args(["--no-index", "--find-links", folder, "scratchbook"]))?;
    run(program(&python).args(["-c", USED]))?;
    Ok(python.parent().map(Path::to_path_buf).unwrap_or_default())
}

/// Folders of this machine whose paths a compiler may write into its output, each with its replacement.
pub(crate) fn private_folders() -> Vec<(String, &'static str)> {
    let home = env::var("HOME").unwrap_or_default();
    let or_home = |name: &str, folder: &str| env::var(name).unwrap_or_else(|_| format!("{home}/{folder}"));
    let folders = [
        (root().display().to_string(), "/scratchbook"),
        (or_home("CARGO_HOME", ".cargo"), "/cargo"),
        (or_home("RUSTUP_HOME", ".rustup"), "/rustup"),
    ];
    folders.into_iter().filter(|(folder, _)| folder.len() > 1).collect()
}

pub(crate) fn remapped(folders: &[(String, &str)]) -> String {
    let flags = folders.iter().map(|(folder, instead)| format!("--remap-path-prefix={folder}={instead}"));
    flags.collect::<Vec<_>>().join(" ")
}

/// Builds the package optimized. maturin cannot do this: with the profile `bench`, Cargo's command `rustc`, which it uses,
/// builds a program that runs benches instead of the library.
pub(crate) fn optimize() -> Result<(), Stop> {
    python::install()?;
    let words = ["build", "-p", "scratchbook-python", "--no-default-features"];
    // maturin sets this variable, too. Without it, the library would need the library of one version of Python.
    let mut build = cargo(&words);
    build.args(MEASURED).env("PYO3_BUILD_EXTENSION_MODULE", "1").env("PYO3_PYTHON", python::interpreter());
    place(&mut build, &steps::built(&MEASURED))?;
    run(&mut of_package(&["-c", USED]))
}

/// Compares the package with google-adk's services in benchmarks.
pub(crate) fn bench() -> Result<(), Stop> {
    optimize()?;
    run(&mut of_package(&["bindings/python/benches/beside_adk.py"]))
}

/// Runs google-adk's own tests on the package. These tests exist only in google-adk's repository.
pub(crate) fn suites() -> Result<(), Stop> {
    let checkout = env::var_os(CHECKOUT).filter(|path| !path.is_empty());
    let checkout = checkout.ok_or_else(|| {
        Stop::LeftOut(format!("{CHECKOUT} names no checkout of google-adk's repository, whose tests these are"))
    })?;
    python::install()?;
    install("dev")?;
    let installed = servers::install();
    let mut tests = with_servers()?;
    tests.arg(python::interpreter()).args(["bindings/python/tests/google_adk/run.py", "--adk"]).arg(checkout);
    run(tests.arg("--package").arg(site()))?;
    installed
}

/// Builds and unpacks a wheel without the command, which the Rust tests and the step `dist` cover.
fn install(profile: &str) -> Result<(), Stop> {
    empty(&[WHEELS, SITE])?;
    let words = ["build", "--quiet", "--locked", "--no-default-features", "--profile", profile, "--out", WHEELS];
    let mut build = maturin(&python::interpreter(), &words);
    run(build.arg("--interpreter").arg(python::interpreter()))?;
    run(&mut pip_into(SITE, WHEELS))
}

fn maturin(python: &Path, words: &[&str]) -> Command {
    let mut command = program(python);
    command.args(["-m", "maturin"]).args(words).args(["--manifest-path", "bindings/python/Cargo.toml"]);
    command
}

/// Unpacks the package into a folder, from a wheel in another folder.
fn pip_into(folder: &str, from: &str) -> Command {
    let mut command = program(python::interpreter());
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    command.args(["--no-index", "--find-links", from, "--target", folder, "scratchbook"]);
    command
}

/// Removes the folders of an earlier run.
pub(crate) fn empty(folders: &[&str]) -> Result<(), Stop> {
    for folder in folders {
        let path = root().join(folder);
        if path.exists() {
            fs::remove_dir_all(&path).map_err(|error| Stop::Failed(format!("{folder}: {error}")))?;
        }
    }
    Ok(())
}

/// Returns the program that runs a command with the addresses of servers. The program is built with the features of the
/// workspace, like the tests: `cargo run` would build `ring` and others again with fewer features.
fn with_servers() -> Result<Command, Stop> {
    run(&mut checked(&["build", "--quiet", "--workspace", "--all-features", "--bin", "with-servers"]))?;
    Ok(program(steps::built(&[]).join("with-servers")))
}

/// Returns the folder of the unpacked package.
pub(crate) fn site() -> PathBuf {
    root().join(SITE)
}

/// Returns a call of Python with the package on its path.
fn of_package(arguments: &[&str]) -> Command {
    let mut command = program(python::interpreter());
    command.args(arguments).env("PYTHONPATH", site());
    command
}
