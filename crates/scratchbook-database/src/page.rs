//! Pages with a limit in bytes. Only the database knows which items fit, so a read requests a number of items. If these
//! have more bytes than a page, the read stops, and fewer items are requested.

use std::future::Future;

use super::failure::{Idempotency, retry};
use super::{Attempt, Backend, CommitFate, DatabaseSessionService, Failure};
use scratchbook_core::error::Result;
use scratchbook_core::plan::room::{MOST_AT_ONCE, too_much};

/// How many bytes of rows a statement can return.
#[derive(Clone, Copy, Debug)]
pub struct RowRoom {
    /// The limit for the rows of a page's items.
    items: u64,
    /// The limit for all rows.
    all: u64,
}

impl RowRoom {
    /// No limit.
    #[doc(hidden)]
    pub const ANY: Self = Self { items: u64::MAX, all: u64::MAX };

    /// Returns the room for a page of this many items. A single item may be larger than a page, up to the limit for all
    /// rows.
    fn of(limit: usize, page_bytes: u64) -> Self {
        match limit {
            0 | 1 => Self { items: u64::MAX, all: MOST_AT_ONCE },
            _ => Self { items: page_bytes, all: page_bytes.saturating_add(MOST_AT_ONCE) },
        }
    }

    /// Removes the limit if only one item is requested: the limits of a commit restrict the size of a single item.
    pub(super) fn or_one(self, limit: usize) -> Self {
        if limit > 1 { self } else { Self::ANY }
    }
}

/// Counts the bytes of a statement's rows as they arrive.
#[derive(Debug)]
#[doc(hidden)]
pub struct RowCount {
    left: RowRoom,
    rows: usize,
}

impl RowCount {
    #[doc(hidden)]
    pub fn new(room: RowRoom) -> Self {
        Self { left: room, rows: 0 }
    }

    /// Counts a row of this many bytes.
    ///
    /// # Errors
    ///
    /// `CommitFate::TooMuch` if the row does not fit: the remaining rows need not be read.
    #[doc(hidden)]
    pub fn take(&mut self, bytes: u64, is_of_item: bool) -> Attempt<()> {
        let of_items = if is_of_item { bytes } else { 0 };
        match (self.left.items.checked_sub(of_items), self.left.all.checked_sub(bytes)) {
            (Some(items), Some(all)) => {
                self.left = RowRoom { items, all };
                self.rows += 1;
                Ok(())
            }
            _ => Err(Failure { fate: CommitFate::TooMuch { rows: self.rows }, error: too_much() }),
        }
    }
}

impl<D: Backend> DatabaseSessionService<D> {
    /// Reads a page of at most `limit` items and about this many bytes.
    pub(super) async fn read_page<T, F: Future<Output = Attempt<T>>>(
        &self,
        limit: usize,
        page_bytes: u64,
        mut read: impl FnMut(usize, RowRoom) -> F,
    ) -> Result<T> {
        let _pass = self.gate.enter()?;
        let mut limit = limit;
        loop {
            let room = RowRoom::of(limit, page_bytes);
            match retry(self.options.retry_timeout, Idempotency::Idempotent, || read(limit, room)).await {
                Err(Failure { fate: CommitFate::TooMuch { rows }, .. }) if limit > 1 => {
                    // Each item has at least one row, and some rows belong to no item.
                    limit = rows.saturating_sub(1).min(limit / 4).max(1);
                }
                done => return done.map_err(|failure| failure.error),
            }
        }
    }
}
