//! The core of [scratchbook](https://docs.rs/scratchbook): sessions, events, state and its scopes, the traits of stores,
//! and a store in memory.
//!
//! Programs use the crate `scratchbook`, which shows all of this under the same names. This crate is for those who write
//! a store: implement [`SessionService`](session::SessionService) and, if it keeps artifacts,
//! [`ArtifactService`](artifact::ArtifactService), by carrying out the descriptions of [`plan`], and hold the store to the
//! promises of `scratchbook-conformance`.

pub mod artifact;
pub mod content;
pub mod environment;
pub mod error;
pub mod event;
pub mod extra;
pub mod json;
pub mod layer;
pub mod memory;
pub mod plan;
pub mod session;
pub mod state;
pub mod store;
