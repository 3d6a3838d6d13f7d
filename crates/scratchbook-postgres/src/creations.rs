//! Creating sessions. A creation is one statement; where it has to look first, both are one transaction.

use std::collections::HashSet;

use async_trait::async_trait;

use super::Postgres;
use super::changes::ChangeColumns;
use super::events::EventColumns;
use super::growth::StateLimit;
use super::lease::{BoundStatement, Lease};
use super::locks::{KeyOwner, lock_number, param};
use super::read::column;
use scratchbook_core::error::{Error, ErrorKind};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange};
use scratchbook_core::session::{IdScope, RemovalKind, SessionKey, seconds_of_micros};
use scratchbook_core::state::Scope;
pub(crate) use scratchbook_database::{Attempt, CommitFate, CreationOutcome, Creations, Failure, NewCreation};

/// The number of positions that one value of the sequence reserves.
const POSITIONS: usize = 1024;

/// The outcome of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CreateOutcome {
    Made,
    /// The id is taken. Nothing was written.
    Taken,
    /// The state of the user or the app may not fit. Nothing was written.
    Full,
}

#[async_trait]
impl Creations for Postgres {
    async fn create_session(&self, new: &NewSession, token: &str) -> Attempt<bool> {
        let lease = self.connections.lease().await?;
        if new.id_scope == IdScope::User {
            // Usually the id is free, and then one round trip is enough.
            if self.create_last(&lease, new, token, StateLimit::Enforced).await? == CreateOutcome::Made {
                return Ok(true);
            }
        }
        if let Some(is_made) = self.begin_creation(&lease, &new.key, new.id_scope, token).await? {
            return Ok(is_made);
        }
        self.create_free(&lease, new, token).await
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
    /// Begins a transaction that creates a session, and removes an expired session that has its id. If the id is taken,
    /// ends the transaction and returns whether an earlier attempt of the same call has created the session.
    pub(super) async fn begin_creation(
        &self,
        lease: &Lease<'_>,
        key: &SessionKey,
        scope: IdScope,
        token: &str,
    ) -> Attempt<Option<bool>> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let now = self.now();
        let lock = lock_number(["unique id", app, session]);
        let mut steps = Vec::with_capacity(3);
        if scope == IdScope::App {
            // This is the first lock of the transaction, and no other kind of writer takes it, so it can come before
            // the locks of sessions.
            steps.push(BoundStatement::new(&self.statements.lock, [param(&lock)]));
            steps.push(BoundStatement::new(&self.statements.other_users_with, [param(&app), &user, &session, &now]));
        }
        steps.push(BoundStatement::new(&self.statements.holder, [param(&app), &user, &session, &now]));
        let mut answers = lease.begin_with(&steps).await?;
        let holder = answers.pop().unwrap_or_default();
        let other_users = answers.pop().unwrap_or_default();
        if let Some(row) = holder.first() {
            let of = || format!("the session {key}");
            let is_expired: Option<bool> = column(row, 2, of)?;
            if is_expired != Some(true) {
                // The session's row is locked, and this commit comes before the answer. So a synchronous standby has
                // the session before the answer.
                lease.commit().await?;
                return Ok(Some(column::<&str>(row, 0, of)? == token));
            }
            let last = column(row, 1, of)?;
            self.remove_locked(lease, [app, user, session], RemovalKind::Expired, last).await?;
        }
        if other_users.is_empty() {
            return Ok(None);
        }
        lease.commit().await?;
        Ok(Some(false))
    }

    /// Creates a session whose id was free when the transaction began, and commits.
    pub(super) async fn create_free(&self, lease: &Lease<'_>, new: &NewSession, token: &str) -> Attempt<bool> {
        self.check_shared_growth(lease, new).await?;
        match self.create_last(lease, new, token, StateLimit::Checked).await? {
            CreateOutcome::Made => Ok(true),
            CreateOutcome::Taken | CreateOutcome::Full => {
                let message = format!("the session {} was created just now by another call; try again", new.key);
                Err(Failure { fate: CommitFate::RolledBack, error: Error::new(ErrorKind::Unavailable, message) })
            }
        }
    }

