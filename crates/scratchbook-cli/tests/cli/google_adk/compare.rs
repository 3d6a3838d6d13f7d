//! Compares a scratchbook database with what google-adk reports about its own database.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ImportTarget;

/// Compares session by session, event by event, and the state of every user.
pub(super) fn same(target: &ImportTarget, reported: &Value) {
    let sessions = reported["sessions"].as_array().unwrap();
    assert!(!sessions.is_empty());
    for session in sessions {
        same_session(target, session);
    }
    for app in reported["apps"].as_array().unwrap() {
        let listed = target.json(&["sessions", "list", "--limit", "1000", "--app", app.as_str().unwrap()]);
        let names = |sessions: &Value| -> BTreeSet<(String, String)> {
            let of_app = sessions.as_array().unwrap().iter().filter(|session| session["appName"] == *app);
            of_app.map(|s| (s["userId"].as_str().unwrap().into(), s["id"].as_str().unwrap().into())).collect()
        };
        assert_eq!(names(&listed["sessions"]), names(&reported["sessions"]), "{app}");
    }
    for user in reported["userStates"].as_array().unwrap() {
        let [app, id] = ["appName", "userId"].map(|field| user[field].as_str().unwrap());
        let state = target.json(&["state", "get", "--app", app, "--user", id]);
        exactly(&state, &user["state"], &format!("the state of {app}/{id}"));
    }
}

pub(super) fn same_session(target: &ImportTarget, session: &Value) {
    let [app, user, id] = ["appName", "userId", "id"].map(|field| session[field].as_str().unwrap());
    let name = format!("{app}/{user}/{id}");
    let shown = target.show(app, user, id);
    exactly(&shown["state"], &session["state"], &format!("the state of {name}"));
    let mut events = shown["events"].as_array().unwrap().clone();
    let numbers: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "{name}");
    // Corrections that the import added are left out. Their author marks them.
    events.retain(|event| event["author"] != "scratchbook-import");
    events.iter_mut().for_each(|event| drop(event.as_object_mut().unwrap().remove("seq")));
    let expected = session["events"].as_array().unwrap();
    for (event, expected) in events.iter().zip(expected) {
        exactly(event, expected, &format!("event {} of {name}", expected["id"]));
    }
    assert_eq!(events.len(), expected.len(), "{name}");
    // Our times have microseconds.
    let times = [&shown, session].map(|session| session["lastUpdateTime"].as_f64().unwrap());
    assert!((times[0] - times[1]).abs() < 1e-6, "{name}: {times:?}");
}

/// Asserts that values are equal, including the exact form of numbers.
pub(super) fn exactly(found: &Value, expected: &Value, what: &str) {
    assert_eq!(sorted(found), sorted(expected), "{what}");
}

/// Returns the text of a value with sorted keys, which shows the exact form of numbers.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort();
            let entries: Vec<_> = keys.into_iter().map(|key| format!("{}:{}", json!(key), sorted(&map[key]))).collect();
            format!("{{{}}}", entries.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
