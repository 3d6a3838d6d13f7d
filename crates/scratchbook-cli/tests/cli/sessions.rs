//! Sessions are listed, shown and deleted; users are erased.

use serde_json::json;

use crate::Fixture;

#[test]
fn lists_come_in_pages() {
    let fixture = Fixture::new();
    let all = fixture.sessions("ecommerce_app");
    assert_eq!(all.len(), 2);
    let first = fixture.json(&["sessions", "list", "--app", "ecommerce_app", "--user", "user123", "--limit", "1"]);
    let token = first["nextPageToken"].as_str().unwrap();
    let second = fixture.json(&["sessions", "list", "-a", "ecommerce_app", "-l", "1", "--page-token", token]);
    // The newest session comes first.
    assert_eq!([&first["sessions"][0]["id"], &second["sessions"][0]["id"]], [&json!(all[1]), &json!(all[0])]);
    assert_eq!(second["nextPageToken"], json!(null));
    assert!(fixture.sessions("nobodys_app").is_empty());
    let text = fixture.text(&["sessions", "list", "--app", "ecommerce_app", "--limit", "1"]);
    assert!(text.contains("USER") && text.contains(&all[1]) && text.contains("\n--page-token"), "{text}");
    let row = text.lines().nth(1).unwrap();
    assert!(row.contains('Z') && !row.contains('.'), "the time is to the second: {row}");
}

