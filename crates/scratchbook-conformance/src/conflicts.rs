//! Optimistic locking per key and per session: a conflict names who wrote first.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::support::{TestApp, assert_refused, changing, delta, removal, saying, seqs, state};
use scratchbook_core::error::{ConflictCause, Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, ConflictMode, CreateSessionConfig, LogPositions, Outcome, Seen, Session, SessionServiceExt,
};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

async fn by_key(test: &TestApp, session: &mut Session, state: Value) -> Result<u64> {
    append(test, session, changing(state), ConflictMode::ByKey).await
}

async fn append(test: &TestApp, session: &mut Session, event: Event, mode: ConflictMode) -> Result<u64> {
    let event = test.sessions().append_event_with(session, event, mode).await?;
    Ok(event.seq.expect("a stored event has a number"))
}

fn keys(error: &Error) -> Vec<&str> {
    error.conflicts().iter().map(|conflict| conflict.key.as_str()).collect()
}

/// With locking per key, an append is refused if a key in its delta, of any scope, was written since the read, by any
/// writer and in any way.
pub async fn a_key_written_since_is_refused(store: &Store) {
    let test = TestApp::new(store);
    for key in ["k", "user:k", "app:k", "new", "user:new", "app:new"] {
        let initial = json!({"k": 0, "user:k": 0, "app:k": 0});
        let stale = test.create("alice", initial).await;
        let others: [Event; 4] = [
            changing(json!({key: 1})),
            // Writing the same value is a write as well.
            changing(json!({key: 1})),
            Event::new("agent").with_state_delta(StateDelta::new().with_increment(key, 1).unwrap()),
            Event::new("agent").with_state_delta(removal(&[key])),
        ];
        for other in others {
            let mut mine = test.get(stale.key()).await;
            test.append(stale.key(), other.clone()).await;
            let before = test.get(stale.key()).await;
            let event = changing(json!({key: 2, "x": 2, "user:x": 2}));
            let result = append(&test, &mut mine, event, ConflictMode::ByKey).await;
            let error = assert_refused(result, ErrorKind::Conflict, &format!("{other:?}, then '{key}'"));
            assert_eq!(keys(&error), [key]);
            assert_eq!(state(&test.get(stale.key()).await), state(&before), "something of it was kept");
        }
    }
    let mut mine = test.create("bob", json!({})).await;
    test.sessions().put_state(&test.user("bob"), delta(json!({"put": 1})), "admin".into()).await.unwrap();
    test.sessions().put_state(&test.app(), delta(json!({"put": 1})), "admin".into()).await.unwrap();
    let error = by_key(&test, &mut mine, json!({"user:put": 2, "app:put": 2, "put": 2})).await.unwrap_err();
    assert_eq!(keys(&error), ["user:put", "app:put"]);
}

/// With locking per key, an append is not refused for changes to other keys, however many there are.
pub async fn other_keys_do_not_matter(store: &Store) {
    let test = TestApp::new(store);
    let mut mine = test.create("alice", json!({"k": 0, "user:k": 0, "app:k": 0})).await;
    let other = test.create("alice", json!({"k": 1})).await;
    for n in 0..3 {
        test.set(mine.key(), json!({"other": n, "user:other": n, "app:other": n})).await;
        test.set(other.key(), json!({"k": n})).await;
        let bobs = test.create("bob", json!({"user:k": n})).await;
        test.set(bobs.key(), json!({"user:k": n, "k": n})).await;
        by_key(&test, &mut mine, json!({"k": n, "user:k": n, "app:k": n, "fresh": n})).await.unwrap();
    }
    assert_eq!(test.get(mine.key()).await.state().get("k"), Some(&json!(2)));
}

