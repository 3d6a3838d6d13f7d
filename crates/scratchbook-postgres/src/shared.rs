//! Keys of a user or an app: pages of them, and the past of one.

use serde_json::Map;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::changes::owner;
use super::read::{change, column, scope_of, sql_limit};
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{ListStateConfig, StateChange, StateOwner, StatePage};
use scratchbook_core::state::MAX_KEY_BYTES;
pub(crate) use scratchbook_database::{Attempt, RowRoom};

impl Postgres {
    pub(super) async fn read_state_page(
        &self,
        of: &StateOwner,
        config: &ListStateConfig,
        room: RowRoom,
    ) -> Attempt<StatePage> {
        let [app, user, _] = owner(of);
        let (prefix, after) = (config.prefix.as_str(), config.after.as_deref());
        // Names with U+0000 are refused when they are written, so there is none after such a one that is not after this.
        let from = after.map_or(prefix, |after| after.max(prefix)).split('\0').next().unwrap_or_default();
        let (upper, limit) = (after_all(prefix), sql_limit(config.page_size + 1));
        let lease = self.connections.lease_to_read().await?;
        let (of_user, of_app) = (&self.statements.user_page, &self.statements.app_page);
        let rows = match of {
            StateOwner::User { .. } => {
                let params: [&(dyn ToSql + Sync); 6] = [&app, &user, &from, &upper, &after, &limit];
                lease.query_within(of_user, &params, room, |_| true).await?
            }
            StateOwner::App { .. } => {
                let params: [&(dyn ToSql + Sync); 5] = [&app, &from, &upper, &after, &limit];
                lease.query_within(of_app, &params, room, |_| true).await?
            }
        };
        drop(lease);
        let (scope, mut values) = (scope_of(of), Map::new());
        for row in rows.iter().take(config.page_size) {
            let name: String = column(row, 0, || format!("a key of {app}/{user}"))?;
            let place = || format!("the value of key '{}' of {app}/{user}", scope.key(&name));
            let value = rows::json(column(row, 1, place)?, place)?;
            values.insert(name, value);
        }
        let next = if rows.len() > config.page_size { values.keys().next_back().cloned() } else { None };
        Ok(StatePage::new(values, next))
    }

    pub(super) async fn read_key_changes(
        &self,
        of: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>> {
        let ([app, user, _], scope) = (owner(of), scope_of(of));
        let (before, limit) = (i64::try_from(before).unwrap_or(i64::MAX), sql_limit(limit));
        if name.contains('\0') {
            return Ok(Vec::new());
        }
        let lease = self.connections.lease_to_read().await?;
        let params: [&(dyn ToSql + Sync); 6] = [&app, &scope.as_str(), &user, &name, &before, &limit];
        let rows = lease.query_within(&self.statements.key_changes, &params, room, |_| true).await?;
        drop(lease);
        Ok(rows.iter().map(|row| change(row, app, user, scope)).collect::<Result<_>>()?)
    }
}

/// A text that stands behind all names with a prefix, byte by byte, and before as few others as can be.
fn after_all(prefix: &str) -> String {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            rest.push(next);
            return rest;
        }
    }
    // Longer than any name of the greatest character alone.
    char::MAX.to_string().repeat(MAX_KEY_BYTES / char::MAX.len_utf8() + 1)
}

#[cfg(test)]
mod tests {
    use super::after_all;

    #[test]
    fn names_with_a_prefix_stand_before_what_is_after_all_of_them() {
        for prefix in ["", "a", "100%", "a\u{10ffff}", "\u{d7ff}", "\u{7f}", "\u{ffff}", "\u{10ffff}\u{10ffff}"] {
            let end = after_all(prefix);
            for rest in ["", "a", "\u{10ffff}", "\u{10ffff}\u{10ffff}a"] {
                assert!(format!("{prefix}{rest}") < end, "{prefix:?} {rest:?}");
            }
        }
        assert_eq!(after_all("ab"), "ac");
        assert_eq!(after_all("a\u{10ffff}"), "b");
    }
}
