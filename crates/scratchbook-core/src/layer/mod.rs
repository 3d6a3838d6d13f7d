//! Layers: services that wrap another service and add a feature that stores need not know about.
//!
//! Each layer names the methods that it forwards, so that a new method of a trait is not forgotten.

pub mod deadline;
mod read_only;
mod secret_keys;

pub use deadline::WithDeadline;
pub use read_only::ReadOnly;
pub use secret_keys::WithSecretKeys;
