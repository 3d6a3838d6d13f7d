//! Artifacts, which the API does not support.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::VertexAiSessionService;
use super::unsupported::unsupported;
use scratchbook_core::artifact::{ArtifactService, ArtifactVersion};
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;
use scratchbook_core::session::SessionKey;

impl VertexAiSessionService {
    fn no_artifacts<T>(&self) -> Result<T> {
        self.check_open()?;
        Err(unsupported("no artifacts", "keep them in another store, with Store::of(sessions, artifacts)"))
    }
}

#[async_trait]
impl ArtifactService for VertexAiSessionService {
    async fn save_artifact(&self, _: &SessionKey, _: &str, _: Part, _: Map<String, Value>) -> Result<u64> {
        self.no_artifacts()
    }

    async fn load_artifact(&self, _: &SessionKey, _: &str, _: Option<u64>) -> Result<Option<Part>> {
        self.no_artifacts()
    }

    async fn list_artifacts(&self, _: &SessionKey) -> Result<Vec<String>> {
        self.no_artifacts()
    }

    async fn list_artifact_versions(&self, _: &SessionKey, _: &str) -> Result<Vec<ArtifactVersion>> {
        self.no_artifacts()
    }

    async fn delete_artifact(&self, _: &SessionKey, _: &str) -> Result<()> {
        self.no_artifacts()
    }
}