/// With locking per key, the caller's own writes since the read are no conflict, with and without unseen events between
/// them.
pub async fn own_writes_are_no_conflict(store: &Store) {
    let test = TestApp::new(store);
    let mut mine = test.create("alice", json!({"user:k": 0})).await;
    let mine_all = |n: u64| json!({"k": n, "user:k": n, "app:k": n});
    by_key(&test, &mut mine, mine_all(1)).await.unwrap();
    by_key(&test, &mut mine, mine_all(2)).await.unwrap();
    test.set(mine.key(), json!({"other": 1, "user:other": 1, "app:other": 1})).await;
    by_key(&test, &mut mine, mine_all(3)).await.unwrap();
    by_key(&test, &mut mine, mine_all(4)).await.unwrap();
    append(&test, &mut mine, changing(mine_all(5)), ConflictMode::Merge).await.unwrap();
    by_key(&test, &mut mine, mine_all(6)).await.unwrap();
    let again = changing(mine_all(7)).with_id("e").with_timestamp(1.0);
    for _ in 0..2 {
        append(&test, &mut mine, again.clone(), ConflictMode::ByKey).await.unwrap();
    }
    by_key(&test, &mut mine, mine_all(8)).await.unwrap();
    assert_eq!(test.get(mine.key()).await.state().get("app:k"), Some(&json!(8)));
    test.set(mine.key(), json!({"user:k": 9})).await;
    assert_eq!(keys(&by_key(&test, &mut mine, mine_all(10)).await.unwrap_err()), ["user:k"]);
}

/// A merging append does not mark unseen writes as seen: later appends with locking per key or per session are still
/// refused.
pub async fn a_merging_append_hides_nothing(store: &Store) {
    let test = TestApp::new(store);
    let mut mine = test.create("alice", json!({"a": 0, "user:a": 0, "app:a": 0})).await;
    test.set(mine.key(), json!({"a": 1, "user:a": 1, "app:a": 1})).await;
    append(&test, &mut mine, changing(json!({"b": 1, "user:b": 1, "app:b": 1})), ConflictMode::Merge).await.unwrap();
    by_key(&test, &mut mine, json!({"b": 2, "user:b": 2, "app:b": 2})).await.unwrap();
    let error = by_key(&test, &mut mine, json!({"a": 2, "user:a": 2, "app:a": 2})).await.unwrap_err();
    assert_eq!(keys(&error), ["a", "user:a", "app:a"]);
    let result = append(&test, &mut mine, saying("hello"), ConflictMode::BySession).await;
    assert_refused(result, ErrorKind::Conflict, "an append by session over an unseen event");
    test.sessions().refresh(&mut mine).await.unwrap();
    by_key(&test, &mut mine, json!({"a": 2, "user:a": 2, "app:a": 2})).await.unwrap();
    append(&test, &mut mine, saying("hello"), ConflictMode::BySession).await.unwrap();
}

/// With locking per session, every event of the session that the caller has not seen is a conflict. Events of other
/// sessions are not.
pub async fn by_session_any_event_refuses(store: &Store) {
    let test = TestApp::new(store);
    let mut mine = test.create("alice", json!({})).await;
    let other = test.create("alice", json!({})).await;
    for n in 0..2 {
        test.set(other.key(), json!({"user:k": n, "app:k": n})).await;
        test.sessions().put_state(&test.app(), delta(json!({"k": n})), "admin".into()).await.unwrap();
        append(&test, &mut mine, changing(json!({"user:k": n})), ConflictMode::BySession).await.unwrap();
    }
    test.append(mine.key(), saying("hello")).await;
    let result = append(&test, &mut mine, saying("late"), ConflictMode::BySession).await;
    let error = assert_refused(result, ErrorKind::Conflict, "an append by session");
    assert!(error.conflicts().is_empty() && error.to_string().contains('3'), "{error}");
    test.set(mine.key(), json!({"k": 1})).await;
    let result = append(&test, &mut mine, changing(json!({"k": 2, "x": 2})), ConflictMode::BySession).await;
    assert_eq!(keys(&assert_refused(result, ErrorKind::Conflict, "an append by session")), ["k"]);
    assert_eq!(seqs(&test.get(mine.key()).await), [1, 2, 3, 4]);
}

