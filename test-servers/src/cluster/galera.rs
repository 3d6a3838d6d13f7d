//! Three MariaDB servers in a Galera cluster.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Error, MariaDb, MySqlOptions, Result, port};

const NODES: usize = 3;

/// How long a node may take until it has the same data as the others.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where packages install Galera.
const PROVIDERS: [&str; 3] =
    ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib/libgalera_smm.so"];

/// A cluster of three nodes. Each node takes reads and writes. If it is killed, it keeps what it has acknowledged.
#[derive(Debug)]
pub struct Galera {
    nodes: Vec<MariaDb>,
}

/// The ports on which one node talks to the others.
struct Ports {
    server: u16,
    group: u16,
    changes: u16,
    state: u16,
}

impl Galera {
    /// Starts the nodes, and returns when each of them takes writes.
    ///
    /// # Errors
    ///
    /// There is no Galera, or a node does not start or join; the message has its log.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts the nodes with further lines in their configuration, such as `wsrep_sync_wait = 7`.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start), also if the server does not know one of the lines.
    pub fn start_with(lines: &[&str]) -> Result<Self> {
        let provider = PROVIDERS.into_iter().find(|path| Path::new(path).is_file());
        let provider =
            provider.ok_or_else(|| Error::new("no Galera (libgalera_smm.so); Debian: galera-4 and rsync"))?;
        let password = format!("{:016x}", port::random());
        let ports = ports()?;
        let group: Vec<String> = ports.iter().map(|ports| format!("127.0.0.1:{}", ports.group)).collect();
        let mut cluster = Self { nodes: Vec::new() };
        for (number, ports) in ports.iter().enumerate() {
            let options = options(number, ports, provider, &group.join(","));
            let options = lines.iter().copied().fold(options, MySqlOptions::with_line);
            let node = MariaDb::set_up(ports.server, password.clone(), &options)?;
            match number {
                0 => node.start_first(&["--wsrep-new-cluster".into()])?,
                _ => node.run(&[])?,
            }
            cluster.nodes.push(node);
            cluster.wait_until_ready(number)?;
        }
        Ok(cluster)
    }

    /// Returns the nodes, including dead ones.
    pub fn nodes(&self) -> &[MariaDb] {
        &self.nodes
    }

    /// Returns how many nodes this node sees, including itself.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub fn size_seen_by(&self, node: usize) -> Result<usize> {
        let text = self.status(node, "wsrep_cluster_size")?;
        text.parse().map_err(|_| Error::new(format!("a size of '{text}'")))
    }

    /// Returns whether a node has the same data as the others, and takes reads and writes.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub fn is_ready(&self, node: usize) -> Result<bool> {
        Ok(self.status(node, "wsrep_ready")? == "ON" && self.status(node, "wsrep_local_state_comment")? == "Synced")
    }

    /// Restarts a node that was killed or stopped, and returns when it takes writes.
    ///
    /// # Errors
    ///
    /// It does not start or join; the message has its log.
    pub fn rejoin(&self, node: usize) -> Result<()> {
        let server = self.node(node)?;
        // The position of its last transaction. Without this position, the node would fetch all data again.
        let position = server.recover_position()?;
        server.run(&[format!("--wsrep-start-position={position}")])?;
        self.wait_until_ready(node)
    }

    fn wait_until_ready(&self, node: usize) -> Result<()> {
        let start = Instant::now();
        loop {
            let ready = self.is_ready(node);
            if let Ok(true) = ready {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                let why = ready.map_or_else(|error| error.to_string(), |_| "it is not synchronized".into());
                let log = self.node(node)?.log();
                return Err(Error::new(format!("node {node} did not join within {PATIENCE:?}: {why}\n{log}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn status(&self, node: usize, name: &str) -> Result<String> {
        let row = self.node(node)?.ask(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
        Ok(row.split('\t').nth(1).unwrap_or_default().to_owned())
    }

    fn node(&self, node: usize) -> Result<&MariaDb> {
        self.nodes.get(node).ok_or_else(|| Error::new(format!("there is no node {node}; they count from 0")))
    }
}

/// Returns ports that are all different.
fn ports() -> Result<Vec<Ports>> {
    let mut all = std::collections::BTreeSet::new();
    while all.len() < 4 * NODES {
        all.insert(port::free()?);
    }
    let all: Vec<u16> = all.into_iter().collect();
    let of_node = |p: &[u16]| Ports { server: p[0], group: p[1], changes: p[2], state: p[3] };
    Ok(all.chunks_exact(4).map(of_node).collect())
}

fn options(number: usize, ports: &Ports, provider: &str, group: &str) -> MySqlOptions {
    let Ports { server, group: own, changes, state } = ports;
    let lines = [
        "binlog_format = ROW".to_owned(),
        "innodb_autoinc_lock_mode = 2".to_owned(),
        "wsrep_on = ON".to_owned(),
        format!("wsrep_provider = {provider}"),
        "wsrep_cluster_name = scratchbook".to_owned(),
        format!("wsrep_cluster_address = gcomm://{group}"),
        format!("wsrep_node_name = node{number}"),
        format!("wsrep_node_address = 127.0.0.1:{own}"),
        format!("wsrep_node_incoming_address = 127.0.0.1:{server}"),
        "wsrep_sst_method = rsync".to_owned(),
        format!("wsrep_sst_receive_address = 127.0.0.1:{state}"),
        // The others notice a killed node after 2 s; the default is 5 s.
        format!(
            "wsrep_provider_options = \"gmcast.listen_addr=tcp://127.0.0.1:{own};ist.recv_addr=127.0.0.1:{changes};\
             evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT5S\""
        ),
    ];
    lines.into_iter().fold(MySqlOptions::default(), MySqlOptions::with_line)
}
