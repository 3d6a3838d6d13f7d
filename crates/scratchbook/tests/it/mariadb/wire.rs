//! The network: counted round trips, cut connections, lost answers, and a server that stops and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use scratchbook::session::{ChangeQuery, Outcome, PutStateOptions, StateOwner};
use scratchbook::store::{DatabaseOptions, MySqlSessionService};
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, Result, SessionKey, SessionService,
    StateDelta,
};
use scratchbook_test_servers::{MySqlOptions, Proxy};
use tokio::task::JoinSet;

use super::server::{OwnServer, TestDatabase, connection};

pub(super) fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "alice", session).unwrap()
}

fn event(id: &str) -> Event {
    let delta = StateDelta::new().with(id, 1).unwrap().with(format!("user:{id}"), 1).unwrap();
    Event::new("agent").with_id(id).with_timestamp(1.0).with_state_delta(delta.with(format!("app:{id}"), 1).unwrap())
}

pub(super) async fn append(service: &MySqlSessionService, key: &SessionKey, id: &str) -> Result<(u64, Outcome)> {
    let committed = service.append(key, event(id), AppendOptions::default()).await?;
    Ok((committed.event.seq.unwrap(), committed.outcome))
}

pub(super) async fn create(service: &MySqlSessionService, session: &str) {
    service.create_session("app", "alice", CreateSessionConfig::default().with_session_id(session)).await.unwrap();
}

/// Checks that everything acknowledged is stored once, numbers have no gaps, and the state is the fold of the events.
async fn check(service: &MySqlSessionService, session: &str, mut acknowledged: Vec<(u64, String)>) {
    let read = service.get_session(&key(session), &GetSessionConfig::default()).await.unwrap().unwrap();
    let stored: Vec<_> = read.events().iter().map(|event| (event.seq.unwrap(), event.id.clone())).collect();
    assert!(stored.iter().map(|(seq, _)| *seq).eq(1..=stored.len() as u64), "gaps");
    acknowledged.sort();
    assert_eq!(stored, acknowledged);
    let log =
        service.list_state_changes(&StateOwner::app("app").unwrap(), &ChangeQuery::After(0), usize::MAX).await.unwrap();
    let mut logged: Vec<_> = log.iter().map(|change| change.name.clone()).collect();
    let mut ids: Vec<_> = stored.into_iter().map(|(_, id)| id).collect();
    logged.sort();
    ids.sort();
    assert_eq!(logged, ids, "each write to the app's keys is logged once");
    assert!(ids.iter().all(|id| read.state().get(id).is_some() && read.state().get(&format!("user:{id}")).is_some()));
}

#[tokio::test]
async fn an_append_and_a_read_are_one_round_trip_each() {
    let database = TestDatabase::emptied().await;
    let proxy = Proxy::before(&database.uri()).unwrap();
    let service = MySqlSessionService::connect(&proxy.uri(&database.uri()).unwrap()).await.unwrap();
    create(&service, "s").await;
    append(&service, &key("s"), "first").await.unwrap();
    let since = |config: GetSessionConfig| config.with_after_timestamp(0.5);
    let configs = [
        GetSessionConfig::default(),
        GetSessionConfig::default().with_num_recent_events(10),
        since(GetSessionConfig::default()).with_num_recent_events(10),
        GetSessionConfig::default().with_state_keys(["first", "user:first", "none"]),
    ];
    for config in &configs {
        service.get_session(&key("s"), config).await.unwrap();
    }
    let (turns, connections) = (proxy.turns(), proxy.connections());
    for n in 0..100 {
        append(&service, &key("s"), &format!("e{n}")).await.unwrap();
    }
    let appends = proxy.turns() - turns;
    for n in 0..100 {
        service.get_session(&key("s"), &configs[n % configs.len()]).await.unwrap();
    }
    let reads = proxy.turns() - turns - appends;
    println!("{appends} round trips for 100 appends, {reads} for 100 reads");
    assert_eq!((appends, reads, proxy.connections()), (100, 100, connections));
}

