//! `scratchbook sessions`: rewind, fork, update and expire.

use jiff::Timestamp;
use scratchbook::session::{Expiry, ForkConfig, SessionServiceExt, SessionUpdate};
use scratchbook::{Error, SessionKey};
use serde_json::json;

use super::{full_json, metadata_only};
use crate::address::resolve;
use crate::args::{ExpireArgs, ForkArgs, Label, RewindArgs, UpdateArgs};
use crate::database::OpenDatabase;
use crate::failure::{CommandFailure, no_session};
use crate::output::{Format, Output, visible};
use crate::show;
use crate::times::time;

pub(crate) async fn rewind(database: &OpenDatabase, args: RewindArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let (address, invocation) = args.target()?;
    let key = resolve(&address, database).await?;
    let event = database.store().rewind(&key, invocation).await?;
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"seq": event.seq, "event": *event}))?);
    }
    out.line(format_args!("rewound {} to before {}", visible(&key.to_string()), visible(invocation)))?;
    show::event(out, &event)?;
    Ok(show::delta(out, &event.actions.state_delta)?)
}

pub(crate) async fn fork(database: &OpenDatabase, args: ForkArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let key = resolve(&args.session.address()?, database).await?;
    let mut config = ForkConfig::default();
    config.at = args.at;
    if let Some(id) = args.id {
        SessionKey::new(key.app_name(), key.user_id(), &id)?;
        config = config.with_session_id(id);
    }
    let session = database.sessions.fork_session(&key, config).await?;
    if out.format() == Format::Json {
        return Ok(out.json(&full_json(&session)?)?);
    }
    let (new, at) = (session.key().to_string(), session.seq());
    out.line(format_args!("created {} from {} at event {at}", visible(&new), visible(&key.to_string())))?;
    Ok(show::state(out, &session.state().to_map())?)
}

pub(crate) async fn update(database: &OpenDatabase, args: UpdateArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let key = resolve(&args.session.address()?, database).await?;
    let mut update = SessionUpdate::default();
    update.title = args.changes.title;
    for name in args.changes.removed {
        update = update.without_label(name);
    }
    for Label { name, value } in args.changes.labels {
        update = update.with_label(name, value);
    }
    database.sessions.update_session(&key, update).await?;
    let session = database.sessions.get_session(&key, &metadata_only()).await?.ok_or_else(|| no_session(&key))?;
    if out.format() == Format::Json {
        let answer = json!({"id": key.session_id(), "title": session.title(), "labels": session.labels()});
        return Ok(out.json(&answer)?);
    }
    out.line(format_args!("changed {}", visible(&key.to_string())))?;
    Ok(show::metadata(out, &session)?)
}

pub(crate) async fn expire(database: &OpenDatabase, args: ExpireArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let key = resolve(&args.session.address()?, database).await?;
    let expiry = match (args.when.span, args.when.at) {
        (Some(span), _) => Some(Expiry::After(span.0)),
        (None, Some(at)) if at.0 <= Timestamp::now() => {
            let message = format!("{} is past; to be rid of the session now: scratchbook sessions delete", at.0);
            return Err(Error::invalid(message).into());
        }
        (None, Some(at)) => Some(Expiry::At(at.seconds())),
        (None, None) => None,
    };
    database.sessions.set_expiry(&key, expiry).await?;
    let session = database.sessions.get_session(&key, &metadata_only()).await?;
    let expires = session.and_then(|session| session.expire_time());
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"id": key.session_id(), "expireTime": expires}))?);
    }
    let name = visible(&key.to_string()).into_owned();
    match expires {
        Some(at) => out.line(format_args!("{name} expires {}", time(at)))?,
        None => out.line(format_args!("{name} does not expire"))?,
    }
    Ok(())
}
