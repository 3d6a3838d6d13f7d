//! Three PostgreSQL servers under Patroni, which elects their leader by a lease in etcd.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::account::ServerAccount;
use crate::cluster::Replication;
use crate::folder::Folder;
use crate::process::Process;
use crate::{Error, Proxy, Result, client, port, programs};

const NODES: usize = 3;

/// The name of the superuser and of the database.
const NAME: &str = "scratchbook";

/// The log of Patroni and of the PostgreSQL server that it starts.
const LOG: &str = "patroni.log";

const ETCD_LOG: &str = "etcd.log";

/// How long the cluster may take to elect a leader, or a node to join.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long a node may take to follow the leader without help.
const ALONE: Duration = Duration::from_secs(60);

/// How long a leader may take to choose its synchronous standby from its followers.
const CHOICE: Duration = Duration::from_secs(30);

/// A cluster whose leader may be killed, frozen and cut off.
#[derive(Debug)]
pub struct Patroni {
    nodes: Vec<PatroniNode>,
    password: String,
    version: String,
    replication: Replication,
    etcd: Etcd,
}

/// A Patroni process with its PostgreSQL server.
#[derive(Debug)]
struct PatroniNode {
    process: Option<Process>,
    port: u16,
    /// The port of Patroni's REST API.
    api: u16,
    /// The proxy before etcd.
    lease: Proxy,
    etcd: u16,
    folder: Folder,
}

/// The etcd server, which stores the lease.
#[derive(Debug)]
struct Etcd {
    port: u16,
    _process: Process,
    folder: Folder,
}

impl Patroni {
    /// Starts the cluster, and returns when two nodes follow a leader. If replication is synchronous, the leader
    /// acknowledges a commit when one of these two nodes has it (`synchronous_mode`), and acknowledges nothing while
    /// none of them follows it (`synchronous_mode_strict`). This is not Patroni's default.
    ///
    /// # Errors
    ///
    /// A program is missing, or a node does not start. The message has the node's log.
    pub fn start(replication: Replication) -> Result<Self> {
        let missing = |name: &str| Error::new(format!("no '{name}' found; Debian: patroni and etcd-server"));
        let patroni = programs::find("patroni").ok_or_else(|| missing("patroni"))?;
        let etcd = Etcd::start(&programs::find("etcd").ok_or_else(|| missing("etcd"))?)?;
        let postgres = programs::postgres().ok_or_else(|| missing("postgres"))?;
        let (password, version) = (format!("{:016x}", port::random()), version_of(&patroni)?);
        let mut cluster = Self { nodes: Vec::new(), password, version, replication, etcd };
        for number in 0..NODES {
            let node = PatroniNode::set_up(number, cluster.etcd.port)?;
            node.folder.write("patroni.yml", &cluster.configuration(number, &node, &postgres))?;
            cluster.nodes.push(node);
            cluster.run(number, &patroni)?;
            // The first one becomes the leader, and the others copy it.
            cluster
                .wait_for(PATIENCE, |cluster| (0..=number).all(|node| cluster.nodes[node].serves()).then_some(()))?;
        }
        client::psql(&postgres.join("psql"), &cluster.uri_of(0, "postgres"), &format!("CREATE DATABASE {NAME}"))?;
        // No other node can become the leader before it follows this one.
        cluster.wait_until_whole()?;
        cluster.wait_until_replaceable()?;
        Ok(cluster)
    }

    /// Returns the address of the cluster, as a URI that names all nodes and asks for the node that takes writes.
    pub fn uri(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let (password, hosts) = (&self.password, hosts.join(","));
        format!("postgresql://{NAME}:{password}@{hosts}/{NAME}?target_session_attrs=read-write")
    }

