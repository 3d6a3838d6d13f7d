//! Everything that needs more than one module: the promises of every store, the models, the wire.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[macro_use]
mod stores;

mod conformance;
mod generate;
mod model;
mod overlay;
mod wire;