/// A conflict contains the value read, the value found, and the event, number, session and author of the key's writer.
/// The message names keys and writers, but no value.
pub async fn a_conflict_tells_who_was_faster(store: &Store) {
    let test = TestApp::new(store);
    let mut mine = test.create("alice", json!({"k": "s3cret 0", "user:k": "s3cret 1"})).await;
    let theirs = test.create("alice", json!({})).await;
    let mut event = changing(json!({"user:k": "s3cret 2"})).with_id("their event");
    event.author = "their agent".to_owned();
    test.append(theirs.key(), event).await;
    let mut removal = Event::new("remover").with_state_delta(removal(&["k"])).with_id("gone");
    removal.timestamp = Some(1.0);
    test.append(mine.key(), removal).await;
    test.sessions().put_state(&test.app(), delta(json!({"k": "s3cret 3"})), "admin".into()).await.unwrap();
    let bobs = CreateSessionConfig::default().with_session_id("b").with_state(json!({"app:made": "s3cret 4"}));
    test.create_as("bob", bobs).await;

    let change = json!({"k": "s3cret 5", "user:k": "s3cret 5", "app:k": "s3cret 5", "app:made": "s3cret 5"});
    let error = by_key(&test, &mut mine, change).await.unwrap_err();
    let told: Vec<_> =
        error.conflicts().iter().map(|c| (c.key.as_str(), c.cause, c.read.clone(), c.found.clone())).collect();
    let changed = ConflictCause::Changed;
    let text = |text: &str| Some(json!(text));
    assert_eq!(
        told,
        [
            ("k", changed, text("s3cret 0"), None),
            ("user:k", changed, text("s3cret 1"), text("s3cret 2")),
            ("app:k", changed, None, text("s3cret 3")),
            ("app:made", changed, None, text("s3cret 4")),
        ]
    );
    let writers: Vec<_> = error.conflicts().iter().map(|conflict| conflict.writer.clone().unwrap()).collect();
    let session = |user: &str, id: &str| Some((user.to_owned(), id.to_owned()));
    let told: Vec<_> =
        writers.iter().map(|w| (w.author.as_str(), w.event_id.as_str(), w.seq, w.session.clone())).collect();
    assert_eq!(
        told,
        [
            ("remover", "gone", 1, session("alice", mine.id())),
            ("their agent", "their event", 1, session("alice", theirs.id())),
            ("admin", "", 0, None),
            ("user", "", 0, session("bob", "b")),
        ]
    );
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    for name in ["'k'", "'user:k'", "'app:made'", "their agent", "their event", "remover", "admin"] {
        assert!(error.to_string().contains(name), "{error} names no {name}");
    }
}

/// The conflict of a failed guard also contains the writer, and the expected value.
pub async fn a_failed_guard_tells_who_wrote(store: &Store) {
    let test = TestApp::new(store);
    let mut mine = test.create("alice", json!({"k": 0})).await;
    test.append(mine.key(), changing(json!({"k": 1})).with_id("e")).await;
    let guarded = Event::new("agent").with_state_delta(StateDelta::new().with_expect("k", 0).unwrap());
    let error = append(&test, &mut mine, guarded.clone(), ConflictMode::Merge).await.unwrap_err();
    let conflict = &error.conflicts()[0];
    assert_eq!(
        (conflict.cause, &conflict.read, &conflict.found),
        (ConflictCause::Guard, &Some(json!(0)), &Some(json!(1)))
    );
    assert_eq!(conflict.writer.as_ref().map(|writer| writer.event_id.as_str()), Some("e"));
    // A guard names its key as a change does.
    let error = append(&test, &mut mine, guarded, ConflictMode::ByKey).await.unwrap_err();
    assert_eq!(error.conflicts()[0].cause, ConflictCause::Changed);
}

