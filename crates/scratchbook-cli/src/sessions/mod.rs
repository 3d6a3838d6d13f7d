//! `scratchbook sessions`: create, list, show, delete; `change.rs` has rewind, fork, update and expire.

mod change;

use std::io;

use comfy_table::Row;
use scratchbook::session::{ListSessionsConfig, ListSessionsResponse, StateOwner, TitleFilter};
use scratchbook::{CreateSessionConfig, Error, GetSessionConfig, Scope, Session, SessionKey};
use serde_json::{Map, Value, json};

use crate::args::{CreateArgs, DeleteArgs, Label, ListArgs, ShowArgs};
use crate::database::Database;
use crate::delta;
use crate::failure::{Failure, no_session};
use crate::output::{BOLD, DIM, Format, Output, styled, visible};
use crate::show;
use crate::times::time;

pub(crate) use change::{expire, fork, rewind, update};

/// The checked arguments of `sessions create`.
pub(crate) struct NewSession {
    app: String,
    user: String,
    config: CreateSessionConfig,
}

impl NewSession {
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

pub(crate) async fn create(database: &Database, creation: NewSession, out: &mut Output) -> Result<(), Failure> {
    let NewSession { app, user, config } = creation;
    let session = database.sessions.create_session(&app, &user, config).await?;
    if out.format() == Format::Json {
        return Ok(out.json(&full_json(&session)?)?);
    }
    out.line(format_args!("created {}{}", visible(&session.key().to_string()), expiry(&session)))?;
    show::metadata(out, &session)?;
    Ok(show::state(out, &session.state().to_map())?)
}

pub(crate) async fn list(database: &Database, args: ListArgs, out: &mut Output) -> Result<(), Failure> {
    let mut config = ListSessionsConfig::default().with_page_size(args.limit);
    config.user_id = args.user;
    config.title = args.title.map(TitleFilter::Containing);
    config.labels = args.labels.into_iter().map(|Label { name, value }| (name, value)).collect();
    config.page_token = args.page_token;
    if args.newest_first {
        config = config.newest_first();
    }
    let (is_first, mut page) = (config.page_token.is_none(), ListSessionsResponse::default());
    // A filtered page may end before it is full.
    loop {
        let more = database.sessions.list_sessions(&args.app, &config).await?;
        page.sessions.extend(more.sessions);
        page.next_page_token.clone_from(&more.next_page_token);
        config.page_size = args.limit.saturating_sub(page.sessions.len());
        config.page_token = more.next_page_token;
        if config.page_size == 0 || config.page_token.is_none() {
            break;
        }
    }
    if out.format() == Format::Json {
        let sessions = page.sessions.iter().map(summary_json).collect::<Result<Vec<_>, _>>()?;
        return Ok(out.json(&json!({"sessions": sessions, "nextPageToken": page.next_page_token}))?);
    }
    if page.sessions.is_empty() {
        let app = visible(&args.app);
        let of_user = config.user_id.map(|user| format!(" of user '{}'", visible(&user))).unwrap_or_default();
        let such = if config.title.is_some() || !config.labels.is_empty() { "such " } else { "" };
        let more = if is_first { "" } else { "more " };
        return Ok(out.line(format_args!("no {more}{such}sessions{of_user} of app '{app}'"))?);
    }
    let rows = page.sessions.iter().map(|session| {
        let (user, id, keys) = (visible(session.user_id()), visible(session.id()), session.state().len());
        let title = visible(session.title().unwrap_or_default()).into_owned();
        Row::from([user.into_owned(), id.into_owned(), time(session.last_update_time()), keys.to_string(), title])
    });
    out.table(&["USER", "SESSION", "UPDATED", "KEYS", "TITLE"], rows)?;
    if let Some(token) = &page.next_page_token {
        out.line(styled(DIM, format_args!("more with --page-token={token}")))?;
    }
    Ok(())
}

pub(crate) async fn show(database: &Database, args: ShowArgs, out: &mut Output) -> Result<(), Failure> {
    let key = args.session.key()?;
    let config = GetSessionConfig::default().with_num_recent_events(args.events);
    let session = database.sessions.get_session(&key, &config).await?.ok_or_else(|| no_session(&key))?;
    if out.format() == Format::Json {
        return Ok(out.json(&full_json(&session)?)?);
    }
    print(&session, out)
}

pub(crate) async fn delete(database: &Database, args: DeleteArgs, out: &mut Output) -> Result<(), Failure> {
    let keys: Result<Vec<_>, _> = args.sessions.iter().map(|id| SessionKey::new(&args.app, &args.user, id)).collect();
    // A missing session is reported, but is no error, because the result is the same.
    let (mut deleted, mut missing) = (Vec::new(), Vec::new());
    for key in keys? {
        let found = database.sessions.get_session(&key, &metadata_only()).await?.is_some();
        database.sessions.delete_session(&key).await?;
        let list = if found { &mut deleted } else { &mut missing };
        list.push(key);
    }
    if out.format() == Format::Json {
        let ids = |keys: &[SessionKey]| keys.iter().map(|key| key.session_id().to_owned()).collect::<Vec<_>>();
        return Ok(out.json(&json!({"deleted": ids(&deleted), "missing": ids(&missing)}))?);
    }
    for key in deleted {
        out.line(format_args!("deleted {}", visible(&key.to_string())))?;
    }
    for key in missing {
        out.line(format_args!("there was no {}", visible(&key.to_string())))?;
    }
    Ok(())
}

fn metadata_only() -> GetSessionConfig {
    GetSessionConfig::state_only().without_state()
}

fn print(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let address = session.key().to_string();
    let updated = time(session.last_update_time());
    out.line(format_args!("{}  updated {updated}{}", styled(BOLD, visible(&address)), expiry(session)))?;
    show::metadata(out, session)?;
    show::state(out, &session.state().to_map())?;
    for event in session.events().iter() {
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

/// The expiry as the end of a line.
fn expiry(session: &Session) -> String {
    session.expire_time().map(|at| format!("  expires {}", time(at))).unwrap_or_default()
}

/// A session as JSON, including its title and labels.
fn summary_json(session: &Session) -> Result<Value, Failure> {
    let mut shown = serde_json::to_value(session).map_err(io::Error::other)?;
    shown["title"] = session.title().into();
    shown["labels"] = json!(session.labels());
    Ok(shown)
}

/// A session as JSON with more fields: the number of its events, their numbers, whether only the last ones are included,
/// and the expiry.
fn full_json(session: &Session) -> Result<Value, Failure> {
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
