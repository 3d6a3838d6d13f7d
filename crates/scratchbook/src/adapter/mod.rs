//! Adapters: services around a service, which give its calls something that no store has to know of.
//!
//! Each goes through every method, so that one that is new in a trait is not forgotten.

#[cfg(any(feature = "encryption", feature = "compression"))]
mod codec;
#[cfg(feature = "compression")]
mod compression;
mod deadline;
#[cfg(feature = "encryption")]
mod encryption;
#[cfg(feature = "encryption")]
mod keyring;
mod metrics;
mod read_only;
#[cfg(feature = "encryption")]
mod reseal;
mod secret_keys;

#[cfg(any(feature = "encryption", feature = "compression"))]
pub use codec::Coded;
#[cfg(feature = "compression")]
pub use compression::WithCompression;
pub use deadline::WithDeadline;
#[cfg(feature = "encryption")]
pub use encryption::{PlainValues, WithEncryption, sealed_by, sealed_limits};
#[cfg(feature = "encryption")]
pub use keyring::Keyring;
pub use metrics::WithMetrics;
pub use read_only::ReadOnly;
pub use secret_keys::WithSecretKeys;
