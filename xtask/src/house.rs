//! The house rules: checks of the repository's files that no compiler makes.

use std::fs;
use std::path::Path;

use crate::circles::Crates;
use crate::command::{READS_LOCK, program, root};
use crate::documents;
use crate::step::Stop;

/// A source file with more lines than this has to be split.
const MOST_LINES: usize = 800;

/// The greatest size of a file in the repository.
const MOST_BYTES: u64 = 1 << 20;

/// Folders and files with pure logic.
const PURE: [&str; 2] = ["crates/scratchbook-core/src/state/", "crates/scratchbook-agent/src/instruction.rs"];
/// Words that are not allowed in pure logic.
const IMPURE: [&str; 8] = ["async fn", "async move", "tokio", "std::time", "std::fs", "std::net", "uuid", "SystemTime"];

/// Checks every file that is tracked, and every new one that is not ignored.
pub(crate) fn check() -> Result<(), Stop> {
    let (mut breaches, mut crates) = (Vec::new(), Crates::default());
    for path in tracked_files()? {
        check_file(&path, &mut breaches, &mut crates)?;
    }
    breaches.extend(crates.breaches());
    for breach in &breaches {
        println!("{breach}");
    }
    match breaches.len() {
        0 => Ok(()),
        count => Err(Stop::Failed(format!("house rules broken in {count} places"))),
    }
}

