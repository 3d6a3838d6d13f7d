//! Checks of a write's results, made in the commit that writes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::Result;
use crate::state::Scope;

/// Checks the results of a write, and may refuse the write. The results are the values that operations give, or the
/// complete state of a scope.
///
/// A check is passed with [`AppendOptions::with_check`](super::AppendOptions::with_check), and the corresponding
/// methods for creations and for user and app state. It runs in the commit, under the store's locks, once for each
/// event. A retry of a stored event is answered without the check.
///
/// The check runs only for writes that depend on stored values. Values that a delta sets can be checked before the
/// call, so that their write still takes one round trip. `WithStateSchema` (feature `schema`) checks both.
///
/// ```
/// use std::sync::Arc;
/// use scratchbook::prelude::*;
/// use scratchbook::session::{CheckedWrite, StateCheck};
///
/// /// No list may have more than three items.
/// #[derive(Debug)]
/// struct ShortLists;
///
/// impl StateCheck for ShortLists {
///     fn needs_scope(&self, _: Scope, _: &str) -> bool {
///         false
///     }
///
///     fn check(&self, write: &CheckedWrite<'_>) -> Result<()> {
///         let long = |value: Option<&serde_json::Value>| value.and_then(|v| v.as_array()).is_some_and(|v| v.len() > 3);
///         match write.changes().find(|(_, _, value)| long(*value)) {
///             Some((scope, name, _)) => {
///                 Err(Error::new(ErrorKind::InvalidArgument, format!("'{}' gets too long", scope.key(name))))
///             }
///             None => Ok(()),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sessions = InMemorySessionService::new();
/// let session = sessions.create_session("app", "alice", Default::default()).await?;
/// for n in 0..4 {
///     let event = Event::new("agent").with_state_delta(StateDelta::new().with_append("list", n)?);
///     let options = AppendOptions::default().with_check(Arc::new(ShortLists));
///     assert_eq!(sessions.append(session.key(), event, options).await.is_ok(), n < 3);
/// }
/// # Ok(()) }
/// ```
pub trait StateCheck: fmt::Debug + Send + Sync + 'static {
    /// Whether a check of a change to this key needs all keys of its scope; `name` has no prefix. The store then reads
    /// these keys, which costs as much as reading the scope.
    fn needs_scope(&self, scope: Scope, name: &str) -> bool;

    /// Accepts or refuses a write.
    ///
    /// # Errors
    ///
    /// The reason for the refusal; the caller gets this error, and nothing has changed.
    fn check(&self, write: &CheckedWrite<'_>) -> Result<()>;
}

/// The results of one event, of the initial state of a session, or of a change of user or app state.
#[derive(Debug)]
pub struct CheckedWrite<'a> {
    changes: Vec<(Scope, &'a str, Option<&'a Value>)>,
    before: Vec<(Scope, BTreeMap<&'a str, &'a Value>)>,
}

impl<'a> CheckedWrite<'a> {
    /// Creates a write that sets and removes these keys.
    #[doc(hidden)]
    pub fn new(changes: impl IntoIterator<Item = (Scope, &'a str, Option<&'a Value>)>) -> Self {
        Self { changes: changes.into_iter().collect(), before: Vec::new() }
    }

    /// Adds all keys of a scope as they are before the write.
    #[doc(hidden)]
    pub fn with_scope(mut self, scope: Scope, before: BTreeMap<&'a str, &'a Value>) -> Self {
        self.before.push((scope, before));
        self
    }

    /// Returns the keys that the write sets or removes: scope, name without prefix, and the new value, `None` for a
    /// removal.
    pub fn changes(&self) -> impl Iterator<Item = (Scope, &str, Option<&Value>)> {
        self.changes.iter().copied()
    }

    /// Returns all keys of a scope as they are before the write, if a change [needs](StateCheck::needs_scope) them.
    #[must_use]
    pub fn before(&self, scope: Scope) -> Option<Map<String, Value>> {
        let (_, before) = self.before.iter().find(|(of, _)| *of == scope)?;
        Some(before.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone())).collect())
    }

    /// Returns all keys of a scope as they are after the write, if a change [needs](StateCheck::needs_scope) them.
    #[must_use]
    pub fn after(&self, scope: Scope) -> Option<Map<String, Value>> {
        let mut after = self.before(scope)?;
        for (_, name, value) in self.changes().filter(|(of, ..)| *of == scope) {
            match value {
                Some(value) => drop(after.insert(name.to_owned(), value.clone())),
                None => drop(after.remove(name)),
            }
        }
        Some(after)
    }
}

/// Combines two checks in sequence; both have to accept.
pub(super) fn both(first: Option<Arc<dyn StateCheck>>, second: Arc<dyn StateCheck>) -> Arc<dyn StateCheck> {
    match first {
        Some(first) => Arc::new(Both(first, second)),
        None => second,
    }
}

#[derive(Debug)]
struct Both(Arc<dyn StateCheck>, Arc<dyn StateCheck>);

impl StateCheck for Both {
    fn needs_scope(&self, scope: Scope, name: &str) -> bool {
        self.0.needs_scope(scope, name) || self.1.needs_scope(scope, name)
    }

    fn check(&self, write: &CheckedWrite<'_>) -> Result<()> {
        self.0.check(write)?;
        self.1.check(write)
    }
}
