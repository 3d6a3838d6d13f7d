//! Restores the state of a user or an app. Imported events change this state in the order in which their sessions are
//! written, so it may differ from the source. After all sessions, the state is therefore corrected to the source's
//! values, except for keys that somebody has changed in the database since an earlier import.

use std::collections::BTreeMap;

use async_trait::async_trait;
use scratchbook::session::{ChangeQuery, PutStateOptions, StateChange, StateOwner};
use scratchbook::{Error, ErrorKind, SessionKey, StateDelta};
use serde_json::{Map, Value};

use super::report::{ImportReport, RefusedRow};
use super::session::{difference, same_value};
use super::source::{IMPORTER, PAGE};
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;

/// Knows which changes in the database's log came from the source.
#[async_trait]
pub(super) trait SourceChanges {
    /// Returns whether the source has this event of a session.
    async fn has_event(&self, session: &SessionKey, id: &str) -> Result<bool, CommandFailure>;

    /// Returns whether the source has this change, which was made outside of sessions.
    fn has_put(&self, change: &StateChange) -> bool;
}

/// The state of a user or an app. At the end of the import it is set to the source's values.
pub(super) struct OwnerState {
    owner: StateOwner,
    /// The source's state; `None` if the source does not contain this owner.
    source: Option<Map<String, Value>>,
    /// The values of keys that somebody else wrote last, and their authors. `None` is a removed key.
    kept: BTreeMap<String, (Option<Value>, String)>,
}

impl OwnerState {
    /// Finds the keys that somebody else wrote last. This has to be called before anything is written.
    pub(super) async fn begin(
        database: &OpenDatabase,
        owner: StateOwner,
        source: Option<Map<String, Value>>,
        known: &dyn SourceChanges,
        report: &mut ImportReport,
    ) -> Result<Self, CommandFailure> {
        let mut kept = BTreeMap::new();
        let Some(source) = source else {
            let there = database.sessions.get_state(&owner).await?;
            kept.extend(there.into_iter().map(|(name, value)| (name, (Some(value), IMPORTER.to_owned()))));
            return Ok(Self { owner, source: None, kept });
        };
        for changes in last_changes(database, &owner).await?.into_values() {
            for change in changes.into_iter().rev() {
                let of_source = match &change.origin {
                    _ if change.author == IMPORTER && change.event_id.is_empty() => true,
                    Some((session, seq)) if *seq > 0 => known.has_event(session, &change.event_id).await?,
                    Some(_) => false,
                    None => known.has_put(&change),
                };
                if of_source {
                    continue;
                }
                let differs = |value: &Value| !change.value.as_ref().is_some_and(|there| same_value(there, value));
                if source.get(&change.name).is_some_and(differs) {
                    let row = format!("key '{}' of {}", change.name, name_of(&owner));
                    report.refuse(RefusedRow::new(row, newer(&change)));
                }
                kept.insert(change.name, (change.value, change.author));
                break;
            }
        }
        Ok(Self { owner, source: Some(source), kept })
    }

    /// Corrects the state.
    pub(super) async fn settle(self, database: &OpenDatabase, report: &mut ImportReport) -> Result<(), CommandFailure> {
        let there = database.sessions.get_state(&self.owner).await?;
        let mut ought = self.source.unwrap_or_else(|| there.clone());
        for (name, (value, _)) in &self.kept {
            match value {
                Some(value) => ought.insert(name.clone(), value.clone()),
                None => ought.shift_remove(name),
            };
        }
        let (mut delta, mut back) = (StateDelta::new(), BTreeMap::<&str, StateDelta>::new());
        for (name, change) in difference(&there, &ought)?.iter() {
            match self.kept.get(name) {
                // The author is kept. Under the importer's name, the next import would treat the value as an imported
                // one.
                Some((_, author)) => back.entry(author).or_default().insert(name.to_owned(), change.clone())?,
                None => delta.insert(name.to_owned(), change.clone())?,
            }
        }
        for (author, delta) in back.into_iter().filter(|(_, delta)| !delta.is_empty()) {
            put(database, &self.owner, author, delta, report).await?;
        }
        if !delta.is_empty() {
            let written = put(database, &self.owner, IMPORTER, delta, report).await?;
            report.keys += written;
        }
        Ok(())
    }
}

/// Writes keys, and returns how many. If they have too many bytes for one write, each is written by itself, and one that
/// is too large is refused.
async fn put(
    database: &OpenDatabase,
    owner: &StateOwner,
    author: &str,
    delta: StateDelta,
    report: &mut ImportReport,
) -> Result<u64, CommandFailure> {
    let put = |delta| database.sessions.put_state(owner, delta, PutStateOptions::by(author));
    match put(delta.clone()).await {
        Err(why) if why.kind() == ErrorKind::PayloadTooLarge => {}
        done => return done.map(|_| delta.len() as u64).map_err(CommandFailure::from),
    }
    let mut written = 0;
    for (name, change) in delta.iter() {
        let mut one = StateDelta::new();
        one.insert(name.to_owned(), change.clone())?;
        match put(one).await {
            Err(why) if why.kind() == ErrorKind::PayloadTooLarge => {
                report.refuse(RefusedRow::new(format!("key '{name}' of {}", name_of(owner)), why));
            }
            done => {
                done?;
                written += 1;
            }
        }
    }
    Ok(written)
}

/// Returns the changes to each key that may be the last one that was made: of a key's changes in the order of the log,
/// each is later in time than all that follow it.
///
/// An interrupted import has written events of the source behind changes that somebody made before, in the log but not
/// in time, and was not there at its end to correct the state.
async fn last_changes(
    database: &OpenDatabase,
    owner: &StateOwner,
) -> Result<BTreeMap<String, Vec<StateChange>>, CommandFailure> {
    let (mut last, mut after) = (BTreeMap::<_, Vec<StateChange>>::new(), 0);
    loop {
        let page = database.sessions.list_state_changes(owner, &ChangeQuery::After(after), PAGE).await?;
        let Some(end) = page.last() else { return Ok(last) };
        after = end.position;
        for change in page {
            let changes = last.entry(change.name.clone()).or_default();
            while changes.last().is_some_and(|before| before.time <= change.time) {
                changes.pop();
            }
            changes.push(change);
        }
    }
}

fn newer(change: &StateChange) -> Error {
    let writer = match &change.origin {
        Some((session, _)) => format!("'{}' in the session {session}", change.author),
        None => format!("'{}'", change.author),
    };
    let message = format!(
        "it was changed in the database by {writer}, and stays as it is there; set it with: scratchbook state set"
    );
    Error::new(ErrorKind::Conflict, message)
}

/// Returns the name of an owner, such as `user shop/alice` or `app shop`.
pub(super) fn name_of(owner: &StateOwner) -> String {
    match owner.user_id() {
        Some(user_id) => format!("user {}/{user_id}", owner.app_name()),
        None => format!("app {}", owner.app_name()),
    }
}
