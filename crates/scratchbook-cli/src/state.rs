//! `scratchbook state`: get, set, unset.

use comfy_table::Row;
use scratchbook::{
    AppendOptions, Error, ErrorKind, Event, GetSessionConfig, Scope, SessionKey, StateDelta, StateOwner, json,
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::args::{GetArgs, SetArgs, StateAddress, UnsetArgs};
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{Format, Output, compact, visible};
use crate::sessions::no_session;
use crate::show;

pub(crate) async fn get(database: &Database, args: GetArgs, out: &mut Output) -> Result<(), Failure> {
    let target = Target::new(&args.owner)?;
    args.keys.iter().try_for_each(|key| target.check(key))?;
    let mut state = read(database, &target, &args.keys).await?;
    if !args.keys.is_empty() {
        let missing: Vec<_> = args.keys.iter().filter(|key| !state.contains_key(*key)).cloned().collect();
        if !missing.is_empty() {
            let message = format!("{target} has no key '{}'", missing.join("', '"));
            return Err(Error::new(ErrorKind::NotFound, message).into());
        }
        state.retain(|key, _| args.keys.contains(key));
    }
    if out.format() == Format::Json {
        return Ok(out.json(&state)?);
    }
    let rows = state.iter().map(|(key, value)| Row::from([visible(key).into_owned(), compact(value)]));
    Ok(out.table(&["KEY", "VALUE"], rows)?)
}

pub(crate) async fn set(database: &Database, args: SetArgs, out: &mut Output) -> Result<(), Failure> {
    let read_value = if args.string { string_value } else { json_value };
    let mut delta = StateDelta::new();
    if let Some(text) = &args.delta {
        let values: Map<String, Value> = json::from_str(text).map_err(|e| e.context("--delta"))?;
        delta.merge(StateDelta::try_from(values)?);
    }
    for assignment in &args.assignments {
        let Some((key, value)) = assignment.split_once('=') else {
            let message = format!("'{assignment}' sets nothing; write KEY=VALUE");
            return Err(Error::new(ErrorKind::InvalidArgument, message).into());
        };
        delta.set(key, read_value(value).map_err(|e| e.context(format!("the value of '{key}'")))?)?;
    }
    write(database, &Target::new(&args.owner)?, delta, &args.author, out).await
}

pub(crate) async fn unset(database: &Database, args: UnsetArgs, out: &mut Output) -> Result<(), Failure> {
    let mut delta = StateDelta::new();
    args.keys.iter().try_for_each(|key| delta.remove(key))?;
    write(database, &Target::new(&args.owner)?, delta, &args.author, out).await
}

/// Whose state is meant.
enum Target {
    /// A session's, with prefixed keys; written through an event.
    Session(SessionKey),
    /// A user's or an app's, with bare names.
    Owner(StateOwner),
}

impl Target {
    fn new(address: &StateAddress) -> Result<Self, Error> {
        Ok(match (&address.user, &address.session) {
            (Some(user), Some(session)) => Self::Session(SessionKey::new(&address.app, user, session)?),
            (Some(user), None) => Self::Owner(StateOwner::user(&address.app, user)?),
            (None, _) => Self::Owner(StateOwner::app(&address.app)?),
        })
    }

    /// Refuses a key that would not end up where its prefix says.
    fn check(&self, key: &str) -> Result<(), Error> {
        let (scope, name) = Scope::split(key);
        let message = match self {
            Self::Session(_) if scope == Scope::Temp => {
                format!("'{key}' lives within one run of an agent and is never stored; leave out 'temp:'")
            }
            Self::Owner(_) if scope != Scope::Session => {
                format!(
                    "without --session a key has no prefix; write '{name}', and name whose it is by --app and --user"
                )
            }
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session(key) => write!(f, "the session {key}"),
            Self::Owner(owner) => match owner.user_id() {
                Some(user_id) => write!(f, "the user {}/{user_id}", owner.app_name()),
                None => write!(f, "the app {}", owner.app_name()),
            },
        }
    }
}

async fn read(database: &Database, target: &Target, keys: &[String]) -> Result<Map<String, Value>, Failure> {
    match target {
        Target::Owner(owner) => Ok(database.sessions.get_state(owner).await?),
        Target::Session(key) => {
            let mut config = GetSessionConfig::state_only();
            if !keys.is_empty() {
                config = config.with_state_keys(keys);
            }
            let session = database.sessions.get_session(key, &config).await?.ok_or_else(|| no_session(key))?;
            Ok(session.state().to_map())
        }
    }
}

async fn write(
    database: &Database,
    target: &Target,
    delta: StateDelta,
    author: &str,
    out: &mut Output,
) -> Result<(), Failure> {
    delta.iter().try_for_each(|(key, _)| target.check(key))?;
    let event = match target {
        Target::Owner(owner) => {
            database.sessions.put_state(owner, delta.clone(), author.into()).await?;
            None
        }
        Target::Session(key) => {
            let event = Event::new(author).with_state_delta(delta.clone());
            Some(database.sessions.append(key, event, AppendOptions::default()).await?.event)
        }
    };
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"stateDelta": delta, "event": event.as_deref()}))?);
    }
    if let Some(event) = &event {
        show::event(out, event)?;
    }
    Ok(show::delta(out, &delta)?)
}

fn string_value(text: &str) -> Result<Value, Error> {
    Ok(Value::String(text.to_owned()))
}

/// JSON, or else a plain string. What looks like JSON's lists, objects and strings has to be JSON: a slip in
/// one would otherwise become a string without a word.
fn json_value(text: &str) -> Result<Value, Error> {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    if is_json || text.trim_start().starts_with(['{', '[', '"']) {
        return json::from_str(text).map_err(|e| e.context("use --string for a plain string"));
    }
    string_value(text)
}
