//! What a store can do.

use std::fmt;

macro_rules! capabilities {
    ($(#[$of_all:meta])* pub enum Capability { $($(#[$of_one:meta])* $name:ident,)* }) => {
        $(#[$of_all])*
        pub enum Capability {
            $($(#[$of_one])* $name,)*
        }

        impl Capability {
            /// Every capability.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

capabilities! {
    /// A capability of a store beyond keeping sessions, events and the state in them. The stores of this project that use a
    /// database have all of them; a store in front of a service may lack some.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Capability {
        /// Events have numbers, and a session has the number of its last event even if only a part was read.
        Numbers,
        /// Idempotent appends: an event that is appended again is recognized.
        Replays,
        /// Deltas may contain operations and guards.
        Operations,
        /// Optimistic locking: an append may be refused because of a conflict.
        Conflicts,
        /// Writes are checked in their commit.
        Checks,
        /// The state of users and apps can be read and written outside of sessions, and has a log.
        SharedState,
        /// Point-in-time states, the writers of keys, forks and rewinds.
        History,
        /// A change feed, with notices of commits.
        Feed,
        /// Removals are in the feed, so that a reader of the feed can maintain an exact copy.
        Removals,
        /// A session can be given any expiry time, and old events can be pruned.
        Retention,
        /// Apps and users can be listed, and users erased.
        Owners,
        /// The store keeps artifacts as well, as an [`ArtifactService`](crate::artifact::ArtifactService).
        Artifacts,
        /// The store enforces [`Limits`](crate::plan::limits::Limits).
        Limits,
        /// A session can be created with events and with a given creation time.
        WholeCreation,
        /// Sessions can be searched by a part of their title.
        TitleSearch,
        /// Ids of apps and sessions may have any characters, and session ids are unique per user only.
        AnyIds,
        /// A read is one snapshot, an update of a session is one commit, and an append may include an update.
        Snapshots,
        /// 64-bit integers are stored exactly.
        ExactIntegers,
        /// Pages are limited by bytes as well as by number.
        PageBytes,
        /// The hashes of stored events are [reported](super::SessionService::list_event_hashes).
        EventHashes,
        /// Events need no author, and may have times up to the last second of the year 9999.
        AnyEvents,
    }
}

/// What a [store can do](super::SessionService::capabilities) beyond keeping sessions, events and the state in them.
///
/// ```
/// use scratchbook::session::{Capabilities, Capability, SessionService};
///
/// let everything = scratchbook::InMemorySessionService::new().capabilities();
/// assert_eq!(everything, Capabilities::all());
/// let without_feed = everything.without([Capability::Feed, Capability::Removals]);
/// assert!(without_feed.has(Capability::History) && !without_feed.has(Capability::Feed));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(u32);

impl Capabilities {
    /// Returns every capability.
    #[must_use]
    pub const fn all() -> Self {
        Self((1 << Capability::ALL.len()) - 1)
    }

    /// Returns no capability: sessions, events and the state in them are kept, and nothing more is promised.
    #[must_use]
    pub const fn none() -> Self {
        Self(0)
    }

    /// Adds capabilities.
    #[must_use]
    pub fn with(self, added: impl IntoIterator<Item = Capability>) -> Self {
        Self(added.into_iter().fold(self.0, |set, capability| set | 1 << capability as u32))
    }

    /// Takes capabilities away.
    #[must_use]
    pub fn without(self, missing: impl IntoIterator<Item = Capability>) -> Self {
        Self(self.0 & !Self::none().with(missing).0)
    }

    /// Whether a capability is among these.
    #[must_use]
    pub fn has(self, capability: Capability) -> bool {
        self.0 & 1 << capability as u32 != 0
    }

    /// Returns the capabilities that are not among these.
    pub fn missing(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.iter().copied().filter(move |capability| !self.has(*capability))
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Capability::ALL.iter().filter(|capability| self.has(**capability))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_a_set() {
        for capability in Capability::ALL.iter().copied() {
            let only = Capabilities::none().with([capability]);
            assert!(only.has(capability) && Capabilities::all().has(capability));
            assert_eq!(only.missing().count(), Capability::ALL.len() - 1);
            assert!(Capabilities::all().without([capability]).missing().eq([capability]));
        }
        assert_eq!(Capabilities::none().with(Capability::ALL.iter().copied()), Capabilities::all());
        assert_eq!(Capabilities::all().without(Capability::ALL.iter().copied()), Capabilities::default());
        assert_eq!(format!("{:?}", Capabilities::none().with([Capability::Feed])), "{Feed}");
    }
}
