//! Checks the Markdown files: their links, and that `docs/` is a book.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::command::{program, root, run};
use crate::step::Stop;
use crate::tools;

/// The folder of the book's pages.
const BOOK: &str = "docs/";
/// The list of the book's pages.
const CONTENTS: &str = "docs/SUMMARY.md";

/// The overview for language models, which has every page of the book but the records for contributors.
const OVERVIEW: &str = "llms.txt";

/// A page of the book with more lines than this has to be split.
const MOST_LINES: usize = 400;

/// What the pages for contributors begin with. These pages may link to the sources.
const RECORDS: &str = "docs/design";

/// The file that turns the book's programs into tests.
const TESTED: &str = "crates/scratchbook/src/lib.rs";

/// Files that name metrics of `/metrics`.
const NUMBERS: [&str; 3] = ["docs/operating/alerts.yaml", "docs/operating/grafana.json", "docs/operating/monitor.md"];
/// The source that describes all metrics.
const DESCRIBED: &str = "crates/scratchbook-cli/src/serve/telemetry/metrics.rs";

/// Returns the breaches of one file, each as the rest of a line that begins with the path.
pub(crate) fn breaches(path: &str, text: &str) -> Vec<String> {
    let mut found = unknown_numbers(path, text);
    if path == OVERVIEW {
        found.extend(missing_pages(text, &read(CONTENTS)));
    }
    if path.ends_with(".md") || path == OVERVIEW {
        found.extend(broken_links(path, text));
        if path.starts_with(BOOK) && path != CONTENTS {
            found.extend(not_a_page(path, text, &read(CONTENTS), &read(TESTED)));
        }
    }
    found
}

/// Builds the book.
pub(crate) fn build() -> Result<(), Stop> {
    run(program(tools::MDBOOK.path()?).args(["build", "docs"]))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// Returns the problems of a page of the book, given the book's contents and the file that tests its programs.
fn not_a_page(path: &str, text: &str, contents: &str, tested: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    if lines > MOST_LINES {
        found.push(format!(": {lines} lines, over {MOST_LINES}: split the page"));
    }
    if !contents.contains(&format!("]({})", path.trim_start_matches(BOOK))) {
        found.push(format!(": {CONTENTS} does not list it"));
    }
    if text.contains("\n```rust") && !tested.contains(&format!("\"/{path}\"")) {
        found.push(format!(": {TESTED} does not test its programs"));
    }
    found
}

/// Returns the pages of the book that the overview does not have, given the book's contents.
fn missing_pages(text: &str, contents: &str) -> Vec<String> {
    let listed = contents.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let pages = listed.map(|page| format!("{BOOK}{page}")).filter(|page| !page.starts_with(RECORDS));
    pages.filter(|page| !text.contains(&format!("]({page})"))).map(|page| format!(": no link to '{page}'")).collect()
}

/// Returns the relative links of a Markdown file to files and headings that do not exist, and the links that leave the
/// book.
fn broken_links(path: &str, text: &str) -> Vec<String> {
    let mut anchors = HashMap::from([(PathBuf::from(path), anchors(text))]);
    let mut found = Vec::new();
    for (number, line) in prose_lines(text) {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains(':')) {
            if let Some(why) = broken(path, target, &mut anchors) {
                found.push(format!(":{number}: a link to '{target}', {why}"));
            }
        }
    }
    found
}

fn broken(path: &str, target: &str, known: &mut HashMap<PathBuf, Vec<String>>) -> Option<&'static str> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { PathBuf::from(path) } else { resolved(path, file) };
    if !root().join(&file).exists() {
        return Some("which does not exist");
    }
    if path.starts_with(BOOK) && !path.starts_with(RECORDS) && !file.starts_with(BOOK) {
        return Some("which is not in the book");
    }
    if anchor.is_empty() || file.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let text = |file: &Path| fs::read_to_string(root().join(file)).unwrap_or_default();
    let headings = known.entry(file).or_insert_with_key(|file| anchors(&text(file)));
    (!headings.iter().any(|heading| heading == anchor)).then_some("a heading which does not exist")
}

