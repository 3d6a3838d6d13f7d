//! Artifacts.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use async_trait::async_trait;
use scratchbook_core::artifact::{ArtifactService, ArtifactVersion, ListVersionsConfig};
use scratchbook_core::content::Part;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::Result;
use scratchbook_core::json::bytes_of;
use scratchbook_core::plan::{Room, check_filename, prepare_artifact};
use scratchbook_core::session::SessionKey;
use serde_json::{Map, Value};

use super::MapStore;
use super::inner::{ArtifactName, Inner};

fn artifact_name(session: &SessionKey, filename: &str) -> Result<ArtifactName> {
    let of_user = check_filename(filename)?;
    let of_session = (!of_user).then(|| session.session_id().to_owned());
    Ok((session.app_name().to_owned(), session.user_id().to_owned(), of_session, filename.to_owned()))
}

impl MapStore {
    /// Returns all data, without the session if it has expired. The artifacts of an expired session are deleted with
    /// it.
    fn of_session(&self, session: &SessionKey) -> Result<MutexGuard<'_, Inner>> {
        let mut inner = self.open()?;
        inner.drop_expired(session);
        Ok(inner)
    }
}

#[async_trait]
impl ArtifactService for MapStore {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let name = artifact_name(session, filename)?;
        let prepared = prepare_artifact(session, filename, artifact, custom_metadata, &self.limits)?;
        let mut inner = self.of_session(session)?;
        let versions = inner.artifacts.entry(name).or_default();
        versions.push((prepared, SystemEnvironment.now()));
        Ok(versions.len() as u64 - 1)
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let (name, inner) = (artifact_name(session, filename)?, self.of_session(session)?);
        let found = inner.artifacts.get(&name).and_then(|versions| match version {
            Some(version) => versions.get(usize::try_from(version).ok()?),
            None => versions.last(),
        });
        Ok(found.map(|(prepared, _)| prepared.artifact.as_ref().clone()))
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        let inner = self.of_session(session)?;
        let names = inner.artifacts.keys().filter(|(app, user, of, _)| {
            (app.as_str(), user.as_str()) == (session.app_name(), session.user_id())
                && of.as_deref().is_none_or(|of| of == session.session_id())
        });
        Ok(names.map(|(.., name)| name.clone()).collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn list_artifact_versions(
        &self,
        session: &SessionKey,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>> {
        let (name, inner) = (artifact_name(session, filename)?, self.of_session(session)?);
        let versions = inner.artifacts.get(&name).into_iter().flatten().enumerate();
        let from = usize::try_from(config.from).unwrap_or(usize::MAX);
        let mut page = Vec::new();
        let mut room = Room::new(config.page_bytes);
        for (n, (prepared, time)) in versions.skip(from).take(config.limit) {
            let metadata = if config.has_metadata { prepared.custom_metadata.clone() } else { Map::new() };
            if !room.takes(bytes_of(&metadata)) {
                break;
            }
            page.push(ArtifactVersion::new(n as u64, *time).with_metadata(prepared.mime_type.clone(), metadata));
        }
        Ok(page)
    }

    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()> {
        let name = artifact_name(session, filename)?;
        self.of_session(session)?.artifacts.remove(&name);
        Ok(())
    }
}
