//! The hashes of stored events, for a verification.

use async_trait::async_trait;

use super::Postgres;
use super::read::{column, sql_limit};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{EventHash, EventHashes, SessionKey};
pub(crate) use scratchbook_database::{Attempt, Hashes};

#[async_trait]
impl Hashes for Postgres {
    async fn event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Attempt<Option<EventHashes>> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let statement = &self.statements.event_hashes;
        let rows = self.read(statement, &[&app, &user, &session, &after, &sql_limit(limit), &self.now()]).await?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let place = || format!("the session {key}");
        let last = rows::number(column(first, 0, place)?, place)?;
        let base = rows::number(column(first, 1, place)?, place)?;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            let seq: Option<i64> = column(row, 2, place)?;
            let Some(seq) = seq else { continue };
            let place = || format!("the event {seq} of {key}");
            let text: Vec<u8> = column(row, 5, place)?;
            let text = text.try_into().map_err(|_| rows::damaged(place()))?;
            let id: String = column(row, 3, place)?;
            events.push(EventHash::new(rows::number(seq, place)?, id, column(row, 4, place)?, text));
        }
        Ok(Some(EventHashes::new(base, last).with_events(events)))
    }
}
