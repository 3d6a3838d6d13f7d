//! The rows that a write locks and reads first: the owners of keys, the keys themselves, and their last writers.

use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::lease::{BoundStatement, Lease};
use super::read::column;
use super::statements::Resolves;
use scratchbook_core::error::{Error, KeyWriter, Result};
use scratchbook_core::plan::growth::Growth;
use scratchbook_core::plan::resolve::{Found, Refusal, WrittenKey};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{SessionKey, StateOwner};
use scratchbook_core::state::Scope;
pub(crate) use scratchbook_database::Attempt;

/// Converts the first parameter of a list; the others are then coerced to the same type.
pub(super) fn param<T: ToSql + Sync>(value: &T) -> &(dyn ToSql + Sync) {
    value
}

/// The keys to read, in columns, and the scopes whose keys are all read.
pub(super) struct KeysToRead<'a> {
    keys: Vec<(Scope, &'a str)>,
    whole: Vec<Scope>,
    scopes: Vec<&'static str>,
    names: Vec<&'a str>,
}

impl<'a> KeysToRead<'a> {
    pub(super) fn new(keys: impl Iterator<Item = (Scope, &'a str)>, whole: impl Iterator<Item = Scope>) -> Self {
        let keys: Vec<_> = keys.collect();
        let (scopes, names) = keys.iter().map(|(scope, name)| (scope.as_str(), *name)).unzip();
        Self { keys, whole: whole.collect(), scopes, names }
    }

    /// Returns the statements that read the keys: first the named keys, then the keys of each whole scope.
    pub(super) fn steps<'s>(
        &'s self,
        owner: &'s KeyOwner<'_>,
        statements: &'s Resolves,
    ) -> impl Iterator<Item = BoundStatement<'s>> {
        let params = [param(&owner.app), &owner.user, &owner.session, &self.scopes, &self.names];
        let whole = self.whole.iter().map(|scope| owner.all_of(*scope, statements));
        std::iter::once(BoundStatement::new(&statements.keys, params)).chain(whole)
    }

    /// Adds the keys that were read: their values, and where they were last written.
    pub(super) fn found(&self, owner: &KeyOwner<'_>, answers: &[Vec<Row>], found: &mut Found) -> Result<()> {
        let [keys, of_scopes @ ..] = answers else {
            return Err(Error::internal("a statement was not answered"));
        };
        for row in keys {
            let (scope, name) = self.key(owner, row)?;
            owner.insert(found, scope, name, row)?;
        }
        for (scope, rows) in self.whole.iter().zip(of_scopes) {
            for row in rows {
                let name: &str = column(row, 0, || format!("a key of {}/{}", owner.app, owner.user))?;
                owner.insert(found, *scope, name, row)?;
            }
        }
        Ok(())
    }

    /// Records which of the keys have a value.
    pub(super) fn present(&self, owner: &KeyOwner<'_>, rows: &[Row], growth: &mut Growth<'a>) -> Result<()> {
        for row in rows {
            let (scope, name) = self.key(owner, row)?;
            if column::<Option<&str>>(row, 1, || owner.place(scope, name))?.is_some() {
                growth.set_present(scope, name);
            }
        }
        Ok(())
    }

    fn key(&self, owner: &KeyOwner<'_>, row: &Row) -> Result<(Scope, &'a str)> {
        let number: i64 = column(row, 0, || format!("a key of {}/{}", owner.app, owner.user))?;
        let key = usize::try_from(number - 1).ok().and_then(|index| self.keys.get(index));
        key.copied().ok_or_else(|| Error::internal("a key that was not asked for"))
    }
}

/// The owner of keys. The session's id is empty if the keys do not belong to a session.
pub(super) struct KeyOwner<'a> {
    pub(super) app: &'a str,
    pub(super) user: &'a str,
    pub(super) session: &'a str,
}

impl<'a> KeyOwner<'a> {
    pub(super) fn of_session(key: &'a SessionKey) -> Self {
        Self { app: key.app_name(), user: key.user_id(), session: key.session_id() }
    }

    pub(super) fn of_state(owner: &'a StateOwner) -> Self {
        Self { app: owner.app_name(), user: owner.user_id().unwrap_or_default(), session: "" }
    }

