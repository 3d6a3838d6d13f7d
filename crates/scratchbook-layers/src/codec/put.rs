//! Writes state outside of any session.

use serde_json::Value;
use uuid::Uuid;

use super::append::{
    AppendAttempt, StoredValues, always_refused, guarded, is_outdated, shows_other_value, with_writers,
};
use super::location::scope_of;
use super::{Codec, Coded, Location};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::commit::{KeyChange, PreparedState, prepare_state};
use scratchbook_core::plan::resolve::Found;
use scratchbook_core::session::{ListStateConfig, PutStateOptions, SessionService, StateOwner, retry_pauses};
use scratchbook_core::state::{Change, StateDelta};

/// How many rounds of retries a change with operations gets: about 100 tries in all.
const ROUNDS: usize = 5;

impl<S: SessionService, C: Codec> Coded<S, C> {
    pub(super) async fn put_coded(
        &self,
        owner: &StateOwner,
        delta: StateDelta,
        mut options: PutStateOptions,
    ) -> Result<u64> {
        let check = options.check.take();
        let prepared = prepare_state(owner, delta, &options, &self.limits)?;
        let (app, user) = (owner.app_name(), owner.user_id().unwrap_or_default());
        options.check = self.opened_check(app, user, check);
        if prepared.is_plain() {
            let coded = self.coded_changes(owner, &prepared.changes)?;
            let put = self.service.put_state(owner, coded, options).await;
            return put.map_err(|error| self.coder.open_error(app, user, error));
        }
        let scope = scope_of(owner);
        let permit_keys =
            prepared.reads().map(|change| [app, user, "", &change.name].map(str::to_owned)).map(|mut key| {
                key[3] = scope.key(&key[3]).into_owned();
                key
            });
        let _permits = self.permits.acquire(permit_keys.collect::<Vec<_>>()).await;
        let mut outdated = None;
        for pause in std::iter::repeat_with(retry_pauses).take(ROUNDS).flatten() {
            if outdated.is_some() {
                tokio::time::sleep(pause).await;
            }
            match self.try_put(owner, &prepared, &options).await? {
                AppendAttempt::Answered(answer) => return answer,
                AppendAttempt::Outdated(error) => outdated = Some(error),
            }
        }
        Err(outdated.unwrap_or_else(|| Error::internal("a change of state was not tried")))
    }

    async fn try_put(
        &self,
        owner: &StateOwner,
        prepared: &PreparedState,
        options: &PutStateOptions,
    ) -> Result<AppendAttempt<u64>> {
        let (app, user) = (owner.app_name(), owner.user_id().unwrap_or_default());
        let (mut stored, mut found) = (StoredValues::new(), Found::new(0));
        for KeyChange { scope, name, .. } in prepared.reads() {
            let value = self.read_stored(owner, name).await?;
            let opened = value.as_ref().map(|value| self.coder.decode_value(value, &Location::owned(owner, name)));
            found.insert(*scope, name, opened.transpose()?.map(std::borrow::Cow::into_owned), 0);
            stored.insert(name.clone(), value);
        }
        let names = || prepared.changes.iter().map(|change| change.name.as_str());
        let changes = match prepared.resolve(&found) {
            Ok(changes) => changes,
            Err(refusal) => {
                let refused = refusal.into_error([]);
                return self.refused_put(owner, always_refused(names())?, options, refused, &stored).await;
            }
        };
        let coded = guarded(names(), &self.coded_changes(owner, &changes)?, &stored)?;
        let put = self.service.put_state(owner, coded, options.clone()).await;
        let stored = prefixed(owner, stored);
        Ok(match put {
            Err(error) if is_outdated(&error, &stored) => {
                AppendAttempt::Outdated(self.coder.open_error(app, user, error))
            }
            answer => AppendAttempt::Answered(answer.map_err(|error| self.coder.open_error(app, user, error))),
        })
    }

    /// Returns the answer for a write that was refused because of the values that were read. As for an append, the
    /// store reports the writers of the conflicting keys.
    async fn refused_put(
        &self,
        owner: &StateOwner,
        probe: StateDelta,
        options: &PutStateOptions,
        refused: Error,
        stored: &StoredValues,
    ) -> Result<AppendAttempt<u64>> {
        let (app, user) = (owner.app_name(), owner.user_id().unwrap_or_default());
        let mut unchecked = options.clone();
        unchecked.check = None;
        Ok(match self.service.put_state(owner, probe, unchecked).await {
            Err(reported) if reported.kind() == ErrorKind::Conflict => {
                let outdated = shows_other_value(&reported, &prefixed(owner, stored.clone()));
                let reported = self.coder.open_error(app, user, reported);
                if outdated {
                    AppendAttempt::Outdated(reported)
                } else {
                    AppendAttempt::Answered(Err(with_writers(refused, &reported)))
                }
            }
            answer => AppendAttempt::Answered(answer),
        })
    }

    /// Returns the stored value of one key. If the key exists, it is the first of the keys that begin with its name.
    pub(super) async fn read_stored(&self, owner: &StateOwner, name: &str) -> Result<Option<Value>> {
        let config = ListStateConfig::default().with_prefix(name).with_page_size(1);
        let mut page = self.service.list_state(owner, &config).await?;
        Ok(page.values.remove(name))
    }

    fn coded_changes(&self, owner: &StateOwner, changes: &[KeyChange]) -> Result<StateDelta> {
        let mut coded = StateDelta::new();
        for KeyChange { name, change, .. } in changes {
            // These values are not used to recognize a retry, so their salt may be random.
            let salt = Uuid::new_v4();
            let change = match change {
                Change::Set(value) => {
                    let location = Location::owned(owner, name);
                    Change::Set(self.coder.encode_value(value, &location, salt.as_bytes())?)
                }
                other => other.clone(),
            };
            coded.insert(name.clone(), change)?;
        }
        Ok(coded)
    }
}

/// Returns the values by prefixed key, as errors name them.
fn prefixed(owner: &StateOwner, stored: StoredValues) -> StoredValues {
    stored.into_iter().map(|(name, value)| (scope_of(owner).key(&name).into_owned(), value)).collect()
}
