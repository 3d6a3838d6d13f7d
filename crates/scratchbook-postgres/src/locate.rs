//! Finding a session by its id alone.

use super::Postgres;
use super::read::column;
use scratchbook_core::error::Result;
use scratchbook_database::Attempt;

impl Postgres {
    pub(super) async fn read_users_with(&self, app: &str, session: &str) -> Attempt<Vec<String>> {
        let lease = self.connections.lease_to_read().await?;
        let rows = lease.query(&self.statements.users_with, &[&app, &self.now(), &session]).await?;
        drop(lease);
        let user = |row| column(row, 0, || format!("the user of a session {session} of {app}"));
        Ok(rows.iter().map(user).collect::<Result<_>>()?)
    }
}
