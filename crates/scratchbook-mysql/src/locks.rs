//! The rows that a write locks and reads first, in one call of a procedure, and the last writers of conflicting keys.

use mysql_async::Value;

use super::MySql;
use super::batch;
use super::lease::Lease;
use super::procedure::{LimitCheck, ProcedureRow, TransactionStart, answer, strange};
use super::row::RowCells;
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::plan::resolve::{Found, Refusal, WrittenKey};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::SessionKey;
use scratchbook_core::state::Scope;
use scratchbook_database::{Attempt, CommitFate, Failure};

/// The scopes of stored keys, in the order of locks.
pub(super) const SCOPES: [Scope; 3] = [Scope::Session, Scope::User, Scope::App];

impl MySql {
    /// Begins a transaction, locks a session and the owners of keys in these scopes, and reads.
    pub(super) async fn lock(
        &self,
        lease: &mut Lease<'_>,
        target: &LockTarget<'_>,
        lock: &Lock<'_>,
        scopes: &[Scope],
        begun: TransactionStart,
    ) -> Attempt<Vec<ProcedureRow>> {
        let user = scopes.contains(&Scope::User);
        let app = scopes.contains(&Scope::App);
        let mut values = vec![Value::from(lock.token), target.app.into(), target.user.into()];
        values.extend([target.session.map(SessionKey::session_id).into(), lock.event.into(), user.into(), app.into()]);
        for scope in SCOPES {
            let names: Vec<_> = names(&lock.reads, scope).collect();
            values.push(batch::json(&names)?.into());
        }
        let sql = self.sql("CALL `{prefix}scratchbook_lock_1`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        values.extend([self.now().into(), begun.number().into(), lock.scopes().into()]);
        let rows = lease.rows(&sql, values).await.map_err(|failure| match failure.fate {
            // In any case, nothing was written yet.
            CommitFate::Unknown => Failure::new(CommitFate::RolledBack, failure.error),
            _ => failure,
        })?;
        let answers = rows.into_iter().map(answer).collect::<Result<Vec<_>>>();
        match &answers {
            // Nothing is locked, so the transaction is over.
            Ok(answers) if !answers.iter().any(|answer| matches!(answer, ProcedureRow::Locked { .. })) => lease.keep(),
            _ => lease.give_up_unless_kept(),
        }
        Ok(answers?)
    }

    /// Rolls the transaction back, and returns the error of a refusal, which names the last writers of the conflicting
    /// keys.
    pub(super) async fn refuse(&self, mut lease: Lease<'_>, target: &LockTarget<'_>, refusal: Refusal) -> Failure {
        let writers = self.writers(&mut lease, target, &refusal).await;
        match (writers, lease.rollback().await) {
            (Ok(writers), Ok(())) => refusal.into_error(writers).into(),
            (Err(failure), _) | (_, Err(failure)) => failure,
        }
    }

    pub(super) async fn writers(
        &self,
        lease: &mut Lease<'_>,
        target: &LockTarget<'_>,
        refusal: &Refusal,
    ) -> Attempt<Vec<Option<KeyWriter>>> {
        let keys: Vec<&WrittenKey> = refusal.keys().collect();
        let mut writers = vec![None; keys.len()];
        if keys.is_empty() {
            return Ok(writers);
        }
        let wanted: Vec<_> =
            keys.iter().enumerate().map(|(n, key)| (n, key.scope.as_str(), key.name.as_str(), key.place)).collect();
        let wanted = batch::json(&wanted)?;
        let app = target.app;
        let user = target.user;
        let session = target.session.map(SessionKey::session_id);
        let sql = self.sql(&format!(
            "SELECT wanted.n, e.id, e.author, e.user_id, e.session_id, e.seq
             FROM {WANTED} STRAIGHT_JOIN `{{prefix}}events` AS e FORCE INDEX (PRIMARY)
                 ON e.app_name = ? AND e.user_id = ? AND e.session_id = ? AND e.seq = wanted.place
             WHERE wanted.scope = 'session'
             UNION ALL
             SELECT wanted.n, l.event_id, l.author, l.session_user, l.session_id, l.seq
             FROM {WANTED} STRAIGHT_JOIN `{{prefix}}state_log` AS l FORCE INDEX (PRIMARY)
                 ON l.app_name = ? AND l.scope = wanted.scope AND l.user_id = IF(wanted.scope = 'user', ?, '')
                     AND l.position = wanted.place AND l.`key` = wanted.name
             WHERE wanted.scope <> 'session'"
        ));
        let values = vec![
            wanted.clone().into(),
            app.into(),
            user.into(),
            session.into(),
            wanted.into(),
            app.into(),
            user.into(),
        ];
        for row in lease.rows(&sql, values).await? {
            let mut cells = RowCells::from(row);
            let place = || format!("who wrote a key of {app}/{user}");
            let n = usize::try_from(cells.integer(0, place)?).unwrap_or_default();
            let event = cells.text(1, place)?;
            let author = cells.text(2, place)?;
            let mut writer = KeyWriter::new(author);
            if let (Some(user), Some(session)) = (cells.optional_text(3, place)?, cells.optional_text(4, place)?) {
                writer = writer.with_event(user, session, rows::number(cells.integer(5, place)?, place)?, event);
            }
            let known = writers.get_mut(n).ok_or_else(|| strange("a key that was not asked for"))?;
            *known = Some(writer);
        }
        Ok(writers)
    }
}

/// The conflicting keys: their indexes, scopes, names and positions.
const WANTED: &str = "JSON_TABLE(?, '$[*]' COLUMNS (
    n BIGINT PATH '$[0]' ERROR ON ERROR,
    scope VARCHAR(8) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
    name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
    place BIGINT PATH '$[3]' ERROR ON ERROR
)) AS wanted";

