//! Artifacts in memory, stored with the sessions of their user.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::app::{AppData, ArtifactName, ArtifactVersions};
use super::{InMemorySessionService, read, write};
use crate::artifact::{ArtifactService, ArtifactVersion, ListVersionsConfig, check_filename};
use crate::content::Part;
use crate::error::Result;
use crate::json::bytes_of;
use crate::plan::artifact::prepare_artifact;
use crate::plan::quota::reserve;
use crate::plan::room::Room;
use crate::plan::usage::Usage;
use crate::session::SessionKey;

fn artifact_name(session: &SessionKey, filename: &str) -> Result<ArtifactName> {
    let session = if check_filename(filename)? { None } else { Some(session.session_id().into()) };
    Ok((session, filename.to_owned()))
}

impl InMemorySessionService {
    /// Returns the versions of an artifact; none if its session has expired.
    fn versions<'a>(
        &self,
        app: &'a AppData,
        session: &SessionKey,
        name: &ArtifactName,
    ) -> Option<&'a ArtifactVersions> {
        let is_gone = name.0.is_some() && self.has_expired(app, session);
        app.users.get(session.user_id()).filter(|_| !is_gone)?.artifacts.get(name)
    }
}

#[async_trait]
impl ArtifactService for InMemorySessionService {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let name = artifact_name(session, filename)?;
        let prepared = prepare_artifact(session, filename, artifact, custom_metadata, &self.limits)?;
        let held = reserve(self, session, Usage::artifact(prepared.bytes)).await?;
        let app = self.app_or_new(session.app_name())?;
        let mut app = write(&app);
        // Artifacts of an expired session must not return with a new session of the same id.
        self.drop_expired(&mut app, session);
        let versions = app.user(session.user_id()).artifacts.entry(name).or_default();
        versions.push((prepared, self.environment.now()));
        held.keep();
        Ok(versions.len() as u64 - 1)
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let name = artifact_name(session, filename)?;
        let Some(app) = self.app(session.app_name())? else {
            return Ok(None);
        };
        let app = read(&app);
        let versions = self.versions(&app, session, &name);
        let found = versions.and_then(|versions| match version {
            None => versions.last(),
            Some(version) => versions.get(usize::try_from(version).ok()?),
        });
        Ok(found.map(|(prepared, _)| prepared.artifact.as_ref().clone()))
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        let Some(app) = self.app(session.app_name())? else {
            return Ok(Vec::new());
        };
        let app = read(&app);
        let Some(user) = app.users.get(session.user_id()) else {
            return Ok(Vec::new());
        };
        let own = (!self.has_expired(&app, session)).then(|| Some(Arc::from(session.session_id())));
        let names = iter::once(None).chain(own).flat_map(|owner| {
            let from = (owner.clone(), String::new());
            user.artifacts.range(from..).map(|(name, _)| name).take_while(move |(of, _)| *of == owner)
        });
        Ok(names.map(|(_, name)| name.clone()).collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn list_artifact_versions(
        &self,
        session: &SessionKey,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>> {
        let name = artifact_name(session, filename)?;
        let Some(app) = self.app(session.app_name())? else {
            return Ok(Vec::new());
        };
        let app = read(&app);
        let from = usize::try_from(config.from).unwrap_or(usize::MAX);
        let mut room = Room::new(config.page_bytes);
        let mut page = Vec::new();
        let versions = self.versions(&app, session, &name).into_iter().flatten().enumerate();
        for (version, (prepared, time)) in versions.skip(from).take(config.limit) {
            let mut found = ArtifactVersion::new(version as u64, *time);
            found.mime_type.clone_from(&prepared.mime_type);
            if config.has_metadata {
                if !room.takes(bytes_of(&prepared.custom_metadata)) {
                    break;
                }
                found.custom_metadata.clone_from(&prepared.custom_metadata);
            }
            page.push(found);
        }
        Ok(page)
    }

    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()> {
        let name = artifact_name(session, filename)?;
        if let Some(app) = self.app(session.app_name())? {
            let mut app = write(&app);
            if let Some(user) = app.users.get_mut(session.user_id()) {
                user.artifacts.remove(&name);
            }
            self.quotas.forget(&session.user());
        }
        Ok(())
    }
}
