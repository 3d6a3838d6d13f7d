//! Sessions and events in the JSON of Google's Agent Engine Sessions API (Vertex AI), for servers and clients of that
//! API.
//!
//! The JSON is proto-JSON: names are written in camelCase and read as camelCase or snake_case, `null` means absent, and
//! unknown names are refused. The conversions here are independent of HTTP and of stores; the feature `client` adds a
//! store that keeps its sessions behind this API.
//!
//! ```
//! use scratchbook_core::event::Event;
//! use scratchbook_vertex::{event_from_json, event_to_json};
//! use serde_json::json;
//!
//! let event: Event = event_from_json(json!({
//!     "author": "user", "invocationId": "i1", "timestamp": "2026-11-20T17:10:22Z",
//! }))?;
//! let sent = event_to_json(&event, "projects/P/locations/L/reasoningEngines/E/sessions/S/events/1")?;
//! assert_eq!(sent["author"], "user");
//! # Ok::<(), scratchbook_core::error::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "client")]
pub mod client;
mod content;
mod custom;
mod event;
mod message;
mod session;
mod time;

#[cfg(feature = "client")]
pub(crate) use event::{check_sent, exact};
pub use event::{event_from_json, event_from_server, event_to_json, mark_brought};
pub use session::SessionResource;
pub use time::{duration_from_text, seconds_from_timestamp, timestamp_from_seconds};
