//! Schemas and parameters that the parts of the OpenAPI document share: events, paths and streams.

mod event;
pub(crate) mod path;
mod stream;

pub(crate) use event::{EventSchema, StateValues};
pub(crate) use stream::StreamEvent;
