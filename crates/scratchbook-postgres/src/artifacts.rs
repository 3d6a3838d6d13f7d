//! Artifacts, in the same database as the sessions.

use async_trait::async_trait;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::lease::BoundStatement;
use super::locks::{lock_number, param};
use super::read::{column, sql_limit};
use scratchbook_core::artifact::{ArtifactVersion, ListVersionsConfig};
use scratchbook_core::content::Part;
use scratchbook_core::plan::sql::artifact_text::{ArtifactAddress, NewArtifact};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{RemovalKind, SessionKey};
use scratchbook_database::{Artifacts, Attempt, RowRoom};

#[async_trait]
impl Artifacts for Postgres {
    async fn save_artifact(&self, new: &NewArtifact) -> Attempt<u64> {
        let [app, user, session, filename] = new.address.columns();
        let statements = &self.statements.artifact;
        let lock = lock_number(new.address.columns());
        let lease = self.connections.lease().await?;
        let expired = &self.statements.delete.lock_expired;
        let now = self.now();
        // A concurrent save of the same name waits here and then sees the version before its own. Saves of two names
        // with the same lock number also wait for each other. This is rare and harmless.
        let steps = [
            BoundStatement::new(expired, [param(&app), &user, &session, &now]),
            BoundStatement::new(&self.statements.lock, [param(&lock)]),
        ];
        let answers = lease.begin_with(&steps).await?;
        if let Some(row) = answers.first().and_then(|expired| expired.first()) {
            let last = column(row, 0, || format!("the session {app}/{user}/{session}"))?;
            self.remove_locked(&lease, [app, user, session], RemovalKind::Expired, last).await?;
        }
        let params: [&(dyn ToSql + Sync); 8] =
            [&app, &user, &session, &filename, &new.mime_type, &new.metadata, &new.created, &new.text];
        let rows = lease.last(&statements.save, &params).await?;
        let place = || new.address.place("just saved");
        let row = rows.first().ok_or_else(|| rows::damaged(place()))?;
        Ok(rows::number(column(row, 0, place)?, place)?)
    }

    async fn load_artifact(&self, address: &ArtifactAddress, version: Option<u64>) -> Attempt<Option<Part>> {
        let [app, user, session, filename] = address.columns();
        let version = version.map(|version| i64::try_from(version).unwrap_or(i64::MAX));
        let params: [&(dyn ToSql + Sync); 6] = [&app, &user, &session, &filename, &version, &self.now()];
        let rows = self.read(&self.statements.artifact.load, &params).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let version: i64 = column(row, 0, || address.place("?"))?;
        let place = || address.place(version);
        Ok(Some(rows::json(column(row, 1, place)?, place)?))
    }

    async fn list_artifacts(&self, key: &SessionKey) -> Attempt<Vec<String>> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let rows = self.read(&self.statements.artifact.names, &[&app, &user, &session, &self.now()]).await?;
        let mut names = Vec::with_capacity(rows.len());
        for row in &rows {
            names.push(column(row, 0, || format!("a name of an artifact of {key}"))?);
        }
        Ok(names)
    }

    async fn list_artifact_versions(
        &self,
        address: &ArtifactAddress,
        config: &ListVersionsConfig,
        room: RowRoom,
    ) -> Attempt<Vec<ArtifactVersion>> {
        let [app, user, session, filename] = address.columns();
        let now = self.now();
        let from = i64::try_from(config.from).unwrap_or(i64::MAX);
        let limit = sql_limit(config.limit);
        let params: [&(dyn ToSql + Sync); 8] =
            [&app, &user, &session, &filename, &now, &from, &limit, &config.has_metadata];
        let rows = self.read_within(&self.statements.artifact.versions, &params, room, |_| true).await?;
        let mut versions = Vec::with_capacity(rows.len());
        for row in &rows {
            let version: i64 = column(row, 0, || address.place("?"))?;
            let place = || address.place(version);
            versions.push(ArtifactVersion {
                version: rows::number(version, place)?,
                custom_metadata: rows::json(column(row, 2, place)?, place)?,
                create_time: column(row, 3, place)?,
                mime_type: column(row, 1, place)?,
            });
        }
        Ok(versions)
    }

    async fn delete_artifact(&self, address: &ArtifactAddress) -> Attempt<()> {
        let [app, user, session, filename] = address.columns();
        let lease = self.connections.lease().await?;
        let gone = lease.query(&self.statements.artifact.delete, &[&app, &user, &session, &filename]).await?;
        if gone.is_empty() {
            // An earlier attempt of this call may have deleted the artifact. This write gives our own commit something
            // to replicate, so the commit waits until the earlier one is replicated.
            lease.query(&self.statements.delete.touch_app, &[&app]).await?;
        }
        Ok(())
    }
}
