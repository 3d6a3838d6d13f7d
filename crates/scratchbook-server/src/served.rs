//! What every handler is given.

use std::sync::Arc;

use scratchbook::{Environment, Store};

use crate::access::Access;
use crate::apps::Apps;
use crate::runs::Runs;

/// What is served, and to whom.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) store: Store,
    pub(crate) apps: Apps,
    pub(crate) access: Access,
    pub(crate) runs: Runs,
    pub(crate) environment: Arc<dyn Environment>,
}