/// The rows to lock and to read.
pub(super) struct Lock<'a> {
    /// The token of a session to create.
    pub(super) token: Option<&'a str>,
    /// The id of an event to append.
    pub(super) event: Option<&'a str>,
    /// The keys to read, without their prefixes.
    pub(super) reads: Vec<(Scope, &'a str)>,
    /// The scopes whose keys are all read.
    pub(super) whole: Vec<Scope>,
    /// Whether the keys have to be counted.
    pub(super) room: LimitCheck,
}

impl Lock<'_> {
    /// Returns the scopes in the encoding of the procedure.
    pub(super) fn scopes(&self) -> u8 {
        let whole = SCOPES.iter().zip([1, 2, 4]).filter(|(scope, _)| self.whole.contains(scope));
        whole.map(|(_, bit)| bit).sum::<u8>() + if self.room == LimitCheck::Counted { 8 } else { 0 }
    }
}

/// Rolls the transaction back if the write is refused.
pub(super) async fn keep_out(lease: &mut Lease<'_>, fits: Result<()>) -> Attempt<()> {
    let Err(error) = fits else {
        return Ok(());
    };
    lease.rollback().await?;
    Err(error.into())
}

fn names<'a>(reads: &[(Scope, &'a str)], of: Scope) -> impl Iterator<Item = &'a str> {
    reads.iter().filter(move |(scope, _)| *scope == of).map(|(_, name)| *name)
}

/// The session or owner that is locked.
pub(super) struct LockTarget<'a> {
    pub(super) app: &'a str,
    pub(super) user: &'a str,
    pub(super) session: Option<&'a SessionKey>,
}

impl<'a> LockTarget<'a> {
    pub(super) fn session(key: &'a SessionKey) -> Self {
        Self { app: key.app_name(), user: key.user_id(), session: Some(key) }
    }

    /// Returns the values that were read under the locks, or `None` if nothing was locked.
    pub(super) fn found(&self, reads: &[(Scope, &str)], answers: &[ProcedureRow]) -> Result<Option<(u64, Found)>> {
        let seq = answers.iter().find_map(|answer| match answer {
            ProcedureRow::Locked { seq } => Some(*seq),
            _ => None,
        });
        let Some(seq) = seq else {
            return Ok(None);
        };
        let seq = rows::number(seq, || format!("a session of {}/{}", self.app, self.user))?;
        let mut found = Found::new(seq);
        let wanted = SCOPES.map(|scope| (scope, names(reads, scope).collect::<Vec<_>>()));
        for answer in answers {
            let ProcedureRow::Key { scope, place, name, value, at } = answer else {
                continue;
            };
            let names = wanted.iter().find(|(of, _)| of == scope).map(|(_, names)| names);
            let asked = names.and_then(|names| names.get(*place)).copied();
            let name = name.as_deref().or(asked).ok_or_else(|| strange("a key that was not asked for"))?;
            let place = || format!("the value of key '{}' of {}/{}", scope.key(name), self.app, self.user);
            let value = value.as_ref().map(|text| rows::json(text, place)).transpose()?;
            found.insert(*scope, name, value, rows::number(*at, place)?);
        }
        Ok(Some((seq, found)))
    }
}
