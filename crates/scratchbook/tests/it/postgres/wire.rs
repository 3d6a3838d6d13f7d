//! The network: the number of round trips, and lost answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use scratchbook::artifact::ArtifactService;
use scratchbook::session::{ChangeQuery, Outcome, SessionUpdate, StateOwner};
use scratchbook::store::PostgresSessionService;
use scratchbook::{AppendOptions, CreateSessionConfig, ErrorKind, GetSessionConfig, SessionService, StateDelta};
use scratchbook_test_servers::Proxy;
use serde_json::json;

use super::server::{TestSchema, client};
use crate::database::{append, check_whole, create, get, key, setting};

/// A schema with a proxy in front of its server.
struct ProxiedSchema {
    schema: TestSchema,
    proxy: Proxy,
}

impl ProxiedSchema {
    fn new() -> Self {
        let schema = TestSchema::new();
        let proxy = Proxy::before(schema.server()).unwrap();
        Self { schema, proxy }
    }

    async fn open(&self, parameters: &str) -> PostgresSessionService {
        let server = self.proxy.uri(self.schema.server()).unwrap();
        PostgresSessionService::connect(&self.schema.uri_by(&server, parameters)).await.unwrap()
    }

    /// Returns the number of round trips of a call that was made once before.
    async fn turns<F: Future>(&self, times: usize, call: impl Fn() -> F) -> f64 {
        call().await;
        let before = self.proxy.turns();
        for _ in 0..times {
            call().await;
        }
        (self.proxy.turns() - before) as f64 / times as f64
    }
}

#[tokio::test]
async fn an_append_and_every_read_are_one_round_trip() {
    let wire = ProxiedSchema::new();
    let service = wire.open("").await;
    create(&service, "s", json!({"a": 1, "user:b": 2, "app:c": 3})).await;
    let key = key("s");
    for name in ["step", "user:theme", "app:count"] {
        let turns = wire.turns(50, async || append(&service, &key, setting(name, "x")).await.unwrap()).await;
        assert_eq!(turns, 1.0, "an append that sets {name}");
    }
    let session = get(&service, &key).await.unwrap();
    let late = || AppendOptions::by_key(session.seen().clone());
    let turns = wire.turns(20, async || service.append(&key, setting("new", "x"), late()).await.err()).await;
    assert!(turns <= 3.0, "an append by key that is refused: what is read, who wrote it, the end: {turns}");
    let turns = wire.turns(20, async || service.append(&key, crate::database::event(StateDelta::new()), late()).await);
    assert_eq!(turns.await, 2.0, "an append by key that touches none");
    let counting = || StateDelta::new().with_increment("n", 1).unwrap().with_increment("user:n", 1).unwrap();
    let counting = || counting().with_increment("app:n", 1).unwrap();
    let turns =
        wire.turns(20, async || append(&service, &key, crate::database::event(counting())).await.unwrap()).await;
    assert_eq!(turns, 2.0, "an append with operations on keys of every scope");
    let all = GetSessionConfig::default;
    let shapes = [
        all(),
        GetSessionConfig::state_only(),
        all().with_num_recent_events(10),
        all().with_after_timestamp(1.0),
        all().with_after_timestamp(1.0).with_num_recent_events(3),
        all().with_events_after(3, 5),
        all().with_events_before(9, 5).with_state_keys(["a", "user:b", "app:c"]),
    ];
    for shape in shapes {
        let turns = wire.turns(20, async || service.get_session(&key, &shape).await.unwrap().unwrap()).await;
        assert_eq!(turns, 1.0, "{shape:?}");
    }
    let owner = StateOwner::app("app").unwrap();
    let delta = || StateDelta::new().with("c", 1).unwrap();
    assert_eq!(wire.turns(5, async || service.list_sessions("app", &Default::default()).await.unwrap()).await, 1.0);
    assert_eq!(wire.turns(5, async || service.get_state(&owner).await.unwrap()).await, 1.0);
    assert_eq!(wire.turns(5, async || service.put_state(&owner, delta(), "me".into()).await.unwrap()).await, 1.0);
    let more = || StateDelta::new().with_increment("c", 1).unwrap();
    assert_eq!(wire.turns(5, async || service.put_state(&owner, more(), "me".into()).await.unwrap()).await, 2.0);
    assert_eq!(
        wire.turns(5, async || service.list_state_changes(&owner, &ChangeQuery::After(0), 9).await.unwrap()).await,
        1.0
    );
    assert_eq!(wire.proxy.connections(), 1, "calls one after the other need one connection");
}

