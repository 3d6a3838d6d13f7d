//! The steps of the test command, in order: cheap ones first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{self, BuildScope, checked};
use crate::changed::Changed;
use crate::command::{cargo, in_lab, lab, output, program, root, run, run_all};
use crate::compare::Task;
use crate::step::{Step, Stop};
use crate::suite::Tests;
use crate::tiers::Tier;
use crate::{
    browser, deploy, dist, documents, features, house, instructions, node, package, packages, planted, python, release,
    servers, tools, versions, workspace,
};

/// Returns the steps of `cargo xtask test`: what a change may break, on a laptop.
pub(crate) fn test() -> Vec<Step> {
    vec![
        Step::new("format", "every source file is formatted", format),
        Step::new("rules", "the house rules: sizes, leftovers, machine paths, one version everywhere", || {
            house::check().and(release::check())
        }),
        Step::new("postgres", "PostgreSQL is installed, for the tests to start", servers::install_postgres),
        python().beside_others(),
        Step::new("clippy", "everything builds, tests included, without a warning of the compiler or clippy", || {
            clippy(&BuildScope::Tier(Tier::Test))
        }),
        // This step waits for those that run beside others, so that everything is installed before the tests.
        Step::new("chromium", "Chromium is installed, for the test of a page", browser::install).after_others(),
        // The tests, also those of the package, wait more than they compute, so they run beside each other.
        Step::beside("tests", "unit, integration, property, conformance and crash tests", || {
            let tests = Tests::build(&BuildScope::Tier(Tier::Test), &missing())?;
            Ok(Box::new(move || tests.run()))
        }),
        Step::new("package", "the Python package in memory and on SQLite, and its types", package::test),
    ]
}

/// Returns the steps of `cargo xtask gate`: further servers, other languages and browsers, tests that hold an answer to a
/// time, the documentation, examples, and `lab/`.
pub(crate) fn gate() -> Vec<Step> {
    vec![
        Step::new("servers", "PostgreSQL, MariaDB and MySQL are installed, for the tests to start", servers::install),
        python(),
        Step::new("node", "ADK for TypeScript from npm, for the tests that run it by node", node::install),
        Step::new("browser", "Chromium and its driver, for the tests that use pages", browser::install_driver),
        Step::new("gate-tests", "MariaDB, MySQL, google-adk, node, browsers; then what is timed, alone", || {
            Tests::build(&BuildScope::Tier(Tier::Gate), &missing())?.run()
        }),
        Step::new("documents", "the documentation, without a warning, and its examples", || documentation(&missing())),
        Step::new("package-servers", "the Python package on PostgreSQL and MariaDB", package::test_on_servers),
        Step::new("examples", "each example runs", || examples(&[])),
        Step::new("demo", "the demo runs and finds the values it should", || demo(&[])),
        Step::new("lab", "measurements and proofs: no warning, and their tests", lab_tests),
        instructions(),
    ]
}

/// Returns the step that makes the Python environment of the tests.
fn python() -> Step {
    Step::new("python", "google-adk and schemathesis in a Python environment, for the tests with them", python::install)
}

/// Returns the step that compares the instructions of calls with the accepted counts.
pub(crate) fn instructions() -> Step {
    Step::new("instructions", "no call executes more instructions than was accepted", instructions::check)
}

/// Returns the step that accepts the current counts of instructions.
pub(crate) fn accept_instructions() -> Step {
    Step::new("accept", "the counts of instructions are written to lab/benches/instructions/accepted.json", || {
        instructions::accept()
    })
}

/// Returns the steps for a change, in the packages with changed files and all that depend on them.
pub(crate) fn changed() -> Result<Vec<Step>, Stop> {
    let changed = Changed::find()?;
    let packages: Vec<&str> = changed.packages.iter().map(String::as_str).collect();
    println!("{} files changed; packages: {}", changed.files.len(), packages.join(", "));
    let package = changed.is_in("bindings/python") || changed.has_python_in_documents();
    let lab = changed.is_in("lab");
    if let Some(store) = changed.store {
        let modules = store.modules.join(", ");
        println!("{} alone has changed: its own tests, and the library's in {modules}", store.package);
    }
    let is_built = !changed.packages.is_empty();
    let scope = BuildScope::Changed(changed.packages, changed.store);
    let tests = Step::new("tests", "no warning, and the tests of what has changed", move || {
        Tests::build(&scope, &missing())?.run()
    });
    let mut steps = test();
    steps.retain(|step| match step.name {
        "format" | "rules" => true,
        "postgres" | "chromium" => is_built,
        "python" => package,
        _ => false,
    });
    steps.extend(is_built.then_some(tests));
    steps.extend(test().into_iter().filter(|step| package && step.name == "package"));
    steps.extend(gate().into_iter().filter(|step| lab && step.name == "lab"));
    Ok(steps)
}

