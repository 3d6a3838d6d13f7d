//! A PostgreSQL primary with a standby that has applied every commit before it is acknowledged.

use std::time::{Duration, Instant};

use crate::{Error, Postgres, PostgresOptions, Result};

/// How long the standby may take to have what the primary has.
const PATIENCE: Duration = Duration::from_secs(60);

/// A primary and its synchronous standby, both of which keep what they have acknowledged when they are killed.
///
/// The primary acknowledges a commit when the standby shows it (`synchronous_commit = remote_apply`), so it
/// acknowledges nothing while the standby is down.
#[derive(Debug)]
pub struct StandbyPair {
    primary: Postgres,
    standby: Postgres,
}

impl StandbyPair {
    /// Starts both; returns when the primary waits for the standby.
    ///
    /// # Errors
    ///
    /// What [`Postgres::start`] fails with.
    pub fn start() -> Result<Self> {
        let settings = PostgresOptions::default().with_setting("synchronous_commit", "remote_apply");
        let primary = Postgres::start(&settings.clone().with_setting("synchronous_standby_names", "*"))?;
        // Once promoted it has no standby of its own to wait for.
        let standby = primary.start_standby(&settings.with_setting("synchronous_standby_names", ""))?;
        let pair = Self { primary, standby };
        pair.wait_until_synchronous()?;
        Ok(pair)
    }

    /// The server that is written to at first.
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

    fn wait_until_synchronous(&self) -> Result<()> {
        let start = Instant::now();
        // Until the standby has reported what it has, it counts for nothing.
        while self.primary.ask("SELECT sync_state FROM pg_stat_replication")? != "sync" {
            if start.elapsed() > PATIENCE {
                let log = self.standby.log();
                return Err(Error::new(format!("the standby does not follow after {PATIENCE:?}:\n{log}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