/// One round trip locks and reads, the other writes and commits. A refusal names the faster writer.
#[tokio::test]
async fn an_append_with_operations_is_two_round_trips() {
    let database = TestDatabase::emptied().await;
    let proxy = Proxy::before(&database.uri()).unwrap();
    let service = MySqlSessionService::connect(&proxy.uri(&database.uri()).unwrap()).await.unwrap();
    create(&service, "s").await;
    let session = service.get_session(&key("s"), &GetSessionConfig::default()).await.unwrap().unwrap();
    let counting = || {
        let delta = StateDelta::new().with_increment("n", 1).unwrap().with_increment("user:n", 1).unwrap();
        Event::new("agent").with_state_delta(delta.with_increment("app:n", 1).unwrap())
    };
    let late = || AppendOptions::by_key(session.seen().clone());
    let append = async |options| service.append(&key("s"), counting(), options).await;
    append(AppendOptions::default()).await.unwrap();
    assert_eq!(append(late()).await.unwrap_err().kind(), ErrorKind::Conflict);
    let (turns, connections) = (proxy.turns(), proxy.connections());
    for _ in 0..50 {
        append(AppendOptions::default()).await.unwrap();
    }
    let counted = proxy.turns() - turns;
    for _ in 0..50 {
        append(late()).await.unwrap_err();
    }
    let refused = proxy.turns() - turns - counted;
    println!("{counted} round trips for 50 appends with operations, {refused} for 50 that are refused");
    assert_eq!((counted, proxy.connections()), (100, connections));
    assert!(refused <= 150, "what is read, who wrote it, the end: {refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_and_swallowed_answers_cost_retries_alone() {
    let database = TestDatabase::emptied().await;
    let proxy = Arc::new(Proxy::before(&database.uri()).unwrap());
    let service = Arc::new(MySqlSessionService::connect(&proxy.uri(&database.uri()).unwrap()).await.unwrap());
    create(&service, "s").await;
    let progress = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (service, progress) = (Arc::clone(&service), Arc::clone(&progress));
        writers.spawn(async move {
            let mut done = Vec::new();
            for n in 0..50 {
                let id = format!("w{writer}n{n}");
                done.push((append(&service, &key("s"), &id).await.unwrap().0, id));
                progress.fetch_add(1, Relaxed);
            }
            done
        });
    }
    let trouble = {
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            // The pace depends on the completed work and not on time, so that a busy machine also makes progress.
            for n in 1.. {
                while progress.load(Relaxed) < 10 * n {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                if n % 2 == 0 { proxy.cut() } else { proxy.swallow(1) }
            }
        })
    };
    let mut acknowledged = Vec::new();
    while let Some(done) = writers.join_next().await {
        acknowledged.extend(done.unwrap());
    }
    trouble.abort();
    let _ = trouble.await;
    proxy.swallow(0);
    println!("{} answers were swallowed, {} connections made", proxy.swallowed(), proxy.connections());
    assert!(proxy.swallowed() > 0);
    check(&service, "s", acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_started_again_loses_nothing() {
    let server = Arc::new(OwnServer::start(&MySqlOptions::default()).unwrap());
    let service = Arc::new(MySqlSessionService::connect(&server.uri()).await.unwrap());
    create(&service, "s").await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let service = Arc::clone(&service);
        writers.spawn(async move {
            let (mut done, started) = (Vec::new(), Instant::now());
            while started.elapsed() < Duration::from_secs(6) {
                let id = format!("w{writer}n{}", done.len());
                done.push((append(&service, &key("s"), &id).await.unwrap().0, id));
            }
            done
        });
    }
    for crash in [true, false] {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let server = Arc::clone(&server);
        let restart = move || {
            if crash {
                server.kill().unwrap();
            } else {
                server.stop().unwrap();
            }
            server.restart().unwrap();
        };
        tokio::task::spawn_blocking(restart).await.unwrap();
    }
    let mut acknowledged = Vec::new();
    while let Some(done) = writers.join_next().await {
        acknowledged.extend(done.unwrap());
    }
    println!("{} appends", acknowledged.len());
    check(&service, "s", acknowledged).await;
    service.close().await.unwrap();
}

