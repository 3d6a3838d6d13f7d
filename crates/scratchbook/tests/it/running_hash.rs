//! Verification finds and names events that were changed, removed or inserted by hand, on every database. The running
//! hash of events that have none is computed in steps.

use scratchbook::session::{Capability, Prune, RunningHash, Verified};
use scratchbook::{
    AppendOptions, Content, CreateSessionConfig, ErrorKind, Event, SessionKey, SessionService, SessionServiceExt,
    Store, connect,
};
use serde_json::json;

/// A database for one test, on which statements can be run by hand.
trait Tables {
    fn uri(&self) -> String;
    async fn run(&self, statement: &str);
}

impl Tables for crate::database::DatabaseFile {
    fn uri(&self) -> String {
        format!("sqlite://{}", self.path.display())
    }

    async fn run(&self, statement: &str) {
        self.sql(statement);
    }
}

#[cfg(feature = "postgres")]
impl Tables for crate::postgres::server::TestSchema {
    fn uri(&self) -> String {
        self.uri("")
    }

    async fn run(&self, statement: &str) {
        self.sql(statement).await;
    }
}

#[cfg(feature = "mysql")]
impl Tables for crate::mariadb::server::TestDatabase {
    fn uri(&self) -> String {
        self.uri()
    }

    async fn run(&self, statement: &str) {
        self.sql(statement).await;
    }
}

macro_rules! tests_of_databases {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&crate::database::DatabaseFile::new()).await;
            })*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&crate::postgres::server::TestSchema::new()).await;
            })*
        }

        #[cfg(feature = "mysql")]
        mod mariadb {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&crate::mariadb::server::TestDatabase::new().await).await;
            })*
        }
    };
}

tests_of_databases! {
    what_was_done_to_events_is_found_and_named
    a_noted_hash_shows_a_log_that_was_made_over
    events_without_a_running_hash_get_it_in_steps
    what_an_older_program_appends_is_covered_later
    what_an_older_program_prunes_is_said
    running_hashes_are_right_whoever_appends
}

fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "alice", session).unwrap()
}

fn event(n: usize) -> Event {
    // The event does not change the state.
    Event::new("agent").with_content(Content::model(format!("word {n}."))).with_id(format!("e{n}"))
}

async fn filled(store: &Store, session: &str, events: usize) -> RunningHash {
    let config = CreateSessionConfig::default().with_session_id(session).with_state(json!({"a": 1}));
    store.sessions.create_session("app", "alice", config).await.unwrap();
    for n in 1..=events {
        store.sessions.append(&key(session), event(n), AppendOptions::default()).await.unwrap();
    }
    verified(store, session).await.running_hash.unwrap()
}

async fn verified(store: &Store, session: &str) -> Verified {
    store.sessions.verify_session(&key(session)).await.unwrap().unwrap()
}

/// Removes the running hashes, so that the database looks like one from before they existed.
async fn forget(database: &impl Tables) {
    for statement in [
        "UPDATE events SET running_hash = NULL",
        "UPDATE sessions SET running_hash = NULL, hashed_seq = -1",
        "UPDATE initial_states SET running_hash = NULL, hashed_seq = 0",
    ] {
        database.run(statement).await;
    }
}

/// Each kind of damage, on events 3 to 7 of ten, and the event that is named.
const DAMAGE: &[(&[&str], &str)] = &[
    (&["UPDATE events SET event = replace(event, 'word 4', 'word 5') WHERE seq = 4"], "event 4"),
    (&["UPDATE events SET event = replace(event, 'word 10', 'word 11') WHERE seq = 10"], "event 10"),
    (&["UPDATE events SET hash = running_hash WHERE seq = 5"], "event 5"),
    (&["UPDATE events SET running_hash = hash WHERE seq = 6"], "event 6"),
    (&["UPDATE events SET running_hash = NULL WHERE seq = 6"], "event 6"),
    (&["UPDATE sessions SET running_hash = NULL, hashed_seq = 6"], "event 7"),
    (&["DELETE FROM events WHERE seq = 5"], "event 5"),
    (&["DELETE FROM events WHERE seq = 10"], "event 10"),
    // An event is removed, and the later events get lower numbers.
    (
        &[
            "DELETE FROM events WHERE seq = 5",
            "UPDATE events SET seq = 5 WHERE seq = 6",
            "UPDATE events SET seq = 6 WHERE seq = 7",
            "UPDATE events SET seq = 7 WHERE seq = 8",
            "UPDATE events SET seq = 8 WHERE seq = 9",
            "UPDATE events SET seq = 9 WHERE seq = 10",
            "UPDATE sessions SET seq = 9, hashed_seq = 9",
        ],
        "event 5",
    ),
    // An event is inserted as event 8, and the later events get higher numbers.
    (
        &[
            "UPDATE events SET seq = 11 WHERE seq = 10",
            "UPDATE events SET seq = 10 WHERE seq = 9",
            "UPDATE events SET seq = 9 WHERE seq = 8",
            "{insert 8}",
            "UPDATE sessions SET seq = 11, hashed_seq = 11",
        ],
        "event 8",
    ),
    // An event is appended by hand.
    (&["{insert 11}", "UPDATE sessions SET seq = 11, hashed_seq = 11"], "event 11"),
    // Two events are swapped.
    (
        &[
            "UPDATE events SET seq = 100 WHERE seq = 3",
            "UPDATE events SET seq = 3 WHERE seq = 7",
            "UPDATE events SET seq = 7 WHERE seq = 100",
        ],
        "event 3",
    ),
];

