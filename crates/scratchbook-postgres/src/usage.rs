//! How much is stored.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::Postgres;
use super::read::column;
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::damaged;
use scratchbook_core::plan::usage::Usage;
use scratchbook_core::session::{SessionKey, StateOwner};
use scratchbook_database::{Attempt, Usages};

#[async_trait]
impl Usages for Postgres {
    async fn usage(&self, owner: &StateOwner) -> Attempt<Usage> {
        let app = owner.app_name();
        let statements = &self.statements.usage;
        let rows = match owner.user_id() {
            Some(user) => self.read(&statements.of_user, &[&app, &user]).await?,
            None => self.read(&statements.of_app, &[&app]).await?,
        };
        Ok(usage(&rows)?)
    }

    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Attempt<Usage> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let at = at.and_then(|at| i64::try_from(at).ok()).unwrap_or(i64::MAX);
        let rows = self.read(&self.statements.usage.of_fork, &[&app, &user, &session, &at]).await?;
        Ok(usage(&rows)?)
    }
}

fn usage(rows: &[Row]) -> Result<Usage> {
    let place = || "the size of what is stored".to_owned();
    let row = rows.first().ok_or_else(|| damaged(place()))?;
    let number = |index| rows::number(column(row, index, place)?, place);
    Ok(Usage { bytes: number(0)?, sessions: number(1)?, artifacts: number(2)? })
}
