//! Layers around the stores of [scratchbook](https://docs.rs/scratchbook). A layer is a service around another service,
//! for sessions or artifacts. Each is a feature of this crate: `encryption`, `compression`, `metrics` and `schema`.
//!
//! ```
//! use scratchbook_core::memory::InMemorySessionService;
//! use scratchbook_core::session::{CreateSessionConfig, SessionService};
//! use scratchbook_layers::compression::WithCompression;
//! use scratchbook_layers::encryption::WithEncryption;
//! use scratchbook_layers::keyring::Keyring;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook_core::error::Result<()> {
//! let keys = Keyring::new("2026-11", [7; 32])?;
//! let sessions = WithCompression::new(WithEncryption::new(InMemorySessionService::new(), keys));
//!
//! let config = CreateSessionConfig::default().with_state(json!({"user:diagnosis": "flu"}));
//! let session = sessions.create_session("clinic", "alice", config).await?;
//! assert_eq!(session.state().get("user:diagnosis"), Some(&json!("flu")));
//! # Ok(()) }
//! ```

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
