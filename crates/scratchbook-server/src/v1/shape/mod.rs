//! The JSON of requests and answers of `/v1`.

mod changes;
mod event;
mod feed;
mod session;
mod writer;

pub(super) use changes::{Conflict, Operations, SeenPositions};
pub(super) use event::{Given, Stored};
pub(super) use feed::{Cursor, Entry};
pub(super) use session::SessionBody;
pub(super) use writer::{LogChange, Write, Writer};
