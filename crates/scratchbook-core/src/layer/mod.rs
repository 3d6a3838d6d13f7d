//! Layers: services around a service, which give its calls something that no store has to know of.
//!
//! Each forwards every method, so that a method that is new in a trait is not forgotten.

pub mod deadline;
mod read_only;
mod secret_keys;

pub use deadline::WithDeadline;
pub use read_only::ReadOnly;
pub use secret_keys::WithSecretKeys;
