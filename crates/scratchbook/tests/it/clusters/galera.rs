//! One of three Galera nodes is killed under load and comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use scratchbook::store::MySqlSessionService;
use scratchbook::{CreateSessionConfig, ErrorKind, SessionService};
use scratchbook_test_servers::{Galera, Proxy};

use super::load::{AppKeyLoad, WriterProcesses};
use super::{a_while, check};
use crate::logged::LoggedFields;

/// One process per node, each behind its own balancer, which switches to another node if the process's node dies.
struct Balanced {
    cluster: Galera,
    balancers: Vec<Proxy>,
}

impl Balanced {
    /// Each of three processes is sent to one of the nodes.
    fn start(nodes: [usize; 3]) -> Self {
        let cluster = Galera::start().unwrap();
        let balancers = nodes.map(|node| Proxy::start(cluster.nodes()[node].port()).unwrap());
        Self { cluster, balancers: balancers.into() }
    }

    fn uris(&self) -> Vec<String> {
        let uri = self.cluster.nodes()[0].uri();
        self.balancers.iter().map(|balancer| balancer.uri(&uri).unwrap()).collect()
    }

    /// Sends a process to another node from now on.
    fn send(&self, process: usize, node: usize) {
        self.balancers[process].forward_to(self.cluster.nodes()[node].port());
        self.balancers[process].cut();
    }

    /// Returns the sum of a counter over all nodes.
    fn count(&self, name: &str) -> u64 {
        let ask = |node: &scratchbook_test_servers::MariaDb| {
            let row = node.ask(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).unwrap();
            row.split('\t').nth(1).unwrap().trim().parse::<u64>().unwrap()
        };
        self.cluster.nodes().iter().map(ask).sum()
    }

    fn conflicts(&self) -> u64 {
        self.count("wsrep_local_cert_failures") + self.count("wsrep_local_bf_aborts")
    }
}

#[ignore = "long: a node of three dies and comes back"]
#[tokio::test(flavor = "multi_thread")]
async fn own_mariadb_galera_written_on_three_nodes_loses_one_and_no_acknowledged_append() {
    // This kills another node than the one that the cluster began with.
    lose_a_node("Galera, a process a node", [0, 1, 2], 2).await;
}

#[ignore = "long: a node of three dies and comes back"]
#[tokio::test(flavor = "multi_thread")]
async fn own_mariadb_galera_written_on_one_node_loses_it_and_no_acknowledged_append() {
    lose_a_node("Galera, all processes on one node", [0, 0, 0], 0).await;
}

async fn lose_a_node(what: &str, nodes: [usize; 3], dies: usize) {
    let balanced = Balanced::start(nodes);
    let (cluster, other) = (&balanced.cluster, (dies + 1) % 3);
    let processes: Vec<usize> = (0..3).filter(|process| nodes[*process] == dies).collect();
    let load = WriterProcesses::start(&balanced.uris(), AppKeyLoad::Some).await;
    load.wait_for(50);
    std::thread::sleep(a_while());
    cluster.nodes()[dies].kill().unwrap();
    // This is the time that a balancer takes to notice.
    std::thread::sleep(Duration::from_secs(1));
    processes.iter().for_each(|process| balanced.send(*process, other));
    load.wait_for(50);
    let alone = load.count();
    let start = Instant::now();
    cluster.rejoin(dies).unwrap();
    println!("{what}: the node was back after {:.1} s", start.elapsed().as_secs_f64());
    assert!(load.count() > alone, "the others did not go on");
    processes.iter().for_each(|process| balanced.send(*process, dies));
    load.wait_for(50);
    std::thread::sleep(a_while());
    let conflicts = balanced.conflicts();
    let told = load.stop();
    for node in cluster.nodes() {
        let stored = check::stored(&node.uri(), &told).await;
        check::report(&format!("{what}, node at port {}", node.port()), &told, stored);
    }
    println!("{what}: {conflicts} conflicts between nodes, each tried again");
}

#[ignore = "long: three nodes write to one key"]
#[tokio::test(flavor = "multi_thread")]
async fn own_mariadb_galera_counts_conflicts_on_one_apps_key() {
    for (what, nodes) in [("three nodes", [0, 1, 2]), ("one node", [0, 0, 0])] {
        let balanced = Balanced::start(nodes);
        let load = WriterProcesses::start(&balanced.uris(), AppKeyLoad::Hot).await;
        load.wait_for(1);
        let (start, begun, conflicts) = (Instant::now(), load.count(), balanced.conflicts());
        std::thread::sleep(2 * a_while());
        let seconds = start.elapsed().as_secs_f64();
        let (appends, conflicts) = (load.count() - begun, balanced.conflicts() - conflicts);
        let told = load.stop();
        check::stored(&balanced.cluster.nodes()[1].uri(), &told).await;
        let rate = appends as f64 / seconds;
        println!("one key of the app from {what}: {rate:.0} appends a second, {conflicts} conflicts on {appends}");
    }
}

#[ignore = "long: starts a cluster"]
#[tokio::test]
async fn own_mariadb_galera_is_warned_of_at_the_start() {
    let log = LoggedFields::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let cluster = Galera::start_with(&["wsrep_sync_wait = 6"]).unwrap();
    let service = MySqlSessionService::connect(&cluster.nodes()[0].uri()).await.unwrap();
    service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    let logged = log.text();
    assert_eq!(logged.matches("Galera").count(), 1, "a warning for a store, not for each connection: {logged}");
}

/// A lock on one node would exclude nobody on the other nodes.
#[ignore = "long: starts a cluster"]
#[tokio::test(flavor = "multi_thread")]
async fn own_mariadb_galera_written_on_three_nodes_makes_an_id_unique_in_its_app_once() {
    let cluster = Galera::start().unwrap();
    let connect = |node: &scratchbook_test_servers::MariaDb| {
        let uri = node.uri();
        async move { Arc::new(MySqlSessionService::connect(&uri).await.unwrap()) }
    };
    let services = join_all(cluster.nodes().iter().map(connect)).await;
    for n in 0..40 {
        let wanted = (0..16).map(|user| {
            let service = Arc::clone(&services[user % services.len()]);
            let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_id_unique_in_app();
            tokio::spawn(async move { service.create_session("app", &format!("user{user}"), config).await })
        });
        let made: Vec<_> = join_all(wanted).await.into_iter().map(Result::unwrap).collect();
        let winners: Vec<_> = made.iter().flatten().map(|session| session.key().clone()).collect();
        assert_eq!(winners.len(), 1, "s{n}: {winners:?}");
        for error in made.iter().filter_map(|made| made.as_ref().err()) {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        }
        for service in &services {
            let found = service.locate_session("app", &format!("s{n}")).await.unwrap();
            assert_eq!(found.as_ref(), winners.first(), "each node knows at once");
        }
    }
}
