//! Pages of events, with a limit of events and of bytes.

use std::sync::Arc;

use scratchbook::json::bytes_of;
use scratchbook::{Error, Event, GetSessionConfig, Result, SessionKey};

use super::sessions::found;
use super::times::Times;
use crate::app_state::AppState;

/// How many events one read takes, at first and at most.
const FIRST_LOOK: usize = 16;
const LOOK: usize = 1000;
/// The number of bytes of one read after which the next one takes fewer events.
const LOOK_BYTES: u64 = 1 << 20;
/// How often a store is asked for one page, and for how many events. If nothing was found by then, the page is empty and
/// another follows.
const MOST_LOOKS: usize = 1000;
const MOST_EVENTS: usize = 100_000;
/// How many of the last events are read to find those after a time: at first, and if they are not enough.
const RECENT: [usize; 2] = [128, LOOK];
/// The most bytes of the events in a page. A single event may have more.
const PAGE_BYTES: u64 = 4 << 20;

/// Which events come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Oldest,
    Newest,
}

impl Order {
    pub(super) fn new(text: Option<&str>) -> Result<Self> {
        let mut words = text.unwrap_or_default().split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None | Some("timestamp"), None | Some("asc"), None) => Ok(Self::Oldest),
            (Some("timestamp"), Some("desc"), None) => Ok(Self::Newest),
            _ => {
                let text = text.unwrap_or_default();
                Err(Error::invalid(format!(
                    "orderBy is {text:?}; events are in the order of timestamp, or timestamp desc"
                )))
            }
        }
    }

    /// A number before the first event.
    pub(super) fn begin(self) -> u64 {
        match self {
            Self::Oldest => 0,
            Self::Newest => u64::MAX,
        }
    }

    /// Whether an event comes after the one with a number.
    fn is_after(self, seq: u64, event: &Event) -> bool {
        event.seq.is_some_and(|other| match self {
            Self::Oldest => other > seq,
            Self::Newest => other < seq,
        })
    }
}

/// The search for the events of a page.
pub(super) struct EventList<'a> {
    pub(super) app_state: &'a AppState,
    pub(super) key: &'a SessionKey,
    pub(super) order: Order,
    pub(super) times: Times,
    /// The number of the event that the page comes after.
    pub(super) after: u64,
    pub(super) size: usize,
}

/// A page while it is filled.
#[derive(Default)]
struct Page {
    events: Vec<Arc<Event>>,
    bytes: u64,
}

/// The result of one read.
struct Reading {
    events: Vec<Arc<Event>>,
    /// Whether no events follow. There may be fewer than were asked for although others follow.
    is_last: bool,
}

/// The events of a page, and the number after which the next one begins, if there is one.
type EventPage = (Vec<Arc<Event>>, Option<u64>);

impl EventList<'_> {
    /// Reads the page. It is empty only if there are no events: Google's clients for Python fail on other empty pages.
    pub(super) async fn read(&self) -> Result<EventPage> {
        let (mut page, mut after, mut seen) = (Page::default(), self.after, 0);
        let mut limit = FIRST_LOOK.min(self.size + 1);
        for look in 0..MOST_LOOKS {
            let Reading { events, is_last } = self.look(after, limit).await?;
            let (count, before, mut bytes) = (events.len(), page.events.len(), 0);
            for event in events {
                let length = bytes_of(event.as_ref());
                bytes += length;
                if !self.times.has(&event) {
                    after = event.seq.unwrap_or(after);
                } else if self.has_room(&page, length) {
                    after = event.seq.unwrap_or(after);
                    page.push(event, length);
                } else {
                    return Ok(page.with_more());
                }
            }
            if is_last {
                return Ok((page.events, None));
            }
            seen += count;
            if seen >= MOST_EVENTS {
                break;
            }
            let are_all_wanted = page.events.len() - before == count;
            if look == 0
                && !are_all_wanted
                && let Some(events) = self.recent().await?
            {
                return self.first_of(events);
            }
            limit = if bytes > LOOK_BYTES { (limit / 4).max(1) } else { (limit * 4).min(LOOK) };
            if are_all_wanted {
                // Reads one more, to see whether another page follows.
                limit = limit.min(self.size + 1 - page.events.len());
            }
        }
        Ok((page.events, Some(after)))
    }

    fn has_room(&self, page: &Page, length: u64) -> bool {
        page.events.len() < self.size && (page.events.is_empty() || page.bytes + length <= PAGE_BYTES)
    }

    /// The page, from all matching events.
    fn first_of(&self, events: Vec<Arc<Event>>) -> Result<EventPage> {
        let mut page = Page::default();
        for event in events {
            let length = bytes_of(event.as_ref());
            if !self.has_room(&page, length) {
                return Ok(page.with_more());
            }
            page.push(event, length);
        }
        Ok((page.events, None))
    }

    /// All matching events, if they are few and the filter has a first time; stores find these from their end.
    async fn recent(&self) -> Result<Option<Vec<Arc<Event>>>> {
        let Some(begin) = self.times.begin() else { return Ok(None) };
        for count in RECENT {
            let config = GetSessionConfig::default().without_state().with_after_timestamp(begin);
            let bounded = config.clone().with_num_recent_events(count).with_page_bytes(LOOK_BYTES);
            let session = found(self.app_state, self.key, &bounded).await?;
            let len = session.events().len();
            if len < count {
                // The read may have ended at its limit of bytes: then there are earlier events.
                let one_more = found(self.app_state, self.key, &config.with_num_recent_events(len + 1)).await?;
                if one_more.events().len() > len {
                    break;
                }
                let is_wanted = |event: &&Arc<Event>| self.times.has(event) && self.order.is_after(self.after, event);
                let mut events: Vec<_> = session.events().iter().filter(is_wanted).cloned().collect();
                if self.order == Order::Newest {
                    events.reverse();
                }
                return Ok(Some(events));
            }
        }
        Ok(None)
    }

    /// Events after one with a number, in the order of the list.
    async fn look(&self, after: u64, limit: usize) -> Result<Reading> {
        let config = GetSessionConfig::default().without_state().with_page_bytes(self.app_state.page_bytes());
        let config = match self.order {
            Order::Oldest => config.with_events_after(after, limit),
            Order::Newest => config.with_events_before(after, limit),
        };
        let session = found(self.app_state, self.key, &config).await?;
        let mut events: Vec<_> = session.events().iter().cloned().collect();
        if self.order == Order::Newest {
            events.reverse();
        }
        let is_last = match (events.last().and_then(|event| event.seq), self.order, session.known_seq()) {
            (None, ..) => true,
            (Some(last), Order::Oldest, Some(seq)) => last >= seq,
            (Some(last), Order::Newest, _) => last <= 1,
            (_, Order::Oldest, None) => events.len() < limit,
        };
        Ok(Reading { events, is_last })
    }
}

impl Page {
    fn push(&mut self, event: Arc<Event>, length: u64) {
        self.bytes += length;
        self.events.push(event);
    }

    /// The page if another comes after its last event.
    fn with_more(self) -> EventPage {
        let last = self.events.last().and_then(|event| event.seq);
        (self.events, last)
    }
}
