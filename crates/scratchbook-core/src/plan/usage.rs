//! The amount of stored data, as quotas count it.

/// The amount that an owner has stored, or that a write stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of JSON: events, initial states of sessions, artifacts with their metadata.
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
