//! Tokens for logins.

use std::fs;

use scratchbook::connect;
use scratchbook_server::{Login, Server};

use crate::Fixture;

#[tokio::test]
async fn a_new_token_is_shown_with_the_entry_that_lets_it_in() {
    let fixture = Fixture::empty();
    let args = ["token", "new", "--name", "alice", "-a", "shop", "-u", "alice", "--expires", "2099-01-01"];
    let made = fixture.json(&args);
    let (token, entry) = (made["token"].as_str().unwrap(), made["entry"].as_str().unwrap());
    assert!(token.starts_with("scratchbook_") && !entry.contains(token), "{made}");
    for line in [r#"name = "alice""#, r#"rights = ["read","write"]"#, r#"app = "shop""#, r#"user = "alice""#] {
        assert!(entry.lines().any(|other| other == line), "{entry}");
    }
    assert!(entry.contains("expires = 2099-01-01T00:00:00Z"), "{entry}");
    // Two entries, one after the other, are a valid file.
    let other = fixture.text(&["token", "new", "--name", "bob", "--rights", "read,app,admin"]);
    let (_, other) = other.split_once("[[token]]").unwrap();
    let file = fixture.path("tokens.toml");
    fs::write(&file, format!("{entry}\n[[token]]{other}")).unwrap();
    let server = Server::builder(connect("memory:").await.unwrap());
    server.login(Login::new().with_tokens(file)).build().unwrap();
    assert!(!fixture.path("agents.db").exists(), "it takes no database");
}

#[test]
fn a_token_that_has_ended_already_is_refused() {
    let said = Fixture::empty().fails(2, &["token", "new", "--name", "a", "--expires", "2020-01-01"]);
    assert!(said.contains("--expires 2020-01-01T00:00:00Z is past"), "{said}");
}

#[test]
fn rights_that_there_are_not_are_refused() {
    let said = Fixture::empty().fails(2, &["token", "new", "--name", "a", "--rights", "read,all"]);
    assert!(said.contains("there is no right 'all'; there are read, write, app, admin"), "{said}");
}
