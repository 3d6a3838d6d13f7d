//! How much is stored, as quotas count it.

/// What an owner has stored, or a write stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of JSON: events, states that sessions begin with, artifacts with what is kept beside them.
    pub bytes: u64,
    pub sessions: u64,
    /// Versions of artifacts.
    pub artifacts: u64,
}

impl Usage {
    pub(crate) fn bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    pub(crate) fn session(bytes: u64) -> Self {
        Self { bytes, sessions: 1, artifacts: 0 }
    }

    pub(crate) fn artifact(bytes: u64) -> Self {
        Self { bytes, sessions: 0, artifacts: 1 }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            sessions: self.sessions.saturating_add(other.sessions),
            artifacts: self.artifacts.saturating_add(other.artifacts),
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            sessions: self.sessions.saturating_sub(other.sessions),
            artifacts: self.artifacts.saturating_sub(other.artifacts),
        }
    }
}
