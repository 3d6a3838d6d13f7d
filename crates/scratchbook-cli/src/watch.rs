//! `scratchbook watch`: follows a change feed.

use std::io;
use std::time::Duration;

use scratchbook::session::{FeedCommit, FeedEntry, RemovalKind, StateChange, StateOwner, Watch, Watched};
use scratchbook::state::Change;
use scratchbook::{Error, Scope, SessionServiceExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::args::WatchArgs;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{BAD, BOLD, DIM, Format, Output, styled, visible};
use crate::show;
use crate::times::time;
use crate::walk::Selection;

/// How often an unreachable store is retried, with a second between two attempts.
const TRIES: u32 = 60;

pub(crate) async fn watch(database: &OpenDatabase, args: WatchArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let what = match Selection::of(&args.address, database).await? {
        Selection::Session(key) => Watched::session(key),
        Selection::User(owner) | Selection::App(owner) => owner.into(),
        Selection::Everything => {
            return Err(Error::invalid("name what to follow: --app APP, with --user USER, or a session").into());
        }
    };
    let mut watch = database.sessions.watch(what.with_key_prefix(args.prefix), args.from.0).await?;
    let follow = follow(&mut watch, args.limit, args.until_idle.map(|span| span.0), out);
    let ended = tokio::select! {
        followed = follow => followed,
        Ok(()) = tokio::signal::ctrl_c() => Err(CommandFailure::Ended),
    };
    if ended.as_ref().is_err_and(|failure| !matches!(failure, CommandFailure::Ended)) {
        return ended;
    }
    let cursor = watch.cursor();
    match out.format() {
        Format::Json => out.json_line(&json!({"type": "end", "cursor": cursor}))?,
        Format::Text => {
            out.line(styled(DIM, "continue with:"))?;
            out.text(format_args!("--from '{cursor}'"))?;
        }
    }
    ended
}

async fn follow<S>(
    watch: &mut Watch<&S>,
    limit: Option<u64>,
    idle: Option<Duration>,
    out: &mut Output,
) -> Result<(), CommandFailure>
where
    S: scratchbook::SessionService + ?Sized,
{
    let (mut count, mut failed) = (0, 0);
    while limit.is_none_or(|limit| count < limit) {
        let next = match idle {
            Some(idle) => match timeout(idle, watch.next()).await {
                Ok(next) => next,
                Err(_) => return Ok(()),
            },
            None => watch.next().await,
        };
        match next {
            Ok(entry) => {
                (count, failed) = (count + 1, 0);
                print(&entry, out)?;
            }
            Err(error) if error.is_retryable() && failed < TRIES => {
                failed += 1;
                sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn print(entry: &FeedEntry, out: &mut Output) -> io::Result<()> {
    match out.format() {
        Format::Json => out.json_line(&as_json(entry)),
        Format::Text => out.line(line(entry)),
    }
}

fn as_json(entry: &FeedEntry) -> Value {
    let cursor = &entry.cursor;
    match &entry.commit {
        FeedCommit::Event { session, event } => json!({
            "type": "event",
            "cursor": cursor,
            "appName": session.app_name(),
            "userId": session.user_id(),
            "sessionId": session.session_id(),
            "seq": event.seq,
            "event": event,
        }),
        FeedCommit::Created { session, state, forked_at } => json!({
            "type": "created",
            "cursor": cursor,
            "appName": session.app_name(),
            "userId": session.user_id(),
            "sessionId": session.session_id(),
            "forkedAt": forked_at,
            "state": state,
        }),
        FeedCommit::State { owner, changes } => json!({
            "type": "state",
            "cursor": cursor,
            "appName": owner.app_name(),
            "userId": owner.user_id(),
            "changes": changes.iter().map(change_as_json).collect::<Vec<_>>(),
        }),
        FeedCommit::Removed(removal) => json!({
            "type": "removed",
            "cursor": cursor,
            "appName": removal.user.app_name(),
            "userId": removal.user.user_id(),
            "sessionId": removal.session.as_ref().map(|session| session.session_id()),
            "kind": removal.kind.as_str(),
            "count": removal.count,
            "time": removal.time,
        }),
        // Kinds that a later version of the library may add.
        _ => json!({"type": "other", "cursor": cursor}),
    }
}

fn change_as_json(change: &StateChange) -> Value {
    let mut shown = json!({
        "key": change.name,
        "version": change.version,
        "author": change.author,
        "time": change.time,
    });
    // A removed key has no value. Null is a value.
    match &change.value {
        Some(value) => shown["value"] = value.clone(),
        None => shown["removed"] = true.into(),
    }
    shown
}

/// Returns an entry as a line: `2026-11-21T10:00:00Z  alice/s1  3  agent  step = 2`.
fn line(entry: &FeedEntry) -> String {
    match &entry.commit {
        FeedCommit::Event { session, event } => {
            let of = visible(&format!("{}/{}", session.user_id(), session.session_id())).into_owned();
            let (at, seq) = (event.timestamp.map(time).unwrap_or_default(), event.seq.unwrap_or_default());
            let mut parts: Vec<_> = show::first_words(event).into_iter().collect();
            let delta = event.actions.state_delta.iter();
            parts.extend(delta.map(|(key, change)| {
                changed(
                    key,
                    match change {
                        Change::Set(value) => Some(value),
                        _ => None,
                    },
                )
            }));
            format!("{at}  {of}  {seq}  {}  {}", styled(BOLD, visible(&event.author)), parts.join("  "))
        }
        FeedCommit::Created { session, state, forked_at } => {
            let of = visible(&format!("{}/{}", session.user_id(), session.session_id())).into_owned();
            if let Some(seq) = forked_at {
                return format!("{of}  {}", styled(DIM, format_args!("forked at event {seq}")));
            }
            let parts: Vec<_> = state.iter().map(|(key, value)| changed(key, Some(value))).collect();
            format!("{of}  {}  {}", styled(DIM, "created"), parts.join("  "))
        }
        FeedCommit::State { owner, changes } => {
            let first = changes.first();
            let (at, author) = first.map(|change| (time(change.time), change.author.as_str())).unwrap_or_default();
            let keys = changes.iter().map(|change| changed(&key_of(owner, &change.name), change.value.as_ref()));
            let keys: Vec<_> = keys.collect();
            let of = visible(owner.user_id().unwrap_or(owner.app_name())).into_owned();
            format!("{at}  {of}  {}  {}", styled(BOLD, visible(author)), keys.join("  "))
        }
        FeedCommit::Removed(removal) => {
            let user = removal.user.user_id().unwrap_or_default();
            let of = removal.session.as_ref().map_or(user.to_owned(), |s| format!("{user}/{}", s.session_id()));
            let what = match removal.kind {
                RemovalKind::Pruned => format!("pruned up to event {}", removal.count),
                RemovalKind::Erased => format!("deleted with {} sessions", removal.count),
                kind => kind.as_str().to_owned(),
            };
            format!("{}  {}  {}", time(removal.time), visible(&of), styled(BAD, what))
        }
        _ => String::new(),
    }
}

fn key_of(owner: &StateOwner, name: &str) -> String {
    let scope = if owner.user_id().is_some() { Scope::User } else { Scope::App };
    scope.key(name).into_owned()
}

fn changed(key: &str, value: Option<&Value>) -> String {
    match value {
        Some(value) => format!("{} = {}", visible(key), show::brief(value)),
        None => format!("{} {}", visible(key), styled(BAD, "removed")),
    }
}
