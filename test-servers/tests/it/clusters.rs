//! Tests of several servers together. The servers take long to start, so only `cargo xtask full` runs these tests.

use std::time::{Duration, Instant};

use scratchbook_test_servers::{Galera, GroupReplication, Patroni, Replication, StandbyPair};

#[test]
#[ignore = "long: cargo xtask full runs it"]
fn a_standby_of_own_postgres_has_every_acknowledged_write_and_takes_over() {
    let pair = StandbyPair::start().unwrap();
    let (primary, standby) = (pair.primary(), pair.standby());
    assert_eq!(primary.ask("select sync_state from pg_stat_replication").unwrap(), "sync");
    primary.ask("create table kept (n int)").unwrap();
    for n in 1..=20 {
        primary.ask(&format!("insert into kept values ({n})")).unwrap();
        assert_eq!(standby.ask("select max(n) from kept").unwrap(), n.to_string());
    }
    let refused = standby.ask("insert into kept values (0)").unwrap_err().to_string();
    assert!(refused.contains("read-only"), "{refused}");
    primary.kill().unwrap();
    pair.promote().unwrap();
    standby.ask("insert into kept values (21)").unwrap();
    assert_eq!(standby.ask("select count(*), sum(n), pg_is_in_recovery() from kept").unwrap(), "21|231|f");
    standby.kill().unwrap();
    standby.restart().unwrap();
    assert_eq!(standby.ask("select count(*) from kept").unwrap(), "21");
}

#[test]
#[ignore = "long: cargo xtask full runs it"]
fn standbys_of_own_postgres_take_over_one_after_the_other() {
    for replication in [Replication::Synchronous, Replication::Asynchronous] {
        let mut pair = StandbyPair::start_with(replication).unwrap();
        pair.primary().ask("create table kept (n int)").unwrap();
        for n in 1..=2 {
            pair.primary().ask(&format!("insert into kept values ({n})")).unwrap();
            if replication == Replication::Asynchronous {
                while pair.standby().ask("select count(*) from kept").unwrap() != n.to_string() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            pair.fail_over().unwrap();
            pair.replace_primary().unwrap();
            assert_eq!(pair.primary().ask("select count(*), pg_is_in_recovery() from kept").unwrap(), format!("{n}|f"));
            assert_eq!(pair.standby().ask("select pg_is_in_recovery()").unwrap(), "t");
        }
    }
}

#[test]
#[ignore = "long: cargo xtask full runs it"]
fn a_cluster_of_own_postgres_elects_another_leader_when_its_leader_is_killed_frozen_or_cut_off() {
    let mut cluster = Patroni::start(Replication::Synchronous).unwrap();
    let first = cluster.leader().unwrap();
    cluster.kill(first).unwrap();
    cluster.wait_for_other_leader(first).unwrap();
    cluster.rejoin(first).unwrap();
    cluster.wait_until_replaceable().unwrap();
    let second = cluster.leader().unwrap();
    cluster.freeze(second).unwrap();
    cluster.wait_for_other_leader(second).unwrap();
    cluster.thaw(second).unwrap();
    let third = cluster.wait_until_whole().unwrap();
    // Patroni before 3.0.3 may fail here: the leader that was frozen takes the lease back.
    assert_ne!(second, third);
    cluster.wait_until_replaceable().unwrap();
    cluster.cut_off(third);
    cluster.wait_for_other_leader(third).unwrap();
    cluster.reconnect(third);
    cluster.wait_until_whole().unwrap();
    assert_ne!(first, second);
}

#[test]
#[ignore = "long: cargo xtask full runs it"]
fn a_cluster_of_own_mariadb_forms_and_a_killed_node_comes_back() {
    let cluster = Galera::start().unwrap();
    let nodes = cluster.nodes();
    for node in 0..3 {
        assert_eq!(cluster.size_seen_by(node).unwrap(), 3);
    }
    nodes[0].ask("create table kept (n int primary key)").unwrap();
    for (n, node) in nodes.iter().enumerate() {
        node.ask(&format!("insert into kept values ({n})")).unwrap();
    }
    let count = |node: usize| nodes[node].ask("set wsrep_sync_wait = 1; select count(*) from kept").unwrap();
    assert_eq!([0, 1, 2].map(count), ["3"; 3]);
    // The cluster began with this node. After its restart, the node must not begin another cluster.
    nodes[0].kill().unwrap();
    assert!(nodes[0].ask("select 1").is_err());
    let start = Instant::now();
    while cluster.size_seen_by(1).unwrap() != 2 || !cluster.is_ready(1).unwrap() {
        assert!(start.elapsed() < Duration::from_secs(60), "the others do not notice");
        std::thread::sleep(Duration::from_millis(100));
    }
    nodes[1].ask("insert into kept values (3)").unwrap();
    nodes[2].ask("insert into kept values (4)").unwrap();
    cluster.rejoin(0).unwrap();
    assert_eq!([0, 1, 2].map(|node| cluster.size_seen_by(node).unwrap()), [3; 3]);
    nodes[0].ask("insert into kept values (5)").unwrap();
    assert_eq!([0, 1, 2].map(count), ["6"; 3]);
}

#[test]
#[ignore = "long: cargo xtask full runs it"]
fn a_group_of_own_mysql_elects_another_primary_and_a_killed_member_comes_back() {
    let group = GroupReplication::start(3).unwrap();
    let members = group.members();
    assert_eq!([0, 1, 2].map(|member| group.primary_seen_by(member).unwrap()), [Some(0); 3]);
    members[0].ask("create table kept (n int primary key)").unwrap();
    members[0].ask("insert into kept values (1)").unwrap();
    members[0].kill().unwrap();
    let primary = group.wait_for_other_primary(1, 0).unwrap();
    members[primary].ask("insert into kept values (2)").unwrap();
    group.rejoin(0).unwrap();
    assert_eq!(group.primary_seen_by(0).unwrap(), Some(primary));
    let count = "set group_replication_consistency = 'BEFORE'; select count(*) from kept";
    assert_eq!([0, 1, 2].map(|member| members[member].ask(count).unwrap()), ["2"; 3]);
}
