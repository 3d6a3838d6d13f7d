//! Whose it was that was committed, in few bytes: so that it can be compared cheaply, and sent to other processes.

mod text;

use super::{SessionKey, StateOwner};

/// Names as numbers. Two names may have one number, and then somebody wakes for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct Places {
    app: u64,
    user: Option<u64>,
    session: Option<u64>,
}

impl Places {
    pub(super) fn of_session(key: &SessionKey) -> Self {
        let app = number(START, key.app_name());
        let user = number(app, key.user_id());
        Self { app, user: Some(user), session: Some(number(user, key.session_id())) }
    }

    pub(super) fn of_owner(owner: &StateOwner) -> Self {
        let app = number(START, owner.app_name());
        Self { app, user: owner.user_id().map(|user| number(app, user)), session: None }
    }

    /// The narrowest of them.
    pub(super) fn own(&self) -> u64 {
        self.session.or(self.user).unwrap_or(self.app)
    }
}

/// Whose it was that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub enum Whose {
    /// Nobody's: nobody who follows anything could see it.
    Nobody,
    /// A session's, or the keys of a user or an app.
    One(Places),
    /// Something of a user or an app, or of any session there, it is not known which.
    AllOf(Places),
    /// It is not known.
    Anybody,
}

impl Whose {
    #[doc(hidden)]
    pub fn session(key: &SessionKey) -> Self {
        Self::One(Places::of_session(key))
    }

    #[doc(hidden)]
    pub fn owner(owner: &StateOwner) -> Self {
        Self::One(Places::of_owner(owner))
    }

    /// For what touches a whole user or app.
    #[doc(hidden)]
    pub fn all_of(owner: &StateOwner) -> Self {
        Self::AllOf(Places::of_owner(owner))
    }

    /// The places whose followers wake; `None` if each of them has to be asked.
    pub(super) fn reach(&self) -> Option<[Option<u64>; 3]> {
        match self {
            Self::Nobody => Some([None; 3]),
            Self::One(places) => Some([Some(places.app), places.user, places.session]),
            Self::AllOf(_) | Self::Anybody => None,
        }
    }

    /// Whether the followers of something wake.
    pub(super) fn reaches(&self, followed: &Places) -> bool {
        match self {
            Self::Nobody => false,
            Self::One(places) => [Some(places.app), places.user, places.session].contains(&Some(followed.own())),
            Self::AllOf(places) => {
                let is_within = places.user.is_none() || followed.user.is_none() || places.user == followed.user;
                places.app == followed.app && is_within
            }
            Self::Anybody => true,
        }
    }
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, which is the same in every process, of a name below another one.
fn number(above: u64, name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    // Names have no zero in them, so that none runs into the next.
    step(name.bytes().fold(above, step), 0)
}
