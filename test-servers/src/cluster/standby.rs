//! A PostgreSQL primary with a standby. The standby can take over, as often as a test wants.

use std::time::{Duration, Instant};

use crate::{Error, Postgres, PostgresOptions, Result};

/// How long the standby may take until it has the same data as the primary.
const PATIENCE: Duration = Duration::from_secs(60);

/// The setting that names the standbys for which the primary waits.
const STANDBYS: &str = "synchronous_standby_names";

/// When the primary acknowledges a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// When reads on the standby show the commit (`synchronous_commit = remote_apply`). While the standby is down, the
    /// primary acknowledges nothing.
    Synchronous,
    /// When the primary itself has the commit. This is PostgreSQL's default.
    Asynchronous,
}

/// A primary and its standby. If they are killed, they keep their data on the disk.
#[derive(Debug)]
pub struct StandbyPair {
    primary: Postgres,
    standby: Postgres,
    replication: Replication,
}

impl StandbyPair {
    /// Starts both servers with synchronous replication, and returns when the primary waits for the standby.
    ///
    /// # Errors
    ///
    /// The errors of [`Postgres::start`].
    pub fn start() -> Result<Self> {
        Self::start_with(Replication::Synchronous)
    }

    /// Starts both servers, and returns when the standby follows.
    ///
    /// # Errors
    ///
    /// The errors of [`Postgres::start`].
    pub fn start_with(replication: Replication) -> Result<Self> {
        let primary = Postgres::start(&settings(replication))?;
        let standby = primary.start_standby(&settings(replication))?;
        let pair = Self { primary, standby, replication };
        pair.wait_until_it_follows()?;
        Ok(pair)
    }

    /// Returns the server that takes writes.
    pub fn primary(&self) -> &Postgres {
        &self.primary
    }

    /// Returns the server that follows. It has the same user, password and database as the primary.
    pub fn standby(&self) -> &Postgres {
        &self.standby
    }

    /// Makes the standby take writes, and returns when it does. The primary has to be dead already.
    ///
    /// # Errors
    ///
    /// The standby does not run, or is no longer a standby.
    pub fn promote(&self) -> Result<()> {
        self.standby.promote()
    }

    /// Kills the primary and makes the standby take writes in its place.
    ///
    /// # Errors
    ///
    /// The standby does not run.
    pub fn fail_over(&self) -> Result<()> {
        self.primary.kill()?;
        self.promote()
    }

    /// Makes the promoted standby the primary, starts a new standby for it, and returns when the new standby follows.
    ///
    /// # Errors
    ///
    /// The errors of [`Postgres::start`].
    pub fn replace_primary(&mut self) -> Result<()> {
        let standby = self.standby.start_standby(&settings(self.replication))?;
        self.primary = std::mem::replace(&mut self.standby, standby);
        self.wait_until_it_follows()
    }

    /// Waits until the standby follows a primary that was started again.
    ///
    /// # Errors
    ///
    /// It does not follow within a minute. The message has its log.
    pub fn wait_until_it_streams(&self) -> Result<()> {
        self.wait_for("SELECT state = 'streaming' FROM pg_stat_replication")
    }

    /// Waits until the standby follows. From then on, a primary with synchronous replication waits for it.
    fn wait_until_it_follows(&self) -> Result<()> {
        self.wait_until_it_streams()?;
        if self.replication == Replication::Synchronous {
            self.primary.set(STANDBYS, "*")?;
            self.wait_for("SELECT sync_state = 'sync' FROM pg_stat_replication")?;
            // The end of the log that was written before the primary began to wait.
            let end = self.primary.ask("SELECT pg_current_wal_lsn()")?;
            self.wait_for(&format!("SELECT replay_lsn >= '{end}' FROM pg_stat_replication"))?;
        }
        Ok(())
    }

    fn wait_for(&self, condition: &str) -> Result<()> {
        let start = Instant::now();
        while self.primary.ask(condition)? != "t" {
            if start.elapsed() > PATIENCE {
                let log = self.standby.log();
                return Err(Error::new(format!("the standby does not follow after {PATIENCE:?}:\n{log}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Returns the settings of each server. A server waits for a standby only after one follows. It keeps its log, because a
/// standby that was away could not follow without it.
fn settings(replication: Replication) -> PostgresOptions {
    let options = PostgresOptions::default().with_setting(STANDBYS, "").with_setting("wal_keep_size", "2GB");
    match replication {
        Replication::Synchronous => options.with_setting("synchronous_commit", "remote_apply"),
        Replication::Asynchronous => options,
    }
}
