//! Quotas of users and apps: whether there is room for what is to be written.
//!
//! No write locks a total. What an owner has stored is read from the rows of its sessions every few seconds, and only for
//! an owner that has a quota; between two reads it is what was read, what this process has written since, and what it is
//! writing now. Other processes may write at the same time, so that there may be a little more than a quota.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::commit::{Prepared, PreparedSession};
use super::limits::Limits;
use super::usage::Usage;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{GetSessionConfig, SessionKey, SessionService, StateOwner};

/// For how long a total holds at least.
const LIFE: Duration = Duration::from_secs(5);

/// A total holds for this many times as long as it took to read: an app of a million sessions is not added up all the time.
const LIFE_OF_READS: u32 = 50;

/// A total that was read this lately is believed when it refuses something.
const NEWLY: Duration = Duration::from_millis(200);

/// How many expired sessions are deleted before it is looked again whether there is room.
const EXPIRED_AT_ONCE: usize = 256;

/// A write that no quota leaves aside.
const ANYTHING: Usage = Usage { bytes: 1, sessions: 1, artifacts: 1 };

/// How many owners are remembered, unless more of them write at the same time.
const OWNERS: usize = 4_096;

/// A store that can say what is in it.
#[async_trait]
pub trait Stock: SessionService {
    fn quotas(&self) -> &Quotas;

    /// What an owner has stored, an app with all of its users.
    async fn usage(&self, owner: &StateOwner) -> Result<Usage>;

    /// Whether a session has an event of this id, and so an append of it is a retry.
    async fn has_event(&self, key: &SessionKey, id: &str) -> Result<bool>;

    /// What a fork of a session up to one of its events, or to the last, would store.
    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Result<Usage>;

    /// Removes sessions that have expired, this many at most, and nothing else, since a write that needs room waits for it;
    /// says how many.
    async fn remove_expired(&self, limit: usize) -> Result<u64>;
}

/// The quotas of a store, and what is known of those who have them.
#[derive(Debug)]
pub struct Quotas {
    user: Quota,
    app: Quota,
    owners: Mutex<HashMap<StateOwner, Arc<Total>>>,
}

/// Of one kind of owner; `None` for any number.
#[derive(Clone, Copy, Debug)]
struct Quota {
    bytes: Option<u64>,
    sessions: Option<u64>,
    artifacts: Option<u64>,
}

