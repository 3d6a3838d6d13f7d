//! `scratchbook users erase`.

use std::io::{self, BufRead, IsTerminal, Write};

use scratchbook::session::{ListSessionsConfig, StateOwner};
use scratchbook::{Error, ErrorKind};
use serde_json::json;

use crate::args::EraseArgs;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{Format, Output, plural, visible};

pub(crate) async fn erase(database: &Database, args: EraseArgs, out: &mut Output) -> Result<(), Failure> {
    // The ids are checked before the confirmation.
    StateOwner::user(&args.app, &args.user)?;
    let name = visible(&format!("{}/{}", args.app, args.user)).into_owned();
    let (sessions, keys) = count(database, &args.app, &args.user).await?;
    let there = format!("{}, {}", plural(sessions as u64, "session"), plural(keys as u64, "user key"));
    if !args.yes {
        confirm(&name, &there).await?;
    }
    // Even if nothing is found: a log or artifacts may remain.
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
async fn count(database: &Database, app: &str, user: &str) -> Result<(usize, usize), Failure> {
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

/// Asks for confirmation on the terminal. Any other answer than yes means no.
async fn confirm(name: &str, there: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        let message =
            format!("erasing the user {name} cannot be undone, and there is no terminal to ask on; add --yes");
        return Err(Error::invalid(message).into());
    }
    let question = format!("Erase the user {name} wholly ({there})? This cannot be undone. [y/N] ");
    // On another thread, so that Ctrl-C works while it waits.
    let answered = tokio::task::spawn_blocking(move || {
        let mut err = io::stderr();
        write!(err, "{question}")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok::<_, io::Error>(answer)
    });
    let answer =
        answered.await.map_err(io::Error::other).flatten().map_err(|e| {
            Error::new(ErrorKind::Unavailable, "the terminal cannot be asked; add --yes").with_source(e)
        })?;
    if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes" | "YES") {
        return Ok(());
    }
    Err(Error::new(ErrorKind::FailedPrecondition, "nothing was erased: the answer was not yes").into())
}
