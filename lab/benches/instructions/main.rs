//! Counts how many instructions a call executes, with callgrind. The figures are the same on a busy machine and on an
//! idle one.
//!
//! `cargo xtask gate --step instructions` fails if a count has risen above the accepted one by more than its room. A
//! change that is worth its cost accepts the new counts in the same commit: `cargo xtask bench instructions --accept`.
//!
//! The counts of `accepted.json` belong to a compiler, an architecture and a profile. The test command counts in the
//! profile of the tests, whose build exists already: an optimized build of the server alone would take the test command
//! several minutes. In that profile, most of each count comes from our own code, which is what a change affects. `cargo
//! bench --locked --bench instructions` counts in an optimized build.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run has nothing to report")]

mod accepted;
mod cases;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use accepted::{Accepted, counted_with};
use cases::CASES;

/// How often the counting is repeated if a count seems to have risen: threads that wait for each other may spin.
const TRIES: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run"] => cases::run(),
        ["accept"] => accept(),
        ["check"] => return check(),
        _ => report(&count().expect("valgrind counts")),
    }
    ExitCode::SUCCESS
}

/// Returns the instructions of a call in each case, by the name of the case; `None` without valgrind.
fn count() -> Option<BTreeMap<&'static str, u64>> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", &format!("--dump-before=*{}*", cases::BOUNDARY)]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display())).arg(std::env::current_exe().unwrap()).arg("run");
    let ran = valgrind.output().ok()?;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let parts = parts(folder.path());
    assert_eq!(parts.len(), 2 * CASES.len() + 1, "the parts between the boundaries");
    // The parts before each case and after the last case belong to no case.
    let counted = parts.chunks(2).filter_map(|pair| pair.get(1));
    Some(CASES.iter().zip(counted).map(|(case, all)| (case.name, all / case.calls as u64)).collect())
}

/// Returns the totals of the parts that callgrind has written, in the order of the parts.
fn parts(folder: &Path) -> Vec<u64> {
    let mut parts: Vec<(u64, u64)> = fs::read_dir(folder).unwrap().map(|file| part(&file.unwrap().path())).collect();
    parts.sort_unstable();
    parts.into_iter().map(|(_, total)| total).collect()
}

/// Returns the number of a part, and its total.
fn part(file: &Path) -> (u64, u64) {
    let text = fs::read_to_string(file).unwrap();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap();
    (field("part:"), field("summary:"))
}

fn report(counts: &BTreeMap<&'static str, u64>) {
    let accepted = Accepted::read();
    println!("{}\n\n| case | instructions a call | accepted |\n|---|---|---|", counted_with());
    for case in CASES {
        let accepted = accepted.of(case.name).map_or_else(|| "-".to_owned(), |count| count.to_string());
        println!("| {} | {} | {accepted} |", case.name, counts[case.name]);
    }
}

fn accept() {
    let counts = count().expect("valgrind counts");
    Accepted::read().accept(&counts);
    report(&counts);
}

fn check() -> ExitCode {
    let accepted = Accepted::read();
    let Some(mut counts) = count() else {
        println!("NOT CHECKED: valgrind is not installed");
        return ExitCode::SUCCESS;
    };
    if !accepted.is_known() {
        report(&counts);
        println!("\nNOT CHECKED: no counts are accepted for {}; accept them if this is the one in use", counted_with());
        return ExitCode::SUCCESS;
    }
    for _ in 1..TRIES {
        if accepted.risen(&counts).is_empty() {
            break;
        }
        let again = count().expect("valgrind counts");
        counts.iter_mut().for_each(|(name, count)| *count = again[name].min(*count));
    }
    report(&counts);
    let risen = accepted.risen(&counts);
    if risen.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("\n{}", risen.join("\n"));
    eprintln!(
        "The calls above cost more than before. Find what costs (valgrind --tool=callgrind), or, if it is worth its cost, \
         say so: run `cargo xtask bench instructions --accept` and commit lab/benches/instructions/accepted.json together \
         with the change."
    );
    ExitCode::FAILURE
}