/// Returns all steps: those of `test` and `gate`, and those that take long.
pub(crate) fn full() -> Vec<Step> {
    let mut steps = test();
    let known: Vec<_> = steps.iter().map(|step| step.name).collect();
    steps.extend(gate().into_iter().filter(|step| !known.contains(&step.name)));
    steps.extend([
        Step::new("features", "no warning, with each feature of a package alone and with none", features::check),
        Step::new("deny", "licences, sources and duplicates of the dependencies", || {
            deny(&["bans", "licenses", "sources"])
        }),
        Step::new("wheel", "the Python package, built as users get it, and tested", package::wheel_test),
        Step::new(
            "long",
            "the tests again: 100 crashes, 1,600 power cuts, 8 processes x 1,000 appends, 2,000 cases a property, \
             100,000 requests, 50 an operation, 300 runs beside google-adk",
            long_tests,
        ),
        Step::new("clusters", "a standby takes over, a node of three dies and comes back", servers::clusters),
        Step::new(
            "histories",
            "transactions on every store and cluster, with faults, are as strictly serializable as promised",
            histories,
        ),
        Step::new("planted", "errors planted in concurrent code are found by its tests", planted::check),
        Step::new("numbers", "numbers stay numbers where serde_json carries them as text", arbitrary_precision),
        Step::new("fuzz", "each fuzz target for a minute", fuzz),
        Step::new("advisories", "no known flaw in a dependency", advisories),
        Step::new("release", "examples and demo, built for release", || {
            examples(&["--release"])?;
            demo(&["--release"])
        }),
        Step::new("book", "the book builds", documents::build),
        Step::new(
            "deploy",
            "what is in deploy/: units, manifests by their schema, and the compose file",
            deploy::check,
        ),
        Step::new(
            "versions",
            "an older build and this one read and write one database at the same time",
            versions::beside_old,
        ),
        Step::new("dist", "the archive, the wheel and the source package: each is made, installed and used", || {
            dist::make(&dist::DistOptions::default())
        }),
        Step::new("old-adk", "import_adk with older versions of google-adk, from 1.28 to 2.1", package::beside_old),
        Step::new("suites", "google-adk's own tests on the Python package", package::suites),
    ]);
    steps
}

/// Draws the pictures of README and the guide. The tests that compare the pictures draw them.
pub(crate) fn picture() -> Step {
    Step::new(
        "picture",
        "the pictures of README and the guide, of what the command prints and the server shows",
        || {
            browser::install_driver()?;
            let test = ["test", "--workspace", "--all-features", "--test", "cli", "--test", "browser", "--"];
            let pictures = [
                "the_terminal_in_the_readme_is_what_the_command_prints",
                "the_inspector_in_the_guide_is_what_the_server_shows",
            ];
            run(cargo(&test).args(pictures).env("SCRATCHBOOK_WRITE_PICTURE", "1"))
        },
    )
}

/// Compares the server with google-adk's by HTTP in benchmarks.
pub(crate) fn serve_bench() -> Step {
    Step::new("serve", "the server beside adk api_server: requests per second, and how long a start takes", || {
        packages::ensure(|| tools::wrk().into_iter().collect())?;
        python::install()?;
        run(&mut cargo(&["build", "--profile", "bench", "-p", "scratchbook-cli"]))?;
        run(&mut lab(&["bench", "-p", "scratchbook-benches", "--bench", "serve"]))
    })
}

/// Compares the Python package with google-adk's services in benchmarks.
pub(crate) fn package_bench() -> Step {
    Step::new("beside-adk", "the Python package beside google-adk's session services", package::bench)
}

/// Compares scratchbook with other systems and with the machine's limit.
pub(crate) fn compare(task: Task) -> Step {
    Step::new("compare", "scratchbook, other systems and the machine's limit, side by side", move || task.run())
}

/// Runs the benches that check ratios.
pub(crate) fn bench(arguments: &[&str]) -> Step {
    let mut words = vec!["bench".to_owned(), "-p".to_owned(), "scratchbook-benches".to_owned()];
    if arguments.is_empty() {
        // The server's benches are left out, because they need more than a build.
        let benches = ["ratios", "turns", "capacity", "instructions", "history", "paths", "bodies"];
        words.extend(benches.iter().flat_map(|bench| ["--bench", bench]).map(str::to_owned));
    }
    words.extend(arguments.iter().map(|word| (*word).to_owned()));
    Step::new("bench", "the ratio benches", move || run(&mut lab(&words)))
}