    /// Creates a session with its initial state and events as the last statements of a call.
    async fn create_last(
        &self,
        lease: &Lease<'_>,
        new: &NewSession,
        token: &str,
        limit: StateLimit,
    ) -> Attempt<CreateOutcome> {
        let app = new.key.app_name();
        let user = new.key.user_id();
        let session = new.key.session_id();
        let mut changes = ChangeColumns::default();
        changes.add(0, [app, user, session], &new.own);
        changes.add(0, [app, user, session], &new.shared);
        let mut columns = EventColumns::default();
        let mut updated = new.created;
        let mut bytes = new.initial.as_ref().map_or(0, String::len);
        let events = distinct(&new.events);
        for (event, ord) in events.iter().zip(1..) {
            changes.add(ord, [app, user, session], &event.changes);
            columns.add(event);
            updated = event.prepared.micros;
            bytes += event.prepared.text.len();
        }
        let time = seconds_of_micros(new.created);
        let blocks = i32::try_from(events.len() / POSITIONS + 1).unwrap_or(i32::MAX);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let own = changes.added(Scope::Session);
        let of_user = changes.added(Scope::User);
        let of_app = changes.added(Scope::App);
        let (most_keys, most_bytes) = limit.most(&new.limits);
        let mut params = changes.params().to_vec();
        params.extend([param(&app), &user, &session, &time]);
        params.extend(columns.params());
        params.extend([param(&new.initial), &blocks, &new.created, &updated, &own.keys, &own.bytes, &new.expires]);
        params.extend([param(&new.metadata.title), &new.metadata.labels, &token, &bytes, &of_user.keys]);
        params.extend([param(&of_user.bytes), &of_app.keys, &of_app.bytes, &most_keys, &most_bytes]);
        // Only a write to an app's keys locks the app, so that creations do not wait for each other.
        let of_events = events.iter().flat_map(|event| &event.changes);
        let writes_app = new.shared.iter().chain(of_events).any(|change| change.scope == Scope::App);
        let app_row = if writes_app { &self.statements.resolve.lock_app } else { &self.statements.add_app };
        let steps = [
            BoundStatement::new(&self.statements.delete.lock_user, [param(&app), &user]),
            BoundStatement::new(app_row, [param(&app)]),
            BoundStatement::new(&self.statements.create, params),
        ];
        let answers = lease.last_of(&steps).await?;
        let of = || format!("the session {}", new.key);
        let row = answers.last().and_then(|rows| rows.first()).ok_or_else(|| rows::damaged(of()))?;
        self.learn_listeners(row, 2);
        if column(row, 0, of)? {
            return Ok(CreateOutcome::Made);
        }
        Ok(if column(row, 1, of)? { CreateOutcome::Full } else { CreateOutcome::Taken })
    }

    /// Checks the limits on the state of the user and the app. The session's own state was checked when it was prepared.
    async fn check_shared_growth(&self, lease: &Lease<'_>, new: &NewSession) -> Attempt<()> {
        let is_shared = |change: &&TextChange| change.scope != Scope::Session;
        let mut writes: Vec<Vec<TextChange>> = vec![new.shared.clone()];
        for event in distinct(&new.events) {
            writes.push(event.changes.iter().filter(is_shared).cloned().collect());
        }
        writes.retain(|changes| !changes.is_empty());
        if writes.is_empty() {
            return Ok(());
        }
        let owner = KeyOwner::of_session(&new.key);
        let scopes = writes.iter().flatten().map(|change| change.scope).chain([Scope::User]);
        lease.all(&owner.locks(self, scopes)).await?;
        let writes: Vec<&[TextChange]> = writes.iter().map(Vec::as_slice).collect();
        self.check_growth(lease, &owner, &new.limits, &writes).await
    }
}

/// Returns the events, without those that repeat an id. Events with equal ids were already found to have the same
/// content.
fn distinct(events: &[NewEvent]) -> Vec<&NewEvent> {
    let mut seen = HashSet::new();
    events.iter().filter(|event| seen.insert(event.prepared.event.id.as_str())).collect()
}
