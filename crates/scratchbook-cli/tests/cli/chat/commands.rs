//! The choice of the agent, and the commands with a slash.

use std::fs;

use super::{assert_in_order, chat};
use crate::Fixture;

fn write(fixture: &Fixture, file: &str, text: &str) -> String {
    let path = fixture.path(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_agent_comes_from_a_file_or_a_folder() {
    let fixture = Fixture::empty();
    let root = write(&fixture, "agents/mirror/root_agent.yaml", "name: m\nmodel: echo\n");
    let other = write(&fixture, "agents/other.yaml", "name: o\nmodel: echo\n");
    let agents = fixture.path("agents").to_str().unwrap().to_owned();
    for (args, app) in [
        (vec!["--agent", &root], "mirror"),
        (vec!["--agent", root.strip_suffix("/root_agent.yaml").unwrap()], "mirror"),
        (vec!["--agent", &other], "other"),
        (vec!["--agents", &agents], "mirror"),
        (vec!["--agents", &agents, "--app", "mirror"], "mirror"),
    ] {
        let out = chat(&fixture, &args, &["Good morning"]).well();
        assert_in_order(&out, &[&format!("{app}\n"), "model    echo", "You said: Good morning\n"]);
        assert!(!out.contains("note:"), "{out}");
    }
    assert_eq!((fixture.sessions("mirror").len(), fixture.sessions("other").len()), (4, 1));

    write(&fixture, "agents/broken/root_agent.yaml", "name: b\n");
    let out = chat(&fixture, &["--agents", &agents, "--app", "mirror"], &["Hi"]).well();
    assert!(out.contains("You said: Hi"), "its neighbours are nothing to it: {out}");
    write(&fixture, "agents/broken/root_agent.yaml", "name: b\nmodel: echo\n");
    for (args, code, said) in [
        (vec!["--agents", &agents], 2, "there are several apps; name one of them with --app: broken, mirror"),
        (vec!["--agents", &agents, "--app", "none"], 3, "there is no app 'none'; there are: broken, mirror"),
        (vec!["--app", "none"], 3, "there is no app 'none'; there are: demo, story"),
        (vec!["--agent", "none.yaml"], 3, "none.yaml cannot be read"),
        (vec!["--agent", &root, "--app", "mirror"], 2, "cannot be used with"),
        (vec!["--user", ""], 2, "it is empty"),
        (vec!["--session", "a\u{7}b"], 2, "control"),
    ] {
        let failed = fixture.fails(code, &[&["chat"], &args[..]].concat());
        assert!(failed.contains(said), "{args:?}: {failed}");
    }
}

#[test]
fn a_file_whose_model_has_no_key_says_which_variable_it_wants() {
    let fixture = Fixture::empty();
    let file = write(&fixture, "a.yaml", "name: a\nmodel: claude-sonnet-4-5\n");
    let failed = fixture.fails(6, &["chat", "--agent", &file]);
    assert!(failed.contains("'claude-sonnet-4-5' of agent 'a'") && failed.contains("ANTHROPIC_API_KEY"), "{failed}");
    let out = chat(&fixture, &["--agent", &file, "--model", "echo"], &["Hi"]).well();
    assert!(out.contains("You said: Hi"), "{out}");
    // A model on the command line is not replaced by the script.
    let failed = fixture.fails(6, &["chat", "--model", "claude-sonnet-4-5"]);
    assert!(failed.contains("ANTHROPIC_API_KEY"), "{failed}");
    let failed = fixture.fails(2, &["chat", "--model", "nonsense"]);
    assert!(failed.contains("nothing says who provides the model 'nonsense'"), "{failed}");
}

#[test]
fn lines_with_a_slash_are_for_the_program() {
    let fixture = Fixture::empty();
    let lines = ["/help", "/nonsense", "//add a pear", "/state user:", "/history", "/answer 5", "/quit", "Add a plum"];
    let out = chat(&fixture, &["--session", "s1"], &lines).well();
    assert_in_order(
        &out,
        &[
            "/state [BEGINNING]",
            "There is no /nonsense.",
            "I am only a script, and did not understand that.",
            "state  user     visits = 1",
            "> /add a pear\n",
            "Nothing waits for an answer.",
            "The session is s1",
        ],
    );
    assert!(!out.contains("plum"), "it is over: {out}");
}

#[test]
fn a_new_session_knows_the_user() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &[], &["My name is Ann", "Add a pear", "/new", "Hello", "What is in my cart?"]).well();
    assert_in_order(
        &out,
        &["Continue it with:", "A new session begins: ", "Welcome back, Ann!", "Your cart is empty."],
    );
    assert_eq!(fixture.sessions("demo").len(), 2);
}

#[test]
fn a_schema_holds_for_what_is_talked_about() {
    let fixture = Fixture::empty();
    let schema = write(&fixture, "schema.json", r#"{"version": 1, "keys": {"cart": {"maxProperties": 1}}}"#);
    let said = chat(&fixture, &["--schema", &schema], &["Add a pear", "Add a plum"]);
    assert!(said.err.contains("error: ") && said.err.contains("'cart' breaks"), "{} {}", said.out, said.err);
    assert_eq!(said.code, Some(2), "the last answer failed");
}

#[test]
fn what_is_no_text_is_refused() {
    let fixture = Fixture::empty();
    let mut command = fixture.command(&["chat"]);
    let file = fixture.path("input");
    fs::write(&file, b"Hello\n\xff\xfe\n").unwrap();
    let output = command.stdin(fs::File::open(file).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("standard input is not UTF-8"));
    assert!(String::from_utf8(output.stdout).unwrap().contains("Hello! I keep a cart"));
}
