//! Compares deltas with plain maps. Splitting a delta by scope loses and adds nothing, and the fold of a log gives the
//! same state as changing a map step by step.
//!
//! The input has one JSON object per line: a delta in the form in which it is sent.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use scratchbook::state::{Change, extract_state_delta, fold};
use scratchbook::{StateDelta, json};
use serde_json::{Map, Value};

type Naive = BTreeMap<String, Value>;

fuzz_target!(|bytes: &[u8]| {
    let deltas: Vec<StateDelta> = bytes.split(|b| *b == b'\n').filter_map(|line| json::from_slice(line).ok()).collect();
    let mut naive = Naive::new();
    for delta in &deltas {
        survives_the_wire(delta);
        splits_without_loss(delta);
        write(&mut naive, "", delta);
    }
    let folded: Naive = fold(Map::new(), &deltas).into_iter().collect();
    assert_eq!(folded, naive);

    // Folding each scope by itself gives the same state as folding the whole, but for `temp:`.
    let mut scopes = Naive::new();
    for delta in &deltas {
        let scoped = extract_state_delta(delta);
        write(&mut scopes, "app:", &scoped.app);
        write(&mut scopes, "user:", &scoped.user);
        write(&mut scopes, "", &scoped.session);
    }
    naive.retain(|key, _| !key.starts_with("temp:"));
    assert_eq!(scopes, naive);
});

fn survives_the_wire(delta: &StateDelta) {
    let text = serde_json::to_string(delta).expect("a delta can be written");
    let again: StateDelta = json::from_str(&text).expect("a delta that was written can be read");
    assert_eq!(*delta, again, "{text}");
}

fn splits_without_loss(delta: &StateDelta) {
    let scoped = extract_state_delta(delta);
    let kept = delta.iter().filter(|(key, _)| !key.starts_with("temp:")).count();
    assert_eq!(scoped.app.len() + scoped.user.len() + scoped.session.len(), kept);
    for (key, change) in delta.iter() {
        let found = if let Some(name) = key.strip_prefix("app:") {
            scoped.app.get(name)
        } else if let Some(name) = key.strip_prefix("user:") {
            scoped.user.get(name)
        } else if key.starts_with("temp:") {
            continue;
        } else {
            scoped.session.get(key)
        };
        assert_eq!(found, Some(change), "{key}");
    }
}

fn write(naive: &mut Naive, prefix: &str, delta: &StateDelta) {
    for (name, change) in delta.iter() {
        let key = format!("{prefix}{name}");
        match change {
            Change::Set(value) => naive.insert(key, value.clone()),
            Change::Remove => naive.remove(&key),
            _ => unreachable!("a change that this target does not know"),
        };
    }
}
