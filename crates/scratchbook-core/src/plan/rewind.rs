//! Rewinding a session to before an invocation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use crate::artifact::ArtifactService;
use crate::content::Part;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, GetSessionConfig, InitialState, PAGE_BYTES, Session, SessionKey, SessionService, no_session,
    retry_pauses,
};
use crate::state::{OwnKeys, Scope, StateDelta, StateMap, apply_own, own_keys};
use crate::store::Store;

/// How many events are read at a time.
const PAGE: usize = 500;

/// The versions of a session's artifacts, by name.
type VersionsByName = BTreeMap<String, u64>;

/// The state and the artifacts before the invocation, computed from the events.
#[derive(Debug)]
struct RewindTarget {
    /// The session's own keys before the invocation's first event.
    state: OwnKeys,
    /// The versions of artifacts before that event, and now.
    then: VersionsByName,
    now: VersionsByName,
    /// Artifacts whose earlier versions were recorded in pruned events.
    unknown: BTreeSet<String>,
}

impl Store {
    /// Rewinds a session to before an invocation: the session's keys get their earlier values, keys that did not exist
    /// then are removed, and the earlier versions of the session's artifacts are saved as new ones. The user's and the
    /// app's keys stay. The event that does this names the invocation in `rewind_before_invocation_id`, as in ADK, and
    /// is returned; earlier events stay unchanged.
    ///
    /// ```
    /// # use scratchbook::prelude::*;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let store = connect("memory:").await?;
    /// let config = CreateSessionConfig::default().with_state(json!({"step": 1}));
    /// let session = store.sessions.create_session("app", "alice", config).await?;
    /// let delta = StateDelta::new().with("step", 2)?.with("result", "wrong")?;
    /// let event = Event::new("agent").with_invocation_id("second").with_state_delta(delta);
    /// store.sessions.append(session.key(), event, AppendOptions::default()).await?;
    ///
    /// store.rewind(session.key(), "second").await?;
    /// let rewound = store.sessions.get_session(session.key(), &Default::default()).await?.unwrap();
    /// assert_eq!(json!(rewound.state()), json!({"step": 1}));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - `NotFound` if the session or the invocation does not exist;
    /// - `FailedPrecondition` if all events before the invocation were pruned, so that the invocation may have begun
    ///   earlier;
    /// - `FailedPrecondition` if the events that record an artifact's earlier version were pruned;
    /// - `InvalidArgument` for an empty id;
    /// - `Conflict` if every attempt lost against another writer.
    pub async fn rewind(&self, key: &SessionKey, before_invocation_id: &str) -> Result<Arc<Event>> {
        if before_invocation_id.is_empty() {
            return Err(Error::invalid("the invocation id is empty; name the invocation before which to go back"));
        }
        let (sessions, artifacts) = (self.sessions.as_ref(), self.artifacts.as_ref());
        // Shared by all attempts: an artifact that was saved once is not saved again.
        let mut restored = BTreeMap::new();
        let invocation = format!("e-{}", Uuid::new_v4());
        for pause in retry_pauses() {
            match try_once(sessions, artifacts, key, before_invocation_id, &invocation, &mut restored).await {
                Err(error) if error.kind() == ErrorKind::Conflict => tokio::time::sleep(pause).await,
                done => return done,
            }
        }
        try_once(sessions, artifacts, key, before_invocation_id, &invocation, &mut restored).await
    }
}

async fn try_once(
    service: &dyn SessionService,
    artifacts: &dyn ArtifactService,
    key: &SessionKey,
    invocation_id: &str,
    invocation: &str,
    restored: &mut BTreeMap<(String, Option<u64>), u64>,
) -> Result<Arc<Event>> {
    let now = service.get_session(key, &GetSessionConfig::state_only()).await?.ok_or_else(|| no_session(key))?;
    let target = find(service, &now, invocation_id).await?;
    let delta = back(now.state(), &target.state)?;
    let mut event = Event::new("user").with_invocation_id(invocation).with_state_delta(delta);
    event.actions.rewind_before_invocation_id = Some(invocation_id.to_owned());
    for (name, version) in to_restore(&target, key)? {
        let saved = match restored.get(&(name.clone(), version)) {
            Some(saved) => *saved,
            None => restore(artifacts, key, &name, version).await?,
        };
        restored.insert((name.clone(), version), saved);
        event.actions.artifact_delta.insert(name, saved);
    }
    let options = AppendOptions::by_session(now.seen().clone());
    Ok(service.append(key, event, options).await?.event)
}

