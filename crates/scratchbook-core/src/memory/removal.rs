//! Removals, which the feed shows. The caller holds the app's lock.

use std::sync::Arc;

use super::app::{AppData, User};
use super::feed::FeedItem;
use crate::session::{Removal, RemovalKind};

/// The positions in the feed at which a session or a user was removed, and at which a session's events were pruned.
#[derive(Debug, Default)]
pub(super) struct Removed {
    whole: Option<u64>,
    events: Option<u64>,
}

impl AppData {
    /// Adds a removal to the feed. It replaces earlier removals of the same session or user; a pruning replaces only an
    /// earlier pruning.
    pub(super) fn record(&mut self, position: u64, removal: Removal) {
        let Some(user_id) = removal.user.user_id().map(Arc::<str>::from) else {
            return;
        };
        let session_id = removal.session.as_ref().map_or("", |session| session.session_id());
        let address = (Arc::clone(&user_id), Arc::from(session_id));
        let removed = self.removed.entry(address.clone()).or_default();
        let replaced = match removal.kind {
            RemovalKind::Pruned => [None, removed.events.replace(position)],
            _ => [removed.whole.replace(position), removed.events.take()],
        };
        for old in replaced.into_iter().flatten() {
            self.removed_at.remove(&old);
            self.drop_from_feed(&user_id, old);
        }
        if removal.kind != RemovalKind::Pruned {
            self.removed_at.insert(position, address);
        }
        self.enter_feed(position, FeedItem::Removed(removal));
    }

    /// Drops the removals of a user's sessions; returns how many sessions they concerned.
    pub(super) fn forget_removals(&mut self, user_id: &str) -> usize {
        let from = (Arc::from(user_id), Arc::from(""));
        let addresses = self.removed.range(from..).map(|(address, _)| address);
        let of_user = addresses.take_while(|(user, _)| **user == *user_id).filter(|(_, session)| !session.is_empty());
        let gone: Vec<_> = of_user.cloned().collect();
        for address in &gone {
            if let Some(Removed { whole, events }) = self.removed.remove(address) {
                for position in whole.into_iter().chain(events) {
                    self.removed_at.remove(&position);
                    self.drop_from_feed(user_id, position);
                }
            }
        }
        gone.len()
    }

    /// Drops at most this many removals of sessions and users before a time in seconds since 1970, the oldest first;
    /// returns how many.
    pub(super) fn drop_removals(&mut self, before: f64, limit: usize) -> usize {
        let mut gone = 0;
        while gone < limit
            && let Some((&position, address)) = self.removed_at.first_key_value()
        {
            let address = address.clone();
            if matches!(self.feed.get(&position), Some(FeedItem::Removed(removal)) if removal.time >= before) {
                break;
            }
            self.removed_at.remove(&position);
            self.drop_from_feed(&address.0, position);
            self.let_go = self.let_go.max(position);
            if let Some(removed) = self.removed.get_mut(&address) {
                removed.whole = None;
                if removed.events.is_none() {
                    self.removed.remove(&address);
                }
            }
            if self.users.get(&address.0).is_some_and(User::is_empty) {
                self.users.remove(&address.0);
            }
            gone += 1;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionKey;

    #[test]
    fn what_is_old_enough_goes_and_its_user_with_it() {
        let mut app = AppData::default();
        for (position, user, time) in [(1, "alice", 10.0), (2, "bob", 11.0), (3, "bob", 30.0), (4, "carol", 12.0)] {
            let key = SessionKey::new("app", user, &format!("s{position}")).unwrap();
            app.record(position, Removal::of_session(RemovalKind::Deleted, key, 1, time));
        }
        assert_eq!(app.drop_removals(20.0, 1), 1, "no more than asked for");
        assert_eq!(app.drop_removals(20.0, 9), 1, "up to the first that is young");
        assert_eq!((app.let_go, app.feed.len(), app.removed.len(), app.removed_at.len()), (2, 2, 2, 2));
        assert!(!app.users.contains_key("alice") && app.users.contains_key("bob"));
    }
}
