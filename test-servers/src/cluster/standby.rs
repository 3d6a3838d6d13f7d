//! A PostgreSQL primary with a standby, which can take over again and again.

use std::time::{Duration, Instant};

use crate::{Error, Postgres, PostgresOptions, Result};

/// How long the standby may take to have what the primary has.
const PATIENCE: Duration = Duration::from_secs(60);

/// The setting that names the standbys for which the primary waits.
const STANDBYS: &str = "synchronous_standby_names";

/// When the primary acknowledges a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// When the standby shows it (`synchronous_commit = remote_apply`). While the standby is down, the primary
    /// acknowledges nothing.
    Synchronous,
    /// When the primary itself has it. This is PostgreSQL's default.
    Asynchronous,
}

/// A primary and its standby, both of which keep on their disks what they have when they are killed.
#[derive(Debug)]
pub struct StandbyPair {
    primary: Postgres,
    standby: Postgres,
    replication: Replication,
}

impl StandbyPair {
    /// Starts both with synchronous replication; returns when the primary waits for the standby.
    ///
    /// # Errors
    ///
    /// What [`Postgres::start`] fails with.
    pub fn start() -> Result<Self> {
        Self::start_with(Replication::Synchronous)
    }

    /// Starts both; returns when the standby follows.
    ///
    /// # Errors
    ///
    /// What [`Postgres::start`] fails with.
    pub fn start_with(replication: Replication) -> Result<Self> {
        let primary = Postgres::start(&settings(replication))?;
        let standby = primary.start_standby(&settings(replication))?;
        let pair = Self { primary, standby, replication };
        pair.wait_until_it_follows()?;
        Ok(pair)
    }

    /// The server that is written to.
    pub fn primary(&self) -> &Postgres {
        &self.primary
    }

    /// The server that follows, with the same name, password and database as the primary.
    pub fn standby(&self) -> &Postgres {
        &self.standby
    }

    /// Makes the standby take writes; returns when it does. The primary has to be dead by then.
    ///
    /// # Errors
    ///
    /// The standby does not run, or is a standby no longer.
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

    /// Gives the standby that has taken over a standby of its own, in the place of the dead primary; returns when that
    /// one follows.
    ///
    /// # Errors
    ///
    /// What [`Postgres::start`] fails with.
    pub fn replace_primary(&mut self) -> Result<()> {
        let standby = self.standby.start_standby(&settings(self.replication))?;
        self.primary = std::mem::replace(&mut self.standby, standby);
        self.wait_until_it_follows()
    }

    /// Waits until the standby follows. From then on, a primary with synchronous replication waits for it.
    fn wait_until_it_follows(&self) -> Result<()> {
        self.wait_for("SELECT state = 'streaming' FROM pg_stat_replication")?;
        if self.replication == Replication::Synchronous {
            self.primary.set(STANDBYS, "*")?;
            self.wait_for("SELECT sync_state = 'sync' FROM pg_stat_replication")?;
            // What was committed before the primary began to wait.
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

/// The settings of each server. Neither waits for a standby until one follows.
fn settings(replication: Replication) -> PostgresOptions {
    let options = PostgresOptions::default().with_setting(STANDBYS, "");
    match replication {
        Replication::Synchronous => options.with_setting("synchronous_commit", "remote_apply"),
        Replication::Asynchronous => options,
    }
}
