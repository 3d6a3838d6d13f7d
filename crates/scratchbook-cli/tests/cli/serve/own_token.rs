//! The token that a server makes for itself.

use std::fs;

use super::Served;
use crate::Fixture;

#[test]
fn the_first_start_makes_a_token_and_later_ones_keep_it() {
    let fixture = Fixture::empty();
    let folder = fixture.path("data");
    fs::create_dir(&folder).unwrap();
    let args = ["--host", "0.0.0.0", "--make-token", folder.to_str().unwrap()];
    let mut tokens = Vec::new();
    for start in 0..2 {
        let served = Served::new(&fixture, &args);
        let file = served.greeting["tokenFile"].as_str().unwrap().to_owned();
        assert_eq!(file, folder.join("token").to_str().unwrap());
        let token = fs::read_to_string(file).unwrap().trim().to_owned();
        let bearer = format!("Authorization: Bearer {token}\r\n");
        assert_eq!(served.get("/list-apps").0, 401);
        assert_eq!(served.send("GET", "/list-apps", &bearer, "").0, 200);
        // The token has every right.
        assert_eq!(served.send("GET", "/metrics", &bearer, "").0, 200);
        let logs = served.logs();
        assert!(!logs.contains(&token), "{logs}");
        assert_eq!(logs.contains("made a token"), start == 0, "{logs}");
        tokens.push(token);
    }
    assert_eq!(tokens[0], tokens[1]);
    // Without the file with the token, the server starts with the entry that it made before.
    fs::remove_file(folder.join("token")).unwrap();
    assert!(Served::new(&fixture, &args).greeting["tokenFile"].is_null());
}

#[test]
fn another_login_comes_first() {
    let fixture = Fixture::empty();
    let made = fixture.json(&["token", "new", "--name", "me"]);
    let (token, file) = (made["token"].as_str().unwrap(), fixture.path("tokens.toml"));
    fs::write(&file, made["entry"].as_str().unwrap()).unwrap();
    let folder = fixture.path("data");
    fs::create_dir(&folder).unwrap();
    let (tokens, folder) = (file.to_str().unwrap(), folder.to_str().unwrap());
    let served = Served::new(&fixture, &["--tokens", tokens, "--make-token", folder]);
    assert_eq!(served.send("GET", "/list-apps", &format!("Authorization: Bearer {token}\r\n"), "").0, 200);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    let said = fixture.fails(3, &["serve", "--port", "0", "--make-token", "no such folder"]);
    assert!(said.contains("no token can be made in 'no such folder'"), "{said}");
}
