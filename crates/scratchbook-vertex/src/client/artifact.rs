//! Artifacts, which the API does not support.

use super::VertexAiSessionService;
use scratchbook_core::artifact::{ArtifactService, unsupported_artifacts};

impl ArtifactService for VertexAiSessionService {
    unsupported_artifacts!("keep them in another store, with Store::of(sessions, artifacts)" =>
        save_artifact, load_artifact, list_artifacts, list_artifact_versions, delete_artifact);
}
