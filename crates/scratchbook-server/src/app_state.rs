//! The state of the app, which every handler shares. Layers and lower modules get their parts of the state through
//! `FromRef`.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use scratchbook::environment::Environment;
use scratchbook::session::Watches;
use scratchbook::{SessionService, Store};

use crate::access::Access;
use crate::activity::RecentCounts;
use crate::answers::{Budget, PAGE_BYTES};
use crate::apps::Apps;
use crate::bodies::{BodyMemory, BodyState};
use crate::heavy::Heavy;
use crate::limits::{Lanes, Rates, ServerLimits, Streams};
use crate::listen::{Certificates, Closing};
use crate::runs::Runs;
use crate::spans::Spans;
use crate::store_probe::StoreProbe;
use crate::surface::Surface;

/// The state of the app. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct AppState(Arc<AppStateParts>);

/// The parts of the state.
#[derive(Debug)]
pub(crate) struct AppStateParts {
    pub(crate) store: Store,
    pub(crate) probe: StoreProbe,
    /// Watches of the store's sessions. The watches share their reads of the store.
    pub(crate) watches: Watches<Arc<dyn SessionService>>,
    pub(crate) apps: Apps,
    pub(crate) access: Access,
    pub(crate) limits: Arc<ServerLimits>,
    pub(crate) rates: Option<Arc<Rates>>,
    /// Permits for requests in progress.
    pub(crate) lanes: Arc<Lanes>,
    /// The memory for bodies.
    pub(crate) room: Arc<BodyMemory>,
    /// The threads that work on large bodies.
    pub(crate) heavy: Heavy,
    pub(crate) streams: Arc<Streams>,
    /// `None` without TLS.
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) closing: Closing,
    pub(crate) runs: Runs,
    pub(crate) environment: Arc<dyn Environment>,
    /// The surfaces that are served.
    pub(crate) surfaces: Arc<[Surface]>,
    /// Whether the inspector is served.
    pub(crate) has_inspector: bool,
    /// The spans of runs.
    pub(crate) spans: Arc<Spans>,
    /// What the inspector shows of the last half hour.
    pub(crate) activity: Arc<RecentCounts>,
    /// The memory for answers.
    pub(crate) answers: Budget,
}

impl AppState {
    pub(crate) fn new(parts: AppStateParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for AppState {
    type Target = AppStateParts;

    fn deref(&self) -> &AppStateParts {
        &self.0
    }
}

impl AppStateParts {
    /// Returns the size, in bytes, of the pages in which the data of an answer is read.
    pub(crate) fn page_bytes(&self) -> u64 {
        PAGE_BYTES.min(self.limits.answer_bytes as u64)
    }
}

impl FromRef<AppState> for BodyState {
    fn from_ref(state: &AppState) -> Self {
        Self { limits: Arc::clone(&state.limits), room: Arc::clone(&state.room), heavy: state.heavy.clone() }
    }
}

/// Makes fields of the state available to extractors by their types.
macro_rules! from_state {
    ($($field:ident: $part:ty,)+) => {
        $(impl FromRef<AppState> for $part {
            fn from_ref(state: &AppState) -> Self {
                state.$field.clone()
            }
        })+
    };
}

from_state! {
    probe: StoreProbe,
    access: Access,
    limits: Arc<ServerLimits>,
    rates: Option<Arc<Rates>>,
    lanes: Arc<Lanes>,
    streams: Arc<Streams>,
    closing: Closing,
    environment: Arc<dyn Environment>,
    surfaces: Arc<[Surface]>,
    answers: Budget,
}
