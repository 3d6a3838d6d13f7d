//! Compares the overlay, the fold and the split by scope with simple maps.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scratchbook::state::{Change, State, extract_state_delta, fold};
use scratchbook::{Scope, StateDelta, StateMap};
use serde_json::{Map, Value};

use crate::generate::{Changes, ValueTexts, cases, changes, delta, key, value};

#[derive(Clone, Debug)]
enum OverlayStep {
    Set(String, Value),
    SetDefault(String, Value),
    Remove(String),
    Update(Changes),
    Discard,
    Commit,
}

fn step() -> impl Strategy<Value = OverlayStep> {
    prop_oneof![
        4 => (key(), value()).prop_map(|(key, value)| OverlayStep::Set(key, value)),
        1 => (key(), value()).prop_map(|(key, value)| OverlayStep::SetDefault(key, value)),
        3 => key().prop_map(OverlayStep::Remove),
        2 => changes().prop_map(OverlayStep::Update),
        1 => Just(OverlayStep::Discard),
        1 => Just(OverlayStep::Commit),
    ]
}

fn change(naive: &mut ValueTexts, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => naive.insert(key.clone(), value.to_string()),
            None => naive.remove(key),
        };
    }
}

fn texts(map: &Map<String, Value>) -> ValueTexts {
    map.iter().map(|(key, value)| (key.clone(), value.to_string())).collect()
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_overlay_is_committed_values_under_changes(
        start in changes(),
        steps in prop::collection::vec(step(), 0..20),
        asked in prop::collection::vec(key(), 5),
    ) {
        let mut committed = ValueTexts::new();
        change(&mut committed, &start);
        let value: StateMap = fold(Map::new(), [&delta(&start)]).into();
        let mut state = State::new(value, StateDelta::new());
        let (mut seen, mut dirty) = (committed.clone(), false);
        for step in steps {
            match step {
                OverlayStep::Set(key, value) => {
                    state.set(key.as_str(), &value).unwrap();
                    change(&mut seen, &vec![(key, Some(value))]);
                    dirty = true;
                }
                OverlayStep::SetDefault(key, value) => {
                    let found = state.set_default(&key, &value).unwrap();
                    dirty |= !seen.contains_key(&key);
                    let expected = seen.entry(key).or_insert_with(|| value.to_string());
                    prop_assert_eq!(&found.to_string(), &*expected);
                }
                OverlayStep::Remove(key) => {
                    state.remove(key.as_str()).unwrap();
                    seen.remove(&key);
                    dirty = true;
                }
                OverlayStep::Update(changes) => {
                    state.update(delta(&changes)).unwrap();
                    change(&mut seen, &changes);
                    dirty |= !changes.is_empty();
                }
                OverlayStep::Discard => {
                    state.discard();
                    (seen, dirty) = (committed.clone(), false);
                }
                OverlayStep::Commit => {
                    state.commit();
                    (committed, dirty) = (seen.clone(), false);
                }
            }
            prop_assert_eq!(state.has_delta(), dirty);
            prop_assert_eq!(&texts(&state.to_map()), &seen);
            prop_assert_eq!(&texts(&state.value().to_map()), &committed);
            prop_assert_eq!(&texts(&fold(state.value().to_map(), [state.delta()])), &seen);
            prop_assert_eq!(state.iter().count(), seen.len());
            for key in asked.iter().chain(seen.keys()) {
                prop_assert_eq!(state.get(key).map(Value::to_string), seen.get(key).cloned());
                prop_assert_eq!(state.contains(key), seen.contains_key(key));
                prop_assert_eq!(state.require(key).is_ok(), seen.contains_key(key));
            }
        }
    }

    #[test]
    fn a_fold_is_every_change_in_order(start in changes(), rest in prop::collection::vec(changes(), 0..8)) {
        let initial = fold(Map::new(), [&delta(&start)]);
        let mut naive = texts(&initial);
        rest.iter().for_each(|changes| change(&mut naive, changes));
        let deltas: Vec<_> = rest.iter().map(delta).collect();
        prop_assert_eq!(texts(&fold(initial.clone(), &deltas)), naive.clone());
        let mut merged = StateDelta::new();
        deltas.into_iter().for_each(|delta| merged.merge(delta).unwrap());
        prop_assert_eq!(texts(&fold(initial, [&merged])), naive);
    }

    #[test]
    fn a_split_puts_every_change_into_its_scope_once(changes in changes()) {
        let delta = delta(&changes);
        let scoped = extract_state_delta(&delta);
        let parts = [(Scope::Session, &scoped.session), (Scope::User, &scoped.user), (Scope::App, &scoped.app)];
        let mut together = BTreeMap::new();
        for (scope, part) in parts {
            for (name, change) in part.iter() {
                let double = together.insert(scope.key(name).into_owned(), change.clone());
                prop_assert_eq!(double, None);
            }
        }
        let kept = delta.iter().filter(|(key, _)| !key.starts_with("temp:"));
        let kept: BTreeMap<String, Change> = kept.map(|(key, change)| (key.to_owned(), change.clone())).collect();
        prop_assert_eq!(together, kept);
    }

    #[test]
    fn a_key_is_its_scope_and_its_name(key in key()) {
        let (scope, name) = Scope::split(&key);
        prop_assert_eq!(scope.key(name).into_owned(), key);
    }

    #[test]
    fn a_delta_comes_back_from_its_json(changes in changes()) {
        let delta = delta(&changes);
        let text = serde_json::to_string(&delta).unwrap();
        let read: StateDelta = scratchbook::json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
        prop_assert_eq!(read, delta);
    }
}
