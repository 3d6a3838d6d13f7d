//! The commands that set things up: an agent's folder, completions and man pages.

use std::fs;

use serde_json::json;

use crate::chat::chat;
use crate::{Fixture, scratchbook, text};

#[test]
fn a_new_agent_works_offline_at_once() {
    let fixture = Fixture::empty();
    let folder = fixture.path("my-agent");
    let folder = folder.to_str().unwrap();
    let made = fixture.json(&["new", folder]);
    assert_eq!(made["app"], "my-agent");
    let agent = format!("{folder}/root_agent.yaml");
    let out = chat(&fixture, &["--agent", &agent], &["Add two apples", "My name is Ann", "Hello"]).well();
    assert!(out.starts_with("my-agent") && out.contains("model    shop"), "{out}");
    assert!(out.contains("In your cart: 2 x apples.") && out.contains("Hello, Ann!"), "{out}");
    assert_eq!(fixture.sessions("my-agent").len(), 1);
    let said = fixture.fails(4, &["new", folder]);
    assert!(said.contains("exists already"), "{said}");
    let readme = fs::read_to_string(format!("{folder}/README.md")).unwrap();
    for command in [made["chat"].as_str().unwrap(), made["serve"].as_str().unwrap()] {
        assert!(readme.contains(command), "{readme}");
    }

    let other = fixture.path("other");
    let other = other.to_str().unwrap();
    let said = fixture.text(&["new", other, "--model", "gemini-2.5-flash"]);
    assert!(said.contains("\nscratchbook chat --agent "), "a command has a line of its own: {said}");
    let said = fixture.fails(6, &["chat", "--agent", &format!("{other}/root_agent.yaml")]);
    assert!(said.contains("GOOGLE_API_KEY") && said.contains("'shop'"), "{said}");
    for bad in [&["new", "/tmp/9 lives"][..], &["new", "x", "--model", "nobody"], &["new", "user"]] {
        fixture.fails(2, bad);
    }
    let said = fixture.fails(2, &["chat", "--agent", &agent, "--model", "nobody"]);
    assert!(said.starts_with("error: --model: ") && !said.contains("root_agent"), "{said}");
}

#[test]
fn shells_and_man_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let mut command = scratchbook();
        command.args(["completions", shell]);
        let script = text(command);
        assert!(script.contains("rewind") && script.contains("database"), "{shell}");
    }
    let fixture = Fixture::empty();
    let folder = fixture.path("man");
    fixture.text(&["man", folder.to_str().unwrap()]);
    let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("scratchbook.1").contains("Durable sessions"));
    assert!(page("scratchbook-sessions-rewind.1").contains("INVOCATION"));
    assert_eq!(fixture.json(&["man", folder.to_str().unwrap()]), json!({"folder": folder}));
}

#[test]
fn another_kind_of_file_is_no_export() {
    let fixture = Fixture::with_session(0);
    let import = |name: &str| fixture.fails(2, &["import", "--from", "jsonl", fixture.path(name).to_str().unwrap()]);
    assert!(import("agents.db").contains("is a SQLite database"));
    fs::write(fixture.path("other.jsonl"), "{\"messages\": []}\n").unwrap();
    let said = import("other.jsonl");
    assert!(said.contains("line 1") && said.contains("not a file that `scratchbook export` has written"), "{said}");
}
