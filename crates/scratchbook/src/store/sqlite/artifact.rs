//! Artifacts in the same file.

use async_trait::async_trait;
use rusqlite::params;
use serde_json::{Map, Value};

use super::SqliteSessionService;
use super::read::{decode, named, number, sql_number};
use crate::artifact::{ArtifactService, ArtifactVersion, check_filename, prepare_artifact};
use crate::content::Part;
use crate::error::Result;
use crate::json;
use crate::session::SessionKey;

/// Whose artifact it is, and its name.
struct Address {
    key: SessionKey,
    filename: String,
    /// Whether it is the user's own, seen from every session.
    user: bool,
}

impl Address {
    fn new(key: &SessionKey, filename: &str) -> Result<Self> {
        let user = check_filename(filename)?;
        Ok(Self { key: key.clone(), filename: filename.to_owned(), user })
    }

    fn columns(&self) -> [&str; 4] {
        // No session has the empty id.
        let session = if self.user { "" } else { self.key.session_id() };
        [self.key.app_name(), self.key.user_id(), session, &self.filename]
    }

    fn place(&self, version: u64) -> String {
        format!("version {version} of the artifact '{}' of {}", self.filename, self.key)
    }
}

#[async_trait]
impl ArtifactService for SqliteSessionService {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let address = Address::new(session, filename)?;
        let prepared = prepare_artifact(artifact, custom_metadata)?;
        let (text, metadata) = (
            json::to_text(&prepared.artifact, "the artifact")?,
            json::to_text(&prepared.custom_metadata, "its metadata")?,
        );
        let (mime_type, now) = (prepared.mime_type, self.now());
        self.write(text.len() + metadata.len(), move |tx| {
            let [app, user, session, filename] = address.columns();
            let mut insert = tx.prepare(
                "INSERT INTO artifacts (app_name, user_id, session_id, filename, version, mime_type, custom_metadata,
                     create_time, artifact)
                 VALUES (?1, ?2, ?3, ?4, (
                     SELECT coalesce(max(version) + 1, 0) FROM artifacts
                     WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4
                 ), ?5, ?6, ?7, ?8)
                 RETURNING version",
            )?;
            let row = params![app, user, session, filename, mime_type, metadata, now, text];
            Ok(insert.query_row(row, |row| number(row, 0))?)
        })
        .await
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let address = Address::new(session, filename)?;
        self.read(move |connection| {
            let [app, user, session, filename] = address.columns();
            let mut statement = connection.prepare_cached(
                "SELECT version, artifact FROM artifacts
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4
                     AND version = coalesce(?5, (
                         SELECT max(version) FROM artifacts
                         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4
                     ))",
            )?;
            let mut rows = statement.query(params![app, user, session, filename, version.map(sql_number)])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            let version = named(number(row, 0), || address.place(0))?;
            decode(row.get_ref(1)?, || address.place(version)).map(Some)
        })
        .await
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        let key = session.clone();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT DISTINCT filename FROM artifacts
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id IN (?3, '') ORDER BY filename",
            )?;
            let names = statement.query_map([key.app_name(), key.user_id(), key.session_id()], |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn list_artifact_versions(&self, session: &SessionKey, filename: &str) -> Result<Vec<ArtifactVersion>> {
        let address = Address::new(session, filename)?;
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT version, mime_type, custom_metadata, create_time FROM artifacts
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4 ORDER BY version",
            )?;
            let mut rows = statement.query(address.columns())?;
            let mut versions = Vec::new();
            while let Some(row) = rows.next()? {
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
        let address = Address::new(session, filename)?;
        self.write(0, move |tx| {
            tx.execute(
                "DELETE FROM artifacts WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND filename = ?4",
                address.columns(),
            )?;
            Ok(())
        })
        .await
    }
}
