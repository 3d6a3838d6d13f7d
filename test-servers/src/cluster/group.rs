//! MySQL servers in a Group Replication with one primary.

use std::time::{Duration, Instant};

use crate::{Error, MySql, MySqlOptions, Result, port};

/// How long a member may take until it has joined, and the group until it has a primary.
const PATIENCE: Duration = Duration::from_secs(120);

/// A group of MySQL servers. One of them, the primary, takes writes. If it dies, the others elect another one, as long
/// as more than half of the members live.
#[derive(Debug)]
pub struct GroupReplication {
    members: Vec<MySql>,
}

impl GroupReplication {
    /// Starts a group of this many members, and returns when all have joined. The first is the primary.
    ///
    /// # Errors
    ///
    /// There is no MySQL, or a member does not start or join; the message has its log.
    pub fn start(size: usize) -> Result<Self> {
        let password = format!("{:016x}", port::random());
        let mut ports = std::collections::BTreeSet::new();
        while ports.len() < 2 * size {
            ports.insert(port::free()?);
        }
        let ports: Vec<u16> = ports.into_iter().collect();
        let seeds: Vec<String> = ports[size..].iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut group = Self { members: Vec::new() };
        for (number, seed) in seeds.iter().enumerate() {
            let options = options(number, ports[number], seed, &seeds.join(","));
            let member = MySql::set_up(ports[number], password.clone(), &options)?;
            member.start_first(&[])?;
            member.ask(&format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'scratchbook', SOURCE_PASSWORD = '{password}'
                FOR CHANNEL 'group_replication_recovery'"
            ))?;
            member.ask(match number {
                0 => {
                    "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION;
                    SET GLOBAL group_replication_bootstrap_group = OFF"
                }
                _ => "START GROUP_REPLICATION",
            })?;
            group.members.push(member);
            group.wait_until_online(number)?;
        }
        Ok(group)
    }

    /// Returns the members, including dead ones.
    pub fn members(&self) -> &[MySql] {
        &self.members
    }

    /// Returns the number of the member that is the primary according to this living member; `None` while there is
    /// none.
    ///
    /// # Errors
    ///
    /// The member does not answer.
    pub fn primary_seen_by(&self, member: usize) -> Result<Option<usize>> {
        let sql = "SELECT MEMBER_PORT FROM performance_schema.replication_group_members
            WHERE MEMBER_ROLE = 'PRIMARY' AND MEMBER_STATE = 'ONLINE'";
        let port = self.member(member)?.ask(sql)?;
        Ok(self.members.iter().position(|member| member.port().to_string() == port))
    }

    /// Waits until this living member sees another primary than `before`, and returns it.
    ///
    /// # Errors
    ///
    /// There is no other primary within two minutes.
    pub fn wait_for_other_primary(&self, member: usize, before: usize) -> Result<usize> {
        let start = Instant::now();
        loop {
            match self.primary_seen_by(member) {
                Ok(Some(primary)) if primary != before => return Ok(primary),
                seen if start.elapsed() > PATIENCE => {
                    return Err(Error::new(format!("no other primary within {PATIENCE:?}: {seen:?}")));
                }
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Restarts a member that was killed, and returns when it has joined the group again.
    ///
    /// # Errors
    ///
    /// It does not start or join; the message has its log.
    pub fn rejoin(&self, member: usize) -> Result<()> {
        let server = self.member(member)?;
        server.restart()?;
        server.ask("START GROUP_REPLICATION")?;
        self.wait_until_online(member)
    }

    /// Lets a living member go on as the whole group, after most of the others have died, so that no majority is left.
    ///
    /// # Errors
    ///
    /// The member does not go on within two minutes.
    pub fn go_on_alone(&self, member: usize) -> Result<()> {
        let server = self.member(member)?;
        let own = server.ask("SELECT @@group_replication_local_address")?;
        let start = Instant::now();
        // The member refuses this until it has noticed that the others are dead.
        while let Err(error) = server.ask(&format!("SET GLOBAL group_replication_force_members = '{own}'")) {
            if start.elapsed() > PATIENCE {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        server.ask("SET GLOBAL group_replication_force_members = ''").map(drop)
    }

    fn wait_until_online(&self, member: usize) -> Result<()> {
        let server = self.member(member)?;
        let sql =
            "SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid";
        let start = Instant::now();
        loop {
            let state = server.ask(sql)?;
            if state == "ONLINE" {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(Error::new(format!("member {member} is {state} after {PATIENCE:?}:\n{}", server.log())));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn member(&self, member: usize) -> Result<&MySql> {
        self.members.get(member).ok_or_else(|| Error::new(format!("there is no member {member}; they count from 0")))
    }
}

fn options(number: usize, port: u16, own: &str, seeds: &str) -> MySqlOptions {
    let lines = [
        format!("server_id = {}", number + 1),
        "gtid_mode = ON".to_owned(),
        "enforce_gtid_consistency = ON".to_owned(),
        "performance_schema = ON".to_owned(),
        "plugin_load_add = group_replication.so".to_owned(),
        "report_host = 127.0.0.1".to_owned(),
        format!("report_port = {port}"),
        "loose_group_replication_group_name = 7b6f6e0c-4f0e-4d27-9c0c-5f6c3f3f9a11".to_owned(),
        "loose_group_replication_start_on_boot = OFF".to_owned(),
        format!("loose_group_replication_local_address = {own}"),
        format!("loose_group_replication_group_seeds = {seeds}"),
        // A new member gets the public key by which it encrypts its password.
        "loose_group_replication_recovery_get_public_key = ON".to_owned(),
        // A member that is suspected to be dead leaves the group at once; the default is after 5 s more.
        "loose_group_replication_member_expel_timeout = 0".to_owned(),
    ];
    lines.into_iter().fold(MySqlOptions::default(), MySqlOptions::with_line)
}