/// A writer that waits for a lock gives up its connection after a timeout, and completes when the lock is released.
#[tokio::test]
async fn a_lock_that_is_held_for_long_costs_time_alone() {
    let database = TestDatabase::emptied().await;
    let mut options = DatabaseOptions::default();
    (options.statement_timeout, options.retry_timeout) = (Duration::from_secs(2), Duration::from_secs(30));
    let service = MySqlSessionService::open(&database.uri(), options.clone()).await.unwrap();
    create(&service, "s").await;
    let mut other = connection(&database.uri()).await;
    other.query_drop("BEGIN; SELECT * FROM sessions FOR UPDATE").await.unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        other.query_drop("ROLLBACK").await.unwrap();
    };
    let key = key("s");
    let (appended, ()) = tokio::join!(append(&service, &key, "e"), release);
    assert_eq!(appended.unwrap().0, 1);
    check(&service, "s", vec![(1, "e".into())]).await;
    // A caller with a shorter timeout gets the error.
    options.retry_timeout = Duration::from_secs(1);
    let hasty = MySqlSessionService::open(&database.uri(), options).await.unwrap();
    other.query_drop("BEGIN; SELECT * FROM sessions FOR UPDATE").await.unwrap();
    let error = append(&hasty, &key, "f").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("lock"), "{error}");
    other.query_drop("ROLLBACK").await.unwrap();
}

