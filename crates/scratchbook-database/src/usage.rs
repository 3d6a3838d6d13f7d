//! Measures how much is stored, for quotas, and removes expired sessions.

use async_trait::async_trait;

use super::failure::Idempotency;
use super::{Backend, DatabaseSessionService};
use scratchbook_core::error::Result;
use scratchbook_core::plan::quota::{QuotaStore, Quotas};
use scratchbook_core::plan::usage::Usage;
use scratchbook_core::session::{CommitScope, SessionKey, StateOwner};

#[async_trait]
impl<D: Backend> QuotaStore for DatabaseSessionService<D> {
    fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    async fn usage(&self, owner: &StateOwner) -> Result<Usage> {
        self.read(|| self.backend.usage(owner)).await
    }

    async fn has_event(&self, key: &SessionKey, id: &str) -> Result<bool> {
        self.read(|| self.backend.has_event(key, id)).await
    }

    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Result<Usage> {
        self.read(|| self.backend.fork_usage(key, at)).await
    }

    async fn remove_expired(&self, limit: usize) -> Result<u64> {
        let mut removed = 0;
        for key in self.read(|| self.backend.expired(limit)).await? {
            let delete = self.write(CommitScope::session(&key), Idempotency::Idempotent, key, |backend, key| {
                backend.delete_expired(key)
            });
            // A session that was removed or extended in the meantime is not counted, so another call may find no
            // session left.
            removed += u64::from(delete.await?);
        }
        if removed > 0 {
            self.quotas.forget_all();
        }
        Ok(removed)
    }
}
