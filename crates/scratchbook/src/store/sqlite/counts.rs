//! How many keys there are, remembered from one commit to the next, so that a scope that grows is not counted each time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::growth::Address;
use crate::state::Scope;

/// How many scopes are remembered at most.
const SCOPES: usize = 1_024;

/// For some scopes a number of keys that they have at most.
///
/// It is a bound and not the number: what is removed, or rolled back, is not taken off. Whoever is stopped by it counts.
/// What other processes add is known by the feed's position, which each of their commits moves.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The feed's position after the last commit seen.
    position: Cell<i64>,
    bounds: RefCell<HashMap<String, u64>>,
}

impl Counts {
    /// The feed stands here, as a transaction finds it.
    pub(super) fn begin(&self, position: i64) {
        if self.position.replace(position) != position {
            self.bounds.borrow_mut().clear();
        }
    }

    /// The feed stands here by a commit of our own.
    pub(super) fn commit(&self, position: i64) {
        self.position.set(position);
    }

    pub(super) fn bound(&self, of: Address<'_>, scope: Scope) -> Option<u64> {
        self.bounds.borrow().get(&name(of, scope)).copied()
    }

    /// The keys of a scope are others now.
    pub(super) fn forget(&self, of: Address<'_>, scope: Scope) {
        self.bounds.borrow_mut().remove(&name(of, scope));
    }

    pub(super) fn set_bound(&self, of: Address<'_>, scope: Scope, bound: u64) {
        let mut bounds = self.bounds.borrow_mut();
        if bounds.len() >= SCOPES {
            bounds.clear();
        }
        bounds.insert(name(of, scope), bound);
    }
}

/// Ids have no control characters in them.
fn name(of: Address<'_>, scope: Scope) -> String {
    let (user, session) = match scope {
        Scope::Session => (of.user, of.session),
        Scope::User => (of.user, ""),
        _ => ("", ""),
    };
    [scope.as_str(), of.app, user, session].join("\0")
}
