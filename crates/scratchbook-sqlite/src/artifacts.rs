//! Artifacts, stored in the same file as the sessions.

use async_trait::async_trait;
use rusqlite::params;
use serde_json::{Map, Value};

use super::SqliteSessionService;
use super::retention::{self, no_session_expired};
use super::row::{decode, named, number, sql_limit, sql_number, text_length};
use scratchbook_core::artifact::{ArtifactService, ArtifactVersion, ListVersionsConfig};
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;
use scratchbook_core::plan::quota::reserve;
use scratchbook_core::plan::room::Room;
use scratchbook_core::plan::sql::artifact_text::{ArtifactAddress, NewArtifact};
use scratchbook_core::session::{CommitScope, SessionKey};

#[async_trait]
impl ArtifactService for SqliteSessionService {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let address = ArtifactAddress::new(session, filename)?;
        let new = NewArtifact::new(address, artifact, custom_metadata, self.now(), &self.limits)?;
        let held = reserve(self, session, new.usage()).await?;
        let (key, now) = (session.clone(), self.now_micros());
        let bytes = new.text.len() + new.metadata.len();
        let version = self.write_charged(CommitScope::Nothing, bytes, held.kept_if(|_| true), move |tx| {
            // The artifacts of an expired session must not reappear in a new session with the same id.
            retention::delete_if_expired(tx, &key, now)?;
            let [app, user, session, filename] = new.address.columns();
            let mut insert = tx.prepare(
                "INSERT INTO artifacts (app_name, user_id, session_id, filename, version, mime_type, custom_metadata,
                     create_time, artifact)
                 VALUES (?1, ?2, ?3, ?4, (
                     SELECT coalesce(max(version) + 1, 0) FROM artifacts
                     WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4
                 ), ?5, ?6, ?7, ?8)
                 RETURNING version",
            )?;
            let row = params![app, user, session, filename, new.mime_type, new.metadata, new.created, new.text];
            Ok(insert.query_row(row, |row| number(row, 0))?)
        });
        version.await
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let (address, now) = (ArtifactAddress::new(session, filename)?, self.now_micros());
        self.read(move |connection| {
            let [app, user, session, filename] = address.columns();
            let mut statement = connection.prepare_cached(&format!(
                "SELECT version, artifact FROM artifacts
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4
                     AND version = coalesce(?5, (
                         SELECT max(version) FROM artifacts
                         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4
                     ))
                     AND {}",
                no_session_expired("artifacts", 6)
            ))?;
            let mut rows = statement.query(params![app, user, session, filename, version.map(sql_number), now])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            let version = named(number(row, 0), || address.place(0))?;
            decode(row.get_ref(1)?, || address.place(version)).map(Some)
        })
        .await
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        let (key, now) = (session.clone(), self.now_micros());
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT DISTINCT filename FROM artifacts
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id IN (?3, '') AND {} ORDER BY filename",
                no_session_expired("artifacts", 4)
            ))?;
            let of = params![key.app_name(), key.user_id(), key.session_id(), now];
            let names = statement.query_map(of, |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn list_artifact_versions(
        &self,
        session: &SessionKey,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>> {
        let address = ArtifactAddress::new(session, filename)?;
        let now = self.now_micros();
        let config = *config;
        self.read(move |connection| {
            let [app, user, session, filename] = address.columns();
            let metadata = if config.has_metadata { "custom_metadata" } else { "'{}'" };
            let mut statement = connection.prepare_cached(&format!(
                "SELECT version, mime_type, {metadata}, create_time FROM artifacts
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4 AND {}
                     AND version >= ?6
                 ORDER BY version LIMIT ?7",
                no_session_expired("artifacts", 5)
            ))?;
            let from = sql_number(config.from);
            let limit = sql_limit(config.limit);
            let mut rows = statement.query(params![app, user, session, filename, now, from, limit])?;
            let mut versions = Vec::new();
            let mut room = Room::new(config.page_bytes);
            while let Some(row) = rows.next()? {
                if !room.takes(text_length(row, 1) + text_length(row, 2)) {
                    break;
                }
                let version = named(number(row, 0), || address.place(0))?;
                versions.push(ArtifactVersion {
                    version,
                    custom_metadata: decode(row.get_ref(2)?, || address.place(version))?,
                    create_time: row.get(3)?,
                    mime_type: row.get(1)?,
                });
            }
            Ok(versions)
        })
        .await
    }

    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()> {
        let address = ArtifactAddress::new(session, filename)?;
        self.write(CommitScope::Nothing, 0, move |tx| {
            tx.execute(
                "DELETE FROM artifacts WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4",
                address.columns(),
            )?;
            Ok(())
        })
        .await?;
        self.quotas.forget(&session.user());
        Ok(())
    }
}
