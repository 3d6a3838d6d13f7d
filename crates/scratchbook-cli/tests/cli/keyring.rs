//! Every command reads and writes encrypted databases, and no command shows a key.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::{Fixture, S1, fails, output, text, uri};

/// Keys of 32 bytes each, in base64.
const OLD: &str = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=";
const NEW: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

const SECRET: &str = "tangerine";

/// Creates a keyring that only its owner can read; the first key is the current one.
fn keyring(fixture: &Fixture, name: &str, keys: &[(&str, &str)]) -> String {
    let of: serde_json::Map<_, _> = keys.iter().map(|(id, key)| ((*id).to_owned(), json!(key))).collect();
    let file = fixture.path(name);
    fs::write(&file, json!({"current": keys[0].0, "keys": of}).to_string()).unwrap();
    mode(&file, 0o600);
    file.display().to_string()
}

#[cfg(unix)]
fn mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
fn mode(_: &Path, _: u32) {}

/// Creates a database that is encrypted with the key `old`, and its keyring. The database has state of a session, a
/// user and an app.
fn sealed() -> (Fixture, String) {
    let fixture = Fixture::empty();
    let keys = keyring(&fixture, "old.json", &[("old", OLD)]);
    let word = |name: &str| format!("{name}={SECRET}");
    let [own, mine] = ["own", "user:mine"].map(word);
    fixture.text(&[&["--keyring", &keys, "sessions", "create"], &S1[..], &[&own, &mine]].concat());
    fixture.text(&["--keyring", &keys, "state", "set", "--app", "shop", &word("all")]);
    fixture.text(&[&["--keyring", &keys, "state", "set"], &S1[..], &[&word("step")]].concat());
    (fixture, keys)
}

fn is_in_the_database(fixture: &Fixture, word: &str) -> bool {
    fs::read_dir(fixture.folder.path()).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        let is_ours = path.file_name().unwrap().to_string_lossy().starts_with("agents.db");
        let bytes = if is_ours { fs::read(path).unwrap() } else { Vec::new() };
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    })
}

