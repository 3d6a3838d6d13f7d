//! A session that was downloaded from the inspector is imported into another database.

use std::fs;

use serde_json::Value;

use super::Served;
use crate::jsonl::{import, other};
use crate::{Fixture, S1, text};

#[test]
fn a_downloaded_session_is_imported_with_its_events_and_its_state() {
    let fixture = Fixture::with_session(3);
    fixture.text(&[&["state", "set"], &S1[..], &["big=18446744073709551615", "text=\"ü <b>\\u0007\""]].concat());
    fixture.text(&[&["state", "unset"], &S1[..], &["step"]].concat());
    let made = fixture.json(&["token", "new", "--name", "me", "--rights", "read"]);
    let (token, tokens) = (made["token"].as_str().unwrap(), fixture.path("tokens.toml"));
    fs::write(&tokens, made["entry"].as_str().unwrap()).unwrap();
    let served = Served::new(&fixture, &["--tokens", tokens.to_str().unwrap()]);
    let path = "/inspector/apps/shop/users/alice/sessions/s1/export";
    assert_eq!(served.get(path).0, 401);
    let (status, lines) = served.send("GET", path, &format!("Authorization: Bearer {token}\r\n"), "");
    assert_eq!(status, 200, "{lines}");
    assert_eq!(served.end("-TERM"), Some(0));

    fs::write(fixture.path("s1.jsonl"), lines).unwrap();
    let report = import(&fixture, "s1.jsonl");
    assert_eq!((&report["refused"], &report["events"]), (&Value::Array(Vec::new()), &5.into()), "{report}");
    for read in ["sessions show", "state list"] {
        let args: Vec<_> = ["--json"].into_iter().chain(read.split(' ')).chain(S1).collect();
        let [here, there] = [fixture.text(&args), text(other(&fixture, &args))];
        assert_eq!(here, there, "{read}");
    }
}
