//! The scope of a commit in a few bytes, so that it can be compared cheaply and sent to other processes.

#[path = "commit_scope/text.rs"]
mod text;

use super::{SessionKey, StateOwner};

/// Names as hashes. If two names have the same hash, a follower is woken without reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct ScopeHashes {
    app: u64,
    user: Option<u64>,
    session: Option<u64>,
}

impl ScopeHashes {
    pub(super) fn of_session(key: &SessionKey) -> Self {
        let app = number(START, key.app_name());
        let user = number(app, key.user_id());
        Self { app, user: Some(user), session: Some(number(user, key.session_id())) }
    }

    pub(super) fn of_owner(owner: &StateOwner) -> Self {
        let app = number(START, owner.app_name());
        Self { app, user: owner.user_id().map(|user| number(app, user)), session: None }
    }

    /// Returns the narrowest of the hashes.
    pub(super) fn own(&self) -> u64 {
        self.session.or(self.user).unwrap_or(self.app)
    }
}

/// The session, user or app that a commit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub enum CommitScope {
    /// Nothing that anybody could follow.
    Nothing,
    /// A session, or the keys of a user or an app.
    One(ScopeHashes),
    /// Some data of a user or an app, or of one of its sessions; it is not known which data.
    AllOf(ScopeHashes),
    /// Unknown.
    Unknown,
}

impl CommitScope {
    #[doc(hidden)]
    pub fn session(key: &SessionKey) -> Self {
        Self::One(ScopeHashes::of_session(key))
    }

    #[doc(hidden)]
    pub fn owner(owner: &StateOwner) -> Self {
        Self::One(ScopeHashes::of_owner(owner))
    }

    /// Creates the scope of a commit that touches a whole user or app.
    #[doc(hidden)]
    pub fn all_of(owner: &StateOwner) -> Self {
        Self::AllOf(ScopeHashes::of_owner(owner))
    }

    /// Returns the hashes whose followers wake; `None` if every follower has to be compared.
    pub(super) fn reach(&self) -> Option<[Option<u64>; 3]> {
        match self {
            Self::Nothing => Some([None; 3]),
            Self::One(hashes) => Some([Some(hashes.app), hashes.user, hashes.session]),
            Self::AllOf(_) | Self::Unknown => None,
        }
    }

    /// Whether the followers of something wake.
    pub(super) fn reaches(&self, followed: &ScopeHashes) -> bool {
        match self {
            Self::Nothing => false,
            Self::One(hashes) => [Some(hashes.app), hashes.user, hashes.session].contains(&Some(followed.own())),
            Self::AllOf(hashes) => {
                let is_within = hashes.user.is_none() || followed.user.is_none() || hashes.user == followed.user;
                hashes.app == followed.app && is_within
            }
            Self::Unknown => true,
        }
    }
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the FNV-1a hash of a name within the scope that has the hash `above`. Every process computes the same hash.
fn number(above: u64, name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    // A zero byte, which no name contains, separates adjacent names.
    step(name.bytes().fold(above, step), 0)
}