/// The totals are read from time to time, and not by the appends.
#[tokio::test]
async fn an_append_that_has_a_quota_is_one_round_trip_too() {
    let wire = ProxiedSchema::new();
    let service = wire.open("&user_bytes=100000000&app_bytes=100000000&app_sessions=10").await;
    create(&service, "s", json!({})).await;
    let key = key("s");
    let turns = wire.turns(100, async || append(&service, &key, setting("step", "x")).await.unwrap()).await;
    assert!(turns < 1.1, "{turns}");
}

#[tokio::test]
async fn appends_that_wait_share_round_trips() {
    let wire = ProxiedSchema::new();
    let service = wire.open("").await;
    create(&service, "s", json!({})).await;
    let key = key("s");
    append(&service, &key, setting("warm", 1)).await.unwrap();
    wire.proxy.delay(Duration::from_millis(20));
    let before = wire.proxy.turns();
    let numbers = join_all((0..100).map(|n| append(&service, &key, setting("n", n)))).await;
    assert_eq!(numbers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), (2..=101).collect::<Vec<_>>());
    assert!(wire.proxy.turns() - before <= 3, "{} turns", wire.proxy.turns() - before);
}

#[tokio::test]
async fn creations_that_wait_share_round_trips() {
    let wire = ProxiedSchema::new();
    let service = wire.open("&pool_size=2").await;
    let turns = wire.turns(20, async || service.create_session("app", "alice", Default::default()).await.unwrap());
    assert_eq!(turns.await, 1.0, "the creation, its commit, and the read that shows the session");
    wire.proxy.delay(Duration::from_millis(20));
    let before = wire.proxy.turns();
    let made = join_all((0..100).map(|n| {
        let config = CreateSessionConfig::default().with_state(json!({"n": n}));
        let user = format!("user{}", n % 7);
        let service = &service;
        async move { service.create_session("app", &user, config).await.unwrap().state().get("n").cloned() }
    }));
    assert_eq!(made.await, (0..100).map(|n| Some(json!(n))).collect::<Vec<_>>());
    // A second connection may have been made.
    let turns = wire.proxy.turns() - before;
    assert!(turns <= 20, "{turns} turns");
}

/// The numbers of the acknowledged events, by id.
type AcknowledgedEvents = BTreeMap<String, u64>;

/// The minimum number of appends of a task, however slow the machine is.
const AT_LEAST: usize = 10;
const TASKS: usize = 12;

/// Lets tasks append while `done` runs. Every append succeeds, however often its connection is cut.
async fn load(service: &Arc<PostgresSessionService>, done: impl Future<Output = ()>) -> AcknowledgedEvents {
    let over = Arc::new(AtomicBool::new(false));
    let tasks = (0..TASKS).map(|task| {
        let (service, over) = (Arc::clone(service), Arc::clone(&over));
        tokio::spawn(async move {
            let mut acknowledged = AcknowledgedEvents::new();
            let key = key(&format!("s{}", task % 3));
            while !over.load(Ordering::Relaxed) || acknowledged.len() < AT_LEAST {
                let n = acknowledged.len();
                let id = format!("{task}-{n}");
                let delta = StateDelta::new().with(format!("k{}", n % 5), n).unwrap().with("app:n", n).unwrap();
                let delta = delta.with(format!("user:{task}"), n).unwrap();
                let event = crate::database::event(delta).with_id(&id);
                acknowledged.insert(id, append(service.as_ref(), &key, event).await.unwrap());
            }
            acknowledged
        })
    });
    let tasks: Vec<_> = tasks.collect();
    done.await;
    over.store(true, Ordering::Relaxed);
    let mut acknowledged = AcknowledgedEvents::new();
    for task in tasks {
        acknowledged.extend(task.await.unwrap());
    }
    acknowledged
}

/// Checks that every acknowledged append is stored with its number, and nothing else.
async fn check(service: &PostgresSessionService, acknowledged: &AcknowledgedEvents) {
    let sessions = check_whole(service, &Default::default()).await;
    let events = sessions.iter().flat_map(|session| session.events().iter());
    let stored: AcknowledgedEvents = events.map(|event| (event.id.clone(), event.seq.unwrap())).collect();
    assert_eq!(&stored, acknowledged);
    assert_eq!(sessions.iter().map(|session| session.events().len()).sum::<usize>(), acknowledged.len());
    assert!(acknowledged.len() >= TASKS * AT_LEAST, "{} appends", acknowledged.len());
}

