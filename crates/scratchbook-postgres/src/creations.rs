//! Creating sessions. If a write takes several statements, they are one transaction.

use std::collections::HashSet;

use async_trait::async_trait;
use tokio_postgres::types::ToSql;

use super::changes::ChangeColumns;
use super::events::EventColumns;
use super::growth::KeyLimit;
use super::lease::{BoundStatement, Lease};
use super::locks::{KeyOwner, lock_number, param};
use super::read::column;
use super::{Postgres, error};
use scratchbook_core::error::Error;
use scratchbook_core::plan::commit::Prepared;
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange, TextMetadata};
use scratchbook_core::session::{IdScope, SessionKey, seconds_of_micros};
use scratchbook_core::state::Scope;
pub(crate) use scratchbook_database::{Attempt, CommitFate, CreationOutcome, Creations, Failure, NewCreation};

/// The number of positions that one value of the sequence reserves.
const POSITIONS: usize = 1024;

#[async_trait]
impl Creations for Postgres {
    async fn create_session(&self, new: &NewSession, token: &str) -> Attempt<bool> {
        match self.create_by(new, token, KeyLimit::Guarded).await {
            Err(failure) if error::is_over_limit(&failure) => self.create_by(new, token, KeyLimit::Counted).await,
            done => done,
        }
    }

    fn is_batchable(&self, new: &NewSession) -> bool {
        // A batch writes only the rows and the own state of its sessions.
        new.events.is_empty() && new.shared.is_empty() && new.id_scope == IdScope::User
    }

    async fn create_batch(&self, batch: &[&NewCreation]) -> Attempt<Vec<CreationOutcome>> {
        self.create_all(batch).await
    }
}

impl Postgres {
    async fn create_by(&self, new: &NewSession, token: &str, limit: KeyLimit) -> Attempt<bool> {
        let lease = self.connections.lease().await?;
        let events = new.events.iter().map(|event| &event.prepared);
        let NewSession { key, id_scope, metadata, created, expires, .. } = new;
        let row = NewRow { key, scope: *id_scope, metadata, created: *created, expires: *expires, token };
        if !self.begin_session(&lease, row, events).await? {
            return self.created_before(&lease, key, *id_scope, token).await;
        }
        self.fill_last(&lease, new, limit).await?;
        Ok(true)
    }

