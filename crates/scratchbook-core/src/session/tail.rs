//! What several watches of one thing read together: each page once, for all of them.
//!
//! A watch that has read to the end takes a seat. Of those in their seats one reads on, and the others are given what it
//! has read. One that falls far behind loses its seat, reads for itself, and takes one again when it has caught up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::commits::Moment;
use super::{FeedCursor, FeedEntry};

/// How much is kept for those who are slow to take it: pages, and entries in them.
const PAGES: usize = 32;
const ENTRIES: usize = 400;

/// How long the end of a feed counts as such without another look. No notice reports what goes with time alone, such as a
/// session that expires.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The end of a feed, as those who follow it know it.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Held by the watch that reads.
    pub(super) reading: tokio::sync::Mutex<()>,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    /// The number of the first that is kept.
    first: u64,
    kept: VecDeque<Page>,
    /// How many have taken all pages.
    at_end: usize,
    /// Where reading goes on; `None` before anybody had a seat.
    end: Option<FeedCursor>,
    /// All that was heard of until then is in the pages, and when it was looked.
    until: Option<(Moment, Instant)>,
}

#[derive(Debug)]
struct Page {
    entries: Arc<[FeedEntry]>,
    end: FeedCursor,
    /// How many have still to take it.
    waiting: usize,
}

impl Tail {
    /// Whether all that was heard of until a moment was read; then the place where reading goes on.
    pub(super) fn end_at(&self, heard: &Moment) -> Option<FeedCursor> {
        let pages = self.pages();
        let covers = |(until, looked): &(Moment, Instant)| until.covers(heard) && looked.elapsed() < LOOK_AGAIN;
        pages.end.clone().filter(|_| pages.until.as_ref().is_some_and(covers))
    }

    /// Where reading goes on, if anybody has a seat.
    pub(super) fn end(&self) -> Option<FeedCursor> {
        let pages = self.pages();
        let is_followed = pages.at_end > 0 || !pages.kept.is_empty();
        pages.end.clone().filter(|_| is_followed)
    }

    /// Everything that was heard of until a moment was read, and reading goes on here.
    pub(super) fn set_end(&self, end: FeedCursor, until: Moment) {
        let mut pages = self.pages();
        pages.end = Some(end);
        pages.until = Some((until, Instant::now()));
    }

    /// Keeps a page for all who wait at the end. If it was the last one of all that was heard of until a moment, that is
    /// said.
    pub(super) fn push(&self, entries: Vec<FeedEntry>, end: FeedCursor, until: Option<Moment>) {
        let mut pages = self.pages();
        let waiting = std::mem::take(&mut pages.at_end);
        pages.kept.push_back(Page { entries: entries.into(), end: end.clone(), waiting });
        pages.end = Some(end);
        pages.until = until.map(|until| (until, Instant::now()));
        pages.trim();
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// Drops what all have taken, and what is too much.
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

    /// How many wait for a page, the one after the last included.
    fn waiting(&mut self, number: u64) -> Option<&mut usize> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        match self.kept.len() {
            count if index == count => Some(&mut self.at_end),
            _ => self.kept.get_mut(index).map(|page| &mut page.waiting),
        }
    }
}

/// A watch among those who read together.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) tail: Arc<Tail>,
    /// The number of the page that it takes next; `None` for one that reads for itself.
    next: Option<u64>,
}

impl Seat {
    pub(super) fn new(tail: Arc<Tail>) -> Self {
        Self { tail, next: None }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.next.is_some()
    }

    /// Takes a seat at the end of what was read, which has to be the place where this one has read to.
    pub(super) fn sit(&mut self) {
        let mut pages = self.tail.pages();
        pages.at_end += 1;
        self.next = Some(pages.first + pages.kept.len() as u64);
    }

    /// Takes a seat if this is a place that the others have come by.
    pub(super) fn sit_at(&mut self, place: &FeedCursor) -> bool {
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

    /// The next page, if somebody has read it. One that is not kept any more costs the seat.
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

impl Drop for Seat {
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
