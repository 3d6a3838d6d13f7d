//! Checks that the feed has each commit once, in an order that explains what each commit found.

use std::collections::{HashMap, HashSet};

use scratchbook::SessionKey;

use crate::client::{CommittedEvent, FeedEvent};

/// Compares the feed with the appends that were answered, and returns what is wrong with the feed.
///
/// Each event of the feed has the lists that it changed, with all their elements. So the order of the feed explains the
/// commits if and only if each list has exactly one more element than in the last event before that changed the list.
pub(super) fn violations<'f>(
    feed: impl IntoIterator<Item = &'f FeedEvent>,
    committed: &[(SessionKey, String, CommittedEvent)],
) -> Vec<String> {
    let mut violations = Vec::new();
    let (mut seqs, mut lists) = (HashMap::new(), HashMap::<_, &[u64]>::new());
    let mut ids = HashMap::new();
    for event in feed {
        let FeedEvent { session, seq, event_id, .. } = event;
        let last = seqs.insert(session, *seq).unwrap_or(0);
        if *seq != last + 1 {
            violations.push(format!("the feed has event {seq} of {session} after event {last}"));
        }
        if ids.insert(event_id, event).is_some() {
            violations.push(format!("the feed has the event {event_id} twice"));
        }
        for (key, elements) in &event.lists {
            let before = lists.insert((owner_of(session, key), key), elements).unwrap_or_default();
            if elements.split_last().is_none_or(|(_, rest)| rest != before) {
                violations.push(format!("by the feed, {event_id} of {session} made {key} {elements:?} of {before:?}"));
            }
        }
    }
    for (session, event_id, stored) in committed {
        match ids.get(event_id) {
            None => violations.push(format!("the feed lacks the event {event_id} of {session}")),
            Some(event) if (event.seq, &event.lists) != (stored.seq, &stored.lists) => {
                violations
                    .push(format!("the feed has {event_id} of {session} as {event:?}; its writer got {stored:?}"));
            }
            Some(_) => {}
        }
    }
    violations
}

/// Returns what is wrong with the rest of a feed that was read again, from the place after this many events. It must
/// have the same events, in an order that explains them. On PostgreSQL, events that do not depend on each other may have
/// another order than before.
pub(crate) fn difference(feed: &[FeedEvent], place: usize, again: &[FeedEvent]) -> Option<String> {
    let ids = |events: &[FeedEvent]| -> HashSet<String> { events.iter().map(|event| event.event_id.clone()).collect() };
    let (before, now) = (ids(&feed[place..]), ids(again));
    if let Some(id) = before.difference(&now).next() {
        return Some(format!("it lacks the event {id}, which was there before"));
    }
    if let Some(id) = now.difference(&before).next() {
        return Some(format!("it has the event {id}, which was not there before"));
    }
    // What is wrong with the first reading is reported by itself.
    let is_sound = violations(feed, &[]).is_empty();
    is_sound.then(|| violations(feed[..place].iter().chain(again), &[]).into_iter().next()).flatten()
}

/// Returns the owner of a key: the app, the user or the session. A session's id begins with its user's id.
fn owner_of<'a>(session: &'a str, key: &str) -> &'a str {
    match key.split_once(':') {
        Some(("app", _)) => "",
        Some(_) => session.split_once('s').map_or(session, |(user, _)| user),
        None => session,
    }
}
