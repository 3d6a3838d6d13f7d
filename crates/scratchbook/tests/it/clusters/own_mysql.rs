//! MySQL servers in a Group Replication lose their primary, or their majority.

use std::time::{Duration, Instant};

use scratchbook::session::Outcome;
use scratchbook::{AppendOptions, ErrorKind, connect};
use scratchbook_test_servers::{GroupReplication, Proxy};
use serde_json::json;

use super::load::{AppKeyLoad, WriterProcesses};
use super::{a_while, check};
use crate::database::{append, create, get, key, setting};

#[ignore = "long: the primary of three dies and comes back"]
#[tokio::test(flavor = "multi_thread")]
async fn a_group_loses_its_primary_and_no_acknowledged_append() {
    let group = GroupReplication::start(3).unwrap();
    let members = group.members();
    // A balancer that sends everybody to the primary.
    let balancer = Proxy::start(members[0].port()).unwrap();
    let uri = balancer.uri(&members[0].uri()).unwrap();
    // One process gives up soon each time, so its callers retry themselves.
    let uris = [uri.clone(), uri.clone(), format!("{uri}?retry_timeout_ms=200")];
    let load = WriterProcesses::start(&uris, AppKeyLoad::Some).await;
    load.wait_for(50);
    std::thread::sleep(a_while());
    members[0].kill().unwrap();
    let start = Instant::now();
    let primary = group.wait_for_other_primary(1, 0).unwrap();
    println!("another primary after {:.1} s", start.elapsed().as_secs_f64());
    balancer.forward_to(members[primary].port());
    balancer.cut();
    load.wait_for(50);
    group.rejoin(0).unwrap();
    load.wait_for(50);
    std::thread::sleep(a_while());
    let told = load.stop();
    assert!(told.failures > 0, "nobody has noticed");
    for member in members {
        // A read with this setting waits until the member has applied what was committed before.
        member.ask("SET group_replication_consistency = 'BEFORE'; SELECT COUNT(*) FROM events").unwrap();
        let stored = check::stored(&member.uri(), &told).await;
        check::report(&format!("Group Replication, member at port {}", member.port()), &told, stored);
    }
}

#[ignore = "long: one of two members dies"]
#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_two_without_one_refuses_writes_and_loses_none() {
    let group = GroupReplication::start(2).unwrap();
    let [primary, secondary] = group.members() else { panic!("two members") };
    let uri = format!("{}?statement_timeout_ms=2000&retry_timeout_ms=4000", primary.uri());
    let sessions = connect(&uri).await.unwrap().sessions;
    create(sessions.as_ref(), "s", json!({})).await;
    for n in 1..=20 {
        assert_eq!(append(sessions.as_ref(), &key("s"), setting("n", n)).await.unwrap(), n);
    }
    secondary.kill().unwrap();
    let late = setting("n", 21).with_id("late");
    let start = Instant::now();
    let refused = append(sessions.as_ref(), &key("s"), late.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    // Reads go on, of what was committed.
    assert_eq!(get(sessions.as_ref(), &key("s")).await.unwrap().seq(), 20);
    group.go_on_alone(0).unwrap();
    // The refused write may have been committed now, and is not stored twice.
    let committed = sessions.append(&key("s"), late, AppendOptions::default()).await.unwrap();
    assert_eq!(committed.event.seq, Some(21));
    println!("the refused write was stored meanwhile: {}", committed.outcome == Outcome::Replayed);
    let read = get(sessions.as_ref(), &key("s")).await.unwrap();
    assert_eq!((read.seq(), read.events().len(), read.state().get("n")), (21, 21, Some(&json!(21))));
}
