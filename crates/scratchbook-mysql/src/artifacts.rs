//! Artifacts, in the same database as the sessions.

use async_trait::async_trait;
use mysql_async::Value;

use super::MySql;
use super::events::{number, sql_limit};
use super::row::{RowCells, address};
use scratchbook_core::artifact::{ArtifactVersion, ListVersionsConfig};
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::artifact_text::{ArtifactAddress, NewArtifact};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::SessionKey;
use scratchbook_database::{Artifacts, Attempt, Idempotency, RowRoom};

/// The condition for the versions of one artifact.
const OF_NAME: &str = "app_name = ? AND user_id = ? AND session_id = ? AND filename = ?";

/// The condition that the artifact's session, if it has one, has not expired.
const ALIVE: &str = "NOT EXISTS (
    SELECT 1 FROM `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
    WHERE s.app_name = ? AND s.user_id = ? AND s.id = ? AND s.expire_time <= ?
)";

/// The size of a write besides its texts.
const OVERHEAD: usize = 4096;

#[async_trait]
impl Artifacts for MySql {
    /// Saves an artifact. If two versions are saved at once, one save finds its number taken, and is retried.
    async fn save_artifact(&self, new: &NewArtifact) -> Attempt<u64> {
        self.check_size(OVERHEAD + new.text.len() + new.metadata.len())?;
        let sql = self.sql(&format!(
            "INSERT INTO `{{prefix}}artifacts` (app_name, user_id, session_id, filename, version, mime_type,
                 custom_metadata, create_time, artifact)
             SELECT ?, ?, ?, ?, LAST_INSERT_ID(COALESCE(MAX(version) + 1, 0)), ?, ?, ?, ?
             FROM `{{prefix}}artifacts` WHERE {OF_NAME} HAVING {ALIVE}"
        ));
        let address = new.address.columns().map(Value::from);
        let row = [Value::from(&new.mime_type), (&new.metadata).into(), new.created.into(), (&new.text).into()];
        let mut lease = self.connections.lease(Idempotency::NotIdempotent).await?;
        let values = [&address[..], &row, &address, &address[..3], &[self.now().into()]].concat();
        lease.rows(&sql, values.clone()).await?;
        if lease.affected_rows() == 0 {
            // Artifacts of an expired session must not reappear in a new session with the same id.
            let [app, user, session, _] = new.address.columns();
            self.make_room(&mut lease, &rows::stored_key(app, user, session)?).await?;
            lease.rows(&sql, values).await?;
            let version = lease.last_insert_id();
            lease.commit().await?;
            return Ok(version);
        }
        Ok(lease.last_insert_id())
    }

    async fn load_artifact(&self, address: &ArtifactAddress, version: Option<u64>) -> Attempt<Option<Part>> {
        let which = if version.is_some() { "AND version = ?" } else { "ORDER BY version DESC LIMIT 1" };
        let sql = format!("SELECT version, artifact FROM `{{prefix}}artifacts` WHERE {OF_NAME} AND {ALIVE} {which}");
        let mut values = self.alive(address);
        values.extend(version.map(super::events::number));
        let rows = self.read(&sql, values).await?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let mut cells = RowCells::from(row);
        let version = cells.integer(0, || address.place("?"))?;
        let text = cells.text(1, || address.place(version))?;
        Ok(Some(rows::json(&text, || address.place(version))?))
    }

    async fn list_artifacts(&self, key: &SessionKey) -> Attempt<Vec<String>> {
        let sql = "SELECT DISTINCT filename FROM `{prefix}artifacts`
            WHERE app_name = ? AND user_id = ? AND (session_id = '' OR session_id = ? AND {ALIVE}) ORDER BY filename";
        let sql = sql.replace("{ALIVE}", ALIVE);
        let key_values = address(key);
        let values = [&key_values[..], &key_values, &[self.now().into()]].concat();
        let rows = self.read(&sql, values).await?;
        let names = rows.into_iter().map(|row| RowCells::from(row).text(0, || format!("an artifact's name of {key}")));
        Ok(names.collect::<Result<_>>()?)
    }

    async fn list_artifact_versions(
        &self,
        address: &ArtifactAddress,
        config: &ListVersionsConfig,
        room: RowRoom,
    ) -> Attempt<Vec<ArtifactVersion>> {
        let metadata = if config.has_metadata { "custom_metadata" } else { "'{}'" };
        let sql = format!(
            "SELECT version, mime_type, {metadata}, create_time FROM `{{prefix}}artifacts`
             WHERE {OF_NAME} AND {ALIVE} AND version >= ? ORDER BY version LIMIT ?"
        );
        let values = [&self.alive(address)[..], &[number(config.from), sql_limit(config.limit)]].concat();
        let rows = self.read_within(&sql, values, room, |_| true).await?;
        let version = |row| {
            let mut cells = RowCells::from(row);
            let version = cells.integer(0, || address.place("?"))?;
            let place = || address.place(version);
            Ok(ArtifactVersion {
                version: rows::number(version, place)?,
                mime_type: cells.optional_text(1, place)?,
                custom_metadata: rows::json(&cells.text(2, place)?, place)?,
                create_time: cells.double(3, place)?,
            })
        };
        Ok(rows.into_iter().map(version).collect::<Result<_>>()?)
    }

    async fn delete_artifact(&self, address: &ArtifactAddress) -> Attempt<()> {
        let sql = self.sql(&format!("DELETE FROM `{{prefix}}artifacts` WHERE {OF_NAME}"));
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.rows(&sql, address.columns().map(Value::from).to_vec()).await.map(drop)
    }
}

impl MySql {
    /// Returns the parameters for an artifact's address and for [`ALIVE`].
    fn alive(&self, address: &ArtifactAddress) -> Vec<Value> {
        let columns = address.columns().map(Value::from);
        [&columns[..], &columns[..3], &[self.now().into()]].concat()
    }
}
