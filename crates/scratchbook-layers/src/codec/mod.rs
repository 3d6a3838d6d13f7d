//! What adapters have in common that keep values, events and artifacts in another form than they are given in.
//!
//! An encoding turns bytes into other bytes and back ([`Codec`]); everything else is here: what is encoded, how the
//! form is told from a value of a caller's, how retries stay known, and how operations are carried out on values that the
//! store cannot read.

mod append;
mod artifact;
mod check;
mod create;
mod event;
mod metadata;
mod open;
mod place;
mod put;
mod replay;
mod service;
mod text;
mod turns;

use std::fmt;
use std::sync::Arc;

use self::turns::Turns;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::Result;
use scratchbook_core::plan::limits::Limits;

#[doc(hidden)]
pub use self::place::Place;
#[doc(hidden)]
pub use self::text::Encoded;
#[cfg(feature = "encryption")]
pub(crate) use self::text::marked;

/// A form for bytes.
pub trait Codec: fmt::Debug + Send + Sync + 'static {
    /// How every text in this form begins. A caller's text that begins so is encoded whatever else is true of it.
    const MARK: &'static str;
    /// The field of an event that holds what is encoded of it.
    const FIELD: &'static str;
    /// The type of artifacts in this form.
    const MIME_TYPE: &'static str;
    /// Whether titles and labels have this form as well, however short they are. A store cannot look for them then.
    const OF_METADATA: bool;
    /// Whether the form tells what was changed outside. An event's time is a part of it then, so that one without a time
    /// is given it here and not by the store.
    const BINDS: bool;

    /// Whether so many bytes are to be encoded.
    fn wants(&self, bytes: usize) -> bool;

    /// Whether the form is used, where it is so long and what was given so long.
    fn keeps(&self, given: usize, encoded: usize) -> bool;

    /// The form, bound to its place. The same bytes with the same salt at the same place have the same form.
    ///
    /// # Errors
    ///
    /// `Internal`.
    fn encode(&self, plain: &[u8], place: &Place<'_>, salt: &[u8]) -> Result<Encoded>;

    /// What was encoded.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` where this was not made for this place; `FailedPrecondition` where something is lacking that is
    /// needed to read it.
    fn decode(&self, encoded: &Encoded, place: &Place<'_>) -> Result<Vec<u8>>;

    /// Accepts or refuses what is stored as it is at a place.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` where it is not to be read.
    fn check_plain(&self, place: &Place<'_>) -> Result<()>;
}

/// A service behind which values, events and artifacts have another form; `WithEncryption` and `WithCompression` are
/// made of it.
#[derive(Clone, Debug)]
pub struct Coded<S, C> {
    pub(super) service: S,
    pub(super) coder: Arc<Coder<C>>,
    limits: Limits,
    environment: Arc<dyn Environment>,
    turns: Turns,
}

/// The limits on what is given: how many events there may be is left to the store inside.
fn of_values(mut limits: Limits) -> Limits {
    limits.events_per_session = None;
    limits
}

impl<S, C: Codec> Coded<S, C> {
    pub(super) fn around(service: S, codec: C) -> Self {
        Self {
            service,
            coder: Arc::new(Coder(codec)),
            limits: of_values(Limits::default()),
            environment: Arc::new(SystemEnvironment),
            turns: Turns::new(),
        }
    }

    /// With other limits on what is given, in bytes of JSON before it is encoded. The limits of the store inside hold for
    /// the encoded form, and for the number of keys and events.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = of_values(limits);
        self.limits.keys_per_scope = u64::MAX;
        self
    }

    #[cfg(feature = "encryption")]
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// With a clock and ids of your own.
    #[must_use]
    pub fn with_environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }
}

/// Encodes and decodes everything that has a place.
#[derive(Debug)]
pub(crate) struct Coder<C>(pub(crate) C);
