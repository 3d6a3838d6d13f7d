//! Secret keys: their values are not shown.

use std::sync::Arc;

use serde_json::Value;

use super::{FeedCommit, FeedEntry};
use crate::event::Event;
use crate::state::{Change, Scope};

/// Shown instead of a secret value.
const HIDDEN: &str = "[secret]";

/// The secret keys of a store, given by prefix.
///
/// ```
/// use scratchbook::session::SecretKeys;
///
/// let secret = SecretKeys::new(["user:secret:", "app:token"]);
/// assert!(secret.contains("user:secret:pin") && secret.contains("app:token"));
/// assert!(!secret.contains("secret:pin"));
/// assert!(!SecretKeys::default().contains("user:secret:pin"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretKeys {
    beginnings: Arc<[String]>,
    feeds: FeedMasking,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FeedMasking {
    #[default]
    Hide,
    Show,
}

impl SecretKeys {
    /// Marks all keys with one of these prefixes as secret. A prefix includes the scope: `user:secret:`, `app:token`.
    #[must_use]
    pub fn new<P: Into<String>>(beginnings: impl IntoIterator<Item = P>) -> Self {
        Self { beginnings: beginnings.into_iter().map(Into::into).collect(), feeds: FeedMasking::Hide }
    }

    /// Lets readers of feeds and watchers of sessions see the values nevertheless.
    #[must_use]
    pub fn shown_in_feeds(mut self) -> Self {
        self.feeds = FeedMasking::Show;
        self
    }

    /// Whether a key, given with its prefix, is secret.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.beginnings.iter().any(|beginning| key.starts_with(beginning.as_str()))
    }

    /// Whether no key is secret.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.beginnings.is_empty()
    }

    /// Returns the keys that either of the two marks as secret.
    pub(super) fn and(&self, others: &Self) -> Self {
        match self.is_empty() {
            true => others.clone(),
            false => Self {
                beginnings: self.beginnings.iter().chain(others.beginnings.iter()).cloned().collect(),
                ..*others
            },
        }
    }

    /// Returns an entry as feeds return it: with secret values hidden.
    pub(crate) fn hide(&self, entry: FeedEntry) -> FeedEntry {
        if self.is_empty() || self.feeds == FeedMasking::Show {
            return entry;
        }
        let commit = match entry.commit {
            FeedCommit::Event { session, event } => FeedCommit::Event { session, event: self.hide_in_event(event) },
            FeedCommit::Created { session, mut state, forked_at } => {
                state.iter_mut().filter(|(key, _)| self.contains(key)).for_each(|(_, value)| hide(value));
                FeedCommit::Created { session, state, forked_at }
            }
            FeedCommit::State { owner, mut changes } => {
                let scope = if owner.user_id().is_some() { Scope::User } else { Scope::App };
                let secret = changes.iter_mut().filter(|change| self.contains(&scope.key(&change.name)));
                secret.filter_map(|change| change.value.as_mut()).for_each(hide);
                FeedCommit::State { owner, changes }
            }
            FeedCommit::Removed(removal) => FeedCommit::Removed(removal),
        };
        FeedEntry { commit, ..entry }
    }

    fn hide_in_event(&self, event: Arc<Event>) -> Arc<Event> {
        let keys = event.actions.state_delta.iter();
        let secret = keys.filter(|(key, change)| change.value().is_some() && self.contains(key));
        let secret: Vec<_> = secret.map(|(key, _)| key.to_owned()).collect();
        if secret.is_empty() {
            return event;
        }
        let mut shown = Event::clone(&event);
        for key in secret {
            // The key was accepted before, and this value is always accepted.
            let _ = shown.actions.state_delta.insert(key, Change::Set(HIDDEN.into()));
        }
        shown.into()
    }
}

fn hide(value: &mut Value) {
    *value = HIDDEN.into();
}