/// After a conflict nothing has changed, including the caller's snapshot; no number is used up.
pub async fn a_conflict_changes_nothing(store: &Store) {
    let test = TestApp::new(store);
    let mut mine = test.create("alice", json!({"k": 0})).await;
    test.set(mine.key(), json!({"k": 1})).await;
    let (copy, before) = (mine.clone(), test.get(mine.key()).await);
    for mode in [ConflictMode::ByKey, ConflictMode::BySession] {
        let event = changing(json!({"k": 2, "x": 2, "user:x": 2, "app:x": 2, "temp:x": 2}));
        assert_refused(append(&test, &mut mine, event, mode).await, ErrorKind::Conflict, "a late append");
        assert_eq!((state(&mine), mine.seq(), mine.seen()), (state(&copy), copy.seq(), copy.seen()));
    }
    let now = test.get(mine.key()).await;
    assert_eq!((state(&now), seqs(&now), now.last_update_time()), (state(&before), vec![1], before.last_update_time()));
    assert_eq!((test.user_state("alice").await, test.app_state().await), (json!({}), json!({})));
    assert_eq!(test.append(mine.key(), saying("next")).await.event.seq, Some(2));
}

/// A retry is answered with the stored event, whatever was committed in the meantime, even by the same writer.
pub async fn a_retry_is_no_conflict(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let event = || changing(json!({"k": 1, "user:k": 1})).with_id("e").with_timestamp(5.0);
    let seen = session.seen().clone();
    let first = test.sessions().append(session.key(), event(), AppendOptions::by_key(seen.clone())).await.unwrap();
    test.set(session.key(), json!({"k": 2})).await;
    for options in [AppendOptions::by_key(seen.clone()), AppendOptions::by_session(seen)] {
        let again = test.sessions().append(session.key(), event(), options).await.unwrap();
        assert_eq!((again.outcome, &again.event, again.logs), (Outcome::Replayed, &first.event, first.logs));
    }
    // A snapshot that only now learns that its event was stored also learns the event's number. Later events stay
    // unseen.
    let mut late = session;
    append(&test, &mut late, event(), ConflictMode::ByKey).await.unwrap();
    by_key(&test, &mut late, json!({"user:k": 3})).await.unwrap();
    assert_eq!(keys(&by_key(&test, &mut late, json!({"k": 3})).await.unwrap_err()), ["k"]);
}

/// A writer without a snapshot can state the version that it has seen; every read reports that version.
pub async fn what_was_seen_can_be_said_without_a_copy(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"k": 0, "user:k": 0})).await.key().clone();
    let change = || changing(json!({"k": 1, "user:k": 1, "app:k": 1}));
    for round in 0..3 {
        test.append(&key, change()).await;
        let part = scratchbook_core::session::GetSessionConfig::state_only().with_state_keys(["other"]);
        let seen = match round {
            0 => test.get(&key).await.seen().clone(),
            1 => test.read(&key, part).await.seen().clone(),
            _ => test.list(None).await[0].seen().clone(),
        };
        let said = Seen::new(seen.seq(), seen.logs());
        let append = |seen: &Seen, event| test.sessions().append(&key, event, AppendOptions::by_key(seen.clone()));
        let committed = append(&said, change()).await.unwrap();
        let error = append(&said, change()).await.unwrap_err();
        assert_eq!(keys(&error), ["k", "user:k", "app:k"]);
        assert!(error.conflicts().iter().all(|conflict| conflict.read.is_none()), "nobody said what was read");
        let LogPositions { user, app, .. } = committed.logs;
        let wrote = said.clone().with_key("k", committed.event.seq.unwrap()).with_key("user:k", user);
        assert_eq!(keys(&append(&wrote, change()).await.unwrap_err()), ["app:k"]);
        append(&wrote.with_key("app:k", app), change()).await.unwrap();
    }
    let error = test.sessions().append(&key, change(), AppendOptions::by_key(Seen::default())).await.unwrap_err();
    assert_eq!(keys(&error), ["k", "user:k", "app:k"], "who has seen nothing is late for all that is there");
}

