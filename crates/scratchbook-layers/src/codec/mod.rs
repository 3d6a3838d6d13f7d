//! The common part of the layers that store values, events and artifacts in an encoded form.
//!
//! An encoding turns bytes into other bytes and back ([`Codec`]). This module does everything else: it selects the data
//! to encode, distinguishes encoded values from a caller's own, recognizes retries, and applies operations to values
//! that the store cannot read.

mod append;
mod artifact;
mod check;
mod create;
mod event;
mod location;
mod metadata;
mod open;
mod permits;
mod put;
mod replay;
mod service;
mod text;

use std::fmt;
use std::sync::Arc;

use self::permits::WritePermits;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::Result;
use scratchbook_core::plan::limits::Limits;

#[doc(hidden)]
pub use self::location::Location;
#[doc(hidden)]
pub use self::text::Encoded;
#[cfg(feature = "encryption")]
pub(crate) use self::text::marked;

/// An encoding of bytes.
pub trait Codec: fmt::Debug + Send + Sync + 'static {
    /// The beginning of every encoded text. A caller's text that begins like this is always encoded.
    const MARK: &'static str;
    /// The field of an event that contains its encoded part.
    const FIELD: &'static str;
    /// The MIME type of encoded artifacts.
    const MIME_TYPE: &'static str;
    /// Whether every title and label is encoded. If so, the store cannot search for them.
    const OF_METADATA: bool;
    /// Whether the encoding detects changes made outside of the layer. Such an encoding covers an event's time, so the
    /// layer, and not the store, sets a missing time.
    const BINDS: bool;

    /// Returns whether this many bytes are to be encoded.
    fn wants(&self, bytes: usize) -> bool;

    /// Returns whether the encoded form is used, given both lengths.
    fn keeps(&self, given: usize, encoded: usize) -> bool;

    /// Encodes bytes and binds them to their location. Equal bytes with the same salt at the same location have the same
    /// encoded form.
    ///
    /// # Errors
    ///
    /// `Internal`.
    fn encode(&self, plain: &[u8], location: &Location<'_>, salt: &[u8]) -> Result<Encoded>;

    /// Decodes bytes.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` if the bytes were not encoded for this location; `FailedPrecondition` if a key needed to decode
    /// them is missing.
    fn decode(&self, encoded: &Encoded, location: &Location<'_>) -> Result<Vec<u8>>;

    /// Accepts or refuses unencoded data that is stored at a location.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` if unencoded data is not allowed.
    fn check_plain(&self, location: &Location<'_>) -> Result<()>;
}

/// A layer that encodes values, events and artifacts. `WithEncryption` and `WithCompression` are this layer with an
/// encoding.
#[derive(Clone, Debug)]
pub struct Coded<S, C> {
    pub(super) service: S,
    pub(super) coder: Arc<Coder<C>>,
    limits: Limits,
    environment: Arc<dyn Environment>,
    permits: WritePermits,
}

/// Returns the limits of this layer. The number of events is left to the store.
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
            permits: WritePermits::new(),
        }
    }

    /// Sets the limits on unencoded data, in bytes of JSON. The limits of the store apply to the encoded form, and
    /// to the number of keys and events.
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

    /// Sets the clock and the source of ids.
    #[must_use]
    pub fn with_environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }
}

/// Encodes and decodes everything that has a location.
#[derive(Debug)]
pub(crate) struct Coder<C>(pub(crate) C);