/// Reads and folds the events from the first one on, because the first event of the invocation may be anywhere. Folding
/// them here makes the logs of the user and the app unnecessary.
async fn find(service: &dyn SessionService, session: &Session, invocation_id: &str) -> Result<RewindTarget> {
    let key = session.key();
    let InitialState { seq: base, state } = service.get_initial_state(key).await?.ok_or_else(|| no_session(key))?;
    let mut state = own_keys(base, state);
    let (mut seq, mut then, mut now, mut unknown) = (base, None, VersionsByName::new(), BTreeSet::new());
    while seq < session.seq() {
        let config = GetSessionConfig::default().without_state().with_events_after(seq, PAGE);
        let config = config.with_page_bytes(PAGE_BYTES);
        let page = service.get_session(key, &config).await?.ok_or_else(|| no_session(key))?;
        for event in page.events().iter() {
            if event.seq != Some(seq + 1) {
                return Err(pruned_meanwhile(key));
            }
            seq += 1;
            if then.is_none() && event.invocation_id == invocation_id {
                // The first remaining event may not be the first of its invocation.
                if seq == base + 1 && base > 0 {
                    return Err(pruned(key, &format!("before the invocation '{invocation_id}'")));
                }
                then = Some(now.clone());
            }
            if then.is_none() {
                apply_own(&mut state, seq, &event.actions.state_delta);
            }
            let own = event.actions.artifact_delta.iter().filter(|(name, _)| Scope::split(name).0 != Scope::User);
            for (name, version) in own {
                if now.insert(name.clone(), *version).is_none() && base > 0 && *version > 0 {
                    unknown.insert(name.clone());
                }
            }
        }
        if page.events().is_empty() {
            return Err(pruned_meanwhile(key));
        }
    }
    let then = then.ok_or_else(|| {
        Error::not_found(format!(
            "no event of the session {key} is of an invocation '{invocation_id}'; name the invocation id of one of its events"
        ))
    })?;
    Ok(RewindTarget { state, then, now, unknown })
}

fn pruned(key: &SessionKey, what: &str) -> Error {
    let message = format!("the events of {key} {what} were pruned; go back to before a later invocation");
    Error::new(ErrorKind::FailedPrecondition, message)
}

/// Returns the error after which the rewind is attempted again.
fn pruned_meanwhile(key: &SessionKey) -> Error {
    Error::new(ErrorKind::Conflict, format!("events of {key} were pruned while they were read; try again"))
}

/// Returns the delta that restores the session's own keys.
fn back(now: &StateMap, then: &OwnKeys) -> Result<StateDelta> {
    let mut delta = StateDelta::new();
    let is_own = |key: &str| Scope::split(key).0 == Scope::Session;
    for (key, _) in now.iter().filter(|(key, _)| is_own(key) && !then.contains_key(key)) {
        delta.remove(key)?;
    }
    for (key, (_, value)) in then.iter().filter(|(key, (_, value))| now.get(key) != Some(value)) {
        delta.set(key, value)?;
    }
    Ok(delta)
}

/// Returns the artifacts whose version has changed, with the version to restore; `None` for an artifact that did not
/// exist.
fn to_restore(target: &RewindTarget, key: &SessionKey) -> Result<Vec<(String, Option<u64>)>> {
    let changed = target.now.iter().filter(|(name, version)| target.then.get(*name) != Some(*version));
    let version = |(name, _): (&String, _)| match target.then.get(name) {
        None if target.unknown.contains(name) => Err(pruned(key, &format!("that saved the artifact '{name}'"))),
        then => Ok((name.clone(), then.copied())),
    };
    changed.map(version).collect()
}

/// Saves the data of a version as a new version. An artifact that did not exist becomes empty, as in ADK, because
/// versions are kept.
async fn restore(artifacts: &dyn ArtifactService, key: &SessionKey, name: &str, version: Option<u64>) -> Result<u64> {
    let part = match version {
        Some(_) => artifacts.load_artifact(key, name, version).await?,
        None => None,
    };
    let part = part.unwrap_or_else(|| Part::bytes(Vec::new(), "application/octet-stream"));
    artifacts.save_artifact(key, name, part, Default::default()).await
}
