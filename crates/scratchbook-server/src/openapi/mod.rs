//! Schemas and parameters that the parts of the OpenAPI document share: events, paths and streams.

mod event;
pub(crate) mod path;
mod refusal;
mod stream;

pub(crate) use event::{EventSchema, StateValues};
pub(crate) use refusal::refusal;
pub(crate) use stream::StreamEvent;
