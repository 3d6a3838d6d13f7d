//! Creates sessions, with the events that a session may begin with.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::append::{AppendAttempt, StoredValues, guarded, is_outdated};
use super::event::SentEvent;
use super::{Codec, Coded, Location};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{Prepared, PreparedSession, prepare_session};
use scratchbook_core::plan::locate::taken_within;
use scratchbook_core::plan::resolve::Found;
use scratchbook_core::session::{
    CreateSessionConfig, GetSessionConfig, IdScope, Session, SessionService, retry_pauses,
};
use scratchbook_core::state::{Change, Scope};

/// How many rounds of retries a creation with operations gets: about 100 tries in all.
const ROUNDS: usize = 5;

impl<S: SessionService, C: Codec> Coded<S, C> {
    pub(super) async fn create_coded(
        &self,
        app_name: &str,
        user_id: &str,
        mut config: CreateSessionConfig,
    ) -> Result<Session> {
        config.check = self.opened_check(app_name, user_id, config.check);
        let mut given = config.clone();
        given.check = None;
        let prepared = prepare_session(app_name, user_id, given, self.environment.as_ref(), &self.limits)?;
        let whole = config.events.iter().filter(|event| !event.is_partial());
        let timeless = whole.zip(&prepared.events).filter(|(given, _)| given.timestamp.is_none());
        let timeless: HashSet<_> = timeless.map(|(_, prepared)| prepared.event.id.clone()).collect();
        config.session_id = Some(prepared.key.session_id().to_owned());
        config.events = Vec::new();
        config.state = self.coded_state(&prepared)?.into();
        let metadata = self.coder.coded_metadata(&prepared.key, prepared.metadata.clone())?;
        (config.title, config.labels) = (metadata.title, metadata.labels);
        let creation = PreparedCreation { prepared, config, timeless };
        if creation.prepared.is_plain() {
            let config = self.coded_creation(&creation, &creation.prepared.events, &StoredValues::new())?;
            let created = self.service.create_session(app_name, user_id, config).await;
            return self.coder.open_session(created.map_err(|e| self.coder.open_error(app_name, user_id, e))?);
        }
        let names: Vec<_> = creation.prepared.reads().into_iter().map(|(scope, name)| scope.key(name)).collect();
        let _permits = self.permits.acquire(names.iter().map(|name| permit_key(app_name, user_id, name))).await;
        let mut outdated = None;
        for pause in std::iter::repeat_with(retry_pauses).take(ROUNDS).flatten() {
            if outdated.is_some() {
                tokio::time::sleep(pause).await;
            }
            match self.try_create(&creation).await? {
                AppendAttempt::Answered(answer) => return answer,
                AppendAttempt::Outdated(error) => outdated = Some(error),
            }
        }
        Err(outdated.unwrap_or_else(|| Error::internal("a creation was not tried")))
    }

    /// Reads the values that the events' operations need, resolves the operations, and guards the values.
    async fn try_create(&self, creation: &PreparedCreation) -> Result<AppendAttempt<Session>> {
        let key = &creation.prepared.key;
        let (mut stored, mut found) = (StoredValues::new(), Found::new(0));
        for (scope, name) in creation.prepared.reads() {
            if creation.prepared.shared.iter().any(|change| (change.scope, change.name.as_str()) == (scope, name)) {
                continue;
            }
            let owner = if scope == Scope::User { key.user() } else { key.app() };
            let value = self.read_stored(&owner, name).await?;
            let opened = value.as_ref().map(|value| self.coder.decode_value(value, &Location::owned(&owner, name)));
            found.insert(scope, name, opened.transpose()?.map(Cow::into_owned), 0);
            stored.insert(scope.key(name).into_owned(), value);
        }
        let resolved = match creation.prepared.clone().resolve(found) {
            Ok(resolved) => resolved,
            Err(refusal) => {
                // If the id is taken, this is reported instead of the refusal of the events.
                let scope = creation.prepared.id_scope;
                let mut exists = self.service.get_session(key, &GetSessionConfig::state_only()).await?.is_some();
                if !exists && scope == IdScope::App {
                    let found = self.service.locate_session(key.app_name(), key.session_id()).await;
                    exists = match found {
                        // Several users have a session with this id.
                        Err(error) if error.kind() == ErrorKind::FailedPrecondition => true,
                        found => found?.is_some(),
                    };
                }
                let error = if exists { taken_within(scope, key) } else { refusal.into_error([]) };
                return Ok(AppendAttempt::Answered(Err(error)));
            }
        };
        let config = self.coded_creation(creation, &resolved.events, &stored)?;
        let open_error = |error| self.coder.open_error(key.app_name(), key.user_id(), error);
        Ok(match self.service.create_session(key.app_name(), key.user_id(), config).await {
            Ok(session) => AppendAttempt::Answered(self.coder.open_session(session)),
            Err(error) if is_outdated(&error, &stored) => AppendAttempt::Outdated(open_error(error)),
            Err(error) => AppendAttempt::Answered(Err(open_error(error))),
        })
    }

    fn coded_state(&self, prepared: &PreparedSession) -> Result<Map<String, Value>> {
        let own = prepared.initial.iter().map(|(name, value)| (Cow::Borrowed(name.as_str()), value));
        let shared = prepared.shared.iter().filter_map(|change| match &change.change {
            Change::Set(value) => Some((change.scope.key(&change.name), value)),
            Change::Remove | Change::Apply(_) => None,
        });
        let (app, user) = (prepared.key.app_name(), prepared.key.user_id());
        let encode = |(key, value): (Cow<'_, str>, &Value)| {
            let salt = Uuid::new_v4();
            let value = self.coder.encode_value(value, &Location::value(app, user, &key), salt.as_bytes())?;
            Ok((key.into_owned(), value))
        };
        own.chain(shared).map(encode).collect()
    }

    /// Returns the creation as the store receives it. The first event guards the values that were read.
    fn coded_creation(
        &self,
        creation: &PreparedCreation,
        events: &[Prepared],
        stored: &StoredValues,
    ) -> Result<CreateSessionConfig> {
        let given = &creation.prepared.events;
        let mut config = creation.config.clone();
        // Events with equal ids are one event. It is sent once, because the encoded forms could have different times.
        let mut ids = HashSet::new();
        for event in events.iter().filter(|event| ids.insert(event.event.id.as_str())) {
            let as_sent = given.iter().find(|given| given.event.id == event.event.id);
            let has_operations = as_sent.is_some_and(|given| given.text.is_empty());
            let has_time = !creation.timeless.contains(&event.event.id);
            let sent = SentEvent { hash: event.hash, has_time, stores_hash: has_operations };
            config.events.push(self.coder.encode_event(&creation.prepared.key, event.event.clone(), sent)?);
        }
        if let Some(Event { actions, .. }) = config.events.first_mut().filter(|_| !stored.is_empty()) {
            let delta = std::mem::take(&mut actions.state_delta);
            let unwritten = stored.keys().map(String::as_str).filter(|key| !delta.contains(key));
            actions.state_delta = guarded(delta.iter().map(|(key, _)| key).chain(unwritten), &delta, stored)?;
        }
        Ok(config)
    }
}

/// A prepared creation.
struct PreparedCreation {
    prepared: PreparedSession,
    /// The creation as the store receives it, without the events.
    config: CreateSessionConfig,
    /// The ids of events that came without a time.
    timeless: HashSet<String>,
}

fn permit_key<'a>(app: &'a str, user: &'a str, key: &'a str) -> [&'a str; 4] {
    if Scope::split(key).0 == Scope::App { [app, "", "", key] } else { [app, user, "", key] }
}
