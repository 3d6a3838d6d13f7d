//! The help of every command, as a terminal with 80 columns shows it.

use crate::{scratchbook, text};

/// The width of the terminal.
const COLUMNS: usize = 80;

/// The greatest width of a line of an example.
const EXAMPLE: usize = 78;

/// Returns the help of a command.
fn help(page: &[String]) -> String {
    let mut command = scratchbook();
    command.env("COLUMNS", COLUMNS.to_string()).args(page).arg("--help");
    text(command)
}

/// Returns all commands with subcommands first, each as its words.
fn pages() -> Vec<Vec<String>> {
    let (mut found, mut left) = (Vec::new(), vec![Vec::new()]);
    while let Some(page) = left.pop() {
        let shown = help(&page);
        let (_, commands) = shown.split_once("\nCommands:\n").unwrap_or_default();
        let commands = commands.lines().take_while(|line| !line.is_empty());
        // The lines of a long description are indented further.
        let names = commands.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        let below = names.filter(|name| *name != "help").map(|name| [&page[..], &[name.to_owned()]].concat());
        left.extend(below);
        found.push(page);
    }
    found
}

/// Returns the lines of the examples on a page.
fn examples(page: &str) -> Vec<&str> {
    let after = page.split_once("\nExamples:\n").or_else(|| page.split_once("\nExample:\n"));
    after.map(|(_, after)| after.lines().take_while(|line| !line.is_empty()).collect()).unwrap_or_default()
}

#[test]
fn every_page_has_examples_that_do_not_break() {
    let pages = pages();
    assert!(pages.len() >= 45, "{pages:?}");
    for page in pages {
        let shown = help(&page);
        let examples = examples(&shown);
        assert!(!examples.is_empty(), "no example: {shown}");
        let mut goes_on = false;
        for line in examples {
            // The part of a line that is broken begins with another word.
            let begins = if goes_on { "    " } else { "  scratchbook " };
            assert!(line.starts_with(begins) || line.starts_with("  echo "), "a broken line, '{line}': {shown}");
            assert!(line.chars().count() <= EXAMPLE, "a line that is too wide, '{line}': {shown}");
            goes_on = line.ends_with('\\');
        }
        assert!(!goes_on, "{shown}");
    }
}

#[test]
fn every_usage_fits_a_terminal() {
    for page in pages() {
        let shown = help(&page);
        let (_, usage) = shown.split_once("Usage: ").unwrap();
        for line in format!("Usage: {usage}").lines().take_while(|line| !line.is_empty()) {
            assert!(line.chars().count() <= COLUMNS, "a line that is too wide, '{line}': {shown}");
        }
    }
}

#[test]
fn help_lists_no_option_that_the_command_ignores() {
    let page = |words: &str| help(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for command in ["new", "man", "completions", "token new"] {
        let shown = page(command);
        for option in ["--database", "--deadline", "--schema", "--keyring", "--plain-values"] {
            assert!(!shown.contains(&format!("{option} <")), "{option} in {shown}");
        }
        assert!(shown.contains("--json"), "{shown}");
    }
    for (command, option, is_there) in [
        ("sessions list", "--schema <", true),
        ("sessions list", "--database <", true),
        ("chat", "--schema <", true),
        ("serve", "--database <", true),
        ("serve", "--schema <", false),
        ("verify", "--schema <", false),
        ("schema check", "--schema <", false),
        ("backup", "--keyring <", false),
    ] {
        let shown = page(command);
        assert_eq!(shown.contains(option), is_there, "{option} in {shown}");
    }
}
