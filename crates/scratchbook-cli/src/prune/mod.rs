//! `scratchbook prune`: deletes expired sessions, old events and old entries of state logs, in small commits.

use futures_util::{TryStreamExt, future};
use scratchbook::Error;
use scratchbook::session::Prune;
use serde_json::json;

mod events;
mod log;

use crate::args::{PointInTime, PruneArgs};
use crate::confirm::confirm;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{Format, Output, plural, visible};
use crate::progress::Progress;
use crate::walk::{Depth, Selection, WalkEntry, name_of, walk};

/// How many events, changes or sessions are deleted in one commit. Others can write between two commits.
const STEP: usize = 500;

/// How many sessions and logs are processed concurrently. A store writes one after the other.
const AT_ONCE: usize = 4;

/// The parts of the database that are pruned.
#[derive(Clone, Debug)]
struct PrunePlan {
    selection: Selection,
    expired: bool,
    events: Option<events::EventRule>,
    /// In each log, prune the overwritten changes that come before the first change at or after this time.
    log_before: Option<PointInTime>,
    mode: PruneMode,
}

/// Whether to prune or only to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PruneMode {
    Real,
    Dry,
}

/// The numbers of pruned items. In a dry run, the numbers of items that would be pruned.
#[derive(Clone, Copy, Debug, Default)]
struct PrunedCounts {
    expired: u64,
    events: u64,
    sessions: u64,
    changes: u64,
    logs: u64,
}

pub(crate) async fn prune(database: &OpenDatabase, args: PruneArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let plan = PrunePlan::new(&args)?;
    if out.format() == Format::Text {
        plan.announce(out)?;
    }
    if !args.yes && plan.takes_what_can_be_read() {
        confirm("Prune?", "pruning", "pruned").await?;
    }
    let progress = Progress::counting("pruning", out.format());
    let mut pruned = PrunedCounts::default();
    if plan.expired && plan.mode == PruneMode::Real {
        loop {
            let deleted = database.sessions.prune(Prune::Expired, STEP).await?;
            pruned.expired += deleted;
            progress.show(pruned.counts(&plan));
            if deleted < STEP as u64 {
                break;
            }
        }
    }
    if plan.events.is_some() || plan.log_before.is_some() {
        let depth = if plan.events.is_some() { Depth::Sessions } else { Depth::Owners };
        let steps = walk(database, &plan.selection, depth).map_ok(|entry| one(database, &plan, entry));
        let count = |found: PrunedCounts| {
            pruned.add(found);
            progress.show(pruned.counts(&plan));
            future::ready(Ok(()))
        };
        steps.try_buffer_unordered(AT_ONCE).try_for_each(count).await?;
    }
    progress.finish();
    plan.print(&pruned, out)
}

/// Prunes one owner or session.
async fn one(database: &OpenDatabase, plan: &PrunePlan, entry: WalkEntry) -> Result<PrunedCounts, CommandFailure> {
    let mut pruned = PrunedCounts::default();
    match (entry, plan.events, plan.log_before) {
        (WalkEntry::Session(session), Some(rule), _) => {
            pruned.events = events::prune(database, &session, rule, plan.mode).await?;
            pruned.sessions = u64::from(pruned.events > 0);
        }
        (WalkEntry::Owner(owner), _, Some(before)) => {
            pruned.changes = log::prune(database, &owner, before, plan.mode).await?;
            pruned.logs = u64::from(pruned.changes > 0);
        }
        (WalkEntry::Unlisted(_, error), ..) => return Err(error.into()),
        _ => {}
    }
    Ok(pruned)
}

impl PrunePlan {
    fn new(args: &PruneArgs) -> Result<Self, Error> {
        let older_than = args.older_than.map(|span| span.ago());
        let events = match (older_than, args.keep_last) {
            (None, None) => None,
            (before, keep) => Some(events::EventRule { before, keep: keep.unwrap_or(0) }),
        };
        if !args.expired && events.is_none() && args.log_older_than.is_none() {
            let message = "say what is to go: --expired for expired sessions, --older-than SPAN or --keep-last N for \
                           events, --log-older-than SPAN for the logs of users' and apps' state; --dry-run counts only";
            return Err(Error::invalid(message));
        }
        Ok(Self {
            selection: Selection::new(args.app.as_deref(), args.user.as_deref())?,
            expired: args.expired,
            events,
            log_before: args.log_older_than.map(|span| span.ago()),
            mode: if args.dry_run { PruneMode::Dry } else { PruneMode::Real },
        })
    }

    /// Returns whether the plan prunes more than expired sessions, which nobody can read any more.
    fn takes_what_can_be_read(&self) -> bool {
        self.mode == PruneMode::Real && (self.events.is_some() || self.log_before.is_some())
    }

    /// Prints what will be pruned.
    fn announce(&self, out: &mut Output) -> Result<(), CommandFailure> {
        let of = match &self.selection {
            Selection::Everything => "all sessions".to_owned(),
            Selection::App(app) => format!("the sessions of the app '{}'", app.app_name()),
            Selection::User(owner) => format!("the sessions of {}", name_of(owner)),
            Selection::Session(key) => format!("the session {key}"),
        };
        let verb = if self.mode == PruneMode::Dry { "would prune" } else { "prunes" };
        if self.expired {
            let what = "every session that has expired";
            out.line(format_args!("{} {what}", if self.mode == PruneMode::Dry { "would delete" } else { "deletes" }))?;
        }
        if let Some(rule) = &self.events {
            out.line(format_args!("{verb} of {}: {}", visible(&of), rule.in_words()))?;
        }
        if let Some(before) = &self.log_before {
            let what = "of the logs of state: what was overwritten";
            out.line(format_args!("{verb} {what} before {:.0}", before.0))?;
        }
        Ok(())
    }

    fn print(&self, pruned: &PrunedCounts, out: &mut Output) -> Result<(), CommandFailure> {
        let is_dry = self.mode == PruneMode::Dry;
        if out.format() == Format::Json {
            // Expired sessions are invisible, so a dry run cannot count them.
            let expired = if is_dry && self.expired { None } else { Some(pruned.expired) };
            return Ok(out.json(&json!({
                "dryRun": is_dry,
                "expiredSessions": expired,
                "events": pruned.events,
                "sessions": pruned.sessions,
                "changes": pruned.changes,
                "logs": pruned.logs,
            }))?);
        }
        if is_dry && self.expired {
            out.line("expired sessions are invisible, so that a dry run cannot count them")?;
        }
        let counts = pruned.counts(self);
        let done = if is_dry { "would go:" } else { "gone:" };
        if counts.is_empty() {
            return Ok(());
        }
        Ok(out.line(format_args!("{done} {counts}"))?)
    }
}

impl PrunedCounts {
    fn add(&mut self, other: Self) {
        self.events += other.events;
        self.sessions += other.sessions;
        self.changes += other.changes;
        self.logs += other.logs;
    }

    /// Returns the counts in words.
    fn counts(&self, plan: &PrunePlan) -> String {
        let Self { expired, events, sessions, changes, logs } = *self;
        let expired = (plan.expired && plan.mode == PruneMode::Real).then(|| plural(expired, "expired session"));
        let of = |what: &str, count, whose: &str, of| format!("{} of {}", plural(count, what), plural(of, whose));
        let events = plan.events.map(|_| of("event", events, "session", sessions));
        let changes = plan.log_before.map(|_| of("change", changes, "log", logs));
        expired.into_iter().chain(events).chain(changes).collect::<Vec<_>>().join(", ")
    }
}
