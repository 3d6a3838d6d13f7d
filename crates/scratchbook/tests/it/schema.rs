//! Validation of state against JSON Schemas, on every store.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use scratchbook::layer::{StateSchema, WithStateSchema};
use scratchbook::session::{ForkConfig, PutStateOptions, StateOwner};
use scratchbook::{
    AppendOptions, CreateSessionConfig, Error, ErrorKind, Event, GetSessionConfig, InMemorySessionService, Result,
    Scope, SessionKey, SessionService, StateDelta, Store,
};
use serde_json::{Value, json};

macro_rules! tests_of_a_store {
    ($store:ident, $open:path) => {
        tests_of_a_store! { $store, $open,
            nested_values_are_checked_and_never_shown
            outcomes_of_operations_are_checked
            a_whole_scope_is_checked_with_what_is_stored
            removals_are_checked_where_keys_are_required
            state_from_before_a_schema_stops_only_who_touches_it
            creations_are_checked_with_their_events
            racing_writes_leave_a_scope_whole
        }
    };
    ($store:ident, $open:path, $($test:ident)*) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $test() {
                let (store, _guard) = $open().await;
                super::$test(store).await;
            })*
        }
    };
}

for_each_store!(tests_of_a_store);

const SECRET: &str = "hunter2";

fn held(store: &Store, schema: StateSchema) -> Arc<dyn SessionService> {
    Arc::new(WithStateSchema::new(Arc::clone(&store.sessions)).with_app("shop", schema))
}

async fn create(sessions: &dyn SessionService, state: Value) -> Result<SessionKey> {
    let config = CreateSessionConfig::default().with_state(state);
    sessions.create_session("shop", "alice", config).await.map(|session| session.key().clone())
}

async fn append(sessions: &dyn SessionService, key: &SessionKey, delta: StateDelta) -> Result<()> {
    let event = Event::new("agent").with_state_delta(delta);
    sessions.append(key, event, AppendOptions::default()).await.map(drop)
}

async fn set(sessions: &dyn SessionService, key: &SessionKey, state: Value) -> Result<()> {
    append(sessions, key, StateDelta::try_from(state).unwrap()).await
}

async fn state(sessions: &dyn SessionService, key: &SessionKey) -> Value {
    json!(sessions.get_session(key, &GetSessionConfig::default()).await.unwrap().unwrap().state())
}

fn removal(key: &str) -> StateDelta {
    let mut delta = StateDelta::new();
    delta.remove(key).unwrap();
    delta
}

#[track_caller]
fn assert_breaks<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) {
    let error: Error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let message = format!("{error} {error:?}");
    assert!(words.iter().all(|word| message.contains(word)), "{words:?} are to be in: {message}");
    assert!(!message.contains(SECRET), "the value is in: {message}");
}

/// Every way of writing refuses an invalid value, however deep. The error names the place and does not show the value.
async fn nested_values_are_checked_and_never_shown(store: Store) {
    let cart = json!({
        "type": "object",
        "properties": {"items": {"items": {
            "properties": {
                "price": {"type": "number", "exclusiveMinimum": 0},
                "sku": {"pattern": "^[A-Z]+$"},
                "kind": {"enum": ["book", "pen"]},
                "by": {"format": "email"},
            },
            "required": ["sku"], "additionalProperties": false,
        }}},
    });
    let mut schema = ["cart", "user:cart", "app:cart"].into_iter();
    let schema = schema.try_fold(StateSchema::new(7), |schema, key| schema.with_key(key, cart.clone())).unwrap();
    let sessions = held(&store, schema);
    let sessions = sessions.as_ref();
    let fine = json!({"items": [{"sku": "A"}, {"sku": "B", "price": 0.5, "kind": "pen", "by": "a@example.org"}]});
    let key = create(sessions, json!({"cart": fine, "user:cart": fine, "app:cart": fine, "temp:cart": SECRET})).await;
    let key = key.unwrap();
    for (item, place) in [
        (json!({"sku": "A", "price": SECRET}), "/items/1/price"),
        (json!({"sku": "A", "price": 0}), "/items/1/price"),
        (json!({"sku": SECRET}), "/items/1/sku"),
        (json!({"sku": "A", "kind": SECRET}), "/items/1/kind"),
        (json!({"sku": "A", "by": SECRET}), "/items/1/by"),
        (json!({"price": 1}), "/items/1/sku: it is required"),
        (json!({"sku": "A", "extra": SECRET}), "/items/1/extra: there may be none"),
    ] {
        let wrong = json!({"items": [{"sku": "A"}, item]});
        for name in ["cart", "user:cart", "app:cart"] {
            let quoted = format!("'{name}'");
            let words = [quoted.as_str(), place, "version 7"];
            assert_breaks(set(sessions, &key, json!({"fine": 1, name: wrong})).await, &words);
            assert_breaks(create(sessions, json!({name: wrong})).await, &words);
        }
        for (owner, key) in
            [(StateOwner::user("shop", "alice"), "'user:cart'"), (StateOwner::app("shop"), "'app:cart'")]
        {
            let delta = StateDelta::new().with("cart", &wrong).unwrap();
            let put = sessions.put_state(&owner.unwrap(), delta, PutStateOptions::by("me")).await;
            assert_breaks(put, &[key, place, "version 7"]);
        }
    }
    let expected = json!({"cart": fine, "user:cart": fine, "app:cart": fine});
    assert_eq!(state(sessions, &key).await, expected);
    append(sessions, &key, removal("cart")).await.unwrap();
}

