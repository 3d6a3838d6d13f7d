//! Quotas of users and apps: checks whether there is room for a write.
//!
//! No write locks a total. The total of an owner with a quota is read from the rows of its sessions every few seconds.
//! In between, the writes of this process, finished and in progress, are added to the last read. Other processes may
//! write at the same time, so that slightly more than the quota may be stored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::commit::{Prepared, PreparedSession};
use super::limits::Limits;
use super::usage::Usage;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{GetSessionConfig, SessionKey, SessionService, StateOwner};

/// The minimum time for which a total is valid.
const LIFE: Duration = Duration::from_secs(5);

/// A total stays valid for this multiple of the time that it took to read, so that an app with a million sessions is
/// not summed up all the time.
const LIFE_OF_READS: u32 = 50;

/// If a total was read this recently, it may refuse a write without being read again.
const NEWLY: Duration = Duration::from_millis(200);

/// How many expired sessions to delete before checking again whether there is room.
const EXPIRED_AT_ONCE: usize = 256;

/// A write to which every quota applies.
const ANYTHING: Usage = Usage { bytes: 1, sessions: 1, artifacts: 1 };

/// The maximum number of cached owners. It is exceeded only if more owners write at the same time.
const OWNERS: usize = 4_096;

/// A store that can report its usage.
#[async_trait]
pub trait QuotaStore: SessionService {
    fn quotas(&self) -> &Quotas;

    /// Returns the usage of an owner; for an app, with all of its users.
    async fn usage(&self, owner: &StateOwner) -> Result<Usage>;

    /// Whether a session has an event with this id, so that appending it is a retry.
    async fn has_event(&self, key: &SessionKey, id: &str) -> Result<bool>;

    /// Returns how much a fork of a session would store, up to one of its events or up to the last.
    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Result<Usage>;

    /// Removes at most this many expired sessions and returns how many. It removes nothing else, because a write that
    /// needs room waits for it.
    async fn remove_expired(&self, limit: usize) -> Result<u64>;
}

/// The quotas of a store, and the totals of owners.
#[derive(Debug)]
pub struct Quotas {
    user: Quota,
    app: Quota,
    owners: Mutex<HashMap<StateOwner, Arc<Total>>>,
}

/// The quotas of one kind of owner; `None` for no limit.
#[derive(Clone, Copy, Debug)]
struct Quota {
    bytes: Option<u64>,
    sessions: Option<u64>,
    artifacts: Option<u64>,
}

