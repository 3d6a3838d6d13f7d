//! The maintenance commands on database servers.

use serde_json::{Value, json};

use crate::{scratchbook, text};

fn run(uri: &str, args: &[&str]) -> String {
    let mut command = scratchbook();
    command.args(["--json", "--database", uri]).args(args);
    text(command)
}

fn json(uri: &str, args: &[&str]) -> Value {
    serde_json::from_str(&run(uri, args)).unwrap()
}

/// Runs the maintenance commands on a new app, because the server is shared.
fn looked_after(uri: &str, app: &str) {
    let s1 = ["-a", app, "-u", "alice", "-s", "s1"];
    let create = json(uri, &[&["sessions", "create"], &s1[..], &["step=0", "--time-to-live", "1h"]].concat());
    assert!(create["expireTime"].is_f64(), "{create}");
    for n in ["step=1", "step=2", "step=3"] {
        run(uri, &[&["state", "set"], &s1[..], &[n, "user:theme=dark"]].concat());
    }
    assert_eq!(json(uri, &[&["state", "at"], &s1[..], &["1"]].concat())["step"], 1);
    assert_eq!(json(uri, &[&["state", "blame"], &s1[..]].concat())["step"]["seq"], 3);
    assert_eq!(json(uri, &[&["sessions", "fork"], &s1[..], &["--at", "2", "--id", "f"]].concat())["state"]["step"], 2);
    let entries = run(uri, &["watch", "-a", app, "--from", "beginning", "--until-idle"]);
    let entries: Vec<Value> = entries.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The entries of each session are in order. The place of the fork among the entries of the other session depends on
    // the store.
    let of_s1: Vec<_> = entries.iter().filter(|line| line["sessionId"] != "f").map(|line| &line["type"]).collect();
    assert_eq!(json!(of_s1), json!(["created", "event", "event", "event", "end"]), "{entries:#?}");
    assert_eq!(entries.iter().filter(|line| line["forkedAt"] == 2).count(), 1, "{entries:#?}");
    // Users of the app, whatever their names, do not hide the next app.
    run(uri, &["state", "set", "-a", app, "-u", "\u{10fffe}", "n=1"]);
    run(uri, &["state", "set", "-a", &format!("{app} too"), "n=1"]);
    let apps = json(uri, &["apps"])["apps"].clone();
    let users = |name: &str| {
        apps.as_array()
            .unwrap()
            .iter()
            .filter(|of| of["appName"] == name)
            .map(|of| of["users"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!((users(app), users(&format!("{app} too"))), (vec![json!(2)], vec![json!(0)]), "{apps}");
    assert_eq!(json(uri, &["users", "list", "-a", app])["users"][0]["userId"], "alice");
    run(uri, &["users", "erase", "--yes", "-a", app, "-u", "\u{10fffe}"]);
    assert_eq!(json(uri, &["sessions", "show", "-a", app, "--last"])["appName"], app);
    assert_eq!(json(uri, &["state", "get", "-a", app, "-s", "s", "step"])["step"], 3);
    assert_eq!(json(uri, &["prune", "-a", app, "--keep-last", "1", "--dry-run"])["events"], 3);
    assert_eq!(json(uri, &["prune", "-a", app, "--keep-last", "1", "--yes"])["events"], 3);
    let verified = json!({"apps": 1, "users": 1, "sessions": 2, "events": 2, "changes": 3});
    assert_eq!(json(uri, &["verify", "-a", app])["verified"], verified);
    run(uri, &["users", "erase", "--yes", "-a", app, "-u", "alice"]);
}

mod postgres {
    use super::*;

    #[test]
    fn a_server_is_looked_after() {
        let uri = scratchbook_test_servers::postgres().unwrap_or_else(|error| panic!("{error}"));
        looked_after(&uri, "scratchbook-cli looks after");
    }
}

mod mariadb {
    use super::*;

    #[test]
    fn a_server_is_looked_after() {
        let uri = scratchbook_test_servers::mysql().unwrap_or_else(|error| panic!("{error}"));
        looked_after(&uri, "scratchbook-cli looks after");
    }
}
