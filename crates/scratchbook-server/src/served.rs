//! What every handler is given.

use std::sync::Arc;

use scratchbook::{Environment, Store};

use crate::access::Access;
use crate::apps::Apps;
use crate::limits::{Rates, ServerLimits};
use crate::listen::{Certificates, Closing};
use crate::runs::Runs;

/// What is served, and to whom.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) store: Store,
    pub(crate) apps: Apps,
    pub(crate) access: Access,
    pub(crate) limits: ServerLimits,
    pub(crate) rates: Option<Rates>,
    /// `None` where TLS is not spoken.
    pub(crate) certificates: Option<Certificates>,
    pub(crate) closing: Closing,
    pub(crate) runs: Runs,
    pub(crate) environment: Arc<dyn Environment>,
}