async fn what_was_done_to_events_is_found_and_named(database: &impl Tables) {
    let store = connect(&database.uri()).await.unwrap();
    assert!(store.sessions.capabilities().has(Capability::RunningHash));
    for n in 0..DAMAGE.len() {
        filled(&store, &format!("s{n}"), 10).await;
    }
    store.sessions.close().await.unwrap();
    let is_sqlite = database.uri().starts_with("sqlite");
    let is_postgres = database.uri().starts_with("postgres");
    for (n, (statements, _)) in DAMAGE.iter().enumerate() {
        for statement in *statements {
            let inserted = statement.strip_prefix("{insert ").and_then(|rest| rest.strip_suffix('}'));
            let statement = match inserted {
                None if statement.contains("WHERE") => format!("{statement} AND session_id = 's{n}'"),
                None => format!("{statement} WHERE id = 's{n}'"),
                Some(seq) => {
                    let (more, its) = match (is_sqlite, is_postgres) {
                        (true, _) => (", position", ", 1000000 + position"),
                        (_, true) => (", position, xid", ", position, xid"),
                        _ => (", user_position, app_position, feed_position", ", 0, 0, 0"),
                    };
                    format!(
                        "INSERT INTO events (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp,
                             event, running_hash{more})
                         SELECT app_name, user_id, session_id, {seq}, 'planted', hash, invocation_id, author, timestamp,
                             event, running_hash{its}
                         FROM events WHERE session_id = 's{n}' AND seq = 2"
                    )
                }
            };
            database.run(&statement).await;
        }
    }
    let store = connect(&database.uri()).await.unwrap();
    for (n, (statements, names)) in DAMAGE.iter().enumerate() {
        let error = store.sessions.verify_session(&key(&format!("s{n}"))).await.expect_err(statements[0]);
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{statements:?}: {error}");
        assert!(error.to_string().contains(&format!("the {names} of")), "{statements:?}: {error}");
    }
    store.sessions.close().await.unwrap();
}

/// A person who can write to the database can compute all hashes again. Only a hash that was noted elsewhere shows
/// this.
async fn a_noted_hash_shows_a_log_that_was_made_over(database: &impl Tables) {
    let store = connect(&database.uri()).await.unwrap();
    let noted = filled(&store, "s", 10).await;
    let cut = filled(&store, "cut", 10).await;
    store.sessions.close().await.unwrap();
    database
        .run("UPDATE events SET event = replace(event, 'word 4', 'word 5') WHERE session_id = 's' AND seq = 4")
        .await;
    database.run("DELETE FROM events WHERE session_id = 'cut' AND seq > 7").await;
    database.run("UPDATE sessions SET seq = 7 WHERE id = 'cut'").await;
    forget(database).await;
    let store = connect(&database.uri()).await.unwrap();
    while store.sessions.hash_events(500).await.unwrap() > 0 {}
    for (session, noted) in [("s", noted), ("cut", cut)] {
        assert_eq!(verified(&store, session).await.unhashed, 0);
        let error = store.sessions.verify_session_against(&key(session), &noted).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
        assert!(error.to_string().contains(&noted.to_string()), "{error}");
    }
    store.sessions.close().await.unwrap();
}

/// Each step is a commit, and the next process continues where the last one ended.
async fn events_without_a_running_hash_get_it_in_steps(database: &impl Tables) {
    let store = connect(&database.uri()).await.unwrap();
    let long = filled(&store, "long", 25).await;
    let short = filled(&store, "short", 3).await;
    let pruned = filled(&store, "pruned", 9).await;
    store.sessions.prune(Prune::events(&key("pruned"), 5), 100).await.unwrap();
    filled(&store, "all pruned", 4).await;
    store.sessions.prune(Prune::events(&key("all pruned"), 100), 100).await.unwrap();
    filled(&store, "empty", 0).await;
    store.sessions.close().await.unwrap();
    forget(database).await;

    let store = connect(&database.uri()).await.unwrap();
    let unhashed = verified(&store, "long").await;
    assert_eq!((unhashed.unhashed, unhashed.running_hash), (25, Some(RunningHash::start(&key("long")))));
    let error = store.sessions.verify_session_against(&key("long"), &long).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("scratchbook migrate"), "{error}");
    // After events without a running hash, an appended event has none either.
    store.sessions.append(&key("long"), event(26), AppendOptions::default()).await.unwrap();
    assert_eq!(verified(&store, "long").await.unhashed, 26);
    store.sessions.close().await.unwrap();

    let mut hashed = 0;
    loop {
        let store = connect(&database.uri()).await.unwrap();
        let step = store.sessions.hash_events(7).await.unwrap();
        store.sessions.close().await.unwrap();
        assert!(step <= 7, "{step}");
        hashed += step;
        if step == 0 {
            break;
        }
    }
    assert!(hashed >= 26 + 3 + 5, "{hashed}");
    let store = connect(&database.uri()).await.unwrap();
    for session in ["long", "short", "pruned", "all pruned", "empty"] {
        assert_eq!(verified(&store, session).await.unhashed, 0, "{session}");
    }
    // The hash is the same as the one that the appends had computed.
    let noted = store.sessions.verify_session_against(&key("long"), &long).await.unwrap().unwrap();
    assert_eq!(noted.noted, Some(25));
    assert_eq!(verified(&store, "short").await.running_hash, Some(short));
    assert_ne!(verified(&store, "pruned").await.running_hash, Some(pruned), "what was pruned before is not in it");
    for session in ["long", "pruned", "all pruned", "empty"] {
        store.sessions.append(&key(session), event(27), AppendOptions::default()).await.unwrap();
        assert_eq!(verified(&store, session).await.unhashed, 0, "{session}");
    }
    store.sessions.close().await.unwrap();
}

