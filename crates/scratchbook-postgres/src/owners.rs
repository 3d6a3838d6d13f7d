//! The list of apps and users.

use async_trait::async_trait;

use super::Postgres;
use super::read::{column, sql_limit};
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows::damaged;
use scratchbook_core::session::StateOwner;
use scratchbook_database::{Attempt, Owners};

#[async_trait]
impl Owners for Postgres {
    async fn owners(&self, after: Option<&StateOwner>, limit: usize) -> Attempt<Vec<StateOwner>> {
        let statements = &self.statements.owners;
        let limit = sql_limit(limit);
        let statement = match after {
            None => &statements.all,
            Some(StateOwner::App { .. }) => &statements.after_app,
            Some(StateOwner::User { .. }) => &statements.after_user,
        };
        let app = after.map_or("", StateOwner::app_name);
        let user = after.and_then(StateOwner::user_id).unwrap_or_default();
        let rows = self.read(statement, &[&app, &user, &limit]).await?;
        let owner = |row| {
            let place = || "a row of the apps and users".to_owned();
            let app: &str = column(row, 0, place)?;
            let user: Option<&str> = column(row, 1, place)?;
            let owner = user.map_or_else(|| StateOwner::app(app), |user| StateOwner::user(app, user));
            owner.map_err(|e| damaged(place()).with_source(e))
        };
        Ok(rows.iter().map(owner).collect::<Result<_>>()?)
    }
}
