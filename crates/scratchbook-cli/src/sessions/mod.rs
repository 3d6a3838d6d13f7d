//! `scratchbook sessions`: create and show; `list.rs` has list, `delete.rs` delete, and `change.rs` rewind, fork,
//! update and expire.

mod change;
mod delete;
mod list;

use std::io;

use scratchbook::session::StateOwner;
use scratchbook::{CreateSessionConfig, Error, GetSessionConfig, Scope, Session, SessionKey};
use serde_json::{Map, Value, json};

use crate::address::resolve;
use crate::args::{CreateArgs, Label, ShowArgs};
use crate::database::OpenDatabase;
use crate::delta;
use crate::failure::{CommandFailure, no_session};
use crate::output::{BOLD, DIM, Format, Output, styled, visible};
use crate::show;
use crate::times::time;

pub(crate) use change::{expire, fork, rewind, update};
pub(crate) use delete::delete;
pub(crate) use list::list;

/// The checked arguments of `sessions create`.
pub(crate) struct SessionToCreate {
    app: String,
    user: String,
    config: CreateSessionConfig,
}

impl SessionToCreate {
    pub(crate) fn new(args: CreateArgs) -> Result<Self, Error> {
        StateOwner::user(&args.app, &args.user)?;
        let delta = delta::read(&args.values)?;
        if let Some((key, _)) = delta.iter().find(|(key, _)| Scope::split(key).0 == Scope::Temp) {
            let message = format!("'{key}' lives within one run of an agent and is never stored; leave out 'temp:'");
            return Err(Error::invalid(message));
        }
        let values = delta.iter().filter_map(|(key, change)| Some((key.to_owned(), change.value()?.clone())));
        let mut config = CreateSessionConfig::default().with_state(values.collect::<Map<_, _>>());
        if let Some(id) = args.session {
            SessionKey::new(&args.app, &args.user, &id)?;
            config = config.with_session_id(id);
        }
        if let Some(span) = args.time_to_live {
            config = config.with_time_to_live(span.0);
        }
        config.title = args.title;
        config.labels = args.labels.into_iter().map(|Label { name, value }| (name, value)).collect();
        Ok(Self { app: args.app, user: args.user, config })
    }
}

pub(crate) async fn create(
    database: &OpenDatabase,
    creation: SessionToCreate,
    out: &mut Output,
) -> Result<(), CommandFailure> {
    let SessionToCreate { app, user, config } = creation;
    let session = database.sessions.create_session(&app, &user, config).await?;
    if out.format() == Format::Json {
        return Ok(out.json(&full_json(&session)?)?);
    }
    out.line(format_args!("created {}{}", visible(&session.key().to_string()), expiry(&session)))?;
    show::metadata(out, &session)?;
    Ok(show::state(out, &session.state().to_map())?)
}

pub(crate) async fn show(database: &OpenDatabase, args: ShowArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let key = resolve(&args.session.address()?, database).await?;
    let config = GetSessionConfig::default().with_num_recent_events(args.events);
    let session = database.sessions.get_session(&key, &config).await?.ok_or_else(|| no_session(&key))?;
    if out.format() == Format::Json {
        return Ok(out.json(&full_json(&session)?)?);
    }
    print(&session, out)
}

fn metadata_only() -> GetSessionConfig {
    GetSessionConfig::state_only().without_state()
}

fn print(session: &Session, out: &mut Output) -> Result<(), CommandFailure> {
    let address = session.key().to_string();
    let updated = time(session.last_update_time());
    out.line(format_args!("{}  updated {updated}{}", styled(BOLD, visible(&address)), expiry(session)))?;
    show::metadata(out, session)?;
    show::state(out, &session.state().to_map())?;
    let mut invocation = "";
    for event in session.events().iter() {
        if event.invocation_id != invocation {
            invocation = &event.invocation_id;
            let shown = if invocation.is_empty() { "none".into() } else { visible(invocation) };
            out.line(styled(DIM, format_args!("      invocation  {shown}")))?;
        }
        show::event(out, event)?;
        show::delta(out, &event.actions.state_delta)?;
    }
    let shown = session.events().len() as u64;
    match session.known_seq() {
        Some(all) if shown < all => {
            out.line(styled(DIM, format_args!("the last {shown} of {all} events; --events N shows more")))?;
        }
        None if shown > 0 => {
            out.line(styled(DIM, format_args!("the last {shown} events; --events N shows more, if there are any")))?;
        }
        _ => {}
    }
    Ok(())
}

/// Returns the expiry as the end of a line.
fn expiry(session: &Session) -> String {
    session.expire_time().map(|at| format!("  expires {}", time(at))).unwrap_or_default()
}

/// Returns a session as JSON, including its title and labels.
fn summary_json(session: &Session) -> Result<Value, CommandFailure> {
    let mut shown = serde_json::to_value(session).map_err(io::Error::other)?;
    shown["title"] = session.title().into();
    shown["labels"] = json!(session.labels());
    Ok(shown)
}

/// Returns a session as JSON. In addition to the fields of the summary, it has the number of events, the number of each
/// event, whether only the last events are included, and the expiry.
fn full_json(session: &Session) -> Result<Value, CommandFailure> {
    let mut shown = summary_json(session)?;
    let total = session.known_seq();
    shown["eventCount"] = total.into();
    shown["expireTime"] = session.expire_time().into();
    shown["onlyLastEvents"] = total.map(|total| (session.events().len() as u64) < total).into();
    if let Some(events) = shown["events"].as_array_mut() {
        for (shown, event) in events.iter_mut().zip(session.events().iter()) {
            shown["seq"] = event.seq.into();
        }
    }
    Ok(shown)
}
