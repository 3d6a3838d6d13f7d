//! Updates of a session, alone and in the commit of an event: title, labels and expiry.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use serde_json::json;

use super::support::{TestApp, assert_refused, changing, saying, state};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, CheckedWrite, Committed, CreateSessionConfig, Expiry, GetSessionConfig, Outcome, Session,
    SessionKey, SessionUpdate, StateCheck,
};
use scratchbook_core::state::{Scope, StateDelta};
use scratchbook_core::store::Store;

const LATE: f64 = 4_000_000_000.0;

fn update() -> SessionUpdate {
    SessionUpdate::default()
}

async fn append(test: &TestApp, key: &SessionKey, event: Event, update: SessionUpdate) -> Result<Committed> {
    test.sessions().append(key, event, AppendOptions::default().with_update(update)).await
}

/// Creates a session with a title, two labels, an expiry, a key of the session and a key of the user.
async fn made(test: &TestApp) -> Session {
    let config = CreateSessionConfig::default().with_title("old").with_label("a", "1").with_label("b", "2");
    test.create_as("alice", config.with_expire_time(LATE).with_state(json!({"k": 1, "user:k": 1}))).await
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// An update changes everything that it names (title, labels, expiry), or nothing if a part of it is refused.
pub async fn one_update_changes_title_labels_and_expiry(store: &Store) {
    let test = TestApp::new(store);
    let key = made(&test).await.key().clone();
    let whole = update().with_title("new").with_label("a", "3").without_label("b").with_expiry(Expiry::At(LATE + 1.0));
    test.sessions().update_session(&key, whole).await.unwrap();
    let session = test.get(&key).await;
    assert_eq!((session.title(), session.labels()), (Some("new"), &labels(&[("a", "3")])));
    assert_eq!((session.expire_time(), session.seq()), (Some(LATE + 1.0), 0));
    let too_long = update().with_title("t".repeat(2049)).with_expiry(None);
    let too_many = (0..64).fold(update().with_title("x").with_expiry(None), |u, n| u.with_label(format!("l{n}"), ""));
    let never = update().with_title("x").with_expiry(Expiry::At(f64::INFINITY));
    for refused in [too_long, too_many, never] {
        let refused = test.sessions().update_session(&key, refused).await;
        assert_refused(refused, ErrorKind::InvalidArgument, "an update of which a part is invalid");
        assert_same(&test, &session).await;
    }
    test.sessions().update_session(&key, update().with_label("a", "4")).await.unwrap();
    assert_eq!(test.get(&key).await.expire_time(), Some(LATE + 1.0), "it was not named");
    test.sessions().update_session(&key, update().with_expiry(None)).await.unwrap();
    let session = test.get(&key).await;
    assert_eq!((session.title(), session.expire_time()), (Some("new"), None));
}

/// An append commits the update of its session together with its event, for every kind of event.
pub async fn an_append_commits_its_update_with_its_event(store: &Store) {
    let test = TestApp::new(store);
    let mut session = made(&test).await;
    let key = session.key().clone();
    let counting = StateDelta::new().with_increment("k", 1).unwrap().with_increment("user:k", 1).unwrap();
    let options = [
        (saying("hello"), AppendOptions::default()),
        (changing(json!({"k": 2, "user:k": 2, "app:k": 2, "temp:k": 2})), AppendOptions::default()),
        (Event::new("agent").with_state_delta(counting), AppendOptions::default()),
        (changing(json!({"k": 4})), AppendOptions::by_key(session.seen().clone())),
        (changing(json!({"k": 5})), AppendOptions::by_session(session.seen().clone())),
    ];
    for (n, (event, mut options)) in options.into_iter().enumerate() {
        options.seen = session.seen().clone();
        let (title, expires) = (format!("title {n}"), LATE + 1.0 + n as f64);
        let whole = update().with_title(title.as_str()).with_label("n", title.as_str());
        let whole = whole.without_other_labels().with_expiry(Expiry::At(expires));
        let committed = test.sessions().append(&key, event, options.with_update(whole)).await.unwrap();
        assert_eq!((committed.outcome, committed.event.seq), (Outcome::Stored, Some(n as u64 + 1)));
        session = test.get(&key).await;
        assert_eq!((session.title(), session.labels()), (Some(title.as_str()), &labels(&[("n", &title)])));
        assert_eq!((session.expire_time(), session.seq()), (Some(expires), n as u64 + 1));
        assert_eq!(session.events().iter().last().map(|event| event.id.clone()), Some(committed.event.id.clone()));
    }
    assert_eq!(state(&session), json!({"k": 5, "user:k": 3, "app:k": 2}));
    append(&test, &key, saying("title alone"), update().without_title()).await.unwrap();
    let after = test.get(&key).await;
    assert_eq!((after.title(), after.labels()), (None, session.labels()));
    assert_eq!(after.expire_time(), session.expire_time(), "it was not named");
    append(&test, &key, saying("nothing"), update()).await.unwrap();
    let last = test.get(&key).await;
    assert_eq!((last.title(), last.labels(), last.seq()), (None, after.labels(), after.seq() + 1));
}

/// An append commits both its event and the update of its session, or neither. Neither is committed if the update is
/// refused, or if the event is refused because of its content or of stored data.
pub async fn an_append_commits_its_update_with_its_event_or_neither(store: &Store) {
    let test = TestApp::new(store);
    let stale = made(&test).await;
    let key = stale.key().clone();
    test.append(&key, changing(json!({"k": 2})).with_id("taken")).await;
    let before = test.get(&key).await;
    let fine = || update().with_title("new").with_label("c", "3").with_expiry(None);
    let plain = AppendOptions::default;
    let set = || changing(json!({"k": 3, "user:k": 3, "app:k": 3}));
    let guarded = StateDelta::new().with_expect("k", 1).unwrap().with("k", 3).unwrap();
    let text = StateDelta::new().with("user:k", 3).unwrap().with_append("k", "x").unwrap();
    let many = (0..64).fold(fine(), |update, n| update.with_label(format!("l{n}"), ""));
    let large = (0..63).fold(fine().without_other_labels(), |u, n| u.with_label(format!("l{n}"), "v".repeat(270)));
    let attempts = [
        ("an event that is invalid", set().with_timestamp(-1.0), plain(), fine(), ErrorKind::InvalidArgument),
        ("an id that is taken", set().with_id("taken"), plain(), fine(), ErrorKind::AlreadyExists),
        ("a key that has changed", set(), AppendOptions::by_key(stale.seen().clone()), fine(), ErrorKind::Conflict),
        (
            "a session that has changed",
            saying("x"),
            AppendOptions::by_session(stale.seen().clone()),
            fine(),
            ErrorKind::Conflict,
        ),
        ("a guard", Event::new("agent").with_state_delta(guarded), plain(), fine(), ErrorKind::Conflict),
        (
            "an operation that does not fit",
            Event::new("agent").with_state_delta(text),
            plain(),
            fine(),
            ErrorKind::FailedPrecondition,
        ),
        ("a check", set(), plain().with_check(Arc::new(RefuseAll)), fine(), ErrorKind::PermissionDenied),
        ("a title too long", set(), plain(), fine().with_title("t".repeat(2049)), ErrorKind::InvalidArgument),
        ("too many labels with those stored", set(), plain(), many, ErrorKind::InvalidArgument),
        ("too many bytes of labels", set(), plain(), large, ErrorKind::InvalidArgument),
        ("no time", set(), plain(), fine().with_expiry(Expiry::At(-1.0)), ErrorKind::InvalidArgument),
    ];
    for (what, event, options, update, kind) in attempts {
        assert_refused(test.sessions().append(&key, event, options.with_update(update)).await, kind, what);
        assert_same(&test, &before).await;
        assert_eq!(test.user_state("alice").await, json!({"k": 1}), "{what}");
        assert_eq!(test.app_state().await, json!({}), "{what}");
    }
    let (missing, absent) = (test.key("bob", key.session_id()), ErrorKind::NotFound);
    assert_refused(append(&test, &missing, set(), fine()).await, absent, "a session of another user");
}

/// A retry with the same update changes nothing again; the same event with another update, or without one, is refused
/// as another append with the same id.
pub async fn a_retried_append_updates_its_session_once(store: &Store) {
    let test = TestApp::new(store);
    let key = made(&test).await.key().clone();
    for (n, delta) in [StateDelta::new().with("k", 2), StateDelta::new().with_increment("k", 1)].into_iter().enumerate()
    {
        let id = format!("e{n}");
        let event = Event::new("agent").with_id(id).with_timestamp(5.0).with_state_delta(delta.unwrap());
        let first = || update().with_title("first").with_label("a", "1").with_expiry(Expiry::At(LATE));
        let stored = append(&test, &key, event.clone(), first()).await.unwrap();
        test.sessions().update_session(&key, update().with_title("second").without_label("a")).await.unwrap();
        let before = test.get(&key).await;
        let again = append(&test, &key, event.clone(), first()).await.unwrap();
        assert_eq!((again.outcome, again.event), (Outcome::Replayed, stored.event));
        let others = [first().with_title("third"), first().with_expiry(None), first().with_label("c", "3"), update()];
        for other in others {
            let refused = append(&test, &key, event.clone(), other).await;
            assert_refused(refused, ErrorKind::AlreadyExists, "the event with another update");
        }
        assert_same(&test, &before).await;
        let plain = event.with_id(format!("p{n}"));
        test.append(&key, plain.clone()).await;
        let refused = append(&test, &key, plain, first()).await;
        assert_refused(refused, ErrorKind::AlreadyExists, "an event that came without an update");
    }
}

/// An append may make its session expire. Its event is then the last event of the session.
pub async fn an_append_may_end_its_session(store: &Store) {
    let test = TestApp::new(store);
    for event in [saying("bye"), changing(json!({"k": 2, "user:n": 1}))] {
        let key = made(&test).await.key().clone();
        let committed = append(&test, &key, event, update().with_expiry(Expiry::At(1.0))).await.unwrap();
        assert_eq!((committed.outcome, committed.event.seq), (Outcome::Stored, Some(1)));
        let gone = test.sessions().get_session(&key, &GetSessionConfig::default()).await.unwrap();
        assert!(gone.is_none(), "it has expired");
        assert_refused(test.try_append(&key, saying("more")).await, ErrorKind::NotFound, "a session that has ended");
    }
    assert_eq!(test.user_state("alice").await, json!({"k": 1, "n": 1}), "the user's keys stay");
}

/// A partial event is not stored, and the update that comes with it is not made.
pub async fn a_partial_event_updates_nothing(store: &Store) {
    let test = TestApp::new(store);
    let before = made(&test).await;
    let mut piece = saying("hel");
    piece.partial = Some(true);
    let committed = append(&test, before.key(), piece, update().with_title("new").with_expiry(None)).await.unwrap();
    assert_eq!(committed.outcome, Outcome::Partial);
    assert_same(&test, &before).await;
}

/// Concurrent appends with updates are all applied: each changes its own label, and other appends continue meanwhile.
pub async fn appends_with_updates_side_by_side_are_all_done(store: &Store) {
    let test = TestApp::new(store);
    let key = &test.create("alice", json!({"n": 0})).await.key().clone();
    let work = (0..16).map(|n| {
        let test = &test;
        async move {
            let counting = StateDelta::new().with_increment("n", 1).unwrap();
            let event = Event::new("agent").with_state_delta(counting);
            append(test, key, event, update().with_label(format!("l{n}"), "v")).await.unwrap();
            test.append(key, saying("hello")).await;
        }
    });
    stream::iter(work).buffer_unordered(8).collect::<Vec<()>>().await;
    let session = test.get(key).await;
    assert_eq!((session.labels().len(), session.seq(), state(&session)), (16, 32, json!({"n": 16})));
}

/// Asserts that a session is as it was: its state and events, and its title, labels and expiry.
async fn assert_same(test: &TestApp, before: &Session) {
    let now = test.get(before.key()).await;
    assert_eq!((state(&now), now.seq(), now.events().len()), (state(before), before.seq(), before.events().len()));
    assert_eq!((now.title(), now.labels()), (before.title(), before.labels()));
    assert_eq!((now.expire_time(), now.last_update_time()), (before.expire_time(), before.last_update_time()));
}

/// A check that refuses everything.
#[derive(Debug)]
struct RefuseAll;

impl StateCheck for RefuseAll {
    fn needs_scope(&self, _: Scope, _: &str) -> bool {
        true
    }

    fn check(&self, _: &CheckedWrite<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::PermissionDenied, "refused by the rule"))
    }
}