/// The result of an operation is validated in the commit. If it is invalid, nothing is written.
async fn outcomes_of_operations_are_checked(store: Store) {
    let schema = StateSchema::new(1)
        .with_key("user:n", json!({"type": "integer", "maximum": 9}))
        .unwrap()
        .with_key("list", json!({"type": "array", "maxItems": 2, "items": {"type": "string"}}))
        .unwrap()
        .with_scope(Scope::App, json!({"properties": {"map": {"propertyNames": {"maxLength": 3}}}}))
        .unwrap();
    let sessions = held(&store, schema);
    let sessions = sessions.as_ref();
    let key = create(sessions, json!({"user:n": 8, "list": ["a"]})).await.unwrap();
    let delta = StateDelta::new;
    append(sessions, &key, delta().with_increment("user:n", 1).unwrap()).await.unwrap();
    let more = delta().with("other", 1).unwrap().with_increment("user:n", 1).unwrap();
    assert_breaks(append(sessions, &key, more).await, &["'user:n'", "maximum of 9"]);
    append(sessions, &key, delta().with_append("list", "b").unwrap()).await.unwrap();
    assert_breaks(append(sessions, &key, delta().with_append("list", SECRET).unwrap()).await, &["'list'"]);
    assert_breaks(
        append(sessions, &key, delta().with_set_if_absent("user:n2", 1).unwrap().with("list", [1]).unwrap()).await,
        &["'list' ", "/0"],
    );
    append(sessions, &key, delta().with_merge_patch("app:map", json!({"abc": 1})).unwrap()).await.unwrap();
    let patch = delta().with_merge_patch("app:map", json!({"four": SECRET})).unwrap();
    // The name of the field is part of the error's path, so it is shown.
    assert_breaks(append(sessions, &key, patch).await, &["'app:map'", "/four", "its name"]);
    let user = StateOwner::user("shop", "alice").unwrap();
    let put = sessions.put_state(&user, delta().with_increment("n", 1).unwrap(), "me".into()).await;
    assert_breaks(put, &["'user:n'"]);
    let expected = json!({"list": ["a", "b"], "user:n": 9, "app:map": {"abc": 1}});
    assert_eq!(state(sessions, &key).await, expected);
}

