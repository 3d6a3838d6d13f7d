//! Checks the store by reading a session that does not exist. Used by `/health/ready`, and by requests for data that
//! the caller may not read.

use std::sync::Arc;

use scratchbook::{ErrorKind, GetSessionConfig, Result, SessionKey, SessionService};

/// Probes a store's sessions.
#[derive(Clone, Debug)]
pub(crate) struct StoreProbe {
    sessions: Arc<dyn SessionService>,
}

impl StoreProbe {
    pub(crate) fn new(sessions: Arc<dyn SessionService>) -> Self {
        Self { sessions }
    }

    /// Checks that the store answers and commits writes. Returns what does not work although it answers.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    pub(crate) async fn check(&self) -> Result<Vec<String>> {
        self.read_missing_session().await?;
        self.sessions.check_writable().await
    }

    /// Reads a session that does not exist. The read uses a connection and the tables, and takes almost no time. The
    /// names in its key are valid in every store.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    pub(crate) async fn read_missing_session(&self) -> Result<()> {
        let missing = SessionKey::new("nobody", "nobody", "nobody")?;
        match self.sessions.get_session(&missing, &GetSessionConfig::default()).await {
            // A remote store that refuses the name of the app has answered.
            Err(error) if matches!(error.public_kind(), ErrorKind::InvalidArgument | ErrorKind::NotFound) => Ok(()),
            read => read.map(drop),
        }
    }
}
