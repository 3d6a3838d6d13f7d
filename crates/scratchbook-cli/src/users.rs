//! `scratchbook apps`, `users list` and `users erase`.

use scratchbook::session::{ListSessionsConfig, StateOwner};
use scratchbook::{Error, json};
use serde_json::json;

use crate::args::{EraseArgs, ListUsersArgs};
use crate::confirm::confirm;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{DIM, Format, Output, plural, styled, visible};
use crate::owners;
use crate::shell::quoted;
use crate::table::whole;
use crate::times::time;

pub(crate) async fn apps(database: &OpenDatabase, out: &mut Output) -> Result<(), CommandFailure> {
    let mut apps = Vec::new();
    for app in owners::apps(database).await? {
        let users = owners::users(database, Some(&app), None, usize::MAX).await?.len();
        let updated = owners::newest(database, &app, None).await?.map(|session| session.last_update_time());
        apps.push((app, users, updated));
    }
    if out.format() == Format::Json {
        let apps =
            apps.iter().map(|(app, users, updated)| json!({"appName": app, "users": users, "lastUpdateTime": updated}));
        return Ok(out.json(&json!({"apps": apps.collect::<Vec<_>>()}))?);
    }
    if apps.is_empty() {
        return Ok(out.line("no apps")?);
    }
    let rows =
        apps.into_iter().map(|(app, users, updated)| [visible(&app).into_owned(), users.to_string(), since(updated)]);
    Ok(out.table([whole("APP"), whole("USERS"), whole("UPDATED")], rows)?)
}

pub(crate) async fn list(database: &OpenDatabase, args: ListUsersArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let (app, limit) = (args.app.as_deref(), args.limit);
    let after = args.page_token.as_deref().map(owner_of).transpose()?;
    let mut page = owners::users(database, app, after, limit.saturating_add(1)).await?;
    let has_more = page.len() > limit;
    page.truncate(limit);
    let token = page.last().filter(|_| has_more).map(token_of);
    let mut users = Vec::new();
    for owner in page {
        let newest = owners::newest(database, owner.app_name(), owner.user_id()).await?;
        users.push((owner, newest.map(|session| session.last_update_time())));
    }
    if out.format() == Format::Json {
        let users = users.iter().map(|(owner, updated)| {
            json!({"appName": owner.app_name(), "userId": owner.user_id(), "lastUpdateTime": updated})
        });
        return Ok(out.json(&json!({"users": users.collect::<Vec<_>>(), "nextPageToken": token}))?);
    }
    if users.is_empty() {
        let of = app.map(|app| format!(" of app '{}'", visible(app))).unwrap_or_default();
        return Ok(out.line(format_args!("no users{of}"))?);
    }
    let rows = users.into_iter().map(|(owner, updated)| {
        let [app, user] =
            [owner.app_name(), owner.user_id().unwrap_or_default()].map(|name| visible(name).into_owned());
        [app, user, since(updated)]
    });
    out.table([whole("APP"), whole("USER"), whole("UPDATED")], rows)?;
    if let Some(token) = token {
        out.line(styled(DIM, "more with:"))?;
        out.text(format_args!("--page-token={}", quoted(&visible(&token))))?;
    }
    Ok(())
}

/// Returns the time of the newest event; `-` if there is no session.
fn since(updated: Option<f64>) -> String {
    updated.map_or_else(|| "-".to_owned(), time)
}

/// Returns the token of the page after a user.
fn token_of(user: &StateOwner) -> String {
    json!([user.app_name(), user.user_id()]).to_string()
}

fn owner_of(token: &str) -> Result<StateOwner, Error> {
    let parts: Result<[String; 2], Error> = json::from_str(token);
    let [app, user] = parts.map_err(|_| Error::invalid("--page-token: it is not a token of `users list`"))?;
    StateOwner::user(&app, &user)
}

pub(crate) async fn erase(database: &OpenDatabase, args: EraseArgs, out: &mut Output) -> Result<(), CommandFailure> {
    // The ids are checked before the confirmation.
    StateOwner::user(&args.app, &args.user)?;
    let name = visible(&format!("{}/{}", args.app, args.user)).into_owned();
    let (sessions, keys) = count(database, &args.app, &args.user).await?;
    let there = format!("{}, {}", plural(sessions as u64, "session"), plural(keys as u64, "user key"));
    if !args.yes {
        let question = format!("Erase the user {name} wholly ({there})?");
        confirm(&question, &format!("erasing the user {name}"), "erased").await?;
    }
    // The user is deleted even if no session or key was found, because a log or artifacts may remain.
    database.sessions.delete_user(&args.app, &args.user).await?;
    if out.format() == Format::Json {
        return Ok(out.json(&json!({
            "erased": {"appName": args.app, "userId": args.user, "sessions": sessions, "userKeys": keys},
        }))?);
    }
    if sessions + keys == 0 {
        return Ok(out.line(format_args!("there was nothing of the user {name}: no sessions, no user keys"))?);
    }
    Ok(out.line(format_args!("erased the user {name}: {there}, with events, log and artifacts"))?)
}

/// Counts a user's sessions and keys.
async fn count(database: &OpenDatabase, app: &str, user: &str) -> Result<(usize, usize), CommandFailure> {
    let mut config = ListSessionsConfig::default().with_user_id(user).with_page_size(1000);
    let mut sessions = 0;
    loop {
        let page = database.sessions.list_sessions(app, &config).await?;
        sessions += page.sessions.len();
        config.page_token = page.next_page_token;
        if config.page_token.is_none() {
            break;
        }
    }
    Ok((sessions, database.sessions.get_state(&StateOwner::user(app, user)?).await?.len()))
}