    /// Returns what `patroni --version` says.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the node that has the lease, if a node has it.
    pub fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.answers("/primary"))
    }

    /// Copies the logs to a folder, which is made if it does not exist. The log of a node has the messages of its
    /// Patroni and of its PostgreSQL server.
    ///
    /// # Errors
    ///
    /// A log cannot be read or written.
    pub fn keep_logs(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder.display(), &error))?;
        for (number, node) in self.nodes.iter().enumerate() {
            node.folder.copy(LOG, &folder.join(format!("node{number}.log")))?;
        }
        self.etcd.folder.copy(ETCD_LOG, &folder.join(ETCD_LOG))
    }

    /// Kills Patroni and PostgreSQL of a node, as a crash of its machine would.
    ///
    /// # Errors
    ///
    /// The operating system does not let us.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        let node = &mut self.nodes[node];
        // Patroni is killed first, because it would start PostgreSQL again.
        if let Some(mut process) = node.process.take() {
            process.kill(&node.folder)?;
        }
        match node.server() {
            Some(id) => node.folder.signal("KILL", &[id]),
            None => Ok(()),
        }
    }

    /// Restarts a node that was killed, and returns when it follows the leader.
    ///
    /// # Errors
    ///
    /// The node does not start or follow. The message has its log.
    pub fn rejoin(&mut self, node: usize) -> Result<()> {
        let patroni = programs::find("patroni").ok_or_else(|| Error::new("no 'patroni'"))?;
        self.run(node, &patroni)?;
        self.wait_until_whole().map(drop)
    }

    /// Freezes a whole node until [`thaw`](Self::thaw), as a host does that pauses a virtual machine: Patroni,
    /// PostgreSQL's first process and the processes of its connections stop together, and continue together.
    ///
    /// # Errors
    ///
    /// The operating system does not let us.
    pub fn freeze(&self, node: usize) -> Result<()> {
        self.signal(node, "STOP")
    }

    /// Freezes PostgreSQL of a node, as a disk does that does not answer, and the whole node five seconds later, until
    /// [`thaw`](Self::thaw). A leader's Patroni has then read who leads, waits for PostgreSQL's answer, and renews the
    /// lease when it continues.
    ///
    /// # Errors
    ///
    /// The operating system does not let us.
    pub fn stall(&self, node: usize) -> Result<()> {
        let server: Vec<_> = self.nodes[node].server().into_iter().collect();
        self.nodes[node].folder.signal("STOP", &server)?;
        // This is longer than `loop_wait`.
        std::thread::sleep(Duration::from_secs(5));
        self.freeze(node)
    }

    /// Lets a frozen node run again.
    ///
    /// # Errors
    ///
    /// The operating system does not let us.
    pub fn thaw(&self, node: usize) -> Result<()> {
        self.signal(node, "CONT")
    }

    /// Cuts a node off from etcd, until [`reconnect`](Self::reconnect). Clients and other nodes still reach it.
    pub fn cut_off(&self, node: usize) {
        // No process listens on port 1.
        self.nodes[node].lease.forward_to(1);
        self.nodes[node].lease.cut();
    }

    /// Ends [`cut_off`](Self::cut_off).
    pub fn reconnect(&self, node: usize) {
        self.nodes[node].lease.forward_to(self.nodes[node].etcd);
    }

    /// Waits until a node other than this one is the leader, and returns it. Does not ask this one, which may be frozen
    /// or may still take itself for the leader.
    ///
    /// # Errors
    ///
    /// No leader is elected. The message has the logs.
    pub fn wait_for_other_leader(&self, than: usize) -> Result<usize> {
        self.wait_for(PATIENCE, |cluster| {
            (0..NODES).find(|node| *node != than && cluster.nodes[*node].answers("/primary"))
        })
    }

    /// Waits until one node is the leader and all others follow it, and returns the leader. A node that does not follow
    /// within a minute gets a new copy of the leader, as an operator would do with `patronictl reinit`: a standby that
    /// has received more than the elected leader may be unable to follow it.
    ///
    /// # Errors
    ///
    /// There is no leader, or a node does not follow it. The message has the logs.
    pub fn wait_until_whole(&self) -> Result<usize> {
        let leader_of_whole = |cluster: &Self| {
            let followers = cluster.nodes.iter().filter(|node| node.answers("/replica?lag=1MB")).count();
            cluster.leader().filter(|_| followers == NODES - 1)
        };
        if let Ok(leader) = self.wait_for(ALONE, leader_of_whole) {
            return Ok(leader);
        }
        for node in self.nodes.iter().filter(|node| !node.serves()) {
            // Patroni refuses this as long as there is no leader. The node is then waited for as it is.
            let _ = request(node.api, "POST", "/reinitialize", r#"{"force": true}"#);
        }
        self.wait_for(PATIENCE, leader_of_whole)
    }

    /// Waits until a follower can be elected if the leader is lost. With synchronous replication, this is only the
    /// follower that the leader has chosen as its synchronous standby.
    ///
    /// # Errors
    ///
    /// The leader chooses none within half a minute. The message has the logs.
    pub fn wait_until_replaceable(&self) -> Result<()> {
        let is_chosen = |cluster: &Self| cluster.nodes.iter().any(|node| node.answers("/synchronous"));
        self.wait_for(CHOICE, |cluster| (!cluster.is_synchronous() || is_chosen(cluster)).then_some(()))
    }

    fn is_synchronous(&self) -> bool {
        self.replication == Replication::Synchronous
    }

    fn run(&mut self, number: usize, patroni: &Path) -> Result<()> {
        let node = &mut self.nodes[number];
        let api = node.api;
        let arguments = [node.folder.path().join("patroni.yml").to_string_lossy().into_owned()];
        let ready = |_| TcpStream::connect(("127.0.0.1", api)).is_ok();
        node.process = Some(Process::start(&node.folder, patroni, &arguments, LOG, ready)?);
        Ok(())
    }

    fn signal(&self, node: usize, name: &str) -> Result<()> {
        let node = &self.nodes[node];
        let ids: Vec<_> = node.process.iter().map(Process::id).chain(node.server()).collect();
        node.folder.signal(name, &ids)
    }

    /// Waits until there is what `find` looks for, for at most the time `most`.
    fn wait_for<T>(&self, most: Duration, find: impl Fn(&Self) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = find(self) {
                return Ok(found);
            }
            if start.elapsed() > most {
                let logs: Vec<_> = self.nodes.iter().map(|node| node.folder.tail(LOG)).collect();
                return Err(Error::new(format!("not within {most:?}:\n{}", logs.join("\n\n"))));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn uri_of(&self, node: usize, database: &str) -> String {
        format!("postgresql://{NAME}:{}@127.0.0.1:{}/{database}", self.password, self.nodes[node].port)
    }

    /// Returns the configuration of a node's Patroni.
    ///
    /// - Its times are shorter than the defaults (30, 10 and 10 seconds), so that more leaders are elected in a run. As
    ///   Patroni's documents require, `loop_wait` and twice `retry_timeout` are together not longer than `ttl`: a leader
    ///   that does not reach etcd then stops PostgreSQL before its lease ends.
    /// - With `synchronous_mode` alone, a leader without a standby acknowledges commits that only it has. With
    ///   `synchronous_mode_strict` it waits for a standby.
    /// - `failsafe_mode` is off, as by default: a leader that does not reach etcd steps down.
    /// - `maximum_lag_on_failover` counts only without `synchronous_mode`. With it, only the leader and the standby that
    ///   has all acknowledged commits can be elected.
    /// - A node whose log does not fit the leader's is copied again, without waiting for a checkpoint of minutes.
    /// - There is no watchdog. A leader that was frozen is therefore a second primary until its Patroni has asked etcd
    ///   who leads. Its commits wait for a standby that follows another leader, but it answers reads.
    /// - The lease is safe only with Patroni 3.0.3 or newer: with the API of etcd 3, older versions let a leader whose
    ///   lease has ended overwrite the lease of the next one.
    fn configuration(&self, number: usize, node: &PatroniNode, programs: &Path) -> String {
        let is_synchronous = self.is_synchronous();
        let PatroniNode { port, api, lease, folder, .. } = node;
        let (password, folder, programs, lease) =
            (&self.password, folder.path().display(), programs.display(), lease.port());
        format!(
            "scope: scratchbook
name: node{number}
restapi: {{listen: '127.0.0.1:{api}', connect_address: '127.0.0.1:{api}'}}
etcd3: {{hosts: ['127.0.0.1:{lease}'], use_proxies: true}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 4
    retry_timeout: 5
    maximum_lag_on_failover: 1048576
    synchronous_mode: {is_synchronous}
    synchronous_mode_strict: {is_synchronous}
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 300, dynamic_shared_memory_type: mmap}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, data-checksums]
  pg_hba: ['host replication all 127.0.0.1/32 scram-sha-256', 'host all all 127.0.0.1/32 scram-sha-256']
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: '{folder}/data'
  bin_dir: '{programs}'
  pgpass: '{folder}/pgpass'
  basebackup: [{{checkpoint: fast}}]
  remove_data_directory_on_diverged_timelines: true
  remove_data_directory_on_rewind_failure: true
  authentication:
    superuser: {{username: {NAME}, password: '{password}'}}
    replication: {{username: replicator, password: '{password}'}}
    rewind: {{username: rewinder, password: '{password}'}}
  parameters: {{unix_socket_directories: '{folder}', password_encryption: scram-sha-256}}
"
        )
    }
}

impl PatroniNode {
    fn set_up(number: usize, etcd: u16) -> Result<Self> {
        let folder =
            Folder::new(&format!("scratchbook-pt{number}-"), ServerAccount::unprivileged(&["postgres", "nobody"])?)?;
        let (port, api, lease) = (port::free()?, port::free()?, Proxy::start(etcd)?);
        Ok(Self { process: None, port, api, lease, etcd, folder })
    }

    /// Returns whether the node's server is the leader or follows it.
    fn serves(&self) -> bool {
        self.answers("/primary") || self.answers("/replica")
    }

    /// Returns whether Patroni answers a request with 200. A frozen Patroni does not answer.
    fn answers(&self, path: &str) -> bool {
        request(self.api, "GET", path, "")
            .is_ok_and(|answer| answer.lines().next().is_some_and(|line| line.contains(" 200")))
    }

    /// Returns the process id of the node's PostgreSQL server, which is not a child process of Patroni.
    fn server(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.folder.path().join("data/postmaster.pid")).ok()?;
        text.lines().next()?.trim().parse().ok()
    }
}

impl Etcd {
    fn start(program: &Path) -> Result<Self> {
        let folder = Folder::new("scratchbook-etcd-", ServerAccount::unprivileged(&["etcd", "postgres", "nobody"])?)?;
        let (port, peers) = (port::free()?, port::free()?);
        let (clients, peers) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
        let arguments = [
            "--data-dir=data".to_owned(),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
        ];
        // Patroni cannot start before the cluster of this one server has agreed on its version.
        let ready = |_| request(port, "GET", "/version", "").is_ok_and(|answer| !answer.contains("not_decided"));
        let process = Process::start(&folder, program, &arguments, ETCD_LOG, ready)?;
        Ok(Self { port, _process: process, folder })
    }
}

/// Returns what a program says of its version.
fn version_of(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| Error::io(program.display(), &error))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the answer to an HTTP request, with its headers. Waits a second for each of its steps: a frozen process takes
/// no connections, and once its queue of them is full, connecting would take two minutes.
fn request(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
