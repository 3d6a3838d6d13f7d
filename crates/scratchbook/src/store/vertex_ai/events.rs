//! Events: which of them are read, page by page.

use google_cloud_aiplatform_v1::client::SessionService;

use super::failure::{Call, failure, is_not_found};
use super::message::read_event;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::session::{EventCursor, GetSessionConfig, micros_of_seconds, seconds_of_micros};
use crate::vertex::timestamp_from_seconds;

/// How many events are asked for at once: they are up to megabytes each.
const PAGE: usize = 100;

/// Which events of a session are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wanted {
    /// From the oldest on: leaving out some, then at most so many.
    Oldest { skip: usize, most: usize },
    /// The last so many of these.
    OldestThenLast { of: usize, last: usize },
    /// From the newest back, at most so many.
    Newest { most: usize },
}

/// Events that were read, each with its number where that is known.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) events: Vec<Event>,
    /// The number of the last event that was looked at.
    pub(super) last: Option<u64>,
}

impl Wanted {
    /// `None` for no events at all.
    pub(super) fn new(config: &GetSessionConfig) -> Option<Self> {
        let number = |seq: u64| usize::try_from(seq).unwrap_or(usize::MAX);
        let wanted = match (config.cursor, config.num_recent_events) {
            (Some(EventCursor::After { seq, limit }), _) => Self::Oldest { skip: number(seq), most: limit },
            // A page is found by where it is in the list, which the API has no number for.
            (Some(EventCursor::Before { seq, limit }), _) => {
                Self::OldestThenLast { of: number(seq).saturating_sub(1), last: limit }
            }
            (None, Some(most)) => Self::Newest { most },
            (None, None) => Self::Oldest { skip: 0, most: usize::MAX },
        };
        let is_none = matches!(
            wanted,
            Self::Oldest { most: 0, .. }
                | Self::Newest { most: 0 }
                | Self::OldestThenLast { of: 0, .. }
                | Self::OldestThenLast { last: 0, .. }
        );
        (!is_none).then_some(wanted)
    }
}

/// Reads events of a session, by its full name; `None` where it is not there.
pub(super) async fn read(
    client: &SessionService,
    session: &str,
    wanted: Wanted,
    since: Option<f64>,
) -> Result<Option<Found>> {
    let (most, order) = match wanted {
        Wanted::Oldest { skip, most } => (skip.saturating_add(most), ""),
        Wanted::OldestThenLast { of, .. } => (of, ""),
        Wanted::Newest { most } => (most, "timestamp desc"),
    };
    let list = List { client, session, order, since, most };
    let Some((mut events, is_all)) = list.all().await? else { return Ok(None) };
    if matches!(wanted, Wanted::Newest { .. }) {
        events.reverse();
    }
    // Where there may be others before these, nobody knows their numbers.
    let begins = !matches!(wanted, Wanted::Newest { .. }) || is_all;
    let last = (since.is_none() && begins).then_some(events.len() as u64);
    if last.is_some() {
        events.iter_mut().zip(1..).for_each(|(event, number)| event.seq = Some(number));
    }
    let skip = match wanted {
        Wanted::Oldest { skip, .. } => skip.min(events.len()),
        Wanted::OldestThenLast { last, .. } => events.len().saturating_sub(last),
        Wanted::Newest { .. } => 0,
    };
    events.drain(..skip);
    Ok(Some(Found { events, last }))
}

struct List<'a> {
    client: &'a SessionService,
    session: &'a str,
    order: &'static str,
    since: Option<f64>,
    most: usize,
}

impl List<'_> {
    /// At most as many as are wanted, and whether these are all there are.
    async fn all(&self) -> Result<Option<(Vec<Event>, bool)>> {
        // What the list has is to the microsecond, what is wanted to the bit.
        let from = self.since.map(|seconds| seconds_of_micros((micros_of_seconds(seconds) - 1).max(0)));
        let filter = from.map(|from| format!("timestamp>=\"{}\"", timestamp_from_seconds(from))).unwrap_or_default();
        let is_wanted =
            |event: &Event| self.since.is_none_or(|since| event.timestamp.is_some_and(|time| time >= since));
        let (mut events, mut token) = (Vec::new(), String::new());
        loop {
            let size = self.most.saturating_sub(events.len()).clamp(1, PAGE);
            let page = self.client.list_events().set_parent(self.session).set_filter(&filter).set_order_by(self.order);
            let page = page.set_page_size(i32::try_from(size).unwrap_or(i32::MAX)).set_page_token(&token);
            let page = match page.send().await {
                Ok(page) => page,
                Err(error) if is_not_found(&error) => return Ok(None),
                Err(error) => return Err(failure(&format!("list the events of {}", self.session), Call::Read, error)),
            };
            let read: Vec<_> = page.session_events.into_iter().map(read_event).collect::<Result<_>>()?;
            events.extend(read.into_iter().filter(is_wanted));
            let is_end = page.next_page_token.is_empty();
            if is_end || events.len() >= self.most {
                let is_all = is_end && events.len() <= self.most;
                events.truncate(self.most);
                return Ok(Some((events, is_all)));
            }
            if page.next_page_token == token {
                return Err(endless("events", self.session));
            }
            token = page.next_page_token;
        }
    }
}

/// The error for a list that goes on with itself.
fn endless(what: &str, of: &str) -> Error {
    Error::corrupted(format!("the list of {what} of {of} gives the page token it was asked with; it would not end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_is_read() {
        let all = GetSessionConfig::default();
        assert_eq!(Wanted::new(&all), Some(Wanted::Oldest { skip: 0, most: usize::MAX }));
        assert_eq!(Wanted::new(&all.clone().with_num_recent_events(3)), Some(Wanted::Newest { most: 3 }));
        assert_eq!(Wanted::new(&GetSessionConfig::state_only()), None);
        let after = all.clone().with_events_after(7, 2);
        assert_eq!(Wanted::new(&after), Some(Wanted::Oldest { skip: 7, most: 2 }));
        let before = all.clone().with_events_before(7, 2);
        assert_eq!(Wanted::new(&before), Some(Wanted::OldestThenLast { of: 6, last: 2 }));
        for nothing in
            [all.clone().with_events_before(1, 2), all.clone().with_events_before(0, 2), all.with_events_after(0, 0)]
        {
            assert_eq!(Wanted::new(&nothing), None);
        }
    }
}
