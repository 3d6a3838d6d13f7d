//! The size of state that is read whole.

use super::StateOwner;
use crate::error::{Error, ErrorKind, Result};
use crate::json::bytes_of;
use crate::state::{Scope, StateMap};

/// How many bytes of stored text the state of a session, its user and its app have: the keys without prefix, and the
/// values as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateBytes {
    /// The bytes of the session's own keys.
    pub session: u64,
    /// The bytes of the user's keys.
    pub user: u64,
    /// The bytes of the app's keys.
    pub app: u64,
}

impl StateBytes {
    /// The maximum size of the three scopes together, if they are read whole: 32 MiB.
    pub const MAX: u64 = 32 << 20;

    /// Measures a state.
    ///
    /// ```
    /// use scratchbook::StateMap;
    /// use scratchbook::session::StateBytes;
    /// use serde_json::json;
    ///
    /// let state = StateMap::from(json!({"step": 1, "user:name": "Ada"}).as_object().unwrap().clone());
    /// assert_eq!(StateBytes::of(&state), StateBytes { session: 5, user: 9, app: 0 });
    /// ```
    #[must_use]
    pub fn of(state: &StateMap) -> Self {
        let mut bytes = Self::default();
        for (key, value) in state.iter() {
            let (scope, name) = Scope::split(&key);
            let of_scope = match scope {
                Scope::Session => &mut bytes.session,
                Scope::User => &mut bytes.user,
                Scope::App => &mut bytes.app,
                Scope::Temp => continue,
            };
            *of_scope += name.len() as u64 + bytes_of(value);
        }
        bytes
    }

    /// Returns the size of the three scopes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.session.saturating_add(self.user).saturating_add(self.app)
    }

    /// Returns the size of the state of this owner without the other scopes.
    #[must_use]
    pub fn alone(self, owner: &StateOwner) -> Self {
        match owner.user_id() {
            Some(_) => Self { user: self.user, ..Self::default() },
            None => Self { app: self.app, ..Self::default() },
        }
    }

    /// Checks that the state may be read whole.
    ///
    /// # Errors
    ///
    /// `PayloadTooLarge` with the size of each scope.
    pub fn check(&self) -> Result<()> {
        let Self { session, user, app } = self;
        let max = Self::MAX;
        if self.total() <= max {
            return Ok(());
        }
        let message = format!(
            "the state has {session} bytes of the session, {user} bytes of the user and {app} bytes of the app, and at \
             most {max} bytes are read whole; name the keys that are wanted, list the state page by page, or remove keys"
        );
        Err(Error::new(ErrorKind::PayloadTooLarge, message))
    }
}

/// Bounds the memory of a fold of many changes. On the way a fold may be larger than its result may be.
#[doc(hidden)]
#[derive(Debug, Default, PartialEq)]
pub struct FoldRoom {
    /// The size of the fold when it was measured last, and of all that was folded in since.
    bytes: u64,
}

/// The fold is measured when it may have this size.
const MEASURED_FROM: u64 = 2 * StateBytes::MAX;

/// The largest fold that goes on. It is well below [`MEASURED_FROM`]: otherwise a fold near the limit would be measured
/// again after every small change.
const FOLDED_AT_MOST: u64 = StateBytes::MAX / 2 * 3;

impl FoldRoom {
    /// Counts what was folded in. The fold itself is measured only if it may be too large, because most changes replace
    /// earlier ones.
    #[doc(hidden)]
    pub fn take(&mut self, bytes: u64, measure: impl FnOnce() -> u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.check(MEASURED_FROM, FOLDED_AT_MOST, measure)
    }

    /// Checks the size of the result.
    #[doc(hidden)]
    pub fn finish(&mut self, measure: impl FnOnce() -> u64) -> Result<()> {
        self.check(StateBytes::MAX, StateBytes::MAX, measure)
    }

    fn check(&mut self, measured_from: u64, at_most: u64, measure: impl FnOnce() -> u64) -> Result<()> {
        if self.bytes <= measured_from {
            return Ok(());
        }
        self.bytes = measure();
        if self.bytes <= at_most {
            return Ok(());
        }
        let bytes = self.bytes;
        let max = StateBytes::MAX;
        let message =
            format!("the state of that time has {bytes} bytes or more, and at most {max} bytes are read whole");
        Err(Error::new(ErrorKind::PayloadTooLarge, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_beyond_the_limit_is_refused_with_the_size_of_each_scope() {
        let state = StateBytes { session: 5, user: StateBytes::MAX - 6, app: 1 };
        state.check().unwrap();
        let error = StateBytes { app: 7, ..state }.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PayloadTooLarge);
        for named in ["5 bytes of the session", "33554426 bytes of the user", "7 bytes of the app"] {
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn a_fold_is_measured_only_when_it_may_be_too_large() {
        let mut room = FoldRoom::default();
        room.take(MEASURED_FROM, || unreachable!()).unwrap();
        room.take(1, || 10).unwrap();
        room.take(MEASURED_FROM - 10, || unreachable!()).unwrap();
        assert!(room.take(1, || FOLDED_AT_MOST + 1).is_err());
    }

    #[test]
    fn a_fold_near_its_limit_is_not_measured_after_every_change() {
        let mut room = FoldRoom::default();
        let mut measured = 0;
        for _ in 0..100_000 {
            let measure = || {
                measured += 1;
                FOLDED_AT_MOST
            };
            room.take(300, measure).unwrap();
        }
        assert!(measured <= 2, "{measured} times");
    }

    #[test]
    fn a_fold_that_was_too_large_on_the_way_is_judged_by_its_result() {
        let mut room = FoldRoom::default();
        room.take(StateBytes::MAX + 1, || unreachable!()).unwrap();
        room.finish(|| 10).unwrap();
        room.take(StateBytes::MAX, || unreachable!()).unwrap();
        assert!(room.finish(|| StateBytes::MAX + 1).is_err());
    }
}