/// `KILL QUERY` runs no handler of the procedure, so its transaction stays open until its connection is closed.
#[tokio::test]
async fn a_killed_statement_leaves_no_transaction_open() {
    let database = TestDatabase::emptied().await;
    let service = Arc::new(MySqlSessionService::connect(&database.uri()).await.unwrap());
    create(&service, "s").await;
    let mut other = connection(&database.uri()).await;
    other.query_drop("BEGIN; SELECT * FROM apps FOR UPDATE").await.unwrap();
    let waiting = {
        let service = Arc::clone(&service);
        tokio::spawn(async move { append(&service, &key("s"), "e").await })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    let sql = "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()
        AND COMMAND <> 'Sleep'";
    let ids: Vec<u64> = other.query(sql).await.unwrap();
    assert!(!ids.is_empty());
    for id in ids {
        other.query_drop(format!("KILL QUERY {id}")).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    other.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().0, 1);
    check(&service, "s", vec![(1, "e".into())]).await;
    let sql = "SELECT COUNT(*) FROM information_schema.INNODB_TRX AS t JOIN information_schema.PROCESSLIST AS p
        ON p.ID = t.trx_mysql_thread_id WHERE p.DB = DATABASE()";
    assert_eq!(other.query_first::<u64, _>(sql).await.unwrap(), Some(0));
}

#[tokio::test]
async fn what_the_server_does_not_take_at_once_is_refused_whole() {
    let server =
        OwnServer::start(&MySqlOptions::default().with_fast_disk().with_line("max_allowed_packet = 1M")).unwrap();
    let service = MySqlSessionService::connect(&server.uri()).await.unwrap();
    create(&service, "s").await;
    let large = |size: usize| Event::new("agent").with_id("large").with_content("x".repeat(size));
    let error = service.append(&key("s"), large(1 << 20), AppendOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PayloadTooLarge, "{error}");
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    // These twenty appends together are too large.
    let text = "y".repeat(200_000);
    let appends = (0..20).map(|n| {
        let event = Event::new("agent").with_id(format!("e{n}")).with_content(text.clone());
        let (service, key) = (&service, key("s"));
        async move { service.append(&key, event, AppendOptions::default()).await.unwrap().event.seq }
    });
    let mut seqs = futures_util::future::join_all(appends).await;
    seqs.sort();
    assert!(seqs.iter().copied().eq((1..=20).map(Some)));
    let read = service.get_session(&key("s"), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(read.events().len(), 20);
    assert!(read.events().iter().all(|event| serde_json::to_string(event).unwrap().contains(&text)));
}

/// In a damaged database, rows that belong to a missing session must not count as the session.
#[tokio::test]
async fn a_session_whose_events_are_there_already_is_not_said_to_be_made() {
    let database = TestDatabase::new().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    let orphan = "INSERT INTO events (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp,
        event, user_position, app_position) VALUES ('app', 'alice', 's', 1, 'old', '', '', 'a', 1, '{}', 0, 0)";
    database.sql(orphan).await;
    let config = CreateSessionConfig::default().with_session_id("s").with_events(vec![event("e1")]);
    let error = service.create_session("app", "alice", config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
    assert!(service.get_session(&key("s"), &GetSessionConfig::default()).await.unwrap().is_none());
}

/// The procedure answers before it commits, so a failure of the commit comes after the answer.
#[tokio::test]
async fn an_error_after_the_answer_is_an_error_of_the_call() {
    let database = TestDatabase::new().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    let arguments =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"].map(|name| format!("{name} LONGTEXT")).join(", ");
    let failing =
        "BEGIN SELECT 'made', 0, 0, NULL, NULL, NULL, NULL; SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1644; END";
    database.sql("DROP PROCEDURE scratchbook_write_1").await;
    database.sql(&format!("CREATE PROCEDURE scratchbook_write_1({arguments}) {failing}")).await;
    let error = service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap_err();
    assert!(error.to_string().contains("1644"), "{error}");
}

/// Every bit of a time is stored. The creation of a session without app keys does not wait for the app's row.
#[tokio::test]
async fn times_are_exact_and_the_row_of_an_app_is_left_alone() {
    let database = TestDatabase::new().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    create(&service, "s").await;
    let mut own = connection(&database.uri()).await;
    let apps: Option<u64> = own.query_first("SELECT COUNT(*) FROM apps").await.unwrap();
    assert_eq!(apps, Some(0));
    let times = [1_700_000_000.123_456_7, 1_761_999_999.999_999_8, 0.1 + 0.2, 1_234_567_890.000_000_2, 4.35e9];
    for (n, time) in times.into_iter().enumerate() {
        let event = event(&format!("e{n}")).with_timestamp(time);
        service.append(&key("s"), event, AppendOptions::default()).await.unwrap();
    }
    let stored: Vec<f64> = own.exec("SELECT timestamp FROM events ORDER BY seq", ()).await.unwrap();
    let logged: Vec<f64> =
        own.exec("SELECT time FROM state_log WHERE scope = 'app' ORDER BY position", ()).await.unwrap();
    assert_eq!((stored, logged), (times.to_vec(), times.to_vec()));
}

/// A balancer may forget its connections. Each of these stays silent, so pinging all of them would take long.
#[tokio::test]
async fn after_one_dead_connection_no_idle_one_is_tried() {
    let database = TestDatabase::emptied().await;
    let proxy = Proxy::before(&database.uri()).unwrap();
    let service = MySqlSessionService::connect(&proxy.uri(&database.uri()).unwrap()).await.unwrap();
    proxy.delay(Duration::from_millis(20));
    let owner = StateOwner::app("app").unwrap();
    futures_util::future::join_all((0..4).map(|_| service.get_state(&owner))).await;
    proxy.delay(Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = proxy.connections();
    assert!(before >= 4, "{before}");
    proxy.swallow(1);
    service.put_state(&owner, StateDelta::new().with("k", 1).unwrap(), PutStateOptions::by("me")).await.unwrap();
    assert_eq!((proxy.swallowed(), proxy.connections()), (1, before + 1));
}
