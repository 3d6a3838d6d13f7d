//! Three PostgreSQL servers under Patroni, which elects their leader by a lease in etcd.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::account::ServerAccount;
use crate::cluster::Replication;
use crate::folder::Folder;
use crate::process::Process;
use crate::{Error, Proxy, Result, client, port, programs};

const NODES: usize = 3;

/// The name of the superuser and of the database.
const NAME: &str = "scratchbook";

const LOG: &str = "patroni.log";

/// How long the cluster may take to elect a leader, or a node to join.
const PATIENCE: Duration = Duration::from_secs(180);

/// A cluster whose leader may be killed, frozen and cut off.
#[derive(Debug)]
pub struct Patroni {
    nodes: Vec<PatroniNode>,
    password: String,
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
    _folder: Folder,
}

impl Patroni {
    /// Starts the cluster, and returns when two nodes follow a leader. If replication is synchronous, the leader
    /// acknowledges a commit when one of these two nodes has it (`synchronous_mode`). This is not Patroni's default.
    ///
    /// # Errors
    ///
    /// A program is missing, or a node does not start. The message has the node's log.
    pub fn start(replication: Replication) -> Result<Self> {
        let missing = |name: &str| Error::new(format!("no '{name}' found; Debian: patroni and etcd-server"));
        let patroni = programs::find("patroni").ok_or_else(|| missing("patroni"))?;
        let etcd = Etcd::start(&programs::find("etcd").ok_or_else(|| missing("etcd"))?)?;
        let postgres = programs::postgres().ok_or_else(|| missing("postgres"))?;
        let mut cluster = Self { nodes: Vec::new(), password: format!("{:016x}", port::random()), etcd };
        for number in 0..NODES {
            let node = PatroniNode::set_up(number, cluster.etcd.port)?;
            node.folder.write("patroni.yml", &cluster.configuration(number, &node, &postgres, replication))?;
            cluster.nodes.push(node);
            cluster.run(number, &patroni)?;
            // The first one becomes the leader, and the others copy it.
            cluster.wait_for(|cluster| Ok((0..=number).all(|node| cluster.nodes[node].serves())))?;
        }
        client::psql(&postgres.join("psql"), &cluster.uri_of(0, "postgres"), &format!("CREATE DATABASE {NAME}"))?;
        // No other node can become the leader before it follows this one.
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// Returns the address of the cluster, as a URI that names all nodes and asks for the node that takes writes.
    pub fn uri(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let (password, hosts) = (&self.password, hosts.join(","));
        format!("postgresql://{NAME}:{password}@{hosts}/{NAME}?target_session_attrs=read-write")
    }

    /// Returns the node that has the lease, if a node has it.
    pub fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.answers("/primary"))
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
            Some(id) => node.folder.signal("KILL", id),
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
        self.wait_until_whole()
    }

    /// Freezes Patroni and PostgreSQL of a node, until [`thaw`](Self::thaw).
    ///
    /// # Errors
    ///
    /// The operating system does not let us.
    pub fn freeze(&self, node: usize) -> Result<()> {
        self.signal(node, "STOP")
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

    /// Waits until a node other than this one is the leader.
    ///
    /// # Errors
    ///
    /// No leader is elected. The message has the logs.
    pub fn wait_for_other_leader(&self, than: usize) -> Result<()> {
        self.wait_for(|cluster| Ok(cluster.leader().is_some_and(|leader| leader != than)))
    }

    /// Waits until one node is the leader and all others follow it.
    ///
    /// # Errors
    ///
    /// There is no leader, or a node does not follow it. The message has the logs.
    pub fn wait_until_whole(&self) -> Result<()> {
        self.wait_for(|cluster| {
            let followers = cluster.nodes.iter().filter(|node| node.answers("/replica?lag=1MB")).count();
            Ok(cluster.leader().is_some() && followers == NODES - 1)
        })
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
        let ids = node.process.iter().map(Process::id).chain(node.server());
        ids.into_iter().try_for_each(|id| node.folder.signal(name, id))
    }

    fn wait_for(&self, condition: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !condition(self)? {
            if start.elapsed() > PATIENCE {
                let logs: Vec<_> = self.nodes.iter().map(|node| node.folder.tail(LOG)).collect();
                return Err(Error::new(format!("not within {PATIENCE:?}:\n{}", logs.join("\n\n"))));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn uri_of(&self, node: usize, database: &str) -> String {
        format!("postgresql://{NAME}:{}@127.0.0.1:{}/{database}", self.password, self.nodes[node].port)
    }

    /// Returns the configuration of a node's Patroni. Its times are shorter than the defaults (30, 10 and 10 seconds),
    /// so that more leaders are elected in a run.
    fn configuration(&self, number: usize, node: &PatroniNode, programs: &Path, replication: Replication) -> String {
        let is_synchronous = replication == Replication::Synchronous;
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
        get(self.api, path).is_ok_and(|answer| answer.lines().next().is_some_and(|line| line.contains(" 200")))
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
        let ready = |_| get(port, "/version").is_ok_and(|answer| !answer.contains("not_decided"));
        let process = Process::start(&folder, program, &arguments, "etcd.log", ready)?;
        Ok(Self { port, _process: process, _folder: folder })
    }
}

/// Returns the answer to an HTTP request, with its headers.
fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