fn format() -> Result<(), Stop> {
    tools::component("fmt", "rustfmt")?;
    run_all([
        cargo(&["fmt", "--all", "--check"]),
        lab(&["fmt", "--check"]),
        cargo(&["fmt", "--manifest-path", "lab/fuzz/Cargo.toml", "--check"]),
    ])
}

fn clippy(scope: &BuildScope) -> Result<(), Stop> {
    tools::component("clippy", "clippy")?;
    match build::build(scope)?.warnings {
        0 => Ok(()),
        count => Err(Stop::Failed(format!("{count} warnings"))),
    }
}

/// Runs the examples from one build with the features of the tests, so that nothing is built twice.
fn examples(profile: &[&str]) -> Result<(), Stop> {
    let packages = workspace::packages()?;
    let names: Vec<_> = packages.iter().flat_map(|package| &package.examples).collect();
    if names.is_empty() {
        return Err(Stop::Failed("no package has an example".to_owned()));
    }
    build_programs(profile)?;
    run_all(names.iter().map(|name| program(built(profile).join("examples").join(name))))
}

/// Builds every example and program of the workspace.
fn build_programs(profile: &[&str]) -> Result<(), Stop> {
    let mut command = checked(&["build", "--workspace", "--all-features", "--examples", "--bins"]);
    run(command.args(profile))
}

/// Returns the folder in which a build puts its programs.
pub(crate) fn built(profile: &[&str]) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join(if profile.is_empty() { "debug" } else { "release" })
}