/// Returns a relative link from the root of the repository.
fn resolved(path: &str, target: &str) -> PathBuf {
    let mut file = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(file.pop()),
            Component::CurDir => {}
            part => file.push(part),
        }
    }
    file
}

/// Returns the lines outside of code blocks, numbered from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((index + 1, line))
    })
}

/// Returns the anchors of a file's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut times: HashMap<String, usize> = HashMap::new();
    for (_, line) in prose_lines(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading.trim());
        let time = times.entry(anchor.clone()).or_default();
        found.push(if *time == 0 { anchor } else { format!("{anchor}-{time}") });
        *time += 1;
    }
    found
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Finds metrics that a document names but the server does not have.
fn unknown_numbers(path: &str, text: &str) -> Vec<String> {
    if !NUMBERS.contains(&path) {
        return Vec::new();
    }
    let described = read(DESCRIBED);
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut unknown: Vec<_> = words
        .filter(|word| word.starts_with("scratchbook_"))
        .map(|word| ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word))
        .filter(|word| !described.contains(&format!("\"{word}\"")))
        .map(|word| format!(": the number '{word}', which /metrics does not have"))
        .collect();
    unknown.dedup();
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let text = "[a](#here) [b](#gone) [c](no.md)\n```\n[d](no.md)\n```\n# Here\n";
        assert_eq!(
            broken_links("README.md", text),
            [":1: a link to '#gone', a heading which does not exist", ":1: a link to 'no.md', which does not exist"]
        );
        assert!(broken_links("README.md", "[a](docs/concepts.md#scopes) [b](https://example.com/x)").is_empty());
    }

    #[test]
    fn a_page_of_the_book_links_to_nothing_outside_of_it() {
        let link = "[a](../../README.md)";
        assert_eq!(
            broken_links("docs/state/x.md", link),
            [":1: a link to '../../README.md', which is not in the book"]
        );
        assert!(broken_links("docs/design.md", "[a](../README.md)").is_empty());
    }

    #[test]
    fn headings_have_the_anchors_of_github() {
        let text = "# A `b`: c, d-e\n## A_b\n## A_b\n```\n# no\n```\n#no\n";
        assert_eq!(anchors(text), ["a-b-c-d-e", "a_b", "a_b-1"]);
    }

    #[test]
    fn a_page_is_short_listed_and_tested() {
        let (contents, tested) = ("- [A](a.md)", "\"/docs/a.md\"");
        assert!(not_a_page("docs/a.md", "\n```rust\n```\n", contents, tested).is_empty());
        assert_eq!(not_a_page("docs/b.md", "\n```rust\n```\n", contents, tested).len(), 2);
        assert_eq!(not_a_page("docs/a.md", &"x\n".repeat(401), contents, tested).len(), 1);
        assert_eq!(not_a_page("docs/design/a.md", &"x\n".repeat(401), "](design/a.md)", tested).len(), 1);
    }

    #[test]
    fn the_overview_has_every_page_but_the_records() {
        let contents = "[About](README.md)\n- [A](state/a.md)\n- [Design](design.md)\n- [Log](design/log.md)";
        assert_eq!(missing_pages("[About](docs/README.md)", contents), [": no link to 'docs/state/a.md'"]);
        assert!(missing_pages("[About](docs/README.md), [A](docs/state/a.md)", contents).is_empty());
    }

    #[test]
    fn numbers_that_the_server_does_not_have_are_found() {
        assert!(unknown_numbers(NUMBERS[0], "rate(scratchbook_run_seconds_bucket[5m])").is_empty());
        assert_eq!(unknown_numbers(NUMBERS[0], "scratchbook_no_such_total > 1").len(), 1);
        assert!(unknown_numbers("README.md", "scratchbook_no_such_total").is_empty());
    }
}
