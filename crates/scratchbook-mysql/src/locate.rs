//! Sessions by their ids alone, and ids that are unique in their app.

use mysql_async::Value;
use sha2::{Digest, Sha256};

use super::MySql;
use super::lease::Lease;
use super::row::Cells;
use super::write::{Answer, Begun};
use scratchbook_core::error::Result;
use scratchbook_core::session::{IdScope, SessionKey};
use scratchbook_database::{Attempt, Idempotency};

/// How many rows creations of unique ids take turns by. Those of other ids that share one wait for a commit.
const SLOTS: u16 = 1024;

/// The session that a creation is to make.
pub(super) struct NewKey<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) scope: IdScope,
    pub(super) token: &'a str,
}

/// Whether a creation may go on.
pub(super) enum CreationStart {
    /// It may, in a transaction that was begun as is said.
    Begun(Begun),
    /// This is what is answered to it.
    Answered(Answer),
}

impl MySql {
    pub(super) async fn read_users_with(&self, app: &str, session: &str) -> Attempt<Vec<String>> {
        let sql = self.sql(
            "SELECT user_id FROM `{prefix}sessions` FORCE INDEX (sessions_by_id)
             WHERE app_name = ? AND id = ? AND (expire_time IS NULL OR expire_time > ?) LIMIT 2",
        );
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        let rows = lease.rows(&sql, vec![app.into(), session.into(), self.now().into()]).await?;
        drop(lease);
        let user = |row| Cells::from(row).text(0, || format!("the user of a session {session} of {app}"));
        Ok(rows.into_iter().map(user).collect::<Result<_>>()?)
    }

    /// Before a session is made: where its id has to be unique in its app, begins a transaction in which nobody else makes
    /// one that has to, and looks for another user who has it. It is the first lock of that transaction, and no other
    /// writer takes it, so that it may come before those of sessions.
    pub(super) async fn begin_new(&self, lease: &mut Lease<'_>, new: &NewKey<'_>) -> Attempt<CreationStart> {
        if new.scope == IdScope::User {
            return Ok(CreationStart::Begun(Begun::Here));
        }
        let [app, user, session] = [new.key.app_name(), new.key.user_id(), new.key.session_id()];
        lease.begin().await?;
        let turn = "INSERT INTO `{prefix}id_turns` (slot, turns) VALUES (?, 1)
            ON DUPLICATE KEY UPDATE turns = `{prefix}id_turns`.turns + 1";
        lease.rows(&self.sql(turn), vec![slot(app, session).into()]).await?;
        let others = "SELECT 1 FROM `{prefix}sessions` FORCE INDEX (sessions_by_id)
            WHERE app_name = ? AND id = ? AND user_id <> ? AND (expire_time IS NULL OR expire_time > ?) LIMIT 1";
        let address = [app, session, user].map(Value::from);
        let values = [&address[..], &[self.now().into()]].concat();
        if lease.rows(&self.sql(others), values).await?.is_empty() {
            return Ok(CreationStart::Begun(Begun::Before));
        }
        // Made by a try before this one; another user's came later, which did not have to be unique.
        let own = "SELECT 1 FROM `{prefix}sessions` FORCE INDEX (PRIMARY)
            WHERE app_name = ? AND id = ? AND user_id = ? AND token = ?";
        let is_ours = !lease.rows(&self.sql(own), [&address[..], &[new.token.into()]].concat()).await?.is_empty();
        lease.rollback().await?;
        Ok(CreationStart::Answered(if is_ours { Answer::Made } else { Answer::Taken }))
    }
}

/// The row that stands for an id, the same to every version of this program.
fn slot(app: &str, session: &str) -> u16 {
    let mut hash = Sha256::new();
    for text in [app, session] {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let hash: [u8; 32] = hash.finalize().into();
    u16::from_le_bytes([hash[0], hash[1]]) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::slot;

    /// Two versions that took other rows for one id would not wait for each other.
    #[test]
    fn the_row_of_an_id_stays_what_it_is() {
        assert_eq!([slot("app", "s"), slot("ap", "ps"), slot("", "")], [936, 105, 823]);
    }
}