/// Returns the names of the fuzz targets in a folder. Fails if there are none.
fn targets_in(folder: &Path) -> Result<Vec<String>, Stop> {
    let failed = |error| Stop::Failed(format!("{}: {error}", folder.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    if names.is_empty() { Err(Stop::Failed(format!("no target in {}", folder.display()))) } else { Ok(names) }
}

fn demo(profile: &[&str]) -> Result<(), Stop> {
    build_programs(profile)?;
    run(program(built(profile).join("scratchbook")).arg("demo"))
}

/// Attacks every topology for `SCRATCHBOOK_HISTORIES_SECONDS` each. If `SCRATCHBOOK_HISTORIES_TABLE` names a file, the rows
/// are written to it, and an interrupted run continues after the last row.
fn histories() -> Result<(), Stop> {
    let path = servers::install_clusters()?;
    run(&mut lab(&["build", "-p", "scratchbook-histories"]))?;
    let seconds = std::env::var("SCRATCHBOOK_HISTORIES_SECONDS").unwrap_or_else(|_| "60".into());
    let mut command = program(built(&[]).join("histories"));
    command.args(["run", "--seconds", &seconds]).env("PATH", path);
    if let Some(table) = std::env::var_os("SCRATCHBOOK_HISTORIES_TABLE") {
        command.arg("--table").arg(table);
    }
    run(&mut command)
}

/// Builds the documentation without a warning, and runs the examples in it.
fn documentation(missing: &[&str]) -> Result<(), Stop> {
    let mut document = cargo(&["doc", "--workspace", "--all-features", "--no-deps", "--quiet"]);
    run(document.env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut examples = checked(&["test", "--workspace", "--all-features", "--doc", "--no-fail-fast"]);
    examples.arg("--").args(missing.iter().flat_map(|module| ["--skip".to_owned(), format!("{module}::")]));
    run(&mut examples)
}

/// Builds all of `lab/` without a warning, and runs its tests.
fn lab_tests() -> Result<(), Stop> {
    let words = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    let mut built = checked(&words);
    if build::warnings(in_lab(built.args(["--all-targets", "--no-run"])))? > 0 {
        return Err(Stop::Failed("warnings in lab/".to_owned()));
    }
    let mut tests = checked(&words);
    tests.args(["--lib", "--bins", "--tests"]);
    run(in_lab(&mut without_missing(tests)))
}

fn long_tests() -> Result<(), Stop> {
    let mut command = checked(&["test", "--workspace", "--all-features", "--no-fail-fast", "--tests"]);
    command = without_missing(command);
    command.env("SCRATCHBOOK_CRASH_ROUNDS", "100").env("SCRATCHBOOK_SATURATED_SECONDS", "10");
    command.env("SCRATCHBOOK_LOAD_SECONDS", "60").env("SCRATCHBOOK_ATTACK_SECONDS", "10");
    command.env("SCRATCHBOOK_PROCESS_APPENDS", "1000").env("SCRATCHBOOK_REQUESTS", "100000");
    command.env("SCRATCHBOOK_ADK_CASES", "300").env("SCRATCHBOOK_POWER_CUTS", "400");
    command.env("SCRATCHBOOK_TIMED_REQUESTS", "1000");
    run(command.env("PROPTEST_CASES", "2000").env("SCRATCHBOOK_SCHEMATHESIS_CASES", "50"))
}

/// Returns the modules whose tests are not run because their server, Python, node or browser is missing. The steps that
/// install these have reported it.
fn missing() -> Vec<&'static str> {
    [servers::missing(), python::missing(), node::missing(), browser::missing()].concat()
}

/// Skips the tests that need something missing.
fn without_missing(mut command: Command) -> Command {
    let modules = missing();
    if !modules.is_empty() {
        command.arg("--").args(modules.iter().flat_map(|module| ["--skip".to_owned(), format!("{module}::")]));
    }
    command
}

/// Runs the tests with a feature of serde_json that another crate in a program may enable for all crates.
fn arbitrary_precision() -> Result<(), Stop> {
    let features = ["--features", "serde_json/arbitrary_precision"];
    let mut command = cargo(&["test", "-p", "scratchbook", "--lib", "--tests"]);
    command.args(features);
    run(&mut without_missing(command))
}

/// Runs every fuzz target. No sanitizer is used: it would need a nightly compiler, and the library has no unsafe code.
fn fuzz() -> Result<(), Stop> {
    let seconds = std::env::var("SCRATCHBOOK_FUZZ_SECONDS").unwrap_or_else(|_| "60".into());
    tools::cxx()?;
    let tool = tools::FUZZ.path()?;
    // cargo-fuzz has no option `--locked`, so this fails if the lock file of the fuzz targets is out of date.
    output(&mut cargo(&["tree", "--quiet", "--manifest-path", "lab/fuzz/Cargo.toml"]))?;
    let targets = targets_in(&root().join("lab/fuzz/fuzz_targets"))?;
    let mut commands = Vec::new();
    for target in targets {
        let folder = |kind: &str| format!("lab/fuzz/{kind}/{target}");
        fs::create_dir_all(root().join(folder("corpus"))).map_err(|error| Stop::Failed(error.to_string()))?;
        let mut command = program(&tool);
        command.args(["fuzz", "run", "--fuzz-dir", "lab/fuzz", "--sanitizer", "none", &target, &folder("corpus")]);
        if root().join(folder("seeds")).is_dir() {
            command.arg(folder("seeds"));
        }
        command.args(["--", "-dict=lab/fuzz/json.dict", "-verbosity=0", "-print_final_stats=1", "-timeout=10"]);
        command.arg(format!("-max_total_time={seconds}"));
        commands.push(command);
    }
    run_all(commands)
}

fn deny(checks: &[&str]) -> Result<(), Stop> {
    let tool = tools::DENY.path()?;
    run_all(["Cargo.toml", "lab/Cargo.toml"].map(|manifest| {
        let mut command = program(&tool);
        command.args(["--manifest-path", manifest, "--workspace", "--locked", "check", "--config", "deny.toml"]);
        command.arg("--hide-inclusion-graph").args(checks);
        command
    }))
}

/// Checks the dependencies for known flaws. The list of flaws is fetched each time, so the step is left out on a
/// machine without a connection.
fn advisories() -> Result<(), Stop> {
    run(program(tools::DENY.path()?).args(["fetch", "db"]))
        .map_err(|_| Stop::LeftOut("the list of advisories could not be fetched".into()))?;
    deny(&["--disable-fetch", "advisories"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_targets_are_found_and_declared() {
        let manifest = fs::read_to_string(root().join("lab/fuzz/Cargo.toml")).unwrap();
        for target in targets_in(&root().join("lab/fuzz/fuzz_targets")).unwrap() {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        }
    }

    #[test]
    fn a_folder_without_fuzz_targets_is_a_failure() {
        assert!(targets_in(&root().join(".ci")).is_err());
        assert!(targets_in(&root().join("no such folder")).is_err());
    }

    #[test]
    fn the_workflow_runs_both_tiers_and_what_only_full_has_besides() {
        let workflow = fs::read_to_string(root().join(".github/workflows/ci.yml")).unwrap();
        for command in ["cargo xtask test\n", "cargo xtask gate\n", "cargo xtask full --step features deny\n"] {
            assert!(workflow.contains(command), "no job runs: {command}");
        }
    }

    #[test]
    fn steps_have_names_of_their_own() {
        let mut names: Vec<&str> = full().iter().map(|step| step.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
