//! Usage, summed up when a quota needs it, and the deletion of expired sessions to make room.

use async_trait::async_trait;

use super::app::{ArtifactVersions, User};
use super::{InMemorySessionService, read, write};
use crate::error::Result;
use crate::plan::quota::{QuotaStore, Quotas};
use crate::plan::usage::Usage;
use crate::session::{RemovalKind, SessionKey, StateOwner};

#[async_trait]
impl QuotaStore for InMemorySessionService {
    fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    async fn usage(&self, owner: &StateOwner) -> Result<Usage> {
        let Some(app) = self.app(owner.app_name())? else {
            return Ok(Usage::default());
        };
        let app = read(&app);
        Ok(match owner.user_id() {
            Some(user_id) => app.users.get(user_id).map(of_user).unwrap_or_default(),
            None => app.users.values().map(of_user).fold(Usage::default(), Usage::plus),
        })
    }

    async fn has_event(&self, key: &SessionKey, id: &str) -> Result<bool> {
        let Some(app) = self.app(key.app_name())? else {
            return Ok(false);
        };
        Ok(read(&app).session(key).is_some_and(|(_, stored)| stored.event_with_id(stored.ids.hash(id), id).is_some()))
    }

    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Result<Usage> {
        let Some(app) = self.app(key.app_name())? else {
            return Ok(Usage::default());
        };
        let app = read(&app);
        // A fork of a missing session is refused later.
        let Some((user, stored)) = app.session(key) else {
            return Ok(Usage::default());
        };
        let left = at.map_or(0, |at| stored.entries.iter().skip(stored.count_up_to(at)).map(|entry| entry.bytes).sum());
        let own = user.artifacts.iter().filter(|((session, _), _)| session.as_deref() == Some(key.session_id()));
        let artifacts = own.map(|(_, versions)| of_versions(versions));
        Ok(artifacts.fold(Usage::session(stored.bytes - left), Usage::plus))
    }

    async fn remove_expired(&self, limit: usize) -> Result<u64> {
        let (now, mut removed) = (self.now_micros(), 0);
        for app in self.all_apps()?.values() {
            let mut app = write(app);
            let expired = app.expired(now, limit - removed);
            expired.iter().for_each(|key| self.remove(&mut app, key, RemovalKind::Expired));
            removed += expired.len();
        }
        if removed > 0 {
            self.quotas.forget_all();
            self.notifier.notify();
        }
        Ok(removed as u64)
    }
}

fn of_user(user: &User) -> Usage {
    let sessions = user.sessions.values().map(|stored| Usage::session(stored.bytes));
    sessions.chain(user.artifacts.values().map(of_versions)).fold(Usage::default(), Usage::plus)
}

fn of_versions(versions: &ArtifactVersions) -> Usage {
    versions.iter().map(|(prepared, _)| Usage::artifact(prepared.bytes)).fold(Usage::default(), Usage::plus)
}
