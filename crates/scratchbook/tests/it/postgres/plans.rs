//! What calls cost, told by the server's own counters: rows touched, not time.

use std::time::Duration;

use scratchbook::{
    CreateSessionConfig, Event, GetSessionConfig, ListSessionsConfig, PostgresSessionService, SessionService,
    StateDelta, StateOwner,
};
use serde_json::json;

use super::server::Schema;
use crate::database::{append, create, key, setting};

const EVENTS: usize = 3000;

/// Rows of tables and entries of indexes that were read so far.
async fn touched(schema: &Schema, service: &PostgresSessionService) -> i64 {
    // The server tells of what a connection did when that is a second ago and the connection does something more.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    service.get_state(&StateOwner::app("nobody").unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let tables =
        "SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = current_schema()";
    let indexes =
        "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE schemaname = current_schema()";
    schema.number(tables).await + schema.number(indexes).await
}

/// Holds what a call touches, on average, below a bound.
async fn costs<F: Future>(
    schema: &Schema,
    service: &PostgresSessionService,
    most: i64,
    what: &str,
    call: impl Fn(usize) -> F,
) {
    const CALLS: usize = 50;
    let before = touched(schema, service).await;
    for n in 0..CALLS {
        call(n).await;
    }
    let each = (touched(schema, service).await - before) / CALLS as i64;
    println!("{what}: {each} rows and entries");
    assert!(each <= most, "{what}: {each} rows and entries");
}

async fn every_call(schema: &Schema, service: &PostgresSessionService) {
    let long = key("long");
    let all = GetSessionConfig::default;
    costs(schema, service, 20, "append", |n| async move {
        let delta = StateDelta::new().with("a", n).unwrap().with("user:u", n).unwrap().with("app:a", n).unwrap();
        append(service, &key("long"), crate::database::event(delta)).await.unwrap()
    })
    .await;
    let shapes = [
        ("state", 10, GetSessionConfig::state_only()),
        ("some keys", 6, GetSessionConfig::state_only().with_state_keys(["a", "user:u"])),
        ("recent", 20, all().with_num_recent_events(10)),
        ("after a number", 20, all().with_events_after(1000, 10)),
        ("before a number", 20, all().with_events_before(1000, 10)),
        ("after a late time", 30, all().with_after_timestamp(EVENTS as f64 - 10.0)),
        ("few after a late time", 60, all().with_after_timestamp(EVENTS as f64 - 10.0).with_num_recent_events(5)),
        ("few after an early time", 500, all().with_after_timestamp(3.0).with_num_recent_events(5)),
    ];
    for (what, most, shape) in shapes {
        let (shape, long) = (&shape, &long);
        costs(schema, service, most, what, |_| async move { service.get_session(long, shape).await.unwrap().unwrap() })
            .await;
    }
    let page = ListSessionsConfig::default().with_page_size(5);
    for (what, config) in [("list", page.clone()), ("list of a user", page.with_user_id("alice"))] {
        let config = &config;
        costs(schema, service, 80, what, |_| async move { service.list_sessions("app", config).await.unwrap() }).await;
    }
    let owner = &StateOwner::user("app", "alice").unwrap();
    costs(schema, service, 30, "log", |_| async move { service.list_state_changes(owner, 0, 5).await.unwrap() }).await;
    costs(schema, service, 40, "create and delete", |n| async move {
        create(service, &format!("short{n}"), json!({})).await;
        service.delete_session(&key(&format!("short{n}"))).await.unwrap();
    })
    .await;
}

/// Plans are made once a connection. These are made while the tables are empty, and must serve when they are not.
#[tokio::test]
async fn calls_cost_what_they_touch_also_when_tables_have_grown() {
    let schema = Schema::new();
    let service = PostgresSessionService::connect(&schema.uri("&pool_size=1")).await.unwrap();
    create(&service, "first", json!({"a": 1, "user:u": 1, "app:a": 1})).await;
    append(&service, &key("first"), setting("app:a", 1)).await.unwrap();
    warm(&service).await;
    let events = (1..=EVENTS).map(|n| Event::new("agent").with_timestamp(n as f64).with_id(format!("e{n}")));
    let config = CreateSessionConfig::default().with_session_id("long").with_events(events.collect());
    service.create_session("app", "alice", config).await.unwrap();
    for n in 0..300 {
        create(&service, &format!("other{n}"), json!({})).await;
    }
    every_call(&schema, &service).await;
    schema.sql("ANALYZE").await;
    every_call(&schema, &service).await;
}

/// Has every statement planned.
async fn warm(service: &PostgresSessionService) {
    let all = GetSessionConfig::default;
    for shape in [
        GetSessionConfig::state_only(),
        GetSessionConfig::state_only().with_state_keys(["a"]),
        all(),
        all().with_num_recent_events(10),
        all().with_after_timestamp(1.0),
        all().with_after_timestamp(1.0).with_num_recent_events(5),
    ] {
        service.get_session(&key("first"), &shape).await.unwrap();
    }
    let page = ListSessionsConfig::default();
    service.list_sessions("app", &page).await.unwrap();
    service.list_sessions("app", &page.with_user_id("alice")).await.unwrap();
    service.list_state_changes(&StateOwner::user("app", "alice").unwrap(), 0, 5).await.unwrap();
    create(service, "gone", json!({})).await;
    service.delete_session(&key("gone")).await.unwrap();
}
