//! Reads google-adk's databases in PostgreSQL, written by `DatabaseSessionService`.

use async_trait::async_trait;
use scratchbook::store::{connect_to_any_postgres, without_password};
use scratchbook::{Error, ErrorKind, Result, SessionKey};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::layout::{DetectedTables, Layout};
use super::rows::{AdkDatabase, AdkEventRow, AdkSessionRow, EventOverrides};

/// A connection in a read-only transaction on one snapshot.
#[derive(Debug)]
pub(super) struct AdkPostgres {
    client: Client,
    name: String,
}

impl AdkPostgres {
    pub(super) async fn open(uri: &str) -> Result<Self> {
        let name = without_password(uri);
        let client = connect_to_any_postgres(uri).await?;
        let source = Self { client, name };
        let begin = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY";
        source.client.batch_execute(begin).await.map_err(|e| failed(&source.name, &e, ""))?;
        source.look().await?.check(Layout::Database, &source.name, &source.name)?;
        Ok(source)
    }

    async fn look(&self) -> Result<DetectedTables> {
        let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns
            WHERE table_schema = ANY (current_schemas(false))";
        let columns: Vec<(String, String)> =
            self.query(sql, &[]).await?.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut found = DetectedTables::default();
        for (table, column) in columns {
            if table == "events" {
                found.event_columns.push(column);
            }
            found.tables.push(table);
        }
        if found.tables.iter().any(|table| table == "adk_internal_metadata") {
            let sql = "SELECT value FROM adk_internal_metadata WHERE key = 'schema_version'";
            found.version = self.query(sql, &[]).await?.first().map(|row| row.get(0));
        }
        Ok(found)
    }

    async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        self.client.query(sql, params).await.map_err(|e| failed(&self.name, &e, ""))
    }

    async fn names(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<String>> {
        Ok(self.query(sql, params).await?.iter().map(|row| row.get(0)).collect())
    }
}

#[async_trait]
impl AdkDatabase for AdkPostgres {
    async fn count_events(&self) -> Result<u64> {
        let rows = self.query("SELECT count(*) FROM events", &[]).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
    }

    async fn apps(&self) -> Result<Vec<String>> {
        let sql = "SELECT app_name::text FROM sessions UNION SELECT app_name FROM app_states
            UNION SELECT app_name FROM user_states ORDER BY 1";
        self.names(sql, &[]).await
    }

    async fn users(&self, app: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let sql = r#"SELECT user_id FROM (
                SELECT user_id::text COLLATE "C" AS user_id FROM sessions WHERE app_name = $1
                UNION SELECT user_id::text COLLATE "C" FROM user_states WHERE app_name = $1
            ) AS users
            WHERE $2::text IS NULL OR user_id > $2 ORDER BY user_id LIMIT $3"#;
        self.names(sql, &[&app, &after, &limit_of(limit)]).await
    }

    async fn state(&self, app: &str, user: Option<&str>) -> Result<Option<Result<String>>> {
        let found = match user {
            None => self.names("SELECT state::text FROM app_states WHERE app_name = $1", &[&app]).await?,
            Some(user) => {
                let sql = "SELECT state::text FROM user_states WHERE app_name = $1 AND user_id = $2";
                self.names(sql, &[&app, &user]).await?
            }
        };
        Ok(found.into_iter().next().map(Ok))
    }

    async fn sessions(&self, app: &str, user: &str, after: Option<&str>, limit: usize) -> Result<Vec<AdkSessionRow>> {
        let sql = r#"SELECT id::text, state::text, (extract(epoch FROM create_time) * 1000000)::bigint,
                (extract(epoch FROM update_time) * 1000000)::bigint
            FROM sessions WHERE app_name = $1 AND user_id = $2 AND ($3::text IS NULL OR (update_time, id COLLATE "C") > (
                SELECT update_time, id COLLATE "C" FROM sessions WHERE app_name = $1 AND user_id = $2 AND id = $3
            ))
            ORDER BY update_time, id COLLATE "C" LIMIT $4"#;
        let rows = self.query(sql, &[&app, &user, &after, &limit_of(limit)]).await?;
        let row = |row: &Row| AdkSessionRow {
            id: row.get(0),
            state: Ok(row.get(1)),
            create_time: seconds(row.get(2)),
            update_time: seconds(row.get(3)),
        };
        Ok(rows.iter().map(row).collect())
    }

    async fn events(&self, session: &SessionKey, after: Option<&str>, limit: usize) -> Result<Vec<AdkEventRow>> {
        // Ids are ordered by the database's collation, as in google-adk.
        let sql = "SELECT id::text, invocation_id::text, (extract(epoch FROM timestamp) * 1000000)::bigint,
                coalesce(event_data::text, '{}')
            FROM events WHERE app_name = $1 AND user_id = $2 AND session_id = $3
            AND ($4::text IS NULL OR (timestamp, id) > (
                SELECT timestamp, id FROM events
                WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND id = $4
            ))
            ORDER BY timestamp, id LIMIT $5";
        let (app, user, session) = (session.app_name(), session.user_id(), session.session_id());
        let rows = self.query(sql, &[&app, &user, &session, &after, &limit_of(limit)]).await?;
        let row = |row: &Row| AdkEventRow {
            id: row.get(0),
            columns: Some(EventOverrides { invocation_id: row.get(1) }),
            time: seconds(row.get(2)),
            data: Ok(row.get(3)),
        };
        Ok(rows.iter().map(row).collect())
    }

    async fn has_event(&self, session: &SessionKey, id: &str) -> Result<bool> {
        let sql = "SELECT id::text FROM events
            WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND id = $4";
        let (app, user, session) = (session.app_name(), session.user_id(), session.session_id());
        Ok(!self.names(sql, &[&app, &user, &session, &id]).await?.is_empty())
    }
}

fn seconds(micros: Option<i64>) -> Option<f64> {
    micros.map(|micros| micros as f64 / 1e6)
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts an error of the server or the connection, without its details, which may quote a value.
pub(super) fn failed(name: &str, error: &tokio_postgres::Error, hint: &str) -> Error {
    let said = error.as_db_error().map_or_else(|| error.to_string(), |e| e.message().to_owned());
    let kind = match error.code() {
        Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            ErrorKind::Unauthenticated
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => ErrorKind::NotFound,
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => ErrorKind::PermissionDenied,
        Some(&(SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN)) => ErrorKind::FailedPrecondition,
        Some(_) => ErrorKind::DataCorrupted,
        None => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{name} cannot be read: {said}{hint}"))
}
