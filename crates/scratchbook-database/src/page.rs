//! Pages with a limit in bytes. Only the database knows which items fit, so a read requests a number of items. If these
//! have more bytes than a page, the read stops, and fewer items are requested.

use std::future::Future;

use super::failure::{Idempotency, retry};
use super::{Attempt, Backend, CommitFate, DatabaseSessionService, Failure};
use scratchbook_core::error::{ErrorKind, Result};
use scratchbook_core::plan::room::too_much;
use scratchbook_core::session::{SessionService, StateBytes, StateOwner};

/// The maximum size of a single item of a page.
const ONE_ITEM: u64 = 64 << 20;

/// How many bytes of rows a statement can return.
#[derive(Clone, Copy, Debug)]
pub struct RowRoom {
    /// The limit for the rows of a page's items.
    items: u64,
    /// The limit for all other rows, such as those of state that is read whole.
    state: u64,
}

impl RowRoom {
    /// Any number of items, with a state that may be read whole.
    #[doc(hidden)]
    pub const WHOLE: Self = Self { items: u64::MAX, state: StateBytes::MAX };

    /// Returns the room for a page of this many items. A single item may be larger than a page.
    fn of(limit: usize, page_bytes: u64) -> Self {
        if limit > 1 { Self { items: page_bytes, ..Self::WHOLE } } else { Self { items: ONE_ITEM, ..Self::WHOLE } }
    }

    /// Removes the limit if only one item is requested: the limits of a commit restrict the size of a single item.
    pub(super) fn or_one(self, limit: usize) -> Self {
        if limit > 1 { self } else { Self::WHOLE }
    }

    /// Limits the items to the size of state that is read whole, because they are state themselves.
    pub(super) fn of_states(self) -> Self {
        Self { items: self.items.min(StateBytes::MAX), ..self }
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
        let left = if is_of_item { &mut self.left.items } else { &mut self.left.state };
        let Some(rest) = left.checked_sub(bytes) else {
            return Err(Failure { fate: CommitFate::TooMuch { rows: self.rows }, error: too_much() });
        };
        *left = rest;
        self.rows += 1;
        Ok(())
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

    /// Returns the result of a read of state. If it was too large, the error says which scope has how many bytes now.
    pub(super) async fn sized<T>(&self, owner: &StateOwner, session_id: Option<&str>, read: Result<T>) -> Result<T> {
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::PayloadTooLarge) {
            self.state_bytes(owner, session_id).await?.check()?;
        }
        read
    }
}
