//! Apps, users and the sessions of all apps are listed.

use serde_json::json;

use crate::{Fixture, scratchbook, text};

#[test]
fn apps_users_and_all_sessions_are_listed() {
    let fixture = Fixture::new();
    fixture.text(&["state", "set", "-a", "quiet", "motd=hi"]);
    let apps = fixture.json(&["apps"]);
    let names: Vec<_> = apps["apps"].as_array().unwrap().iter().map(|app| (&app["appName"], &app["users"])).collect();
    let expected = [("ecommerce_app", 1), ("quiet", 0), ("support_app", 1)];
    assert_eq!(json!(names), json!(expected));
    assert_eq!(apps["apps"][1]["lastUpdateTime"], json!(null), "it has no session");
    let said = fixture.text(&["apps"]);
    assert!(said.lines().nth(2).unwrap().split_whitespace().eq(["quiet", "0", "-"]), "{said}");

    let users = fixture.json(&["users", "list"]);
    assert_eq!(users["users"].as_array().unwrap().len(), 2);
    let first = fixture.json(&["users", "list", "-l", "1"]);
    let token = first["nextPageToken"].as_str().unwrap();
    let rest = fixture.json(&["users", "list", "--page-token", token]);
    assert_eq!((&rest["users"][0], &rest["nextPageToken"]), (&users["users"][1], &json!(null)));
    let of_app = fixture.json(&["users", "list", "-a", "ecommerce_app"]);
    assert_eq!((of_app["users"].as_array().unwrap().len(), &of_app["users"][0]["userId"]), (1, &json!("user123")));
    assert_eq!(fixture.text(&["users", "list", "-a", "quiet"]), "no users of app 'quiet'\n");
    fixture.fails(2, &["users", "list", "--page-token", "none"]);

    let all = fixture.json(&["sessions", "list"]);
    let times: Vec<_> =
        all["sessions"].as_array().unwrap().iter().map(|s| s["lastUpdateTime"].as_f64().unwrap()).collect();
    assert!(times.len() == 4 && times.is_sorted_by(|a, b| a >= b), "the newest first: {times:?}");
    let newest = &all["sessions"][0];
    let address = ["appName", "userId", "id"].map(|part| newest[part].as_str().unwrap()).join("/");
    let said = fixture.text(&["sessions", "list", "-l", "1"]);
    assert!(said.lines().nth(1).unwrap().starts_with(&address) && said.contains("--app"), "{said}");
    assert_eq!(fixture.json(&["sessions", "list", "-l", "1"])["hasMore"], true);
    assert_eq!(fixture.json(&["sessions", "list", "-u", "user123"])["sessions"].as_array().unwrap().len(), 2);
    fixture.fails(2, &["sessions", "list", "--page-token", "x"]);
}

#[test]
fn a_path_names_a_database() {
    let fixture = Fixture::with_session(1);
    let in_folder = |args: &[&str]| {
        let mut command = scratchbook();
        command.current_dir(fixture.folder.path()).args(args);
        command
    };
    assert!(text(in_folder(&["-d", "agents.db", "apps"])).contains("shop"));
    assert!(text(in_folder(&["-d", fixture.path("agents.db").to_str().unwrap(), "apps"])).contains("shop"));
    let mut of_environment = in_folder(&["apps"]);
    of_environment.env("SCRATCHBOOK_DATABASE", "./agents.db");
    assert!(text(of_environment).contains("shop"));
    assert!(text(in_folder(&["-d", "agents.db?mode=ro", "sessions", "show", "--last"])).contains("step = 1"));
}
