//! Each rule holds on a small crate, and can be broken.

use super::*;

/// A crate that keeps the rules, and one more file.
fn with(path: &str, text: &str) -> Vec<String> {
    let mut files: Vec<(String, String)> = [
        ("lib.rs", "mod error;\npub use error::{Error, Result};\npub use store::{InMemorySessionService, connect};"),
        ("store/mod.rs", "mod memory;\nuse crate::error::Result;\npub use memory::InMemorySessionService;"),
        ("store/memory.rs", "use super::commit::Prepared;\nuse crate::session::SessionKey;"),
        ("event.rs", "use crate::{content::{Content, Part}, error::Result};\nuse crate::state::StateDelta;"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    files.retain(|(known, _)| known != path);
    files.push((path.to_owned(), text.to_owned()));
    breaches(&files)
}

fn clean(path: &str, text: &str) {
    assert_eq!(with(path, text), Vec::<String>::new());
}

fn broken(path: &str, text: &str, why: &str) {
    let found = with(path, text);
    assert!(found.len() == 1 && found[0].contains(why), "{found:?}");
}

#[test]
fn a_module_uses_what_is_below_it() {
    clean("session/key.rs", "use super::Session;\nuse crate::event::{Event, check_timestamp};");
    broken("state/delta.rs", "use crate::event::Event;", "'state' may not use 'event'");
    broken("event.rs", "use crate::{\n    error::Error,\n    session::{Session as S},\n};", "'session'");
    broken("event.rs", "fn f() { crate::session::no_session() }", "'event' may not use 'session'");
    broken("session/key.rs", "use super::super::runner::Runner;", "'session' may not use 'runner'");
}

#[test]
fn a_name_of_the_root_counts_as_its_module() {
    clean("runner.rs", "use crate::{Error, Result};");
    broken("runner.rs", "use crate::connect;", "'runner' may not use 'store'");
}

#[test]
fn a_name_may_go_up_where_the_table_says_so() {
    clean("tool/mod.rs", "use crate::agent::ToolContext;");
    clean("tool/mod.rs", "use crate::agent::{ToolContext};\ncrate::for_each_promise!(one);");
    broken("tool/mod.rs", "use crate::agent::{LlmAgent, ToolContext};", "'tool' may not use 'agent' (agent::LlmAgent)");
    broken("model/mod.rs", "use crate::agent::ToolContext;", "'model' may not use 'agent'");
}

#[test]
fn a_new_module_needs_a_row() {
    broken("novelty.rs", "use crate::error::Error;", "'novelty' has no row");
    broken("event.rs", "use crate::novelty::New;", "'event' may not use 'novelty'");
}

#[test]
fn stores_never_know_each_other() {
    clean("store/sqlite/write.rs", "use super::schema;\nuse super::super::commit::Prepared;\nuse crate::store::query;");
    clean("store/mod.rs", "pub use sqlite::SqliteSessionService;\nuse self::memory::Shard;");
    broken("store/sqlite/write.rs", "use crate::store::memory::Shard;", "'store::sqlite::write' may not know");
    broken("store/sqlite/write.rs", "use super::super::memory::Shard;", "the store 'memory'");
    broken("store/conformance.rs", "use super::InMemorySessionService;", "the store 'memory'");
    broken("store/memory.rs", "use super::sqlite;", "the store 'sqlite'");
}

#[test]
fn the_pure_core_is_pure() {
    broken("state/delta.rs", "fn now() { std::time::Instant::now(); }", "'std::time' in the pure core");
    broken("instruction.rs", "async fn render() {}", "'async fn' in the pure core");
    clean("runner.rs", "async fn run() { tokio::spawn(f()); }");
}

#[test]
fn comments_and_unit_tests_may_say_anything() {
    clean("state/delta.rs", "//! As crate::runner does.\n/// [`crate::runner`]\nfn f() {} // crate::runner::x\n");
    clean("state/delta.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::runner::Runner;\n}");
}

#[test]
fn trees_are_taken_apart() {
    let paths = |text| tree(text).iter().map(|path| path.join("::")).collect::<Vec<_>>();
    assert_eq!(paths("a::b;"), ["a::b"]);
    assert_eq!(paths("{a::{b, c::d}, e};"), ["a::b", "a::c::d", "e"]);
    assert_eq!(paths("a::*;"), ["a"]);
    assert_eq!(paths("f(x, y)"), ["f"]);
}

#[test]
fn the_table_names_only_rows_above() {
    for (index, (module, allowed)) in MAY_USE.iter().enumerate() {
        for used in *allowed {
            assert!(
                MAY_USE[..index].iter().any(|(name, _)| name == used),
                "'{module}' uses '{used}', which is no row above"
            );
        }
    }
}
