//! Artifacts, in the same database as the sessions.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::failure::Idempotency;
use super::{Backend, DatabaseSessionService, RowRoom};
use scratchbook_core::artifact::{ArtifactService, ArtifactVersion, ListVersionsConfig};
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;
use scratchbook_core::plan::quota::reserve;
use scratchbook_core::plan::sql::artifact_text::{ArtifactAddress, NewArtifact};
use scratchbook_core::session::{CommitScope, SessionKey};

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<D: Backend> ArtifactService for DatabaseSessionService<D> {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let address = ArtifactAddress::new(session, filename)?;
        let new = NewArtifact::new(address, artifact, custom_metadata, self.environment().now(), &self.options.limits)?;
        let held = reserve(self, session, new.usage()).await?;
        let charge = held.kept_if(|_| true);
        self.write_charged(CommitScope::Nothing, Idempotency::NotIdempotent, charge, new, |backend, new| {
            backend.save_artifact(new)
        })
        .await
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let address = ArtifactAddress::new(session, filename)?;
        self.read(|| self.backend.load_artifact(&address, version)).await
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        self.read(|| self.backend.list_artifacts(session)).await
    }

    async fn list_artifact_versions(
        &self,
        session: &SessionKey,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>> {
        let address = &ArtifactAddress::new(session, filename)?;
        let read = |limit, room: RowRoom| async move {
            let config = config.with_limit(limit);
            self.backend.list_artifact_versions(address, &config, room.or_one(limit)).await
        };
        self.read_page(config.limit, config.page_bytes, read).await
    }

    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()> {
        let address = ArtifactAddress::new(session, filename)?;
        let delete = self.write(CommitScope::Nothing, Idempotency::Idempotent, address, |backend, address| {
            backend.delete_artifact(address)
        });
        delete.await?;
        self.quotas.forget(&session.user());
        Ok(())
    }
}
