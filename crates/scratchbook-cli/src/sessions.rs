//! `scratchbook sessions`: list, show, delete.

use comfy_table::Row;
use jiff::Timestamp;
use scratchbook::{Error, ErrorKind, GetSessionConfig, ListSessionsConfig, Session, SessionKey};
use serde_json::json;

use crate::args::{DeleteArgs, ListArgs, ShowArgs};
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{BOLD, DIM, Format, Output, styled, visible};
use crate::show;

pub(crate) async fn list(database: &Database, args: ListArgs, out: &mut Output) -> Result<(), Failure> {
    let mut config = ListSessionsConfig::default().with_page_size(args.limit);
    config.user_id = args.user;
    config.page_token = args.page_token;
    let page = database.sessions.list_sessions(&args.app, &config).await?;
    if out.format() == Format::Json {
        let answer = json!({"sessions": page.sessions, "nextPageToken": page.next_page_token});
        return Ok(out.json(&answer)?);
    }
    let rows = page.sessions.iter().map(|session| {
        let (user, id, keys) = (visible(session.user_id()), visible(session.id()), session.state().len());
        Row::from([user.into_owned(), id.into_owned(), time(session.last_update_time()), keys.to_string()])
    });
    out.table(&["USER", "SESSION", "UPDATED", "KEYS"], rows)?;
    if let Some(token) = &page.next_page_token {
        out.line(styled(DIM, format_args!("more with --page-token {token}")))?;
    }
    Ok(())
}

pub(crate) async fn show(database: &Database, args: ShowArgs, out: &mut Output) -> Result<(), Failure> {
    let key = SessionKey::new(&args.session.app, &args.session.user, &args.session.session)?;
    let config = GetSessionConfig::default().with_num_recent_events(args.events);
    let session = database.sessions.get_session(&key, &config).await?.ok_or_else(|| no_session(&key))?;
    if out.format() == Format::Json {
        return Ok(out.json(&session)?);
    }
    print(&session, out)
}

pub(crate) async fn delete(database: &Database, args: DeleteArgs, out: &mut Output) -> Result<(), Failure> {
    let keys: Result<Vec<_>, _> = args.sessions.iter().map(|id| SessionKey::new(&args.app, &args.user, id)).collect();
    // A mistyped id is told, but is no error: in the end the session is not there, as was wanted.
    let (mut deleted, mut missing) = (Vec::new(), Vec::new());
    for key in keys? {
        let found = database.sessions.get_session(&key, &nothing_of_it()).await?.is_some();
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

/// The error for a session that is not there.
pub(crate) fn no_session(key: &SessionKey) -> Error {
    let message = format!("session not found: {key}; see: scratchbook sessions list --app {}", key.app_name());
    Error::new(ErrorKind::NotFound, message)
}

fn nothing_of_it() -> GetSessionConfig {
    GetSessionConfig::state_only().with_state_keys(Vec::<String>::new())
}

fn print(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let address = session.key().to_string();
    out.line(format_args!("{}  updated {}", styled(BOLD, visible(&address)), time(session.last_update_time())))?;
    show::state(out, &session.state().to_map())?;
    for event in session.events().iter() {
        show::event(out, event)?;
        show::delta(out, &event.actions.state_delta)?;
    }
    let shown = session.events().len() as u64;
    if shown < session.seq() {
        out.line(styled(DIM, format_args!("{shown} of {} events; --events N shows more", session.seq())))?;
    }
    Ok(())
}

fn time(seconds: f64) -> String {
    let micros = (seconds * 1e6).round() as i64;
    Timestamp::from_microsecond(micros).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}