/// With locking, an append is a conflict if the session was deleted and created again, however many events it has.
pub async fn a_session_made_anew_is_another_whatever_it_holds(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("s");
    for events in 0..4 {
        let mut mine = test.create_as("alice", config()).await;
        for n in 0..2 {
            by_key(&test, &mut mine, json!({"other": n})).await.unwrap();
        }
        let read = test.get(mine.key()).await;
        let listed = test.list(None).await.remove(0);
        test.sessions().delete_session(mine.key()).await.unwrap();
        test.create_as("alice", config()).await;
        for _ in 0..events {
            test.append(mine.key(), changing(json!({"b": 1}))).await;
        }
        for mode in [ConflictMode::ByKey, ConflictMode::BySession] {
            for copy in [&mut mine, &mut read.clone(), &mut listed.clone()] {
                let result = append(&test, copy, changing(json!({"k": 3})), mode).await;
                assert_refused(result, ErrorKind::Conflict, "another session under the id");
            }
        }
        append(&test, &mut mine, changing(json!({"k": 3})), ConflictMode::Merge).await.unwrap();
        test.sessions().delete_session(mine.key()).await.unwrap();
    }
}

/// With locking, an append is a conflict if the session was deleted and created again and has fewer events than seen.
pub async fn a_session_made_anew_is_a_conflict(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("s");
    let mut mine = test.create_as("alice", config()).await;
    by_key(&test, &mut mine, json!({"k": 1})).await.unwrap();
    by_key(&test, &mut mine, json!({"k": 2})).await.unwrap();
    test.sessions().delete_session(mine.key()).await.unwrap();
    assert_refused(by_key(&test, &mut mine, json!({"k": 3})).await, ErrorKind::NotFound, "a deleted session");
    test.create_as("alice", config()).await;
    for mode in [ConflictMode::ByKey, ConflictMode::BySession] {
        let result = append(&test, &mut mine, changing(json!({"k": 3})), mode).await;
        assert_refused(result, ErrorKind::Conflict, "another session under the id");
    }
    test.sessions().refresh(&mut mine).await.unwrap();
    by_key(&test, &mut mine, json!({"k": 3})).await.unwrap();
}

/// Of concurrent appends based on one read, one succeeds, both with locking per key and with locking per session.
pub async fn racing_appends_have_one_winner(store: &Store) {
    let test = TestApp::new(store);
    for mode in [ConflictMode::ByKey, ConflictMode::BySession] {
        for name in ["k", "user:k", "app:k"] {
            let session = test.create("alice", json!({})).await;
            let mut racers = JoinSet::new();
            for racer in 0..8 {
                let (test, mut mine) = (test.clone(), session.clone());
                racers.spawn(async move { append(&test, &mut mine, changing(json!({name: racer})), mode).await });
            }
            let (mut won, mut lost) = (0, 0);
            while let Some(done) = racers.join_next().await {
                match done.expect("a racer failed") {
                    Ok(_) => won += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                        lost += 1;
                    }
                }
            }
            assert_eq!((won, lost), (1, 7), "{mode:?} on '{name}'");
        }
    }
}

/// A function that is called again after a conflict loses nothing, however many writers there are.
pub async fn retrying_by_key_loses_nothing(store: &Store) {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 5;
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"user:n": 0})).await;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (test, mut mine) = (test.clone(), session.clone());
        writers.spawn(async move {
            for _ in 0..ROUNDS {
                let more = |session: &Session| {
                    let n: u64 = session.state().get_as("user:n")?.unwrap_or(0);
                    Ok(changing(json!({"user:n": n + 1})))
                };
                test.sessions().append_retrying(&mut mine, more).await.expect("it is tried often enough");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("a writer failed");
    }
    assert_eq!(test.user_state("alice").await, json!({"n": WRITERS * ROUNDS}));
    assert_eq!(seqs(&test.get(session.key()).await).len(), WRITERS * ROUNDS);
    let mut mine = session;
    let given_up = |_: &Session| Err(Error::new(ErrorKind::FailedPrecondition, "not any more"));
    let result = test.sessions().append_retrying(&mut mine, given_up).await;
    assert_refused(result, ErrorKind::FailedPrecondition, "a function that gives up");
}