/// A schema for several keys is checked together with the stored keys, in each scope separately.
async fn a_whole_scope_is_checked_with_what_is_stored(store: Store) {
    let pair = json!({"dependentRequired": {"city": ["country"]}, "maxProperties": 3});
    let mut schema = [Scope::Session, Scope::User, Scope::App].into_iter();
    let schema = schema.try_fold(StateSchema::new(2), |schema, scope| schema.with_scope(scope, pair.clone())).unwrap();
    let sessions = held(&store, schema);
    let sessions = sessions.as_ref();
    let key = create(sessions, json!({})).await.unwrap();
    for prefix in ["", "user:", "app:"] {
        let named = |name: &str| format!("{prefix}{name}");
        let (city, country, other) = (named("city"), named("country"), named("other"));
        assert_breaks(set(sessions, &key, json!({&city: SECRET})).await, &[&format!("'{country}'"), "required"]);
        set(sessions, &key, json!({&country: "F"})).await.unwrap();
        set(sessions, &key, json!({&city: "Paris"})).await.unwrap();
        assert_breaks(append(sessions, &key, removal(&country)).await, &[&country]);
        set(sessions, &key, json!({&other: 1, &named("__session_metadata__"): {"displayName": "x"}})).await.unwrap();
        let one_more = set(sessions, &key, json!({&named("more"): 1})).await;
        assert_breaks(one_more, &["state breaks version 2", "more than 3"]);
        let increment = StateDelta::new().with_increment(named("more"), 1).unwrap();
        assert_breaks(append(sessions, &key, increment).await, &["more than 3"]);
        let mut swap = removal(&other);
        swap.set(named("more"), 1).unwrap();
        append(sessions, &key, swap).await.unwrap();
    }
    let user = StateOwner::user("shop", "alice").unwrap();
    let put = |delta| sessions.put_state(&user, delta, PutStateOptions::by("me"));
    assert_breaks(put(removal("country")).await, &["'user:country'"]);
    assert_breaks(put(StateDelta::new().with("yet_more", 1).unwrap()).await, &["more than 3"]);
    put(removal("more")).await.unwrap();
}

/// A scope must be complete when it gets its first key. Required keys can be changed but not removed.
async fn removals_are_checked_where_keys_are_required(store: Store) {
    let schema = StateSchema::new(1).with_scope(Scope::User, json!({"required": ["name"]})).unwrap();
    let sessions = held(&store, schema);
    let sessions = sessions.as_ref();
    let key = create(sessions, json!({"step": 1})).await.unwrap();
    append(sessions, &key, removal("user:none")).await.unwrap();
    assert_breaks(set(sessions, &key, json!({"user:age": 3})).await, &["'user:name'", "required"]);
    assert_breaks(create(sessions, json!({"user:age": 3})).await, &["'user:name'", "required"]);
    set(sessions, &key, json!({"user:age": 3, "user:name": "Ada"})).await.unwrap();
    set(sessions, &key, json!({"user:name": null})).await.unwrap();
    assert_breaks(append(sessions, &key, removal("user:name")).await, &["'user:name'", "required"]);
    let mut all = removal("user:name");
    all.remove("user:age").unwrap();
    assert_breaks(append(sessions, &key, all).await, &["'user:name'"]);
    append(sessions, &key, removal("user:age")).await.unwrap();
}

