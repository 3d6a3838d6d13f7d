//! Pages of a feed that several watches share: each page is read once, for all of them.
//!
//! A watch that has read to the end joins the shared reads. One of the joined watches reads on and gives the others
//! what it has read. A watch that falls far behind reads for itself, and joins again when it has caught up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::notices::NoticeTime;
use super::{FeedCursor, FeedEntry};

/// The maximum numbers of pages and of entries that are kept for slow watches.
const PAGES: usize = 32;
const ENTRIES: usize = 400;

/// The maximum time between two reads at the end of a feed. Without notices the feed is read again, too, because
/// changes that happen only because time passes, such as the expiry of a session, send no notice.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The end of a feed, shared by its watches.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Held by the watch that reads.
    pub(super) reading: tokio::sync::Mutex<()>,
    pages: Mutex<TailPages>,
}

#[derive(Debug, Default)]
struct TailPages {
    /// The number of the first page that is kept.
    first: u64,
    kept: VecDeque<TailPage>,
    /// The number of readers that have taken all pages.
    at_end: usize,
    /// Where reading continues; `None` before the first reader joins.
    end: Option<FeedCursor>,
    /// The pages contain everything that was announced by notices up to this time. The `Instant` is the time of the
    /// read.
    until: Option<(NoticeTime, Instant)>,
}

#[derive(Debug)]
struct TailPage {
    entries: Arc<[FeedEntry]>,
    end: FeedCursor,
    /// The number of readers that have not taken it yet.
    waiting: usize,
}

impl Tail {
    /// Returns where reading continues, if all commits announced up to a time were read.
    pub(super) fn end_at(&self, until_now: &NoticeTime) -> Option<FeedCursor> {
        let pages = self.pages();
        let covers =
            |(until, read_at): &(NoticeTime, Instant)| until.covers(until_now) && read_at.elapsed() < LOOK_AGAIN;
        pages.end.clone().filter(|_| pages.until.as_ref().is_some_and(covers))
    }

    /// Returns where reading continues, if a reader has joined.
    pub(super) fn end(&self) -> Option<FeedCursor> {
        let pages = self.pages();
        let is_followed = pages.at_end > 0 || !pages.kept.is_empty();
        pages.end.clone().filter(|_| is_followed)
    }

    /// Records that all commits announced up to a time were read, and where reading continues.
    pub(super) fn set_end(&self, end: FeedCursor, until: NoticeTime) {
        let mut pages = self.pages();
        pages.end = Some(end);
        pages.until = Some((until, Instant::now()));
    }

    /// Keeps a page for all watches that wait at the end. `until` is set if, with this page, all commits announced up
    /// to that time were read.
    pub(super) fn push(&self, entries: Vec<FeedEntry>, end: FeedCursor, until: Option<NoticeTime>) {
        let mut pages = self.pages();
        let waiting = std::mem::take(&mut pages.at_end);
        pages.kept.push_back(TailPage { entries: entries.into(), end: end.clone(), waiting });
        pages.end = Some(end);
        pages.until = until.map(|until| (until, Instant::now()));
        pages.trim();
    }

    fn pages(&self) -> MutexGuard<'_, TailPages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TailPages {
    /// Drops pages that all readers have taken, and pages above the limits.
    fn trim(&mut self) {
        let mut entries: usize = self.kept.iter().map(|page| page.entries.len()).sum();
        while let Some(page) = self.kept.front() {
            let is_too_much = self.kept.len() > 1 && (self.kept.len() > PAGES || entries > ENTRIES);
            if page.waiting > 0 && !is_too_much {
                return;
            }
            entries -= page.entries.len();
            self.kept.pop_front();
            self.first += 1;
        }
    }

    /// Returns the number of readers that wait for a page. The page may be the next page, which has not been read yet.
    fn waiting(&mut self, number: u64) -> Option<&mut usize> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        match self.kept.len() {
            count if index == count => Some(&mut self.at_end),
            _ => self.kept.get_mut(index).map(|page| &mut page.waiting),
        }
    }
}

/// A watch's access to pages shared with others.
#[derive(Debug)]
pub(super) struct TailReader {
    pub(super) tail: Arc<Tail>,
    /// The number of the next page to take; `None` if the watch reads for itself.
    next: Option<u64>,
}

impl TailReader {
    pub(super) fn new(tail: Arc<Tail>) -> Self {
        Self { tail, next: None }
    }

    pub(super) fn is_joined(&self) -> bool {
        self.next.is_some()
    }

    /// Joins at the end of the shared pages. This watch has to have read up to the same position.
    pub(super) fn join(&mut self) {
        let mut pages = self.tail.pages();
        pages.at_end += 1;
        self.next = Some(pages.first + pages.kept.len() as u64);
    }

    /// Joins if one of the shared pages ends at this position; returns whether it does.
    pub(super) fn join_at(&mut self, place: &FeedCursor) -> bool {
        let mut pages = self.tail.pages();
        let next = match &pages.end {
            Some(end) if end == place => Some(pages.kept.len()),
            _ => pages.kept.iter().position(|page| page.end == *place).map(|index| index + 1),
        };
        let next = next.map(|index| pages.first + index as u64);
        if let Some(waiting) = next.and_then(|next| pages.waiting(next)) {
            *waiting += 1;
        }
        drop(pages);
        self.next = next;
        next.is_some()
    }

    /// Returns the next page, if it has been read. If that page is no longer kept, the watch reads for itself again.
    pub(super) fn take(&mut self) -> Option<(Arc<[FeedEntry]>, FeedCursor)> {
        let number = self.next?;
        let mut pages = self.tail.pages();
        if number < pages.first {
            self.next = None;
            return None;
        }
        let index = usize::try_from(number - pages.first).ok()?;
        let page = pages.kept.get_mut(index)?;
        page.waiting -= 1;
        let taken = (Arc::clone(&page.entries), page.end.clone());
        if let Some(waiting) = pages.waiting(number + 1) {
            *waiting += 1;
        }
        pages.trim();
        drop(pages);
        self.next = Some(number + 1);
        Some(taken)
    }
}

impl Drop for TailReader {
    fn drop(&mut self) {
        if let Some(number) = self.next {
            let mut pages = self.tail.pages();
            if let Some(waiting) = pages.waiting(number) {
                *waiting -= 1;
            }
            pages.trim();
        }
    }
}
