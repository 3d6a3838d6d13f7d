//! The artifacts of an agent that is a tool: those of the calling session.

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::agent::ToolContext;
use scratchbook_core::artifact::{ArtifactService, ArtifactVersion, ListVersionsConfig};
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;
use scratchbook_core::session::SessionKey;

/// The artifacts of the calling tool's session. The session that a call names is ignored. A save is recorded in the
/// tool's event.
#[derive(Debug)]
pub(super) struct ForwardedArtifacts {
    context: ToolContext,
}

impl ForwardedArtifacts {
    pub(super) fn new(context: ToolContext) -> Self {
        Self { context }
    }
}

#[async_trait]
impl ArtifactService for ForwardedArtifacts {
    async fn save_artifact(
        &self,
        _session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        self.context.save_artifact_with_metadata(filename, artifact, custom_metadata).await
    }

    async fn load_artifact(&self, _session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let outer = self.context.invocation();
        outer.artifacts()?.load_artifact(outer.session_key(), filename, version).await
    }

    async fn list_artifacts(&self, _session: &SessionKey) -> Result<Vec<String>> {
        self.context.list_artifacts().await
    }

    async fn list_artifact_versions(
        &self,
        _session: &SessionKey,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>> {
        self.context.list_artifact_versions(filename, config).await
    }

    async fn delete_artifact(&self, _session: &SessionKey, filename: &str) -> Result<()> {
        let outer = self.context.invocation();
        outer.artifacts()?.delete_artifact(outer.session_key(), filename).await
    }
}