async fn what_an_older_program_appends_is_covered_later(database: &impl Tables) {
    let store = connect(&database.uri()).await.unwrap();
    let noted = filled(&store, "s", 10).await;
    store.sessions.close().await.unwrap();
    // The last two events came from an older program that does not write these columns.
    database.run("UPDATE events SET running_hash = NULL WHERE seq > 8").await;
    database
        .run("UPDATE sessions SET hashed_seq = 8, running_hash = (SELECT running_hash FROM events WHERE seq = 8)")
        .await;
    let store = connect(&database.uri()).await.unwrap();
    assert_eq!(verified(&store, "s").await.unhashed, 2);
    store.sessions.append(&key("s"), event(11), AppendOptions::default()).await.unwrap();
    assert_eq!(verified(&store, "s").await.unhashed, 3);
    assert_eq!(store.sessions.hash_events(500).await.unwrap(), 3);
    assert_eq!(verified(&store, "s").await.unhashed, 0);
    let against = store.sessions.verify_session_against(&key("s"), &noted).await.unwrap().unwrap();
    assert_eq!(against.noted, Some(10));
    store.sessions.close().await.unwrap();
}

async fn what_an_older_program_prunes_is_said(database: &impl Tables) {
    let store = connect(&database.uri()).await.unwrap();
    let noted = filled(&store, "s", 10).await;
    store.sessions.prune(Prune::events(&key("s"), 5), 100).await.unwrap();
    store.sessions.close().await.unwrap();
    database.run("UPDATE initial_states SET running_hash = NULL, hashed_seq = 0").await;
    let store = connect(&database.uri()).await.unwrap();
    // The first remaining event cannot be compared with the event before it.
    let found = verified(&store, "s").await;
    assert_eq!((found.unhashed, found.running_hash), (1, Some(noted)));
    store.sessions.append(&key("s"), event(11), AppendOptions::default()).await.unwrap();
    assert_eq!(store.sessions.verify_session_against(&key("s"), &noted).await.unwrap().unwrap().noted, Some(10));
    store.sessions.close().await.unwrap();
}

/// Appends events to two sessions at the same time, some of them twice.
async fn append_at_once(store: &Store, first: usize) {
    let appends = (0..48).map(|n| {
        let (session, n) = (["s", "t"][n % 2], first + n / 3);
        async move { store.sessions.append(&key(session), event(n), AppendOptions::default()).await.unwrap() }
    });
    futures_util::future::join_all(appends).await;
}

/// A store may compute the running hashes itself if it alone writes to a session. Nothing changes if others write, too.
async fn running_hashes_are_right_whoever_appends(database: &impl Tables) {
    let stores = [connect(&database.uri()).await.unwrap(), connect(&database.uri()).await.unwrap()];
    let create = async || {
        for session in ["s", "t"] {
            filled(&stores[0], session, 0).await;
        }
    };
    let check = async |events: u64| {
        for session in ["s", "t"] {
            let verified = verified(&stores[1], session).await;
            assert_eq!(verified.unhashed, 0, "{session}");
            let read = stores[1].sessions.get_session(&key(session), &Default::default()).await.unwrap().unwrap();
            assert_eq!(read.seq(), events, "{session}");
        }
    };
    create().await;
    for round in 0..5 {
        append_at_once(&stores[0], round * 100).await;
        check(16 * (round as u64 + 1)).await;
    }
    for round in 5..10 {
        futures_util::future::join(append_at_once(&stores[0], round * 100), append_at_once(&stores[1], round * 100))
            .await;
    }
    check(160).await;
    for (round, writer) in [0, 1, 1, 0, 0, 0, 1, 0].into_iter().enumerate() {
        append_at_once(&stores[writer], 1000 + round * 100).await;
    }
    check(288).await;
    for session in ["s", "t"] {
        stores[1].sessions.delete_session(&key(session)).await.unwrap();
    }
    create().await;
    append_at_once(&stores[0], 0).await;
    check(16).await;
}