pub(crate) fn tracked_files() -> Result<Vec<String>, Stop> {
    let listed = program("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(|error| Stop::LeftOut(format!("git did not start: {error}")))?;
    if !listed.status.success() {
        return Err(Stop::LeftOut(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim())));
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

fn check_file(path: &str, breaches: &mut Vec<String>, crates: &mut Crates) -> Result<(), Stop> {
    let full = root().join(path);
    // The file was deleted but is still in the index.
    let Ok(meta) = fs::metadata(&full) else { return Ok(()) };
    if !meta.is_file() {
        return Ok(());
    }
    if let Some(breach) = too_big(meta.len()) {
        breaches.push(format!("{path}: {breach}"));
        return Ok(());
    }
    let bytes = fs::read(&full).map_err(|error| Stop::Failed(format!("{path}: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let found = [in_text(path, &text), documents::breaches(path, &text)].concat();
    breaches.extend(found.into_iter().map(|breach| format!("{path}{breach}")));
    crates.add(path, &text);
    Ok(())
}

fn too_big(bytes: u64) -> Option<String> {
    (bytes > MOST_BYTES).then(|| format!(" has {bytes} bytes, over {MOST_BYTES}"))
}

/// Returns the breaches in the text of one file, each as the rest of a line that begins with the path.
fn in_text(path: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let extension = Path::new(path).extension().and_then(|e| e.to_str()).unwrap_or_default();
    let lines = text.lines().count();
    if extension == "rs" && !is_test(path) && lines > MOST_LINES {
        breaches.push(format!(": {lines} lines, over {MOST_LINES}: split it"));
    }
    let mut is_pure = extension == "rs" && PURE.iter().any(|pure| path.starts_with(pure));
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        is_pure = is_pure && line != "#[cfg(test)]";
        if is_pure && !line.trim_start().starts_with("//") {
            let words = IMPURE.iter().filter(|word| line.contains(**word));
            breaches.extend(words.map(|word| format!(":{number}: '{word}' in the pure core")));
        }
        if extension == "rs" {
            breaches.extend(marker(line).map(|marker| format!(":{number}: '{marker}' was left behind")));
        }
        if path != HISTORY && lets_lock_change(line) {
            breaches.push(format!(":{number}: a command of Cargo without --locked"));
        }
        if extension != "lock" {
            breaches.extend(machine_path(line).map(|found| format!(":{number}: a path of one machine, '{found}'")));
        }
    }
    breaches
}

/// The file with commands of the past, which are not changed any more.
const HISTORY: &str = "CHANGELOG.md";

/// Returns whether a line has a command of Cargo that a reader may copy and that may change the versions of
/// dependencies. A command counts if it has options, or begins its line and has no arguments. A bare `cargo run` is
/// allowed, because it runs a user's own program: this workspace has several programs.
fn lets_lock_change(line: &str) -> bool {
    line.match_indices("cargo ").any(|(at, cargo)| {
        let before = line[..at].trim_end();
        let mut words =
            line[at + cargo.len()..].split(['`', '"', '#', '&', '|']).next().unwrap_or_default().split_whitespace();
        let subcommand = words.next().unwrap_or_default();
        let options: Vec<_> = words.collect();
        let begins_line = before.is_empty() || before.ends_with(['$', ':', '&', '|']);
        let is_command = options.first().map_or(begins_line && subcommand != "run", |first| first.starts_with('-'));
        READS_LOCK.contains(&subcommand) && is_command && !options.contains(&"--locked")
    })
}

/// Returns whether a file contains only tests.
pub(crate) fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Marks of unfinished code. They are written in parts, so that this file contains none of them.
const MARKERS: [&str; 4] =
    [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!("), concat!("#[", "ignore")];

/// The mark of long tests, which is allowed: `cargo xtask full` runs these tests in its step `clusters`.
const LONG: &str = concat!("#[", "ignore = \"long: ");

fn marker(line: &str) -> Option<&'static str> {
    MARKERS.into_iter().find(|marker| line.contains(marker) && !line.contains(LONG))
}

/// Folders that exist only on one machine.
const MACHINE_FOLDERS: [&str; 3] = ["work", "root", "home"];

/// Returns the first of these folders with which an absolute path in a line begins. A path that follows a letter, as in
/// a URL, does not count.
fn machine_path(line: &str) -> Option<String> {
    MACHINE_FOLDERS.into_iter().map(|folder| format!("/{folder}/")).find(|path| {
        line.match_indices(path.as_str())
            .any(|(at, _)| !line[..at].chars().next_back().is_some_and(|before| before.is_ascii_alphabetic()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        "// a line\n".repeat(count)
    }

    #[test]
    fn long_source_files_are_found_and_long_tests_are_not() {
        assert_eq!(in_text("src/a.rs", &lines(800)), Vec::<String>::new());
        assert_eq!(in_text("src/a.rs", &lines(801)), [": 801 lines, over 800: split it"]);
        assert!(in_text("crates/a/tests/b.rs", &lines(801)).is_empty());
        assert!(in_text("src/a/tests.rs", &lines(801)).is_empty());
        assert!(in_text("a.md", &lines(801)).is_empty());
    }

    #[test]
    fn what_was_left_behind_is_found_in_sources_alone() {
        for marker in MARKERS {
            let text = format!("fn f() {{\n    {marker}\n}}");
            assert_eq!(in_text("a.rs", &text), [format!(":2: '{marker}' was left behind")]);
            assert!(in_text("a.md", &text).is_empty());
        }
        assert!(in_text("a.rs", "//! Todo lists, ignored.").is_empty());
        assert!(in_text("a.rs", &format!("{LONG}it kills servers\"]")).is_empty());
    }

    #[test]
    fn the_pure_core_has_no_clock_outside_its_tests() {
        let path = format!("{}fold.rs", PURE[0]);
        assert_eq!(in_text(&path, "use std::time::Instant;"), [":1: 'std::time' in the pure core"]);
        assert!(in_text(&path, "// tokio\n#[cfg(test)]\nuse std::time::Instant;").is_empty());
        assert!(in_text("crates/a/src/b.rs", "use std::time::Instant;").is_empty());
    }

    #[test]
    fn paths_of_a_machine_are_found_but_in_lock_files() {
        for folder in MACHINE_FOLDERS {
            for text in [format!("/{folder}/x"), format!("see `/{folder}/x`"), format!("../{folder}/x")] {
                assert_eq!(in_text("a.md", &text).len(), 1, "{text}");
                assert!(in_text("Cargo.lock", &text).is_empty());
            }
            assert!(in_text("a.md", &format!("https://example.com/{folder}/ and a/{folder}/b, /{folder}")).is_empty());
        }
    }

    #[test]
    fn commands_that_may_change_the_lock_file_are_found() {
        let of_cargo = |words: &str| format!("cargo {words}");
        for words in ["test -p a", "test", "test   # all", "build --release && cargo run --locked -p a"] {
            let found = in_text("a.md", &of_cargo(words));
            assert_eq!(found, [":1: a command of Cargo without --locked"], "{words}");
            assert!(in_text(HISTORY, &of_cargo(words)).is_empty());
        }
        for words in ["test --locked -p a", "run", "fmt --all", "xtask test --list"] {
            assert!(in_text("a.md", &of_cargo(words)).is_empty(), "{words}");
        }
        assert!(in_text("a.rs", &format!("// With plain `{}`", of_cargo("test"))).is_empty());
        assert!(!in_text("a.yml", &format!("run: {}", of_cargo("test"))).is_empty());
    }

    #[test]
    fn big_files_are_found() {
        assert_eq!(too_big(MOST_BYTES), None);
        assert!(too_big(MOST_BYTES + 1).is_some());
    }

    #[test]
    fn the_files_of_the_repository_are_listed() {
        let files = tracked_files().unwrap();
        assert!(files.iter().any(|path| path == "Cargo.toml"));
    }
}
