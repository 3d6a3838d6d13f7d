//! `scratchbook state`: at, diff, history and blame.

use scratchbook::error::KeyWriter;
use scratchbook::session::{ChangeQuery, KeyWrite};
use scratchbook::{Error, GetSessionConfig, SessionServiceExt};
use serde_json::{Map, Value, json};

use super::target::StateTarget;
use crate::address::resolve;
use crate::args::{AtArgs, BlameArgs, DiffArgs, HistoryArgs};
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::failure::no_session;
use crate::output::{Format, Output, visible};
use crate::show;
use crate::table::{Column, text, whole};
use crate::times::time;

pub(crate) async fn at(database: &OpenDatabase, args: AtArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let key = resolve(&args.session.required()?, database).await?;
    let state = database.sessions.get_state_at(&key, args.seq).await?.to_map();
    if out.format() == Format::Json {
        return Ok(out.json(&state)?);
    }
    let rows = state.iter().map(|(key, value)| [visible(key).into_owned(), show::short(value)]);
    Ok(out.table([whole("KEY"), text("VALUE")], rows)?)
}

pub(crate) async fn diff(database: &OpenDatabase, args: DiffArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let key = resolve(&args.session.required()?, database).await?;
    let diff = database.sessions.diff(&key, args.before, args.after).await?;
    if out.format() == Format::Json {
        return Ok(out.json(&diff)?);
    }
    if diff.is_empty() {
        return Ok(out.line(format_args!("nothing differs between {} and {}", args.before, args.after))?);
    }
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "(absent)".to_owned(), show::short);
    let rows = diff.iter().map(|(key, diff)| [visible(key).into_owned(), shown(&diff.before), shown(&diff.after)]);
    Ok(out.table([whole("KEY"), text("BEFORE"), text("AFTER")], rows)?)
}

pub(crate) async fn history(
    database: &OpenDatabase,
    args: HistoryArgs,
    out: &mut Output,
) -> Result<(), CommandFailure> {
    let target = StateTarget::new(&args.owner)?;
    target.check(&args.key)?;
    let target = target.resolve(database).await?;
    let writes: Vec<KeyWrite> = match (&target, args.at) {
        (StateTarget::Session(key), None) => database.sessions.history(key, &args.key, args.limit).await?,
        (StateTarget::Session(key), Some(at)) => database.sessions.history_at(key, &args.key, at, args.limit).await?,
        (StateTarget::Owner(_), Some(_)) => {
            let message = "--at names an event of a session; name the session with --session, or leave --at out";
            return Err(Error::invalid(message).into());
        }
        (StateTarget::Owner(owner), None) => {
            let changes = database
                .sessions
                .list_state_changes(owner, &ChangeQuery::of_key(&args.key, u64::MAX), args.limit)
                .await?;
            changes.into_iter().map(KeyWrite::from).collect()
        }
    };
    if out.format() == Format::Json {
        let writes: Vec<_> = writes.iter().map(|write| write_json(write.value.as_ref(), &write.writer)).collect();
        return Ok(out.json(&json!({"key": args.key, "writes": writes}))?);
    }
    if writes.is_empty() {
        let message = format!("nothing is known of '{}' in {target}", args.key);
        return Ok(out.line(visible(&message))?);
    }
    let rows = writes.iter().map(|KeyWrite { value, writer, .. }| {
        let value = value.as_ref().map_or_else(|| "(removed)".to_owned(), show::short);
        let [at, author, session, event] = writer_columns(writer);
        [at, author, session, event, value]
    });
    let [written, author, session, event] = WRITER;
    Ok(out.table([written, author, session, event, text("VALUE")], rows)?)
}

pub(crate) async fn blame(database: &OpenDatabase, args: BlameArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let key = resolve(&args.session.required()?, database).await?;
    let config = GetSessionConfig::state_only();
    let session = database.sessions.get_session(&key, &config).await?.ok_or_else(|| no_session(&key))?;
    let blame = database.sessions.blame(&key).await?;
    if out.format() == Format::Json {
        let writers: Map<String, Value> =
            blame.iter().map(|(key, writer)| (key.clone(), write_json(session.state().get(key), writer))).collect();
        return Ok(out.json(&writers)?);
    }
    let rows = blame.iter().map(|(key, writer)| {
        let value = session.state().get(key).map(show::brief).unwrap_or_default();
        let [at, author, session, event] = writer_columns(writer);
        [visible(key).into_owned(), at, author, session, event, value]
    });
    let [written, author, session, event] = WRITER;
    Ok(out.table([whole("KEY"), written, author, session, event, text("VALUE")], rows)?)
}

/// The columns of a writer.
const WRITER: [Column; 4] = [whole("WRITTEN"), whole("AUTHOR"), whole("SESSION"), whole("EVENT")];

/// Returns the columns of a write: time, author, session and event.
fn writer_columns(writer: &KeyWriter) -> [String; 4] {
    let at = if writer.time > 0.0 { time(writer.time) } else { "-".to_owned() };
    let author = if writer.author.is_empty() { "-".to_owned() } else { visible(&writer.author).into_owned() };
    let (session, event) = match &writer.session {
        None => ("-".to_owned(), "-".to_owned()),
        Some((_, session)) if writer.seq == 0 => (visible(session).into_owned(), "creation".to_owned()),
        Some((_, session)) => (visible(session).into_owned(), writer.seq.to_string()),
    };
    [at, author, session, event]
}

/// Returns a write as JSON, without unknown fields.
fn write_json(value: Option<&Value>, writer: &KeyWriter) -> Value {
    let mut shown = Map::new();
    shown.extend(value.map(|value| ("value".to_owned(), value.clone())));
    shown.insert("author".to_owned(), writer.author.clone().into());
    if let Some((user, session)) = &writer.session {
        shown.insert("userId".to_owned(), user.clone().into());
        shown.insert("sessionId".to_owned(), session.clone().into());
        shown.insert("seq".to_owned(), writer.seq.into());
    }
    for (name, text) in [("eventId", &writer.event_id), ("invocationId", &writer.invocation_id)] {
        if !text.is_empty() {
            shown.insert(name.to_owned(), text.clone().into());
        }
    }
    if writer.time > 0.0 {
        shown.insert("time".to_owned(), writer.time.into());
    }
    shown.into()
}
