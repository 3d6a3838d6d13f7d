//! Remembers the number of keys of each scope from one commit to the next, so that a growing scope is not counted
//! on every write.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::growth::KeysAddress;
use scratchbook_core::state::Scope;

/// The number of scopes that are remembered.
const SCOPES: usize = 1_024;

/// An upper bound on the number of keys, for some scopes.
///
/// A bound is not exact, because other writers may have removed keys. If a write would exceed a bound, the keys
/// are counted. Every commit moves the feed's position, so a position that moved unexpectedly means that another
/// process may have added keys.
#[derive(Debug, Default)]
pub(super) struct KeyCountBounds {
    /// The feed's position after the last commit that was seen.
    position: Cell<i64>,
    bounds: RefCell<HashMap<String, u64>>,
}

impl KeyCountBounds {
    /// Forgets all bounds if another process has committed since our last transaction.
    pub(super) fn begin(&self, position: i64) {
        if self.position.replace(position) != position {
            self.bounds.borrow_mut().clear();
        }
    }

    /// Records the feed's position after a commit of our own.
    pub(super) fn commit(&self, position: i64) {
        self.position.set(position);
    }

    pub(super) fn bound(&self, of: KeysAddress<'_>, scope: Scope) -> Option<u64> {
        self.bounds.borrow().get(&name(of, scope)).copied()
    }

    /// Forgets the bound of a new session, whose address may have belonged to another session before.
    pub(super) fn forget(&self, of: KeysAddress<'_>, scope: Scope) {
        self.bounds.borrow_mut().remove(&name(of, scope));
    }

    /// Forgets all bounds after a rollback: removed keys exist again, and the bounds may have been counted without
    /// these keys.
    pub(super) fn roll_back(&self) {
        self.bounds.borrow_mut().clear();
    }

    pub(super) fn set_bound(&self, of: KeysAddress<'_>, scope: Scope, bound: u64) {
        let mut bounds = self.bounds.borrow_mut();
        if bounds.len() >= SCOPES {
            bounds.clear();
        }
        bounds.insert(name(of, scope), bound);
    }
}

/// Returns the name of a scope. Its parts are joined by a NUL character, which no id contains.
fn name(of: KeysAddress<'_>, scope: Scope) -> String {
    let (user, session) = match scope {
        Scope::Session => (of.user, of.session),
        Scope::User => (of.user, ""),
        _ => ("", ""),
    };
    [scope.as_str(), of.app, user, session].join("\0")
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::{SqliteOptions, SqliteSessionService};
    use scratchbook_core::error::ErrorKind;
    use scratchbook_core::event::Event;
    use scratchbook_core::plan::limits::Limits;
    use scratchbook_core::session::{CreateSessionConfig, ForkConfig, SessionService, StateOwner};
    use scratchbook_core::state::StateDelta;

    fn keys(prefix: &str, count: usize) -> Map<String, Value> {
        (0..count).map(|n| (format!("{prefix}{n}"), json!(n))).collect()
    }

    #[tokio::test]
    async fn a_session_created_again_is_counted_again() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits::default().with_keys_per_scope(10);
        let options = SqliteOptions::default().with_limits(limits);
        let service = SqliteSessionService::open(folder.path().join("a.db"), options).await.unwrap();
        let config = || CreateSessionConfig::default().with_session_id("s");
        let full = CreateSessionConfig::default().with_state(keys("full", 9));
        let full = service.create_session("app", "alice", full).await.unwrap();
        for made in ["created", "forked"] {
            let session = service.create_session("app", "alice", config()).await.unwrap();
            let append = async |count| {
                let delta = StateDelta::try_from(keys(made, count)).unwrap();
                service.append(session.key(), Event::new("agent").with_state_delta(delta), Default::default()).await
            };
            append(1).await.unwrap();
            service.delete_session(session.key()).await.unwrap();
            match made {
                "created" => service.create_session("app", "alice", config().with_state(keys("full", 9))).await,
                _ => service.fork_session(full.key(), ForkConfig::default().with_session_id("s")).await,
            }
            .unwrap();
            assert_eq!(append(2).await.unwrap_err().kind(), ErrorKind::ResourceExhausted, "{made}");
            append(1).await.unwrap();
            service.delete_session(session.key()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn keys_that_a_refused_write_had_removed_count_again() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits::default().with_keys_per_scope(10);
        let options = SqliteOptions::default().with_limits(limits);
        let service = SqliteSessionService::open(folder.path().join("a.db"), options).await.unwrap();
        let other = service.create_session("app", "bob", CreateSessionConfig::default()).await.unwrap();
        let event = |delta| Event::new("agent").with_state_delta(delta);
        let set = |prefix, count| event(StateDelta::try_from(keys(prefix, count)).unwrap());
        for user in ["u1", "u2", "u3", "u4", "u5"] {
            let owner = StateOwner::user("app", user).unwrap();
            let put = |prefix, count| {
                service.put_state(&owner, StateDelta::try_from(keys(prefix, count)).unwrap(), "admin".into())
            };
            put("old", 10).await.unwrap();
            let mut removal = StateDelta::new();
            (0..10).for_each(|n| removal.remove(format!("user:old{n}")).unwrap());
            let events = vec![event(removal), set("user:one", 1), set("user:many", 11)];
            // The other writes are committed in one group with the creation, which is refused by its last event.
            let append = || service.append(other.key(), Event::new("agent"), Default::default());
            let refused = service.create_session("app", user, CreateSessionConfig::default().with_events(events));
            let (a, b, c, refused) = tokio::join!(append(), append(), append(), refused);
            assert!(a.is_ok() && b.is_ok() && c.is_ok());
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::ResourceExhausted);
            assert_eq!(put("new", 9).await.unwrap_err().kind(), ErrorKind::ResourceExhausted, "{user} has 10 keys");
        }
    }
}
