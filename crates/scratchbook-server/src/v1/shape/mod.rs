//! The JSON of requests and answers of `/v1`.

mod changes;
mod event;
mod feed;
mod session;
mod writer;

pub(super) use changes::{Conflict, Operations, SeenPositions};
pub(super) use event::{Given, StoredEventJson};
pub(super) use feed::{Cursor, FeedEntryJson};
pub(super) use session::SessionBody;
pub(super) use writer::{LogChange, Write, Writer};
