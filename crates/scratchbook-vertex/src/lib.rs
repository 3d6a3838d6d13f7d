//! Sessions and events in the JSON of Google's Agent Engine Sessions API (Vertex AI): for surfaces and clients of it.
//!
//! It is proto-JSON: names go out in camelCase and come in as camelCase or snake_case, `null` is as good as absent, and a
//! name that is not known is refused. Nothing here knows of HTTP or of a store.

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