/// In state that breaks a new schema, valid parts can be written, and invalid parts can only be corrected or removed.
async fn state_from_before_a_schema_stops_only_who_touches_it(store: Store) {
    let old = json!({"a": "wrong", "b": 1, "user:a": "wrong", "user:b": 1, "user:extra": 1});
    let key = create(store.sessions.as_ref(), old).await.unwrap();
    let numbers = json!({"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}});
    let alone = json!({"properties": numbers});
    let whole = json!({"properties": numbers, "additionalProperties": false, "required": ["c"], "maxProperties": 2});
    let schema = StateSchema::new(2).with_scope(Scope::Session, alone).unwrap().with_scope(Scope::User, whole).unwrap();
    let sessions = held(&store, schema);
    let sessions = sessions.as_ref();
    for prefix in ["", "user:"] {
        let named = |name: &str| format!("{prefix}{name}");
        set(sessions, &key, json!({&named("b"): 2})).await.unwrap();
        assert_breaks(set(sessions, &key, json!({&named("b"): SECRET})).await, &[&named("b")]);
        assert_breaks(set(sessions, &key, json!({&named("a"): SECRET})).await, &[&named("a")]);
    }
    assert_breaks(set(sessions, &key, json!({"user:extra": 2})).await, &["'user:extra'"]);
    assert_breaks(set(sessions, &key, json!({"user:new": 2})).await, &["'user:new'"]);
    assert_breaks(set(sessions, &key, json!({"user:c": 2})).await, &["more than 2"]);
    append(sessions, &key, removal("user:extra")).await.unwrap();
    set(sessions, &key, json!({"a": 1, "user:a": 1})).await.unwrap();
    append(sessions, &key, removal("user:b")).await.unwrap();
    set(sessions, &key, json!({"user:c": 1})).await.unwrap();
    assert_breaks(append(sessions, &key, removal("user:c")).await, &["'user:c'"]);
    assert_eq!(state(sessions, &key).await, json!({"a": 1, "b": 2, "user:a": 1, "user:c": 1}));
}

/// A session is created with all its events or not at all. Each event is checked after the events before it.
async fn creations_are_checked_with_their_events(store: Store) {
    let schema = StateSchema::new(1)
        .with_scope(Scope::Session, json!({"required": ["step"]}))
        .unwrap()
        .with_key("user:n", json!({"maximum": 2}))
        .unwrap();
    let sessions = held(&store, schema);
    let events = |deltas: Vec<StateDelta>| {
        deltas.into_iter().map(|delta| Event::new("agent").with_state_delta(delta)).collect::<Vec<_>>()
    };
    let one = || StateDelta::new().with_increment("user:n", 1).unwrap();
    let make = |state: Value, deltas: Vec<StateDelta>| {
        let config = CreateSessionConfig::default().with_session_id("s").with_state(state).with_events(events(deltas));
        sessions.create_session("shop", "alice", config)
    };
    assert_breaks(make(json!({"other": 1}), vec![]).await, &["'step'"]);
    assert_breaks(make(json!({}), vec![StateDelta::new().with("other", 1).unwrap()]).await, &["'step'"]);
    assert_breaks(make(json!({"step": 1}), vec![one(), removal("step")]).await, &["'step'"]);
    assert_breaks(make(json!({"step": 1}), vec![one(), one(), one()]).await, &["'user:n'"]);
    assert_eq!(sessions.get_state(&StateOwner::user("shop", "alice").unwrap()).await.unwrap().len(), 0);
    let made = make(json!({}), vec![StateDelta::new().with("step", 1).unwrap(), one(), one()]).await.unwrap();
    assert_eq!(json!(made.state()), json!({"step": 1, "user:n": 2}));
}

/// Concurrent writes never leave a scope that breaks its schema.
async fn racing_writes_leave_a_scope_whole(store: Store) {
    let schema = StateSchema::new(1).with_scope(Scope::User, json!({"maxProperties": 4})).unwrap();
    let sessions = held(&store, schema);
    let mut writes = tokio::task::JoinSet::new();
    for n in 0..10 {
        let (sessions, key) = (Arc::clone(&sessions), create(sessions.as_ref(), json!({})).await.unwrap());
        writes.spawn(async move { set(sessions.as_ref(), &key, json!({&format!("user:k{n}"): n})).await.is_ok() });
    }
    let stored = writes.join_all().await.into_iter().filter(|stored| *stored).count();
    let state = sessions.get_state(&StateOwner::user("shop", "alice").unwrap()).await.unwrap();
    assert_eq!((stored, state.len()), (4, 4));
}

/// An invalid schema is refused when it is set, and the error says where it is invalid.
#[test]
fn a_schema_that_is_none_is_refused() {
    let new = || StateSchema::new(1);
    let refused: [(Result<StateSchema>, &[&str]); 10] = [
        (new().with_key("user:cart", json!({"type": "whole"})), &["'user:cart'", "/type"]),
        (new().with_key("a", json!({"properties": {"b": {"minimum": "1"}}})), &["'a'", "/properties/b/minimum"]),
        (new().with_key("a", json!({"pattern": "["})), &["'a'", "/pattern"]),
        (new().with_key("a", json!({"$ref": "http://example.org/cart.json"})), &["'a'"]),
        (new().with_key("a", json!({"$ref": "#/$defs/none"})), &["'a'"]),
        (new().with_key("a", json!("string")), &["'a'"]),
        (new().with_scope(Scope::App, json!({"required": "name"})), &["'app'", "/required"]),
        (new().with_scope(Scope::Temp, json!({})), &["temp:"]),
        (new().with_key("temp:a", json!({})), &["temp:"]),
        (new().with_key(&"k".repeat(2000), json!({})), &["2000"]),
    ];
    for (schema, words) in refused {
        assert_breaks(schema, words);
    }
    for (text, words) in [
        ("{}", &["version"][..]),
        (r#"{"version": -1}"#, &["version"]),
        (r#"{"version": 1, "sessions": {}}"#, &["'sessions'", "'session'"]),
        (r#"{"version": 1, "keys": []}"#, &["keys"]),
        (r#"{"version": 1, "keys": {"a": 1}}"#, &["'a'"]),
        (r#"{"version": 1, "user": {"type": 1}}"#, &["'user'", "/type"]),
        (r#"[1]"#, &["schema"]),
        (r#"{"version": 1"#, &["malformed"]),
    ] {
        assert_breaks(StateSchema::from_json(text), words);
    }
}

/// Types define schemas for a key and for a scope, and the accepted values can be read as these types.
#[tokio::test]
async fn types_are_schemas() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Item {
        sku: String,
        count: u32,
    }
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Profile {
        name: String,
        email: Option<String>,
    }
    let schema = StateSchema::new(1).with_type::<Vec<Item>>("cart").unwrap();
    let schema = schema.with_scope_type::<Profile>(Scope::User).unwrap();
    let sessions = WithStateSchema::new(InMemorySessionService::new()).with_app("shop", schema);
    let key = create(&sessions, json!({})).await.unwrap();
    let ada = Profile { name: "Ada".to_owned(), email: None };
    let cart = vec![Item { sku: "A".to_owned(), count: 2 }];
    let delta = StateDelta::new().with("cart", &cart).unwrap().with_scope(Scope::User, &ada).unwrap();
    append(&sessions, &key, delta).await.unwrap();
    assert_breaks(set(&sessions, &key, json!({"cart": [{"sku": "A", "count": -1}]})).await, &["'cart'", "/0/count"]);
    assert_breaks(set(&sessions, &key, json!({"user:name": 1})).await, &["'user:name'"]);
    assert_breaks(append(&sessions, &key, removal("user:name")).await, &["'user:name'"]);
    let session = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(session.state().get_as::<Vec<Item>>("cart").unwrap(), Some(cart));
    assert_eq!(session.state().scope_as::<Profile>(Scope::User).unwrap(), ada);
    let error = session.state().scope_as::<Profile>(Scope::App).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("the app's state") && error.to_string().contains("name"), "{error}");
    assert_eq!(StateDelta::new().with_scope(Scope::User, 5).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// A scope's schema does not cover ADK's keys, an app's schema does not cover other apps, and forks are not validated.
#[tokio::test]
async fn what_a_schema_does_not_touch_stays_free() {
    let nothing = json!({"additionalProperties": false});
    let mut schema = [Scope::Session, Scope::User, Scope::App].into_iter();
    let schema = schema.try_fold(StateSchema::new(1), |schema, scope| schema.with_scope(scope, nothing.clone()));
    let memory = Arc::new(InMemorySessionService::new());
    let sessions = WithStateSchema::new(Arc::clone(&memory)).with_app("shop", schema.unwrap());
    let key = create(&sessions, json!({})).await.unwrap();
    let of_adk = [
        "__session_metadata__",
        "_adk_activated_skill_x",
        "adk_oauth2_x",
        "_code_execution_context",
        "_code_executor_input_files",
        "x_existing_exchanged_credential",
        "bigquery_token_cache",
    ];
    for name in of_adk {
        for prefix in ["", "user:", "app:", "temp:"] {
            set(&sessions, &key, json!({&format!("{prefix}{name}"): {"any": 1}})).await.unwrap();
        }
    }
    for name in ["", "a", "user:b", "app:", "_private", "weird:q"] {
        assert_breaks(set(&sessions, &key, json!({name: 1})).await, &[&format!("'{name}'")]);
    }
    sessions
        .create_session("other", "alice", CreateSessionConfig::default().with_state(json!({"a": 1})))
        .await
        .unwrap();
    set(memory.as_ref(), &key, json!({"a": 1})).await.unwrap();
    let fork = sessions.fork_session(&key, ForkConfig::default()).await.unwrap();
    assert_eq!(fork.state().get("a"), Some(&json!(1)));
}

/// Returns whether `a_schema_holds_whatever_is_written` allows this state of a scope.
fn fits(before: &BTreeMap<String, Value>, state: &BTreeMap<String, Value>) -> bool {
    let small = |value: Option<&Value>| value.is_none_or(|n| n.as_i64().is_some_and(|n| n <= 9));
    let short = |value: Option<&Value>| value.is_none_or(|list| list.as_array().is_some_and(|list| list.len() <= 2));
    let known = state.keys().all(|name| ["a", "b", "c"].contains(&name.as_str()));
    // A scope without any key is not validated.
    before.is_empty() && state.is_empty()
        || known && state.contains_key("a") && small(state.get("a")) && short(state.get("b"))
}

#[derive(Clone, Debug)]
enum CheckedChange {
    Set(Value),
    Remove,
    Increment(i64),
    Append(i64),
}

fn delta() -> impl Strategy<Value = Vec<(String, CheckedChange)>> {
    let key =
        (prop::sample::select(vec!["", "user:", "app:"]), prop::sample::select(vec!["a", "b", "c", "d", "__adk"]));
    let value =
        prop_oneof![(0..12_i64).prop_map(Value::from), Just(json!("x")), Just(json!([1])), Just(json!([1, 2, 3]))];
    let change = prop_oneof![
        4 => value.prop_map(CheckedChange::Set),
        2 => Just(CheckedChange::Remove),
        1 => (0..5_i64).prop_map(CheckedChange::Increment),
        1 => (0..5_i64).prop_map(CheckedChange::Append),
    ];
    prop::collection::vec((key.prop_map(|(prefix, name)| format!("{prefix}{name}")), change), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// For any writes in any order: a write is refused if and only if a scope that it touches would break its schema.
    #[test]
    fn a_schema_holds_whatever_is_written(deltas in prop::collection::vec(delta(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scope = json!({
                "required": ["a"], "additionalProperties": false,
                "properties": {"a": {"type": "integer", "maximum": 9}, "b": {"type": "array", "maxItems": 2}, "c": true},
            });
            let mut schema = [Scope::Session, Scope::User, Scope::App].into_iter();
            let schema = schema.try_fold(StateSchema::new(1), |schema, of| schema.with_scope(of, scope.clone())).unwrap();
            let (checked, free) = (InMemorySessionService::new(), InMemorySessionService::new());
            let checked = WithStateSchema::new(checked).with_app("shop", schema);
            let key = create(&checked, json!({})).await.unwrap();
            let config = CreateSessionConfig::default().with_session_id(key.session_id());
            free.create_session("shop", "alice", config).await.unwrap();
            for changes in deltas {
                let mut delta = StateDelta::new();
                for (key, change) in changes {
                    // Changes that cannot be combined are left out.
                    let _ = match change {
                        CheckedChange::Set(value) => delta.set(key, value),
                        CheckedChange::Remove => delta.remove(key),
                        CheckedChange::Increment(by) => delta.increment(key, by),
                        CheckedChange::Append(item) => delta.append(key, item),
                    };
                }
                let before = state(&free, &key).await;
                let event = Event::new("agent").with_state_delta(delta.clone());
                let written = append(&checked, &key, delta).await;
                if free.append(&key, event, AppendOptions::default()).await.is_err() {
                    assert!(written.is_err());
                    continue;
                }
                let after = state(&free, &key).await;
                let is_right = [Scope::Session, Scope::User, Scope::App].into_iter().all(|scope| fits(&of(scope, &before), &of(scope, &after)));
                assert_eq!(written.is_ok(), is_right, "{before} to {after}: {written:?}");
                if !is_right {
                    // The unchecked store is set back to the state of the checked one.
                    let mut back = StateDelta::try_from(before.clone()).unwrap();
                    for name in after.as_object().unwrap().keys().filter(|name| before.get(*name).is_none()) {
                        back.remove(name).unwrap();
                    }
                    append(&free, &key, back).await.unwrap();
                }
                assert_eq!(state(&checked, &key).await, state(&free, &key).await);
            }
        });
    }
}

/// Returns the keys of a scope, without ADK's own.
fn of(scope: Scope, state: &Value) -> BTreeMap<String, Value> {
    let keys = state.as_object().unwrap().iter().map(|(key, value)| (Scope::split(key), value));
    let keys = keys.filter(|((of, name), _)| *of == scope && !name.starts_with("__"));
    keys.map(|((_, name), value)| (name.to_owned(), value.clone())).collect()
}
