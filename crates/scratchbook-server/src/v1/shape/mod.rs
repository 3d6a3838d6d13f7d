//! What JSON of `/v1` looks like, both ways.

mod changes;
mod event;
mod feed;
mod session;
mod writer;

pub(super) use changes::{Conflict, Operations, Seen};
pub(super) use event::{Given, Stored};
pub(super) use feed::{Cursor, Entry};
pub(super) use session::SessionBody;
pub(super) use writer::{LogChange, Write, Writer};
