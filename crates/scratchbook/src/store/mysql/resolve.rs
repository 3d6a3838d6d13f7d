//! Writes that depend on what is stored: one call locks and reads, another writes and commits.

use mysql_async::Value;

use super::MySql;
use super::batch;
use super::pool::{Care, Lease};
use super::row::Cells;
use super::write::{Answer, Begun, answer, position, strange};
use crate::error::{KeyWriter, Result};
use crate::event::Event;
use crate::session::{SessionKey, StateOwner};
use crate::state::Scope;
use crate::store::commit::{KeyChange, PreparedSession};
use crate::store::database::{AppendRow, Attempt, Done, Failure, NewAppend, Unresolved};
use crate::store::resolve::{Found, Refusal, WrittenKey, resolve_state};
use crate::store::rows;
use crate::store::text::{NewEvent, NewSession, TextChange};

/// The scopes of stored keys, in the order of locks.
const SCOPES: [Scope; 3] = [Scope::Session, Scope::User, Scope::App];

impl MySql {
    /// Appends an event that is resolved under the locks of the session and of all whose keys it touches.
    pub(super) async fn append_late(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)> {
        let Unresolved { key, prepared, options } = new;
        let target = Target::session(key);
        let reads = prepared.reads(options).map(|change| (change.scope, change.name.as_str())).collect();
        let lock = Lock { made: None, event: Some(&prepared.event.id), reads };
        let mut lease = self.connections.lease(Care::Again).await?;
        let scopes: Vec<_> = prepared.changes.iter().map(|change| change.scope).collect();
        let answers = self.lock(&mut lease, &target, &lock, &scopes, Begun::Here).await?;
        let Some(found) = target.found(&lock.reads, &answers)? else {
            let row = match answers.into_iter().next() {
                Some(Answer::Missing { .. }) => AppendRow::NoSession,
                Some(Answer::Known { known, .. }) => known.row(key)?,
                _ => return Err(strange("nothing for an append").into()),
            };
            return Ok((row, prepared.event.clone()));
        };
        let resolved = match prepared.resolve(options, &found) {
            Ok(resolved) => resolved,
            Err(refusal) => return Err(self.refuse(lease, &target, refusal).await),
        };
        let append = NewAppend { key: key.clone(), event: NewEvent::new(resolved)? };
        let (arguments, places) = batch::appends(&[&append])?;
        let answers = self.call_on(&mut lease, arguments, Begun::Before).await?;
        let ([Answer::Done(numbers)], [place]) = (answers.as_slice(), places.as_slice()) else {
            return Err(strange("no number for an event under its lock").into());
        };
        Ok((numbers.stored(place)?, append.event.prepared.event))
    }

    pub(super) async fn create_late(&self, new: &PreparedSession, token: &str) -> Attempt<bool> {
        let target = Target::session(&new.key);
        let reads = new.reads().into_iter().collect();
        let lock = Lock { made: batch::making(new, token)?, event: None, reads };
        let mut lease = self.connections.lease(Care::Again).await?;
        let changes = new.shared.iter().chain(new.events.iter().flat_map(|event| &event.changes));
        // The user in any case, as for every creation.
        let scopes: Vec<_> = changes.map(|change| change.scope).chain([Scope::User]).collect();
        let mut answers = self.lock(&mut lease, &target, &lock, &scopes, Begun::Here).await?;
        if matches!(answers.as_slice(), [Answer::Expired]) {
            self.make_room(&mut lease, &new.key).await?;
            answers = self.lock(&mut lease, &target, &lock, &scopes, Begun::Before).await?;
        }
        let Some(found) = target.found(&lock.reads, &answers)? else {
            return self.is_made(&new.key, &answers);
        };
        let resolved = match new.clone().resolve(found) {
            Ok(resolved) => NewSession::new(resolved)?,
            Err(refusal) => return Err(self.refuse(lease, &target, refusal).await),
        };
        let answers = self.call_on(&mut lease, batch::creation(&resolved, token)?, Begun::WithSession).await?;
        self.is_made(&new.key, &answers)
    }

    pub(super) async fn put_late(
        &self,
        of: &StateOwner,
        changes: &[KeyChange],
        author: &str,
        time: f64,
    ) -> Attempt<u64> {
        let target = Target { app: of.app_name(), user: of.user_id().unwrap_or_default(), session: None };
        let with_operations = changes.iter().filter(|change| change.change.operations().is_some());
        let reads = with_operations.map(|change| (change.scope, change.name.as_str())).collect();
        let lock = Lock { made: None, event: None, reads };
        let mut lease = self.connections.lease(Care::Once).await?;
        let scopes: Vec<_> = changes.iter().map(|change| change.scope).collect();
        let answers = self.lock(&mut lease, &target, &lock, &scopes, Begun::Here).await?;
        let found = target.found(&lock.reads, &answers)?.ok_or_else(|| strange("nothing for a change"))?;
        let resolved = match resolve_state(changes, &found) {
            Ok(resolved) => TextChange::all(&resolved)?,
            Err(refusal) => return Err(self.refuse(lease, &target, refusal).await),
        };
        let arguments = batch::state(of, &resolved, author, time)?;
        let answers = self.call_on(&mut lease, arguments, Begun::Before).await?;
        Ok(position(&answers)?)
    }

