//! How much is stored, read when a quota asks for it.

use async_trait::async_trait;

use super::{DatabaseSessionService, Dialect};
use crate::error::Result;
use crate::session::{SessionKey, StateOwner};
use crate::store::quota::{Quotas, Stock};
use crate::store::usage::Usage;

#[async_trait]
impl<D: Dialect> Stock for DatabaseSessionService<D> {
    fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    async fn usage(&self, owner: &StateOwner) -> Result<Usage> {
        self.read(|| self.dialect.usage(owner)).await
    }

    async fn has_event(&self, key: &SessionKey, id: &str) -> Result<bool> {
        self.read(|| self.dialect.has_event(key, id)).await
    }

    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Result<Usage> {
        self.read(|| self.dialect.fork_usage(key, at)).await
    }
}