    /// Begins a transaction and inserts the row of a session that will have these events. Returns `false` if its id is
    /// taken.
    pub(super) async fn begin_session<'e>(
        &self,
        lease: &Lease<'_>,
        new: NewRow<'_>,
        events: impl Iterator<Item = &'e Prepared> + Clone,
    ) -> Attempt<bool> {
        let NewRow { key, scope, metadata, created, expires, token } = new;
        let ids: HashSet<_> = events.clone().map(|event| event.event.id.as_str()).collect();
        let mut seen = HashSet::new();
        let last = events.filter(|event| seen.insert(event.event.id.as_str())).last();
        let (seq, micros) = (ids.len() as i64, last.map_or(created, |event| event.micros));
        let now = self.now();
        let row = SessionRow { key, scope, metadata, seq, created, micros, token, expires, position: 0, now };
        let (address, lock) = (row.address(), lock_number(["unique id", key.app_name(), key.session_id()]));
        let mut steps = Vec::with_capacity(2);
        if scope == IdScope::App {
            // This is the first lock of the transaction, and no other kind of writer takes it, so it can come before
            // the locks of sessions.
            steps.push(BoundStatement::new(&self.statements.lock, [param(&lock)]));
        }
        steps.push(self.inserting(&row, &address));
        let inserted = lease.begin_with(&steps).await?;
        if inserted.last().is_some_and(|rows| !rows.is_empty()) {
            return Ok(true);
        }
        Ok(self.remove_expired_on(lease, key).await? && self.insert_session(lease, &row).await?)
    }

    /// Inserts the row of a session if the id is free or belongs to an expired session, which is removed.
    pub(super) async fn insert_session(&self, lease: &Lease<'_>, row: &SessionRow<'_>) -> Attempt<bool> {
        let (address, is_new) = (row.address(), |answers: Vec<Vec<_>>| answers.iter().any(|rows| !rows.is_empty()));
        if is_new(lease.all(&[self.inserting(row, &address)]).await?) {
            return Ok(true);
        }
        let was_expired = self.remove_expired_on(lease, row.key).await?;
        Ok(was_expired && is_new(lease.all(&[self.inserting(row, &address)]).await?))
    }

    fn inserting<'p>(&'p self, row: &'p SessionRow<'p>, address: &'p [&'p str; 3]) -> BoundStatement<'p> {
        let params = row.params(address);
        match row.scope {
            IdScope::User => BoundStatement::new(&self.statements.insert_session, params),
            IdScope::App => {
                BoundStatement::new(&self.statements.insert_unique_session, [&params[..], &[param(&row.now)]].concat())
            }
        }
    }

    /// Returns whether a session was created by an earlier attempt of the same call. The session's row is locked, and
    /// our own transaction commits before we answer. So a synchronous standby has the session before the answer.
    pub(super) async fn created_before(
        &self,
        lease: &Lease<'_>,
        key: &SessionKey,
        scope: IdScope,
        token: &str,
    ) -> Attempt<bool> {
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let rows = lease.query(&self.statements.session_token, &[&app, &user, &session]).await?;
        lease.commit().await?;
        let Some(row) = rows.first() else {
            if scope == IdScope::App {
                // Another user has the id.
                return Ok(false);
            }
            let message = format!("the session {key} was deleted just now; try again");
            return Err(Failure {
                fate: CommitFate::RolledBack,
                error: Error::new(scratchbook_core::error::ErrorKind::Unavailable, message),
            });
        };
        let stored: String = column(row, 0, || format!("the session {key}"))?;
        Ok(stored == token)
    }

    /// Writes the initial state and events of a session whose row exists, and commits.
    pub(super) async fn fill_last(&self, lease: &Lease<'_>, new: &NewSession, limit: KeyLimit) -> Attempt<()> {
        let events = distinct(&new.events);
        if limit == KeyLimit::Counted {
            self.check_shared_growth(lease, new, &events).await?;
        }
        let (app, user, session) = (new.key.app_name(), new.key.user_id(), new.key.session_id());
        let (mut changes, mut columns) = (ChangeColumns::default(), EventColumns::default());
        changes.add(0, [app, user, session], &new.own);
        changes.add(0, [app, user, session], &new.shared);
        for (event, ord) in events.iter().zip(1..) {
            changes.add(ord, [app, user, session], &event.changes);
            columns.add(event);
        }
        let blocks = i32::try_from(events.len() / POSITIONS + 1).unwrap_or(i32::MAX);
        let of_events = events.iter().flat_map(|event| &event.changes);
        let writes_app = new.shared.iter().chain(of_events).any(|change| change.scope == Scope::App);
        let time = seconds_of_micros(new.created);
        let (initial, begins) = (new.initial.as_deref().unwrap_or_default(), new.initial.is_some());
        let most_rows = limit.most_rows(&new.limits);
        let mut params = changes.params().to_vec();
        params.extend([param(&app), &user, &session, &time]);
        params.extend(columns.params());
        params.extend([param(&initial), &begins, &blocks, &writes_app, &most_rows]);
        let rows = lease.last(&self.statements.create, &params).await?;
        if let Some(row) = rows.first() {
            self.learn_listeners(row, 0);
        }
        Ok(())
    }

    /// Checks the limit on shared keys. The session's own keys were counted when it was prepared.
    async fn check_shared_growth(&self, lease: &Lease<'_>, new: &NewSession, events: &[&NewEvent]) -> Attempt<()> {
        let owner = KeyOwner::of_session(&new.key);
        let of_events = events.iter().flat_map(|event| &event.changes);
        let scopes = new.shared.iter().chain(of_events).map(|change| change.scope).chain([Scope::User]);
        lease.all(&owner.locks(self, scopes)).await?;
        let own = |change: &TextChange| change.scope != Scope::Session;
        let shared: Vec<Vec<_>> =
            events.iter().map(|event| event.changes.iter().filter(|c| own(c)).cloned().collect()).collect();
        let writes: Vec<&[TextChange]> =
            std::iter::once(new.shared.as_slice()).chain(shared.iter().map(Vec::as_slice)).collect();
        self.check_growth(lease, &owner, &new.limits, &writes).await
    }
}

/// The values of a creation for its session's row.
pub(super) struct NewRow<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) scope: IdScope,
    pub(super) metadata: &'a TextMetadata,
    pub(super) created: i64,
    pub(super) expires: Option<i64>,
    pub(super) token: &'a str,
}

/// The row of a session.
pub(super) struct SessionRow<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) scope: IdScope,
    pub(super) metadata: &'a TextMetadata,
    pub(super) seq: i64,
    pub(super) created: i64,
    pub(super) micros: i64,
    pub(super) token: &'a str,
    pub(super) expires: Option<i64>,
    /// The position from which the fold of the session's events begins, or 0 if it is written later.
    pub(super) position: i64,
    /// The time that decides whether a session with the same id has expired.
    pub(super) now: i64,
}

impl<'a> SessionRow<'a> {
    fn address(&self) -> [&'a str; 3] {
        [self.key.app_name(), self.key.user_id(), self.key.session_id()]
    }

    fn params<'p>(&'p self, [app, user, session]: &'p [&'a str; 3]) -> [&'p (dyn ToSql + Sync); 11] {
        let Self { seq, created, micros, token, expires, position, .. } = self;
        let TextMetadata { title, labels } = self.metadata;
        [app, user, session, seq, created, micros, token, expires, position, title, labels]
    }
}

/// Returns the events, without those that repeat an id. Events with equal ids were already found to have the same
/// content.
fn distinct(events: &[NewEvent]) -> Vec<&NewEvent> {
    let mut seen = HashSet::new();
    events.iter().filter(|event| seen.insert(event.prepared.event.id.as_str())).collect()
}