#[test]
fn a_session_is_shown_with_its_last_events() {
    let fixture = Fixture::new();
    let id = fixture.sessions("ecommerce_app").remove(0);
    let address = ["-a", "ecommerce_app", "-u", "user123", "-s", &id];
    let shown = fixture.json(&[&["sessions", "show", "--events", "2"], &address[..]].concat());
    assert_eq!(shown["state"]["cart_total"], 1299.98);
    assert_eq!(shown["events"].as_array().unwrap().len(), 2);
    let text = fixture.text(&[&["sessions", "show", "--events", "2"], &address[..]].concat());
    assert!(text.contains("tax_rate = 0.08") && text.contains("2 of 4 events"), "{text}");
    let run = shown["events"][1]["invocationId"].as_str().unwrap();
    assert!(text.contains(&format!("      invocation  {run}\n")), "rewind takes it: {text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn sessions_have_titles_and_labels_and_are_found_by_them() {
    let fixture = Fixture::new();
    let of = |id| ["-a", "shop", "-u", "alice", "-s", id];
    let create = |id, more: &[&str]| fixture.text(&[&["sessions", "create"], &of(id)[..], more].concat());
    let said = create("s1", &["--title", "Lost parcel", "--label", "status=open", "--label", "note=a=b"]);
    assert!(said.contains("title  Lost parcel") && said.contains("labels note=a=b, status=open"), "{said}");
    create("s2", &["--title", "Parcels", "--label", "status=open"]);
    create("s3", &[]);
    let found = |more: &[&str]| {
        let list = fixture.json(&[&["sessions", "list", "-a", "shop"], more].concat());
        assert_eq!(list["nextPageToken"], json!(null));
        let ids = list["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(found(&["--title", "PARCEL"]), ["s2", "s1"]);
    assert_eq!(found(&["--title", "parcel", "--newest-first"]), ["s2", "s1"]);
    assert_eq!(found(&["--title", "parcel", "--oldest-first"]), ["s1", "s2"]);
    assert_eq!(found(&["--label", "status=open", "--label", "note=a=b"]), ["s1"]);
    assert_eq!(found(&["--title", "none"]), [""; 0]);
    let first = fixture.json(&["sessions", "list", "-a", "shop", "--title", "parcel", "--limit", "1"]);
    assert_eq!(first["sessions"][0]["title"], "Parcels");
    let more = ["--page-token", first["nextPageToken"].as_str().unwrap()];
    assert_eq!(found(&[&["--title", "parcel"], &more[..]].concat()), ["s1"]);
    let text = fixture.text(&["sessions", "list", "-a", "shop"]);
    assert!(text.contains("TITLE") && text.contains("Lost parcel"), "{text}");

    let update = |more: &[&str]| fixture.json(&[&["sessions", "update"], &of("s1")[..], more].concat());
    let changed = update(&["--title", "Found", "--label", "status=closed", "--remove-label", "note"]);
    assert_eq!(changed, json!({"id": "s1", "title": "Found", "labels": {"status": "closed"}}));
    assert_eq!(update(&["--title", ""])["title"], json!(null));
    let shown = fixture.json(&[&["sessions", "show"], &of("s1")[..]].concat());
    assert_eq!((&shown["title"], &shown["labels"]), (&json!(null), &json!({"status": "closed"})));
    let said = fixture.text(&[&["sessions", "show"], &of("s1")[..]].concat());
    assert!(said.contains("labels status=closed") && !said.contains("title"), "{said}");

    fixture.fails(2, &[&["sessions", "update"], &of("s1")[..]].concat());
    let said = fixture.fails(2, &[&["sessions", "update"], &of("s1")[..], &["--title", "\u{1b}[2J"]].concat());
    assert!(said.contains("control character"), "{said}");
    let said = fixture.fails(2, &[&["sessions", "update"], &of("s1")[..], &["--label", "status"]].concat());
    assert!(said.contains("KEY=VALUE"), "{said}");
    let said = fixture.fails(3, &[&["sessions", "update"], &of("none")[..], &["--title", "x"]].concat());
    assert!(said.contains("not found"), "{said}");
}

#[test]
fn sessions_are_deleted_and_a_missing_one_is_reported() {
    let fixture = Fixture::new();
    let ids = fixture.sessions("ecommerce_app");
    let address = ["--app", "ecommerce_app", "--user", "user123"];
    let args = [&["sessions", "delete"], &address[..], &["--session", &ids[0], "--session", "none"]].concat();
    let said = fixture.fails(2, &args);
    assert!(said.contains("--yes"), "{said}");
    let args = [&args[..], &["--yes"]].concat();
    assert_eq!(fixture.json(&args), json!({"deleted": [ids[0]], "missing": ["none"]}));
    assert_eq!(fixture.sessions("ecommerce_app"), ids[1..]);
    let state = fixture.json(&[&["state", "get"], &address[..]].concat());
    assert_eq!(state["loyalty_points"], 1000, "the user's state stays");
}

#[test]
fn a_user_is_erased_wholly_when_that_is_confirmed() {
    let fixture = Fixture::new();
    let erase = ["users", "erase", "--app", "ecommerce_app", "--user", "user123"];
    let said = fixture.fails(2, &erase);
    assert!(said.contains("--yes"), "{said}");
    assert_eq!(fixture.sessions("ecommerce_app").len(), 2);
    fixture.text(&[&erase[..], &["--yes"]].concat());
    assert!(fixture.sessions("ecommerce_app").is_empty());
    assert_eq!(fixture.json(&["state", "get", "--app", "ecommerce_app", "--user", "user123"]), json!({}));
    assert_eq!(fixture.json(&["state", "get", "--app", "ecommerce_app"]), json!({"tax_rate": 0.08}));
    assert_eq!(fixture.sessions("support_app").len(), 2, "another app's users stay");
}

#[test]
fn json_has_the_number_of_events_and_says_when_it_has_only_the_last() {
    let fixture = Fixture::new();
    let id = fixture.sessions("ecommerce_app").remove(0);
    let address = ["sessions", "show", "-a", "ecommerce_app", "-u", "user123", "-s", &id];
    let last = fixture.json(&[&address[..], &["--events", "2"]].concat());
    assert_eq!([&last["eventCount"], &last["onlyLastEvents"]], [&json!(4), &json!(true)]);
    assert_eq!([&last["events"][0]["seq"], &last["events"][1]["seq"]], [3, 4]);
    let all = fixture.json(&address);
    assert_eq!([&all["eventCount"], &all["onlyLastEvents"]], [&json!(4), &json!(false)]);
    let text = fixture.text(&[&address[..], &["--events", "2"]].concat());
    assert!(text.contains("the last 2 of 4 events"), "{text}");
}

#[test]
fn an_app_without_sessions_is_reported() {
    let fixture = Fixture::new();
    assert_eq!(fixture.text(&["sessions", "list", "-a", "x"]), "no sessions of app 'x'\n");
    let of_user = fixture.text(&["sessions", "list", "-a", "x", "-u", "y"]);
    assert_eq!(of_user, "no sessions of user 'y' of app 'x'\n");
}

#[test]
fn erasing_says_what_there_was() {
    let fixture = Fixture::new();
    let erase = ["users", "erase", "--yes", "-a", "ecommerce_app", "-u"];
    let text = fixture.text(&[&erase[..], &["user123"]].concat());
    assert!(text.contains("2 sessions, 2 user keys"), "{text}");
    let text = fixture.text(&[&erase[..], &["user123"]].concat());
    assert!(text.contains("there was nothing of the user ecommerce_app/user123"), "{text}");
    let erased = fixture.json(&[&erase[..], &["nobody"]].concat());
    assert_eq!([&erased["erased"]["sessions"], &erased["erased"]["userKeys"]], [0, 0]);
}