    /// Returns the statements that lock the owners of keys in these scopes, the user before the app. They insert
    /// missing owners.
    pub(super) fn locks<'s>(
        &'s self,
        store: &'s Postgres,
        scopes: impl Iterator<Item = Scope>,
    ) -> Vec<BoundStatement<'s>> {
        let mut of_user = None;
        let mut of_app = None;
        for scope in scopes {
            match scope {
                Scope::User => {
                    let lock =
                        || BoundStatement::new(&store.statements.delete.lock_user, [param(&self.app), &self.user]);
                    of_user.get_or_insert_with(lock);
                }
                Scope::App => {
                    of_app.get_or_insert_with(|| {
                        BoundStatement::new(&store.statements.resolve.lock_app, [param(&self.app)])
                    });
                }
                Scope::Session | Scope::Temp => {}
            }
        }
        of_user.into_iter().chain(of_app).collect()
    }

    /// Returns the statement that locks a session and reads what an update changes.
    pub(super) fn fields<'s>(&'s self, store: &'s Postgres, now: &'s i64) -> BoundStatement<'s> {
        BoundStatement::new(&store.statements.list.lock, [param(&self.app), &self.user, &self.session, now])
    }

    /// Returns the statement that reads all keys of a scope.
    fn all_of<'s>(&'s self, scope: Scope, statements: &'s Resolves) -> BoundStatement<'s> {
        match scope {
            Scope::Session => BoundStatement::new(&statements.all_own, [param(&self.app), &self.user, &self.session]),
            Scope::User => BoundStatement::new(&statements.all_of_user, [param(&self.app), &self.user]),
            _ => BoundStatement::new(&statements.all_of_app, [param(&self.app)]),
        }
    }

    fn insert(&self, found: &mut Found, scope: Scope, name: &str, row: &Row) -> Result<()> {
        let place = || self.place(scope, name);
        let text: Option<&str> = column(row, 1, place)?;
        let value = text.map(|text| rows::json(text, place)).transpose()?;
        found.insert(scope, name, value, rows::number(column(row, 2, place)?, place)?);
        Ok(())
    }

    fn place(&self, scope: Scope, name: &str) -> String {
        format!("the value of key '{}' of {}/{}", scope.key(name), self.app, self.user)
    }

    /// Returns the error of a refusal, which names the last writers of the conflicting keys.
    pub(super) async fn refused(&self, lease: &Lease<'_>, statements: &Resolves, refusal: Refusal) -> Attempt<Error> {
        let places: Vec<_> = refusal.keys().map(|written| (written.scope.as_str(), sql_place(written))).collect();
        let steps = refusal.keys().zip(&places).map(|(written, (scope, place))| match written.scope {
            Scope::Session => {
                BoundStatement::new(&statements.event_writer, [param(&self.app), &self.user, &self.session, place])
            }
            Scope::User => {
                BoundStatement::new(&statements.log_writer, [param(&self.app), scope, &self.user, place, &written.name])
            }
            _ => BoundStatement::new(&statements.log_writer, [param(&self.app), scope, &"", place, &written.name]),
        });
        let answers = lease.all(&steps.collect::<Vec<_>>()).await?;
        let mut writers = Vec::with_capacity(answers.len());
        for (written, rows) in refusal.keys().zip(&answers) {
            writers.push(rows.first().map(|row| self.writer(row, written)).transpose()?);
        }
        Ok(refusal.into_error(writers))
    }

    pub(super) fn writer(&self, row: &Row, written: &WrittenKey) -> Result<KeyWriter> {
        let place = || format!("who wrote '{}' of {}/{}", written.scope.key(&written.name), self.app, self.user);
        let writer = KeyWriter::new(column::<&str>(row, 0, place)?).with_time(column(row, 2, place)?);
        if written.scope == Scope::Session {
            let writer = writer.with_event(self.user, self.session, written.place, column::<&str>(row, 1, place)?);
            return Ok(writer.with_invocation(column::<&str>(row, 3, place)?));
        }
        let session: (Option<&str>, Option<&str>) = (column(row, 3, place)?, column(row, 4, place)?);
        Ok(match session {
            (Some(user), Some(session)) => {
                let seq = rows::number(column(row, 5, place)?, place)?;
                writer.with_event(user, session, seq, column::<&str>(row, 1, place)?)
            }
            _ => writer,
        })
    }
}

fn sql_place(written: &WrittenKey) -> i64 {
    i64::try_from(written.place).unwrap_or(i64::MAX)
}

/// Returns the number of the lock on a name. It is the same in all versions of this program.
pub(super) fn lock_number<const N: usize>(columns: [&str; N]) -> i64 {
    let mut hash = Sha256::new();
    for column in columns {
        hash.update((column.len() as u64).to_le_bytes());
        hash.update(column);
    }
    let hash: [u8; 32] = hash.finalize().into();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::lock_number;

    /// Two versions that used different locks for one name would not wait for each other.
    #[test]
    fn the_lock_of_a_name_stays_what_it_is() {
        assert_eq!(
            [lock_number(["unique id", "app", "s"]), lock_number(["unique id", "ap", "ps"])],
            [-8_981_191_118_827_362_302, -8_472_791_882_406_223_610]
        );
    }
}
