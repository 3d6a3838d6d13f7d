//! Layers around the stores of [scratchbook](https://docs.rs/scratchbook). A layer is a service around another
//! service; each is a feature of this crate: `encryption`, `compression`, `metrics` and `schema`.

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
