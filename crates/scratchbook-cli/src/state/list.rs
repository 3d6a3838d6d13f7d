//! `scratchbook state list`.

use scratchbook::session::{ListStateConfig, StatePage};
use scratchbook::{GetSessionConfig, SessionKey};
use serde_json::json;

use super::target::StateTarget;
use crate::args::ListStateArgs;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::failure::no_session;
use crate::output::{DIM, Format, Output, styled, visible};
use crate::shell::quoted;
use crate::show;
use crate::table::{text, whole};

pub(crate) async fn list(database: &OpenDatabase, args: ListStateArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let target = StateTarget::new(&args.owner)?;
    target.check(&args.prefix)?;
    let mut config = ListStateConfig::default().with_prefix(args.prefix).with_page_size(args.limit);
    config.after = args.page_token;
    config.check()?;
    let target = target.resolve(database).await?;
    let page = match &target {
        StateTarget::Owner(owner) => database.sessions.list_state(owner, &config).await?,
        StateTarget::Session(key) => of_session(database, key, &config).await?,
    };
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"state": page.values, "nextPageToken": page.next}))?);
    }
    if page.values.is_empty() {
        return Ok(out.line(format_args!("no such keys of {}", visible(&target.to_string())))?);
    }
    let rows = page.values.iter().map(|(key, value)| [visible(key).into_owned(), show::short(value)]);
    out.table([whole("KEY"), text("VALUE")], rows)?;
    if let Some(token) = &page.next {
        out.line(styled(DIM, "more with:"))?;
        out.text(format_args!("--page-token={}", visible(&quoted(token))))?;
    }
    Ok(())
}

/// Reads the whole merged state of a session, which the store does not return in pages.
async fn of_session(
    database: &OpenDatabase,
    key: &SessionKey,
    config: &ListStateConfig,
) -> Result<StatePage, CommandFailure> {
    let session = database.sessions.get_session(key, &GetSessionConfig::state_only()).await?;
    let mut keys: Vec<_> = session.ok_or_else(|| no_session(key))?.state().to_map().into_iter().collect();
    keys.retain(|(key, _)| key.starts_with(&config.prefix) && config.after.as_ref().is_none_or(|after| key > after));
    keys.sort_by(|(a, _), (b, _)| a.cmp(b));
    let is_end = keys.len() <= config.page_size;
    keys.truncate(config.page_size);
    let next = keys.last().filter(|_| !is_end).map(|(key, _)| key.clone());
    Ok(StatePage::new(keys.into_iter().collect(), next))
}
