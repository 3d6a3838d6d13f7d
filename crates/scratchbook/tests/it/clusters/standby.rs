//! A PostgreSQL primary dies under load, and its synchronous standby takes over.

use std::time::Duration;

use scratchbook::session::Outcome;
use scratchbook::{AppendOptions, ErrorKind, Event, connect};
use scratchbook_test_servers::{Postgres, PostgresOptions, StandbyPair};
use serde_json::json;

use super::load::{AppKeyLoad, WriterProcesses};
use super::{a_while, check};
use crate::database::{append, create, get, key, setting};

#[ignore = "long: a primary dies and its standby takes over"]
#[tokio::test(flavor = "multi_thread")]
async fn own_postgres_dies_and_its_standby_has_every_acknowledged_append() {
    let pair = StandbyPair::start().unwrap();
    let (primary, standby) = (pair.primary(), pair.standby());
    let (password, first, second) = (primary.password(), primary.port(), standby.port());
    let both = format!(
        "postgresql://scratchbook:{password}@127.0.0.1:{first},127.0.0.1:{second}/scratchbook\
         ?target_session_attrs=read-write"
    );
    is_read_on(&both, &format!("{}?retry_timeout_ms=500", standby.uri())).await;
    // One process gives up soon each time, so its callers retry themselves.
    let load =
        WriterProcesses::start(&[both.clone(), both.clone(), format!("{both}&retry_timeout_ms=200")], AppKeyLoad::Some)
            .await;
    load.wait_for(100);
    std::thread::sleep(a_while());
    let before = load.count();
    primary.kill().unwrap();
    // This is the time that an operator takes to notice.
    std::thread::sleep(Duration::from_millis(1500));
    pair.promote().unwrap();
    load.wait_for(100);
    std::thread::sleep(a_while());
    let told = load.stop();
    let stored = check::stored(&standby.uri(), &told).await;
    assert!(told.failures > 0, "nobody has noticed");
    check::report(&format!("standby ({before} before the primary died)"), &told, stored);
}

/// Checks that a write can be read on the standby as soon as it is acknowledged.
async fn is_read_on(both: &str, standby: &str) {
    let (writes, reads) = (connect(both).await.unwrap().sessions, connect(standby).await.unwrap().sessions);
    create(writes.as_ref(), "read", json!({})).await;
    for n in 1..=50 {
        assert_eq!(append(writes.as_ref(), &key("read"), setting("n", n)).await.unwrap(), n);
        let read = get(reads.as_ref(), &key("read")).await.unwrap();
        assert_eq!((read.seq(), read.state().get("n")), (n, Some(&json!(n))));
    }
    let refused = append(reads.as_ref(), &key("read"), setting("n", 0)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    writes.delete_session(&key("read")).await.unwrap();
}

/// The server is a primary whose standby is gone, or a standby that was promoted with its primary's settings.
#[tokio::test(flavor = "multi_thread")]
async fn own_postgres_without_its_standby_acknowledges_nothing_until_it_is_told_to() {
    let server = Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap();
    let uri = format!("{}?statement_timeout_ms=400&retry_timeout_ms=900", server.uri());
    let service = connect(&uri).await.unwrap().sessions;
    create(service.as_ref(), "s", json!({})).await;
    let set = |names: &str| {
        server.ask(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'")).unwrap();
        server.ask("SELECT pg_reload_conf()").unwrap();
    };
    set("*");
    // The server applies its settings a moment later.
    while server.ask("SHOW synchronous_standby_names").unwrap() != "*" {
        std::thread::sleep(Duration::from_millis(20));
    }
    let key = key("s");
    let again = || service.append(&key, Event::new("agent").with_id("e"), AppendOptions::default());
    let error = again().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(get(service.as_ref(), &key).await.unwrap().seq(), 0, "what was not acknowledged is not shown");
    set("");
    let committed = again().await.unwrap();
    assert_eq!((committed.outcome, committed.event.seq), (Outcome::Replayed, Some(1)));
}
