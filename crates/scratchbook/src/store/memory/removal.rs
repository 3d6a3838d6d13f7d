//! Removals, which the feed shows. Whoever calls holds the app's lock.

use std::sync::Arc;

use super::app::App;
use super::feed::Item;
use crate::session::{Removal, RemovalKind};

/// Where the removals of one address stand in the feed: that of the session or the user, and that of its events.
#[derive(Debug, Default)]
pub(super) struct Removed {
    whole: Option<u64>,
    events: Option<u64>,
}

impl App {
    /// Puts a removal into the feed. It takes the place of an earlier one of the same address.
    pub(super) fn record(&mut self, position: u64, removal: Removal) {
        let Some(user_id) = removal.user.user_id().map(Arc::<str>::from) else {
            return;
        };
        let session_id = removal.session.as_ref().map_or("", |session| session.session_id());
        let removed = self.removed.entry((Arc::clone(&user_id), session_id.into())).or_default();
        let replaced = match removal.kind {
            RemovalKind::Pruned => [None, removed.events.replace(position)],
            _ => [removed.whole.replace(position), removed.events.take()],
        };
        for old in replaced.into_iter().flatten() {
            self.drop_from_feed(&user_id, old);
        }
        self.enter_feed(position, Item::Removed(removal));
    }

    /// Forgets the removals of a user's sessions; how many sessions they were of.
    pub(super) fn forget_removals(&mut self, user_id: &str) -> usize {
        let from = (Arc::from(user_id), Arc::from(""));
        let addresses = self.removed.range(from..).map(|(address, _)| address);
        let of_user = addresses.take_while(|(user, _)| **user == *user_id).filter(|(_, session)| !session.is_empty());
        let gone: Vec<_> = of_user.cloned().collect();
        for address in &gone {
            if let Some(Removed { whole, events }) = self.removed.remove(address) {
                whole.into_iter().chain(events).for_each(|position| self.drop_from_feed(user_id, position));
            }
        }
        gone.len()
    }

    /// Lets removals of sessions and users go that are older than a time, in seconds, and this many at most.
    pub(super) fn let_removals_go(&mut self, before: f64, limit: usize) {
        let feed = &self.feed;
        let is_old = |position: &u64| match feed.get(position) {
            Some(Item::Removed(removal)) => removal.time < before,
            _ => true,
        };
        let old = self.removed.iter().filter_map(|(address, removed)| Some((address.clone(), removed.whole?)));
        let old: Vec<_> = old.filter(|(_, position)| is_old(position)).take(limit).collect();
        for (address, position) in old {
            self.drop_from_feed(&address.0, position);
            self.let_go = self.let_go.max(position);
            let removed = self.removed.entry(address.clone()).or_default();
            removed.whole = None;
            if removed.events.is_none() {
                self.removed.remove(&address);
            }
        }
    }
}