async fn sessions(service: &PostgresSessionService) {
    for session in ["s0", "s1", "s2"] {
        create(service, session, json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_under_load_lose_and_double_nothing() {
    let wire = ProxiedSchema::new();
    let service = Arc::new(wire.open("").await);
    sessions(&service).await;
    let cutting = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            wire.proxy.cut();
        }
    };
    let acknowledged = load(&service, cutting).await;
    check(&service, &acknowledged).await;
}

/// Swallows the next answer, and waits until this number of answers was swallowed in total.
pub(super) async fn lose_an_answer(proxy: &Proxy, altogether: u64) {
    proxy.swallow(1);
    let begun = Instant::now();
    while proxy.swallowed() < altogether {
        assert!(begun.elapsed() < Duration::from_secs(60), "answer {altogether} was not lost");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_after_the_commit_lose_and_double_nothing() {
    let wire = ProxiedSchema::new();
    let service = Arc::new(wire.open("").await);
    sessions(&service).await;
    let swallowing = async {
        for lost in 1..=20 {
            lose_an_answer(&wire.proxy, lost).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let acknowledged = load(&service, swallowing).await;
    assert_eq!(wire.proxy.swallowed(), 20);
    check(&service, &acknowledged).await;
}

#[tokio::test]
async fn a_lost_answer_is_found_out_by_what_was_to_be_done() {
    let wire = ProxiedSchema::new();
    let service = wire.open("").await;
    create(&service, "s", json!({})).await;
    let key = key("s");
    append(&service, &key, setting("warm", 1)).await.unwrap();

    wire.proxy.swallow(1);
    let event = setting("n", 1).with_id("e").with_timestamp(1.0);
    let committed = service.append(&key, event, AppendOptions::default()).await.unwrap();
    assert_eq!((committed.outcome, committed.event.seq), (Outcome::Replayed, Some(2)));

    // A creation has several statements. Only the last answer shows that it is complete.
    for turn in 1..=3 {
        wire.proxy.swallow(0);
        let id = format!("made{turn}");
        for _ in 1..turn {
            // After this, the statements are prepared, so every round trip is a statement's.
            create(&service, &format!("{id}-warm{}", uuid()), json!({"app:a": 1})).await;
        }
        wire.proxy.swallow(turn);
        let config = CreateSessionConfig::default().with_session_id(&id).with_state(json!({"user:made": turn}));
        let made = service.create_session("app", "alice", config).await;
        wire.proxy.swallow(0);
        assert_eq!(made.unwrap().id(), id);
        assert!(get(&service, &crate::database::key(&id)).await.is_some());
    }

    let owner = StateOwner::user("app", "alice").unwrap();
    // After this, the statement is prepared, so the lost answer is the answer to the statement.
    service.put_state(&owner, StateDelta::new().with("warm", 1).unwrap(), "me".into()).await.unwrap();
    wire.proxy.swallow(1);
    let delta = StateDelta::new().with("put", 1).unwrap();
    let error = service.put_state(&owner, delta, "me".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "it would be done twice, so it is not tried again");
    let log = service.list_state_changes(&owner, &ChangeQuery::After(0), 100).await.unwrap();
    assert_eq!(log.iter().filter(|change| change.name == "put").count(), 1);

    for turn in 1..=3 {
        wire.proxy.swallow(turn);
        let title = format!("title {turn}");
        service.update_session(&key, SessionUpdate::default().with_title(&title)).await.unwrap();
        wire.proxy.swallow(0);
        assert_eq!(get(&service, &key).await.unwrap().title(), Some(title.as_str()));
    }

    for turn in 1..=3 {
        wire.proxy.swallow(turn);
        service.delete_session(&key).await.unwrap();
        wire.proxy.swallow(turn);
        service.delete_user("app", "alice").await.unwrap();
        wire.proxy.swallow(0);
    }
    assert!(get(&service, &key).await.is_none());
    assert_eq!(wire.schema.number("SELECT count(*) FROM users").await, 0);
}

fn uuid() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Relaxed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_not_let_go_ends_in_time_and_the_append_is_done_once() {
    let schema = TestSchema::new();
    let service = PostgresSessionService::connect(&schema.uri("&statement_timeout_ms=800&retry_timeout_ms=100")).await;
    let service = service.unwrap();
    create(&service, "s", json!({})).await;
    let (key, event) = (key("s"), setting("n", 1).with_id("e").with_timestamp(1.0));
    let other = client(schema.server()).await;
    let lock = format!("BEGIN; SELECT 1 FROM {}.sessions FOR UPDATE", schema.name());
    other.batch_execute(&lock).await.unwrap();
    let start = Instant::now();
    let error = service.append(&key, event.clone(), AppendOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("holds a lock"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    other.batch_execute("COMMIT").await.unwrap();
    let committed = service.append(&key, event, AppendOptions::default()).await.unwrap();
    assert_eq!(committed.event.seq, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_falls_silent_ends_in_time_and_the_append_is_done_once() {
    let wire = ProxiedSchema::new();
    create(&wire.schema.open().await, "s", json!({})).await;
    let service = wire.open("&statement_timeout_ms=1500&retry_timeout_ms=100&connect_timeout=2").await;
    let (key, event) = (key("s"), setting("n", 1).with_id("e").with_timestamp(1.0));
    append(&service, &key, setting("warm", 1)).await.unwrap();
    wire.proxy.delay(Duration::from_secs(6));
    let start = Instant::now();
    let error = service.append(&key, event.clone(), AppendOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    wire.proxy.delay(Duration::ZERO);
    let committed = service.append(&key, event, AppendOptions::default()).await.unwrap();
    assert_eq!(committed.event.seq, Some(2));
    // By now the delayed data has arrived.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(get(&service, &key).await.unwrap().events().len(), 2);
}

#[tokio::test]
async fn a_deletion_may_take_longer_than_a_statement() {
    let schema = TestSchema::new();
    let service = PostgresSessionService::connect(&schema.uri("&statement_timeout_ms=2000&pool_size=1")).await.unwrap();
    create(&service, "s", json!({})).await;
    schema
        .sql("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.8); RETURN NULL; END$$")
        .await;
    for table in ["initial_states", "session_states", "events", "artifacts"] {
        schema.sql(&format!("CREATE TRIGGER slow AFTER DELETE ON {table} EXECUTE FUNCTION slow()")).await;
    }
    let start = Instant::now();
    service.delete_session(&key("s")).await.unwrap();
    assert!(start.elapsed() > Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(get(&service, &key("s")).await.is_none());
}

#[tokio::test]
async fn a_read_that_was_given_up_leaves_no_connection_that_is_busy() {
    let schema = TestSchema::new();
    let service = PostgresSessionService::connect(&schema.uri("&pool_size=1")).await.unwrap();
    create(&service, "s", json!({"app:a": 1})).await;
    get(&service, &key("s")).await.unwrap();
    let other = client(schema.server()).await;
    other.batch_execute(&format!("BEGIN; LOCK TABLE {}.events", schema.name())).await.unwrap();
    let read = tokio::time::timeout(Duration::from_millis(300), get(&service, &key("s"))).await;
    assert!(read.is_err(), "it waits for the table");
    let owner = StateOwner::app("app").unwrap();
    let read = tokio::time::timeout(Duration::from_secs(5), service.get_state(&owner)).await;
    assert_eq!(read.expect("another read does not wait for the first").unwrap()["a"], 1);
    other.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn what_is_gone_already_is_told_after_a_commit_that_a_standby_has_to_have() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    create(&service, "s", json!({})).await;
    service.delete_session(&key("s")).await.unwrap();
    // A commit that writes nothing to the server's log does not wait for a standby.
    let locks = "SELECT xmax::text::bigint FROM apps";
    for again in ["a session", "an artifact"] {
        let before = schema.number(locks).await;
        match again {
            "a session" => service.delete_session(&key("s")).await.unwrap(),
            _ => service.delete_artifact(&key("s"), "a").await.unwrap(),
        }
        assert!(schema.number(locks).await > before, "{again}");
    }
}

/// The statement timeout does not apply to migrations.
#[tokio::test]
async fn migrations_that_take_longer_than_a_statement_may_are_carried_out() {
    let wire = ProxiedSchema::new();
    wire.proxy.delay(Duration::from_millis(200));
    let service = wire.open("&statement_timeout_ms=1500").await;
    wire.proxy.delay(Duration::ZERO);
    create(&service, "s", json!({})).await;
    assert_eq!(wire.schema.number("SELECT count(*) FROM scratchbook_migrations").await, 1);
}
