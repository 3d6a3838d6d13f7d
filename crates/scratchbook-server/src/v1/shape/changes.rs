//! The form in which changes to state are sent: values, operations, guards, and the positions up to which the writer
//! has read the session.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use scratchbook::session::{ConflictMode, LogPositions};
use scratchbook::state::{Change, Operation};
use scratchbook::{AppendOptions, Error, Result, Session, StateDelta};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use utoipa::ToSchema;

/// Operations and guards by key. The operations on a key are carried out in their order, in the commit, on the value
/// that is stored at that moment. If a guard does not hold, the whole commit is refused.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = BTreeMap<String, Vec<KeyOperation>>)]
#[schema(example = json!({"sold": [{"increment": 1}], "open": [{"expect": true}], "log": [{"append": "sold one"}]}))]
pub(crate) struct Operations(IndexMap<String, Vec<KeyOperation>>);

/// An operation on the value of a key, or a guard.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Step)]
pub(crate) enum KeyOperation {
    /// Sets the key to this value.
    Set(Value),
    /// Removes the key. Write it as the string `remove`.
    Remove,
    /// Adds this number to the value. An absent key counts as 0.
    Increment(By),
    /// Appends this value to the list. An absent key counts as an empty list.
    Append(Value),
    /// Applies a JSON Merge Patch to the value (RFC 7386).
    MergePatch(Value),
    /// Sets the key to this value if it is absent.
    SetIfAbsent(Value),
    /// A guard: the key must have this value.
    Expect(Value),
    /// A guard: the key must be absent. Write it as the string `expectAbsent`.
    ExpectAbsent,
}

/// The number to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = f64)]
pub(crate) struct By(Number);

impl From<KeyOperation> for Operation {
    fn from(step: KeyOperation) -> Self {
        match step {
            KeyOperation::Set(value) => Self::Set(value),
            KeyOperation::Remove => Self::Remove,
            KeyOperation::Increment(By(number)) => Self::Increment(number),
            KeyOperation::Append(value) => Self::Append(value),
            KeyOperation::MergePatch(patch) => Self::MergePatch(patch),
            KeyOperation::SetIfAbsent(value) => Self::SetIfAbsent(value),
            KeyOperation::Expect(value) => Self::Expect(value),
            KeyOperation::ExpectAbsent => Self::ExpectAbsent,
        }
    }
}

impl Operations {
    /// These operations together with a delta of values and removals.
    ///
    /// If both name a key, one of them may guard the key and the other write it. It is an error if both write the key.
    pub(crate) fn with(self, values: StateDelta) -> Result<StateDelta> {
        let mut delta = StateDelta::new();
        for (key, steps) in self.0 {
            let writes = steps.iter().any(|step| !matches!(step, KeyOperation::Expect(_) | KeyOperation::ExpectAbsent));
            if writes && values.contains(&key) {
                let message = format!("'{key}' is written by operations and by the delta; write it by one of them");
                return Err(Error::invalid(message));
            }
            if steps.is_empty() {
                return Err(Error::invalid(format!("the operations of '{key}' are none; leave the key out")));
            }
            delta.insert(key, Change::Apply(steps.into_iter().map(Operation::from).collect()))?;
        }
        delta.merge(values)?;
        Ok(delta)
    }
}

/// The mode of optimistic locking: when a write is refused because others have committed in the meantime. With `merge`,
/// the default, it never is: changes are merged key by key, and the last commit wins. With `by_key`, it is refused if
/// one of its keys was written after the positions in `seen`; with `by_session`, if the session has a later event.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ConflictMode)]
pub(crate) enum Conflict {
    /// The write is not refused because of other commits. Changes are merged key by key, and for each key the last
    /// commit wins.
    #[default]
    Merge,
    /// The write is refused if one of its keys was written after the positions in `seen`.
    ByKey,
    /// The write is refused if the session has an event after the positions in `seen`.
    BySession,
}

/// What the writer has read of the session: the field `seen` of an earlier response.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Seen, example = json!({"seq": 3, "user": 17, "app": 12}))]
pub(crate) struct SeenPositions {
    /// The number of the last event that the writer has read. It has read all earlier events, too.
    pub(crate) seq: u64,
    /// The position in the log of the user's state.
    #[serde(default)]
    #[schema(required = false)]
    pub(crate) user: u64,
    /// The position in the log of the app's state.
    #[serde(default)]
    #[schema(required = false)]
    pub(crate) app: u64,
    /// The time of the session's creation, in seconds since 1970. It distinguishes this session from a later one with
    /// the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(crate) create_time: Option<f64>,
    /// Keys, with their prefixes, that the writer has read later than the rest. The value is the number of an event for
    /// a key of the session, and a position in the log for a key of the user or the app.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub(crate) keys: BTreeMap<String, u64>,
}

impl SeenPositions {
    /// The positions up to which a session was read.
    pub(crate) fn of(session: &Session) -> Self {
        let seen = session.seen();
        let (user, app, create_time) = (seen.logs().user, seen.logs().app, seen.create_time());
        Self { seq: seen.seq(), user, app, create_time, keys: BTreeMap::new() }
    }
}

impl Conflict {
    /// The options of an append.
    pub(crate) fn options(self, seen: Option<SeenPositions>) -> Result<AppendOptions> {
        if matches!(self, Self::Merge) {
            return Ok(AppendOptions::default());
        }
        let seen = seen.ok_or_else(|| {
            Error::invalid("the conflict mode goes by what was seen; send 'seen' as the session's answer had it")
        })?;
        let mut options = AppendOptions::default();
        options.conflict = if matches!(self, Self::ByKey) { ConflictMode::ByKey } else { ConflictMode::BySession };
        let all = scratchbook::session::Seen::new(seen.seq, LogPositions::new(seen.user, seen.app));
        let all = seen.create_time.iter().fold(all, |all, created| all.with_create_time(*created));
        options.seen = seen.keys.iter().fold(all, |all, (key, place)| all.with_key(key, *place));
        Ok(options)
    }
}
