//! Hearing of commits by other processes: feeds that were read are looked at, often while something happens and seldom
//! else.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mysql_async::Value;

use super::MySql;
use super::feed::PENDING;
use super::pool::Care;
use super::row::Cells;
use crate::session::CommitNotifier;
use crate::store::database::Attempt;
use crate::store::rows;

/// How long between two looks, right after something was committed and when nothing has been for a while.
const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(500);

/// Who reads no feed, but a session, is woken after so long whatever happens.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Apps whose feeds were read, and how far they were numbered then. One of whose commits was told is left out until its
/// feed is read again.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<HashMap<String, u64>>);

impl Watched {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MySql {
    /// The feed of an app was read, and was numbered so far then.
    pub(super) fn watched(&self, app: &str, end: u64) {
        let mut watched = self.watched.lock();
        match watched.get_mut(app) {
            Some(known) => *known = end.max(*known),
            None => drop(watched.insert(app.to_owned(), end)),
        }
    }

    /// Wakes those who wait whenever there may be something new in a feed that was read.
    pub(super) async fn watch(&self, notifier: &CommitNotifier) {
        let (mut pause, mut told) = (SOON, Instant::now());
        while notifier.is_heard() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LATE);
            let watched: Vec<_> = self.watched.lock().iter().map(|(app, end)| (app.clone(), *end)).collect();
            for (app, end) in watched {
                match self.has_more(&app, end).await {
                    Ok(false) => {}
                    Ok(true) => {
                        self.watched.lock().remove(&app);
                        notifier.notify();
                        (pause, told) = (SOON, Instant::now());
                    }
                    Err(failure) => {
                        tracing::debug!(error = %failure.error, "commits of others cannot be looked for");
                        return;
                    }
                }
            }
            if told.elapsed() >= AT_LEAST {
                notifier.notify();
                told = Instant::now();
            }
        }
    }

    /// Whether an app has commits that were not there when its feed had been numbered so far.
    async fn has_more(&self, app: &str, end: u64) -> Attempt<bool> {
        let sql = self.sql(&format!(
            "SELECT COALESCE((SELECT position FROM `{{prefix}}feeds` WHERE app_name = ?), 0), {PENDING}"
        ));
        let mut lease = self.connections.lease(Care::Again).await?;
        let rows = lease.rows(&sql, vec![Value::from(app); 4]).await?;
        drop(lease);
        let place = || format!("the feed of {app:?}");
        let Some(cells) = rows.into_iter().next().map(Cells::from) else {
            return Ok(false);
        };
        Ok(rows::number(cells.integer(0, place)?, place)? > end || cells.integer(1, place)? != 0)
    }
}