    /// Begins a transaction with the locks of a session and of the owners of keys in these scopes, and reads.
    async fn lock(
        &self,
        lease: &mut Lease<'_>,
        target: &Target<'_>,
        lock: &Lock<'_>,
        scopes: &[Scope],
        begun: Begun,
    ) -> Attempt<Vec<Answer>> {
        let (user, app) = (scopes.contains(&Scope::User), scopes.contains(&Scope::App));
        let mut values = vec![Value::from(&lock.made), target.app.into(), target.user.into()];
        values.extend([target.session.map(SessionKey::session_id).into(), lock.event.into(), user.into(), app.into()]);
        for scope in SCOPES {
            let names: Vec<_> = names(&lock.reads, scope).collect();
            values.push(batch::json(&names)?.into());
        }
        let sql = self.sql("CALL `{prefix}scratchbook_lock_1`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        values.extend([self.now().into(), (begun as u8).into()]);
        let rows = lease.rows(&sql, values).await.map_err(|failure| match failure.done {
            // Nothing is written yet, whatever became of it.
            Done::Unknown => Failure::new(Done::Undone, failure.error),
            _ => failure,
        })?;
        let answers = rows.into_iter().map(answer).collect::<Result<Vec<_>>>();
        match &answers {
            // The transaction is over.
            Ok(answers) if !answers.iter().any(|answer| matches!(answer, Answer::Found { .. })) => lease.keep(),
            _ => lease.give_up_unless_kept(),
        }
        Ok(answers?)
    }

    /// Ends the transaction, and gives the error of a refusal with those who wrote the keys in the way.
    async fn refuse(&self, mut lease: Lease<'_>, target: &Target<'_>, refusal: Refusal) -> Failure {
        let writers = self.writers(&mut lease, target, &refusal).await;
        match (writers, lease.rollback().await) {
            (Ok(writers), Ok(())) => refusal.into_error(writers).into(),
            (Err(failure), _) | (_, Err(failure)) => failure,
        }
    }

    async fn writers(
        &self,
        lease: &mut Lease<'_>,
        target: &Target<'_>,
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
        let (app, user, session) = (target.app, target.user, target.session.map(SessionKey::session_id));
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
            let (mut cells, place) = (Cells::from(row), || format!("who wrote a key of {app}/{user}"));
            let n = usize::try_from(cells.integer(0, place)?).unwrap_or_default();
            let (event, author) = (cells.text(1, place)?, cells.text(2, place)?);
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

/// The keys in the way: their order, scopes, names and places.
const WANTED: &str = "JSON_TABLE(?, '$[*]' COLUMNS (
    n BIGINT PATH '$[0]' ERROR ON ERROR,
    scope VARCHAR(8) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
    name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
    place BIGINT PATH '$[3]' ERROR ON ERROR
)) AS wanted";

/// What is locked and read.
struct Lock<'a> {
    /// The row of the session to make.
    made: Option<String>,
    /// The id of the event to append.
    event: Option<&'a str>,
    /// Keys without prefix.
    reads: Vec<(Scope, &'a str)>,
}

fn names<'a>(reads: &[(Scope, &'a str)], of: Scope) -> impl Iterator<Item = &'a str> {
    reads.iter().filter(move |(scope, _)| *scope == of).map(|(_, name)| *name)
}

/// Whose keys are meant.
struct Target<'a> {
    app: &'a str,
    user: &'a str,
    session: Option<&'a SessionKey>,
}

impl<'a> Target<'a> {
    fn session(key: &'a SessionKey) -> Self {
        Self { app: key.app_name(), user: key.user_id(), session: Some(key) }
    }

    /// What was found under the locks; `None` where nothing was locked.
    fn found(&self, reads: &[(Scope, &str)], answers: &[Answer]) -> Result<Option<Found>> {
        let seq = answers.iter().find_map(|answer| match answer {
            Answer::Found { seq } => Some(*seq),
            _ => None,
        });
        let Some(seq) = seq else {
            return Ok(None);
        };
        let mut found = Found::new(rows::number(seq, || format!("a session of {}/{}", self.app, self.user))?);
        let wanted = SCOPES.map(|scope| (scope, names(reads, scope).collect::<Vec<_>>()));
        for answer in answers {
            let Answer::Key { scope, place, value, at } = answer else {
                continue;
            };
            let names = wanted.iter().find(|(of, _)| of == scope).map(|(_, names)| names);
            let name = names.and_then(|names| names.get(*place));
            let name = *name.ok_or_else(|| strange("a key that was not asked for"))?;
            let place = || format!("the value of key '{}' of {}/{}", scope.key(name), self.app, self.user);
            let value = value.as_ref().map(|text| rows::json(text, place)).transpose()?;
            found.insert(*scope, name, value, rows::number(*at, place)?);
        }
        Ok(Some(found))
    }
}
