//! `scratchbook sessions list`.

use scratchbook::Session;
use scratchbook::session::{ListOrder, ListSessionsConfig, ListSessionsResponse, TitleFilter};
use serde_json::json;

use super::summary_json;
use crate::args::{Label, ListArgs};
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{DIM, Format, Output, styled, visible};
use crate::owners::apps;
use crate::table::{text, whole};
use crate::times::time;

pub(crate) async fn list(database: &OpenDatabase, args: ListArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let mut config = ListSessionsConfig::default().with_page_size(args.limit);
    config.order =
        if args.oldest_first && !args.newest_first { ListOrder::OldestFirst } else { ListOrder::NewestFirst };
    config.user_id = args.user;
    config.title = args.title.map(TitleFilter::Containing);
    config.labels = args.labels.into_iter().map(|Label { name, value }| (name, value)).collect();
    config.page_token = args.page_token;
    match args.app {
        Some(app) => of_app(database, &app, config, out).await,
        None => of_all(database, &config, out).await,
    }
}

async fn of_app(
    database: &OpenDatabase,
    app: &str,
    config: ListSessionsConfig,
    out: &mut Output,
) -> Result<(), CommandFailure> {
    let page = read(database, app, &config).await?;
    if out.format() == Format::Json {
        let sessions = page.sessions.iter().map(summary_json).collect::<Result<Vec<_>, _>>()?;
        return Ok(out.json(&json!({"sessions": sessions, "nextPageToken": page.next_page_token}))?);
    }
    if page.sessions.is_empty() {
        let none = none(&config);
        return Ok(out.line(format_args!("{none} of app '{}'", visible(app)))?);
    }
    let rows = page.sessions.iter().map(|session| {
        let (user, id, keys) = (visible(session.user_id()), visible(session.id()), session.state().len());
        [user.into_owned(), id.into_owned(), time(session.last_update_time()), keys.to_string(), title(session)]
    });
    let columns = [whole("USER"), whole("SESSION"), whole("UPDATED"), whole("KEYS"), text("TITLE")];
    out.table(columns, rows)?;
    if let Some(token) = &page.next_page_token {
        out.line(styled(DIM, "more with:"))?;
        out.text(format_args!("--page-token={token}"))?;
    }
    Ok(())
}

/// Lists the sessions of all apps. Each is named by its address.
async fn of_all(database: &OpenDatabase, config: &ListSessionsConfig, out: &mut Output) -> Result<(), CommandFailure> {
    let (mut sessions, mut is_cut) = (Vec::new(), false);
    for app in apps(database).await? {
        let page = read(database, &app, config).await?;
        sessions.extend(page.sessions);
        is_cut |= page.next_page_token.is_some();
    }
    sessions.sort_by(|a: &Session, b| a.last_update_time().total_cmp(&b.last_update_time()));
    if config.order == ListOrder::NewestFirst {
        sessions.reverse();
    }
    is_cut |= sessions.len() > config.page_size;
    sessions.truncate(config.page_size);
    if out.format() == Format::Json {
        let sessions = sessions.iter().map(summary_json).collect::<Result<Vec<_>, _>>()?;
        return Ok(out.json(&json!({"sessions": sessions, "nextPageToken": null, "hasMore": is_cut}))?);
    }
    if sessions.is_empty() {
        return Ok(out.line(none(config))?);
    }
    let rows = sessions.iter().map(|session| {
        let address = visible(&session.key().to_string()).into_owned();
        [address, time(session.last_update_time()), title(session)]
    });
    out.table([whole("SESSION"), whole("UPDATED"), text("TITLE")], rows)?;
    if is_cut {
        out.line(styled(DIM, "there are more: name an app with --app, or a higher --limit"))?;
    }
    Ok(())
}

/// Reads a page of an app's sessions. A filtered page of the store may contain fewer sessions, so further pages are
/// read.
async fn read(
    database: &OpenDatabase,
    app: &str,
    config: &ListSessionsConfig,
) -> Result<ListSessionsResponse, CommandFailure> {
    let (mut config, limit) = (config.clone(), config.page_size);
    let mut page = ListSessionsResponse::default();
    loop {
        let more = database.sessions.list_sessions(app, &config).await?;
        page.sessions.extend(more.sessions);
        page.next_page_token.clone_from(&more.next_page_token);
        config.page_size = limit.saturating_sub(page.sessions.len());
        config.page_token = more.next_page_token;
        if config.page_size == 0 || config.page_token.is_none() {
            return Ok(page);
        }
    }
}

fn title(session: &Session) -> String {
    visible(session.title().unwrap_or_default()).into_owned()
}

/// Returns the message that there are no sessions.
fn none(config: &ListSessionsConfig) -> String {
    let more = if config.page_token.is_none() { "" } else { "more " };
    let such = if config.title.is_some() || !config.labels.is_empty() { "such " } else { "" };
    let of_user = config.user_id.as_ref().map(|user| format!(" of user '{}'", visible(user))).unwrap_or_default();
    format!("no {more}{such}sessions{of_user}")
}
