//! `scratchbook state`: get, set, unset, increment, append and merge. `list.rs` has list, and `history.rs` has at,
//! diff, history and blame.

mod history;
mod list;
mod target;

use scratchbook::session::{ChangeQuery, StateOwner};
use scratchbook::state::Change;
use scratchbook::{AppendOptions, Error, Event, GetSessionConfig, StateDelta};
use serde_json::{Map, Value, json};

use crate::args::{
    Address, AddressArgs, AppendArgs, DASHES, GetArgs, IncrementArgs, MergeArgs, SetArgs, UnsetArgs, WriteOptions,
};
use crate::database::OpenDatabase;
use crate::delta;
use crate::failure::CommandFailure;
use crate::failure::no_session;
use crate::output::{Format, Output, compact, visible};
use crate::show;
use crate::table::{text, whole};

use target::StateTarget;

pub(crate) use history::{at, blame, diff, history};
pub(crate) use list::list;

pub(crate) async fn get(database: &OpenDatabase, args: GetArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let target = StateTarget::new(&args.owner)?;
    args.keys.iter().try_for_each(|key| target.check(key))?;
    if args.raw && args.keys.len() != 1 {
        return Err(Error::invalid("--raw prints one value; name one KEY").into());
    }
    let target = target.resolve(database).await?;
    let mut state = read(database, &target, &args.keys).await?;
    if !args.keys.is_empty() {
        let missing: Vec<_> = args.keys.iter().filter(|key| !state.contains_key(*key)).cloned().collect();
        if !missing.is_empty() {
            let message = format!("{target} has no key '{}'", missing.join("', '"));
            return Err(Error::not_found(message).into());
        }
        state.retain(|key, _| args.keys.contains(key));
    }
    if out.format() == Format::Json {
        return Ok(out.json(&state)?);
    }
    if args.raw {
        return state.values().try_for_each(|value| Ok(out.raw(value)?));
    }
    if state.is_empty() {
        return Ok(out.line(format_args!("{} has no keys", visible(&target.to_string())))?);
    }
    let rows = state.iter().map(|(key, value)| [visible(key).into_owned(), compact(value)]);
    Ok(out.table([whole("KEY"), text("VALUE")], rows)?)
}

/// The checked arguments of a command that writes.
pub(crate) struct CheckedStateWrite {
    target: StateTarget<Address>,
    delta: StateDelta,
    author: String,
}

impl CheckedStateWrite {
    pub(crate) fn new(args: SetArgs) -> Result<Self, Error> {
        if args.values.assignments.is_empty() && args.values.delta.is_none() {
            let message = format!("there is nothing to set; write KEY=VALUE, or --delta. {DASHES}");
            return Err(Error::invalid(message));
        }
        Self::of(&args.owner, delta::read(&args.values)?, args.writing)
    }

    pub(crate) fn increment(args: IncrementArgs) -> Result<Self, Error> {
        Self::of(&args.owner, delta::increments(&args)?, args.writing)
    }

    pub(crate) fn append(args: AppendArgs) -> Result<Self, Error> {
        Self::of(&args.owner, delta::appends(&args)?, args.writing)
    }

    pub(crate) fn merge(args: MergeArgs) -> Result<Self, Error> {
        Self::of(&args.owner, delta::merges(&args)?, args.writing)
    }

    fn of(owner: &AddressArgs, delta: StateDelta, writing: WriteOptions) -> Result<Self, Error> {
        let (target, delta) = (StateTarget::new(owner)?, delta::guarded(delta, &writing)?);
        delta.iter().try_for_each(|(key, _)| target.check(key))?;
        Ok(Self { target, delta, author: writing.author })
    }

    /// Returns whether the command may create the database: a session must exist, but a user or an app need not.
    pub(crate) fn may_create(&self) -> bool {
        matches!(self.target, StateTarget::Owner(_))
    }
}

pub(crate) async fn set(
    database: &OpenDatabase,
    change: CheckedStateWrite,
    out: &mut Output,
) -> Result<(), CommandFailure> {
    let CheckedStateWrite { target, delta, author } = change;
    let target = target.resolve(database).await?;
    write(database, &target, delta, &author, &[], out).await
}

pub(crate) async fn unset(database: &OpenDatabase, args: UnsetArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let target = StateTarget::new(&args.owner)?;
    args.keys.iter().try_for_each(|key| target.check(key))?;
    let mut delta = StateDelta::new();
    args.keys.iter().try_for_each(|key| delta.remove(key))?;
    let target = target.resolve(database).await?;
    let state = read(database, &target, &args.keys).await?;
    let (there, missing): (Vec<_>, Vec<_>) = args.keys.into_iter().partition(|key| state.contains_key(key));
    delta.clear();
    there.into_iter().try_for_each(|key| delta.remove(key))?;
    write(database, &target, delta, &args.author, &missing, out).await
}

async fn read(
    database: &OpenDatabase,
    target: &StateTarget,
    keys: &[String],
) -> Result<Map<String, Value>, CommandFailure> {
    match target {
        StateTarget::Owner(owner) => Ok(database.sessions.get_state(owner).await?),
        StateTarget::Session(key) => {
            let mut config = GetSessionConfig::state_only();
            if !keys.is_empty() {
                config = config.with_state_keys(keys);
            }
            let session = database.sessions.get_session(key, &config).await?.ok_or_else(|| no_session(key))?;
            Ok(session.state().to_map())
        }
    }
}

/// Reads the results of operations from the log.
async fn logged(database: &OpenDatabase, owner: &StateOwner, position: u64) -> Result<StateDelta, CommandFailure> {
    let mut delta = StateDelta::new();
    for change in
        database.sessions.list_state_changes(owner, &ChangeQuery::After(position.saturating_sub(1)), 1).await?
    {
        // A write with only guards has no entry in the log, so the next entry may belong to another write.
        if change.position == position {
            delta.insert(change.name, change.value.map_or(Change::Remove, Change::Set))?;
        }
    }
    Ok(delta)
}

async fn write(
    database: &OpenDatabase,
    target: &StateTarget,
    delta: StateDelta,
    author: &str,
    missing: &[String],
    out: &mut Output,
) -> Result<(), CommandFailure> {
    // If all keys are missing, nothing changes and there is no event.
    let (event, delta) = match target {
        _ if delta.is_empty() && !missing.is_empty() => (None, delta),
        StateTarget::Owner(owner) => {
            let position = database.sessions.put_state(owner, delta.clone(), author.into()).await?;
            (None, if delta.has_operations() { logged(database, owner, position).await? } else { delta })
        }
        StateTarget::Session(key) => {
            let event = Event::new(author).with_state_delta(delta);
            let event = database.sessions.append(key, event, AppendOptions::default()).await?.event;
            let delta = event.actions.state_delta.clone();
            (Some(event), delta)
        }
    };
    if out.format() == Format::Json {
        let scope = target.scope().as_str();
        let answer = json!({"scope": scope, "stateDelta": delta, "event": event.as_deref(), "missing": missing});
        return Ok(out.json(&answer)?);
    }
    if let Some(event) = &event {
        show::event(out, event)?;
    }
    show::delta(out, &target.with_prefixes(&delta)?)?;
    for key in missing {
        out.line(format_args!("'{}' was not there", visible(key)))?;
    }
    Ok(())
}
