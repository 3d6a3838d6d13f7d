//! Layers around the stores of [scratchbook](https://docs.rs/scratchbook): what a service needs a key, a codec or a schema
//! for. Each is a service around a service, and a feature of this crate.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "encryption", feature = "compression"))]
pub mod codec;
#[cfg(feature = "compression")]
pub mod compression;
#[cfg(feature = "encryption")]
pub mod encryption;
#[cfg(feature = "encryption")]
pub mod keyring;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "encryption")]
mod reseal;
#[cfg(feature = "schema")]
pub mod schema;