/// A part of a quota: its name, its limit, and how to get its amount.
type QuotaPart = (&'static str, Option<u64>, fn(Usage) -> u64);

/// The total of an owner.
#[derive(Debug, Default)]
struct Total {
    state: Mutex<QuotaState>,
    /// Held by the call that reads the total.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct QuotaState {
    /// The total that was last read, plus the writes since then; `None` if it is unknown.
    cached: Option<CachedUsage>,
    /// Writes in progress.
    reserved: Usage,
    /// The sum of all writes by this process. A total may lack the writes that finished while it was read.
    kept: Usage,
}

#[derive(Clone, Copy, Debug)]
struct CachedUsage {
    usage: Usage,
    read: Instant,
    life: Duration,
    /// Whether data was removed since the read, so that the total is an upper bound.
    is_stale: bool,
}

/// Room reserved for a write. The write owns the reservation, because the caller may drop the future of its call early.
/// A reservation that is dropped without being [kept](Self::keep) is released.
#[derive(Debug, Default)]
pub struct Reservation {
    totals: Vec<Arc<Total>>,
    usage: Usage,
}

/// Room reserved for a write until its outcome is known, with a function that returns whether an outcome has stored
/// data.
#[derive(Debug)]
pub struct Charge<T> {
    reservation: Reservation,
    is_stored: fn(&T) -> bool,
}

impl<T> Charge<T> {
    /// Creates a charge for a write to which no quota applies.
    pub fn none() -> Self {
        Reservation::default().kept_if(|_| false)
    }

    /// Ends a write that succeeded: keeps the reservation if the outcome has stored something.
    pub fn settle(self, outcome: &T) {
        if (self.is_stored)(outcome) {
            self.reservation.keep();
        }
    }

    /// Does what [`Reservation::keep_unsure`] does.
    pub fn keep_unsure(self) {
        self.reservation.keep_unsure();
    }
}

impl Reservation {
    /// Turns the reservation into a charge, for a write that stores data only with some outcomes.
    pub fn kept_if<T>(self, is_stored: fn(&T) -> bool) -> Charge<T> {
        Charge { reservation: self, is_stored }
    }

    /// Keeps the room, because the outcome of the write is unknown. The write counts until the total is read again.
    /// That happens before a later write is refused.
    pub fn keep_unsure(self) {
        let totals = self.totals.clone();
        self.keep();
        totals.iter().for_each(|total| total.mark_stale());
    }

    /// Keeps the room, because the write is stored.
    pub fn keep(mut self) {
        for total in self.totals.drain(..) {
            let mut state = total.state();
            state.reserved = state.reserved.minus(self.usage);
            state.kept = state.kept.plus(self.usage);
            if let Some(cached) = &mut state.cached {
                cached.usage = cached.usage.plus(self.usage);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for total in &self.totals {
            let mut state = total.state();
            state.reserved = state.reserved.minus(self.usage);
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

    /// Whether a quota applies to a write that adds this much. If none does, no total is read.
    fn concern(&self, more: Usage) -> bool {
        self.user.concerns(more) || self.app.concerns(more)
    }

    /// Marks the totals of a user and the app as outdated, because data of the user was removed.
    pub fn forget(&self, user: &StateOwner) {
        let owners = self.owners();
        let app = StateOwner::app(user.app_name()).ok();
        let totals = [Some(user), app.as_ref()].into_iter().flatten().filter_map(|owner| owners.get(owner));
        totals.for_each(|total| total.mark_stale());
    }

    /// Marks all totals as outdated, because data of unknown owners was removed.
    pub fn forget_all(&self) {
        self.owners().values().for_each(|total| total.mark_stale());
    }

    fn total(&self, owner: &StateOwner) -> Arc<Total> {
        let mut owners = self.owners();
        if let Some(total) = owners.get(owner) {
            return Arc::clone(total);
        }
        if owners.len() >= OWNERS {
            // Owners with writes in progress are kept.
            owners.retain(|_, total| Arc::strong_count(total) > 1);
        }
        Arc::clone(owners.entry(owner.clone()).or_default())
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<StateOwner, Arc<Total>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserves room for what a write adds to a user and to the app.
///
/// # Errors
///
/// `ResourceExhausted` if there is no room, with quota, amount and limit; and the errors of reading a total.
pub async fn reserve<S: QuotaStore + ?Sized>(store: &S, key: &SessionKey, more: Usage) -> Result<Reservation> {
    let (quotas, mut reservation) = (store.quotas(), Reservation { totals: Vec::new(), usage: more });
    if !quotas.concern(more) {
        return Ok(reservation);
    }
    for (owner, quota) in [(key.user(), quotas.user), (key.app(), quotas.app)] {
        if quota.concerns(more) {
            let total = quotas.total(&owner);
            reserve_for(store, &owner, &total, quota, more).await?;
            reservation.totals.push(total);
        }
    }
    Ok(reservation)
}

/// Reserves room for a new session. A session that already exists needs no room, because it is not created.
pub async fn reserve_session<S: QuotaStore + ?Sized>(store: &S, new: &PreparedSession) -> Result<Reservation> {
    if !store.quotas().concern(ANYTHING) {
        return Ok(Reservation::default());
    }
    let key = &new.key;
    match reserve(store, key, new.usage()?).await {
        Err(error) if error.kind() == ErrorKind::ResourceExhausted => {
            let there = store.get_session(key, &GetSessionConfig::state_only().without_state()).await?;
            there.map_or(Err(error), |_| Ok(Reservation::default()))
        }
        reservation => reservation,
    }
}

/// Reserves room for a fork.
pub async fn reserve_fork<S: QuotaStore + ?Sized>(store: &S, key: &SessionKey, at: Option<u64>) -> Result<Reservation> {
    if !store.quotas().concern(ANYTHING) {
        return Ok(Reservation::default());
    }
    reserve(store, key, store.fork_usage(key, at).await?).await
}

/// Reserves room for an event, which needs no room if it is a retry.
pub async fn reserve_event<S: QuotaStore + ?Sized>(
    store: &S,
    key: &SessionKey,
    event: &Prepared,
) -> Result<Reservation> {
    reserve_bytes(store, key, &event.event.id, event.usage()).await
}

/// Reserves room for an event with this id, as [`reserve_event`] does.
pub(crate) async fn reserve_bytes<S: QuotaStore + ?Sized>(
    store: &S,
    key: &SessionKey,
    event_id: &str,
    more: Usage,
) -> Result<Reservation> {
    match reserve(store, key, more).await {
        Err(error) if error.kind() == ErrorKind::ResourceExhausted && store.has_event(key, event_id).await? => {
            Ok(Reservation::default())
        }
        reservation => reservation,
    }
}

/// Reserves room in one owner's total.
async fn reserve_for<S: QuotaStore + ?Sized>(
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
            // The total may be old.
            if !is_new && total.refresh(store, owner, NEWLY).await? {
                is_new = true;
            } else if store.remove_expired(EXPIRED_AT_ONCE).await? > 0 {
                // Removing expired sessions may have made room.
                break;
            } else {
                return Err(error);
            }
        }
    }
}

impl Total {
    /// Marks the total as outdated, because data was removed. The old total stays in use, so that no writer waits for a
    /// read.
    fn mark_stale(&self) {
        if let Some(cached) = &mut self.state().cached {
            cached.is_stale = true;
        }
    }

    /// Reads the total again if it is older than `age` or not valid any more; returns whether it was read.
    async fn refresh<S: QuotaStore + ?Sized>(&self, store: &S, owner: &StateOwner, age: Duration) -> Result<bool> {
        let is_fresh = || {
            let cached = self.state().cached;
            // A total that is too high delays nobody; it is read again before it refuses a write.
            cached.is_some_and(|cached| match age == LIFE {
                true => cached.read.elapsed() < cached.life,
                false => !cached.is_stale && cached.read.elapsed() < age,
            })
        };
        if is_fresh() {
            return Ok(false);
        }
        let _reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            // Another call is reading the total. Until that is done, the old total is used.
            Err(_) if age == LIFE && self.state().cached.is_some() => return Ok(false),
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
        // Some writes may be counted twice until the next read; none is lost.
        let meanwhile = state.kept.minus(before);
        state.cached = Some(CachedUsage { usage: usage.plus(meanwhile), read, life, is_stale: false });
        Ok(true)
    }

    fn take(&self, owner: &StateOwner, quota: Quota, more: Usage) -> Result<()> {
        let mut state = self.state();
        let now = state.cached.map(|cached| cached.usage).unwrap_or_default().plus(state.reserved);
        quota.check(owner, now, more)?;
        state.reserved = state.reserved.plus(more);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, QuotaState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Quota {
    fn parts(self) -> [QuotaPart; 3] {
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
