//! Ids that are unique within an app.

use mysql_async::Value;
use sha2::{Digest, Sha256};

use super::MySql;
use super::lease::Lease;
use super::procedure::{ProcedureRow, TransactionStart};
use scratchbook_core::session::{IdScope, SessionKey};
use scratchbook_database::Attempt;

/// The number of rows that creations with unique ids lock. Different ids that share a row wait for each other's
/// commits.
const SLOTS: u16 = 1024;

/// The key of a session to create.
pub(super) struct NewKey<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) scope: IdScope,
    pub(super) token: &'a str,
}

/// The start of a creation.
pub(super) enum CreationStart {
    /// The creation continues. The value tells whether its transaction has begun.
    Begun(TransactionStart),
    /// The creation has ended with this answer.
    Answered(ProcedureRow),
}

impl MySql {
    /// Starts a creation. If the id has to be unique within the app, this begins a transaction that excludes other such
    /// creations of the id, and checks whether another user has the id. The lock is the first of the transaction, and
    /// no other kind of writer takes it, so it can come before the locks of sessions.
    pub(super) async fn begin_new(&self, lease: &mut Lease<'_>, new: &NewKey<'_>) -> Attempt<CreationStart> {
        if new.scope == IdScope::User {
            return Ok(CreationStart::Begun(TransactionStart::Here));
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
            return Ok(CreationStart::Begun(TransactionStart::Before));
        }
        // An earlier attempt may have created the session. Afterwards another user may have created one with the same
        // id, without requiring that the id is unique.
        let own = "SELECT 1 FROM `{prefix}sessions` FORCE INDEX (PRIMARY)
            WHERE app_name = ? AND id = ? AND user_id = ? AND token = ?";
        let is_ours = !lease.rows(&self.sql(own), [&address[..], &[new.token.into()]].concat()).await?.is_empty();
        lease.rollback().await?;
        Ok(CreationStart::Answered(if is_ours { ProcedureRow::Made } else { ProcedureRow::Taken }))
    }
}

/// Returns the number of the row to lock for an id. It is the same in all versions of this program.
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

    /// Two versions that used different rows for one id would not wait for each other.
    #[test]
    fn the_row_of_an_id_stays_what_it_is() {
        assert_eq!([slot("app", "s"), slot("ap", "ps"), slot("", "")], [936, 105, 823]);
    }
}