fn said(command: std::process::Command) -> (String, String) {
    let done = output(command);
    assert!(done.status.success(), "{done:?}");
    (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn every_command_opens_and_seals_by_a_keyring() {
    let (fixture, keys) = sealed();
    assert!(!is_in_the_database(&fixture, SECRET));
    let with = |args: &[&str]| fixture.text(&[&["--keyring", &keys], args].concat());
    assert_eq!(with(&["state", "get", "--raw", "--app", "shop", "all"]).trim(), SECRET);
    let shown = with(&[&["sessions", "show"], &S1[..]].concat());
    assert!(shown.contains(SECRET) && !shown.contains("sealed:"), "{shown}");
    assert!(with(&["verify"]).starts_with("verified 1 app, 1 user, 1 session, 1 event"));
    assert!(with(&["export"]).contains(SECRET));
    let fed = with(&["watch", "--app", "shop", "--from", "beginning", "--until-idle=100ms"]);
    assert!(fed.contains(SECRET), "{fed}");
    // The environment can also name the keyring, but not for the demo.
    let mut get = fixture.command(&["state", "get", "--raw", "--app", "shop", "all"]);
    get.env("SCRATCHBOOK_KEYRING", &keys);
    assert_eq!(text(get).trim(), SECRET);
    let mut demo = crate::scratchbook();
    demo.env("SCRATCHBOOK_KEYRING", "no such file").args(["demo", "greeting"]);
    text(demo);
}

#[test]
fn limits_are_those_of_what_is_given() {
    let fixture = Fixture::empty();
    let keys = keyring(&fixture, "keys.json", &[("k", NEW)]);
    let database = format!("{}?value_bytes=1000", uri(&fixture.path("agents.db")));
    let set = |bytes: usize| {
        let value = format!("k={}", "x".repeat(bytes));
        let mut command = crate::scratchbook();
        command.args(["--keyring", &keys, "--database", &database, "state", "set", "--app", "shop", &value]);
        command
    };
    text(set(990));
    let refused = fails(14, set(1000));
    assert!(refused.contains("value_bytes is 1000"), "{refused}");
}

/// The message is only a warning, because users of an unencrypted database can write text that looks sealed.
#[test]
fn without_a_keyring_it_is_said_that_things_look_sealed() {
    let (fixture, keys) = sealed();
    let (out, err) = said(fixture.command(&["state", "get", "--raw", "--app", "shop", "all"]));
    assert!(out.starts_with("scratchbook:sealed:1:old:"), "{out}");
    assert!(err.starts_with("warning: ") && err.contains("'old'") && err.contains("--keyring FILE"), "{err}");
    let (out, err) = said(fixture.command(&["--json", "state", "list", "--app", "shop"]));
    serde_json::from_str::<Value>(&out).unwrap();
    let warning: Value = serde_json::from_str(&err).unwrap();
    assert!(warning["warning"]["message"].as_str().unwrap().contains("'old'"), "{warning}");

    let (_, err) = said(fixture.command(&["--keyring", &keys, "state", "get", "--raw", "--app", "shop", "all"]));
    assert_eq!(err, "");
    let (_, err) = said(Fixture::with_session(1).command(&["state", "list", "--app", "shop"]));
    assert_eq!(err, "");
}

#[test]
fn a_key_that_is_missing_is_named_and_nothing_is_written() {
    let (fixture, old) = sealed();
    let new = keyring(&fixture, "new.json", &[("new", NEW)]);
    for command in [&["state", "set", "--app", "shop", "all=other"][..], &["verify"], &["serve", "--port", "0"]] {
        let refused = fixture.fails(6, &[&["--keyring", &new], command].concat());
        assert!(refused.contains("'old'") && refused.contains("new.json"), "{refused}");
    }
    assert_eq!(fixture.text(&["--keyring", &old, "state", "get", "--raw", "--app", "shop", "all"]).trim(), SECRET);
    // Another key with the same id.
    let other = keyring(&fixture, "other.json", &[("old", NEW)]);
    let refused = fixture.fails(12, &["--keyring", &other, "state", "get", "--raw", "--app", "shop", "all"]);
    assert!(refused.contains("another one with the same id"), "{refused}");
}

#[test]
fn an_invalid_keyring_is_refused_without_showing_a_key() {
    let fixture = Fixture::with_session(1);
    let get = ["state", "get", "--app", "shop", "k"];
    for (text, why) in [
        ("", "the keyring"),
        (&*format!(r#"{{"current": "a", "keys": {{"b": "{NEW}"}}}}"#), "'a' is not among its keys"),
        (&*format!(r#"{{"current": "a", "keys": {{"a": "{NEW}AAAA"}}}}"#), "not the base64 of 32 bytes"),
        (&*format!(r#"{{"current": "a", "keys": {{"a": "{NEW}"}}, "more": 1}}"#), "more"),
    ] {
        let file = fixture.path("bad.json");
        fs::write(&file, text).unwrap();
        mode(&file, 0o600);
        let refused = fixture.fails(2, &[&["--keyring", file.to_str().unwrap()], &get[..]].concat());
        assert!(refused.contains(why) && refused.contains("bad.json") && !refused.contains("BwcH"), "{refused}");
    }
    fixture.fails(3, &[&["--keyring", "no such file"], &get[..]].concat());
    #[cfg(unix)]
    fixture.fails(2, &[&["--keyring", "/dev/zero"], &get[..]].concat());
    let refused = fixture.fails(2, &[&["--plain-values", "refused"], &get[..]].concat());
    assert!(refused.contains("--keyring FILE"), "{refused}");
}

#[cfg(unix)]
#[test]
fn a_keyring_that_others_can_read_is_warned_about() {
    let (fixture, keys) = sealed();
    let get = ["--keyring", &keys, "state", "get", "--raw", "--app", "shop", "all"];
    for (bits, warned) in [(0o600, false), (0o400, false), (0o640, false), (0o644, true), (0o660, true)] {
        mode(Path::new(&keys), bits);
        let (_, err) = said(fixture.command(&get));
        assert_eq!(err.contains("is open to others"), warned, "{bits:o}: {err}");
    }
}

#[test]
fn plain_values_are_read_or_refused() {
    let fixture = Fixture::with_session(1);
    let keys = keyring(&fixture, "keys.json", &[("k", NEW)]);
    let get = [&["--keyring", &keys, "state", "get", "--raw"], &S1[..], &["step"]].concat();
    assert_eq!(fixture.text(&get).trim(), "1");
    let refused = fixture.fails(12, &[&["--plain-values", "refused"], &get[..]].concat());
    assert!(refused.contains("stored in the clear"), "{refused}");
    for (value, code) in [("refused", 12), ("perhaps", 2)] {
        let mut command = fixture.command(&get);
        command.env("SCRATCHBOOK_PLAIN_VALUES", value);
        fails(code, command);
    }
}

#[test]
fn reseal_seals_all_state_by_the_current_key() {
    let (fixture, _) = sealed();
    let both = keyring(&fixture, "both.json", &[("new", NEW), ("old", OLD)]);
    let reseal = |args: &[&str]| fixture.json(&[&["--keyring", &both, "reseal"], args].concat());
    // The session's own keys are `own` and `step`. No other state changes.
    let resealed = json!({"values": 2, "apps": 0, "users": 0, "sessions": 1});
    assert_eq!(reseal(&S1), json!({"key": "new", "resealed": resealed, "unreadable": []}));
    let said = fixture.text(&["--keyring", &both, "reseal"]);
    assert!(said.starts_with("resealed by the key 'new': 2 values of 1 app, 1 user, 0 sessions\n"), "{said}");
    assert!(said.contains("keep those keys"), "{said}");
    assert_eq!(reseal(&[])["resealed"]["values"], 0);

    let new = keyring(&fixture, "new.json", &[("new", NEW)]);
    let state = fixture.json(&[&["--keyring", &new, "state", "list"], &S1[..]].concat());
    for key in ["own", "step"] {
        assert!(state.to_string().contains(&format!("\"{key}\"")) && state.to_string().contains(SECRET), "{state}");
    }
    assert_eq!(fixture.text(&["--keyring", &new, "state", "get", "--raw", "--app", "shop", "all"]).trim(), SECRET);
    let verified = fixture.text(&["--keyring", &both, "verify"]);
    assert!(verified.contains("no differences: the stored state matches the events and logs"), "{verified}");
}

/// A value that cannot be decrypted does not stop the others.
#[test]
fn reseal_names_what_cannot_be_opened_and_goes_on() {
    let (fixture, _) = sealed();
    let both = keyring(&fixture, "both.json", &[("new", NEW), ("old", OLD)]);
    let database = rusqlite::Connection::open(fixture.path("agents.db")).unwrap();
    let change = "UPDATE user_states SET value = replace(value, ':old:', ':old:AAAA') WHERE key = 'mine'";
    assert_eq!(database.execute(change, []).unwrap(), 1);
    drop(database);
    let done = output(fixture.command(&["--json", "--keyring", &both, "reseal"]));
    assert_eq!(done.status.code(), Some(12), "{done:?}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["resealed"], json!({"values": 3, "apps": 1, "users": 0, "sessions": 1}));
    assert!(report["unreadable"][0].as_str().unwrap().contains("'user:mine'"), "{report}");
}

#[test]
fn reseal_says_what_it_lacks() {
    let (fixture, old) = sealed();
    let refused = fixture.fails(2, &["reseal"]);
    assert!(refused.contains("--keyring FILE"), "{refused}");
    fixture.fails(2, &["--keyring", &old, "reseal", "--user", "alice"]);
    fixture.fails(3, &["--keyring", &old, "reseal", "-a", "shop", "-u", "alice", "-s", "none"]);
    let missing = uri(&fixture.path("missing.db"));
    fixture.fails(3, &["--keyring", &old, "--database", &missing, "reseal"]);
}

/// An old key can be removed by export and import, which encrypt events, logs, artifacts and titles again.
#[test]
fn an_export_is_imported_under_another_key() {
    let (fixture, old) = sealed();
    let lines = fixture.path("lines.jsonl");
    fixture.text(&["--keyring", &old, "export", lines.to_str().unwrap()]);
    let new = keyring(&fixture, "new.json", &[("new", NEW)]);
    let other = uri(&fixture.path("agents.db.new"));
    let lines = lines.to_str().unwrap();
    fixture.text(&["--keyring", &new, "--database", &other, "import", "--from", "jsonl", lines]);
    let to_new = |args: &[&str]| fixture.text(&[&["--keyring", &new, "--database", &other], args].concat());
    assert_eq!(to_new(&["state", "get", "--raw", "--app", "shop", "all"]).trim(), SECRET);
    assert!(to_new(&["verify"]).contains("no differences"));
    assert!(!is_in_the_database(&fixture, SECRET));
}

#[cfg(unix)]
#[test]
fn a_server_takes_a_keyring() {
    use crate::serve::Served;
    let (fixture, keys) = sealed();
    let file = fixture.path("scratchbook.toml");
    fs::write(&file, format!("keyring = {keys:?}\nplain-values = \"refused\"\nno-demo = true\n")).unwrap();
    let printed = fixture.json(&["serve", "--config", file.to_str().unwrap(), "--print-config"]);
    assert_eq!(printed["keyring"], json!({"value": keys, "source": "file"}));
    assert_eq!(printed["plain-values"], json!({"value": "refused", "source": "file"}));

    let served = Served::new(&fixture, &["--config", file.to_str().unwrap()]);
    let (status, body) = served.get("/apps/shop/users/alice/sessions/s1");
    assert!(status == 200 && body.contains(SECRET) && !body.contains("sealed:"), "{body}");
    let logs = served.logs();
    assert!(logs.contains("key=old") && !logs.contains("AwMD") && !logs.contains(SECRET), "{logs}");

    // A server without a keyring warns in its log and serves, because anybody can write text that looks sealed.
    let served = Served::new(&fixture, &[]);
    assert_eq!(served.get("/health/ready").0, 200);
    let logs = served.logs();
    assert!(logs.contains("WARN") && logs.contains("sealed by the key 'old'"), "{logs}");
}
