//! What every handler is given.

use std::sync::Arc;

use scratchbook::{Environment, ErrorKind, GetSessionConfig, Result, SessionKey, SessionService, Store, Watches};

use crate::access::Access;
use crate::answers::{Budget, PAGE_BYTES};
use crate::apps::Apps;
use crate::bodies::Room;
use crate::document::Documents;
use crate::heavy::Heavy;
use crate::limits::{Lanes, Rates, ServerLimits, Streams};
use crate::listen::{Certificates, Closing};
use crate::operations::Readiness;
use crate::runs::Runs;
use crate::surfaces::Surface;

/// What is served, and to whom.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) store: Store,
    /// Watches of the store's sessions, which read together.
    pub(crate) watches: Watches<Arc<dyn SessionService>>,
    pub(crate) apps: Apps,
    pub(crate) access: Access,
    pub(crate) limits: ServerLimits,
    pub(crate) rates: Option<Rates>,
    /// The permits to be worked on.
    pub(crate) lanes: Lanes,
    /// The memory for bodies.
    pub(crate) room: Room,
    /// The threads that work on large bodies.
    pub(crate) heavy: Heavy,
    pub(crate) streams: Arc<Streams>,
    pub(crate) readiness: Readiness,
    /// `None` where TLS is not spoken.
    pub(crate) certificates: Option<Certificates>,
    pub(crate) closing: Closing,
    pub(crate) runs: Runs,
    pub(crate) environment: Arc<dyn Environment>,
    /// What is served of it.
    pub(crate) surfaces: Vec<Surface>,
    /// What describes it.
    pub(crate) documents: Documents,
    /// What all answers may have together.
    pub(crate) answers: Budget,
}

impl Served {
    /// How many bytes a page has that is read for an answer.
    pub(crate) fn page_bytes(&self) -> u64 {
        PAGE_BYTES.min(self.limits.answer_bytes as u64)
    }

    /// Whether the store answers, and carries writes out.
    pub(crate) async fn look_at_store(&self) -> Result<()> {
        self.look_for_nobody().await?;
        self.store.sessions.check_writable().await
    }

    /// Looks for a session that is not there: it takes a connection, the tables, and next to no time. Its names are such
    /// as every store takes.
    pub(crate) async fn look_for_nobody(&self) -> Result<()> {
        let nobody = SessionKey::new("nobody", "nobody", "nobody")?;
        match self.store.sessions.get_session(&nobody, &GetSessionConfig::default()).await {
            // A store that is another server's, which does not like the name of the app, does answer.
            Err(error) if matches!(error.public_kind(), ErrorKind::InvalidArgument | ErrorKind::NotFound) => Ok(()),
            read => read.map(drop),
        }
    }
}