/// A part of a quota: its name, its limit, and how to get at its amount.
type Part = (&'static str, Option<u64>, fn(Usage) -> u64);

/// What is known of an owner.
#[derive(Debug, Default)]
struct Total {
    state: Mutex<State>,
    /// Held by the call that reads it.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// What was read, and written since; `None` if it is unknown.
    known: Option<Known>,
    /// What is being written.
    held: Usage,
    /// What was ever written by this process: what was so while a total was read may not be in it.
    kept: Usage,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    usage: Usage,
    read: Instant,
    life: Duration,
    /// Something was removed since: there is no more than this, and there may be less.
    is_stale: bool,
}

/// Room that was found for a write. It goes with the write, whose caller may leave before it is done: it is given back
/// if it is dropped and not [kept](Self::keep).
#[derive(Debug, Default)]
pub struct Held {
    totals: Vec<Arc<Total>>,
    usage: Usage,
}

/// Room that a write holds until its outcome is known, and which outcomes have stored something.
#[derive(Debug)]
pub struct Charge<T> {
    held: Held,
    is_stored: fn(&T) -> bool,
}

impl<T> Charge<T> {
    /// Of a write that no quota concerns.
    pub fn none() -> Self {
        Held::default().kept_if(|_| false)
    }

    /// The write has succeeded.
    pub fn settle(self, outcome: &T) {
        if (self.is_stored)(outcome) {
            self.held.keep();
        }
    }

    /// As [`Held::keep_unsure`].
    pub fn keep_unsure(self) {
        self.held.keep_unsure();
    }
}

impl Held {
    /// The same for a write that stores something only if its outcome says so.
    pub fn kept_if<T>(self, is_stored: fn(&T) -> bool) -> Charge<T> {
        Charge { held: self, is_stored }
    }

    /// Nobody knows whether it is written: it counts until the total is read again, which is before it refuses anything.
    pub fn keep_unsure(self) {
        let totals = self.totals.clone();
        self.keep();
        totals.iter().for_each(|total| total.mark_stale());
    }

    /// It is written.
    pub fn keep(mut self) {
        for total in self.totals.drain(..) {
            let mut state = total.state();
            state.held = state.held.minus(self.usage);
            state.kept = state.kept.plus(self.usage);
            if let Some(known) = &mut state.known {
                known.usage = known.usage.plus(self.usage);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for total in &self.totals {
            let mut state = total.state();
            state.held = state.held.minus(self.usage);
        }
    }
}

impl Quotas {
    pub fn new(limits: &Limits) -> Self {
        Self {
            user: Quota { bytes: limits.user_bytes, sessions: limits.user_sessions, artifacts: limits.user_artifacts },
            app: Quota { bytes: limits.app_bytes, sessions: limits.app_sessions, artifacts: limits.app_artifacts },
            owners: Mutex::default(),
        }
    }

    /// Whether a quota says anything of a write of this kind; where none does, nothing is asked.
    fn concern(&self, more: Usage) -> bool {
        self.user.concerns(more) || self.app.concerns(more)
    }

    /// Something of a user was removed, so that the totals of the user and the app are read again.
    pub fn forget(&self, user: &StateOwner) {
        let owners = self.owners();
        let app = StateOwner::app(user.app_name()).ok();
        let totals = [Some(user), app.as_ref()].into_iter().flatten().filter_map(|owner| owners.get(owner));
        totals.for_each(|total| total.mark_stale());
    }

    /// Something of anybody was removed.
    pub fn forget_all(&self) {
        self.owners().values().for_each(|total| total.mark_stale());
    }

    fn total(&self, owner: &StateOwner) -> Arc<Total> {
        let mut owners = self.owners();
        if let Some(total) = owners.get(owner) {
            return Arc::clone(total);
        }
        if owners.len() >= OWNERS {
            // Those who write now are remembered.
            owners.retain(|_, total| Arc::strong_count(total) > 1);
        }
        Arc::clone(owners.entry(owner.clone()).or_default())
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<StateOwner, Arc<Total>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds room for what a write adds to a user and to the app.
///
/// # Errors
///
/// `ResourceExhausted` if there is no room, with quota, amount and limit; and what reading a total gives.
pub async fn hold<S: Stock + ?Sized>(store: &S, key: &SessionKey, more: Usage) -> Result<Held> {
    let (quotas, mut held) = (store.quotas(), Held { totals: Vec::new(), usage: more });
    if !quotas.concern(more) {
        return Ok(held);
    }
    for (owner, quota) in [(key.user(), quotas.user), (key.app(), quotas.app)] {
        if quota.concerns(more) {
            let total = quotas.total(&owner);
            hold_of(store, &owner, &total, quota, more).await?;
            held.totals.push(total);
        }
    }
    Ok(held)
}

/// The same for a session, which needs no room if it is there: then it is not made.
pub async fn hold_session<S: Stock + ?Sized>(store: &S, new: &PreparedSession) -> Result<Held> {
    if !store.quotas().concern(ANYTHING) {
        return Ok(Held::default());
    }
    let key = &new.key;
    match hold(store, key, new.usage()?).await {
        Err(error) if error.kind() == ErrorKind::ResourceExhausted => {
            let there = store.get_session(key, &GetSessionConfig::state_only().without_state()).await?;
            there.map_or(Err(error), |_| Ok(Held::default()))
        }
        held => held,
    }
}

/// The same for a fork.
pub async fn hold_fork<S: Stock + ?Sized>(store: &S, key: &SessionKey, at: Option<u64>) -> Result<Held> {
    if !store.quotas().concern(ANYTHING) {
        return Ok(Held::default());
    }
    hold(store, key, store.fork_usage(key, at).await?).await
}

/// The same for an event, which needs no room if it is a retry.
pub async fn hold_event<S: Stock + ?Sized>(store: &S, key: &SessionKey, event: &Prepared) -> Result<Held> {
    match hold(store, key, event.usage()).await {
        Err(error) if error.kind() == ErrorKind::ResourceExhausted && store.has_event(key, &event.event.id).await? => {
            Ok(Held::default())
        }
        held => held,
    }
}

/// Finds room with one owner, whose total holds it then.
async fn hold_of<S: Stock + ?Sized>(
    store: &S,
    owner: &StateOwner,
    total: &Total,
    quota: Quota,
    more: Usage,
) -> Result<()> {
    loop {
        let mut is_new = total.refresh(store, owner, LIFE).await?;
        loop {
            let Err(error) = total.take(owner, quota, more) else {
                return Ok(());
            };
            // What is known may be old.
            if !is_new && total.refresh(store, owner, NEWLY).await? {
                is_new = true;
            } else if store.remove_expired(EXPIRED_AT_ONCE).await? > 0 {
                // Sessions that are as if deleted stood in the way.
                break;
            } else {
                return Err(error);
            }
        }
    }
}

impl Total {
    /// Something was removed. What is known goes on to hold, so that no writer waits for it to be read.
    fn mark_stale(&self) {
        if let Some(known) = &mut self.state().known {
            known.is_stale = true;
        }
    }

    /// Has it read where what is known is older than this, or than it may be; says whether it was.
    async fn refresh<S: Stock + ?Sized>(&self, store: &S, owner: &StateOwner, age: Duration) -> Result<bool> {
        let is_fresh = || {
            let known = self.state().known;
            // What is too much holds nobody up; what is refused by it is read again first.
            known.is_some_and(|known| match age == LIFE {
                true => known.read.elapsed() < known.life,
                false => !known.is_stale && known.read.elapsed() < age,
            })
        };
        if is_fresh() {
            return Ok(false);
        }
        let _reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            // Somebody is at it. Until then what is known goes on to hold.
            Err(_) if age == LIFE && self.state().known.is_some() => return Ok(false),
            Err(_) => {
                let reading = self.reading.lock().await;
                if is_fresh() {
                    return Ok(true);
                }
                reading
            }
        };
        let (read, before) = (Instant::now(), self.state().kept);
        let usage = store.usage(owner).await?;
        let life = LIFE.max(read.elapsed() * LIFE_OF_READS);
        let mut state = self.state();
        // Some of it may be counted twice, until the next time; none is lost.
        let meanwhile = state.kept.minus(before);
        state.known = Some(Known { usage: usage.plus(meanwhile), read, life, is_stale: false });
        Ok(true)
    }

    fn take(&self, owner: &StateOwner, quota: Quota, more: Usage) -> Result<()> {
        let mut state = self.state();
        let now = state.known.map(|known| known.usage).unwrap_or_default().plus(state.held);
        quota.check(owner, now, more)?;
        state.held = state.held.plus(more);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Quota {
    fn parts(self) -> [Part; 3] {
        [
            ("bytes", self.bytes, |usage| usage.bytes),
            ("sessions", self.sessions, |usage| usage.sessions),
            ("artifacts", self.artifacts, |usage| usage.artifacts),
        ]
    }

    fn concerns(self, more: Usage) -> bool {
        self.parts().into_iter().any(|(_, limit, amount)| limit.is_some() && amount(more) > 0)
    }

    fn check(self, owner: &StateOwner, now: Usage, more: Usage) -> Result<()> {
        for (what, limit, amount) in self.parts() {
            let (has, added) = (amount(now), amount(more));
            let Some(limit) = limit.filter(|limit| added > 0 && has.saturating_add(added) > *limit) else {
                continue;
            };
            let (kind, whose) = match owner.user_id() {
                Some(user) => ("user", format!("the user '{user}' of the app '{}'", owner.app_name())),
                None => ("app", format!("the app '{}'", owner.app_name())),
            };
            return Err(Error::new(
                ErrorKind::ResourceExhausted,
                format!(
                    "{whose} has {has} {what}; with {added} more there would be {}, and {kind}_{what} is {limit}; \
                     delete or prune what is not needed, or raise the quota",
                    has.saturating_add(added)
                ),
            ));
        }
        Ok(())
    }
}
