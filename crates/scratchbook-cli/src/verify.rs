//! `scratchbook verify`: compares stored state with the state that events and logs give.

use std::collections::HashSet;

use futures_util::{TryStreamExt, future};
use scratchbook::session::{StateOwner, Verified};
use scratchbook::{Error, ErrorKind, SessionKey, SessionServiceExt};
use serde_json::{Value, json};

use crate::args::VerifyArgs;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{BAD, BOLD, Format, GOOD, Output, plural, styled, visible};
use crate::progress::Progress;
use crate::walk::{Depth, Selection, WalkEntry, walk};

/// How many sessions and owners are verified concurrently. This uses a store's several readers, and hides a server's
/// latency.
const AT_ONCE: usize = 8;

pub(crate) async fn verify(database: &OpenDatabase, args: VerifyArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let selection = Selection::of(&args.address, database).await?;
    let progress = Progress::counting("verifying", out.format());
    let mut report = VerifyReport::default();
    let answers = walk(database, &selection, Depth::Sessions)
        .map_ok(|entry| check(database, entry))
        .try_buffer_unordered(AT_ONCE);
    answers.try_for_each(|answer| future::ready(report.take(answer, &progress, out))).await?;
    progress.finish();
    if report.is_of_nothing(&selection) {
        return Err(selection.not_found().into());
    }
    report.print(out)
}

/// A verified owner or session, and the outcome.
struct VerifyOutcome {
    of: Verifiable,
    outcome: Result<Option<Verified>, Error>,
}

enum Verifiable {
    Owner(StateOwner),
    Session(SessionKey),
    /// A user whose sessions cannot be listed.
    Rest(StateOwner),
}

/// Verifies one entry. An error that concerns more than the entry, such as an unreachable server, ends the command.
async fn check(database: &OpenDatabase, entry: WalkEntry) -> Result<VerifyOutcome, CommandFailure> {
    let (of, outcome) = match entry {
        WalkEntry::Owner(owner) => {
            let outcome = database.sessions.verify_state(&owner).await;
            (Verifiable::Owner(owner), outcome.map(Some))
        }
        WalkEntry::Session(session) => {
            let outcome = database.sessions.verify_session(session.key()).await;
            (Verifiable::Session(session.key().clone()), outcome)
        }
        WalkEntry::Named(key) => {
            let outcome = database.sessions.verify_session(&key).await;
            (Verifiable::Session(key), outcome)
        }
        WalkEntry::Unlisted(user, error) => (Verifiable::Rest(user), Err(error)),
    };
    match outcome {
        Err(error) if !matches!(error.kind(), ErrorKind::DataCorrupted | ErrorKind::Conflict) => Err(error.into()),
        outcome => Ok(VerifyOutcome { of, outcome }),
    }
}

#[derive(Debug, Default)]
struct VerifyReport {
    apps: u64,
    users: u64,
    sessions: u64,
    events: u64,
    /// Changes in the state logs of users and apps.
    changes: u64,
    differences: Vec<Value>,
    undecided: Vec<Value>,
    /// The errors reported so far. An unreadable row of an app's state gives the same error for each session, which is
    /// reported once.
    reported: HashSet<String>,
}

impl VerifyReport {
    fn take(&mut self, answer: VerifyOutcome, progress: &Progress, out: &mut Output) -> Result<(), CommandFailure> {
        let VerifyOutcome { of, outcome } = answer;
        let events = match outcome {
            // The session was deleted since it was listed.
            Ok(None) => return Ok(()),
            Ok(Some(verified)) => verified.events,
            Err(error) => {
                self.report(&of, &error, progress, out)?;
                0
            }
        };
        match of {
            Verifiable::Session(_) => (self.sessions, self.events) = (self.sessions + 1, self.events + events),
            Verifiable::Owner(owner) if owner.user_id().is_some() => {
                (self.users, self.changes) = (self.users + 1, self.changes + events);
            }
            Verifiable::Owner(_) => (self.apps, self.changes) = (self.apps + 1, self.changes + events),
            Verifiable::Rest(_) => {}
        }
        progress.show(self.counts());
        Ok(())
    }

    fn report(
        &mut self,
        of: &Verifiable,
        error: &Error,
        progress: &Progress,
        out: &mut Output,
    ) -> Result<(), CommandFailure> {
        let message = error.to_string();
        if !self.reported.insert(message.clone()) {
            return Ok(());
        }
        let differs = error.kind() == ErrorKind::DataCorrupted;
        if out.format() == Format::Text {
            let label = if differs { styled(BAD, "differs") } else { styled(BOLD, "undecided") };
            progress.aside(|| out.line(format_args!("{label}  {}", visible(&message))))?;
        }
        let (app, user, session) = match of {
            Verifiable::Session(key) => (key.app_name(), Some(key.user_id()), Some(key.session_id())),
            Verifiable::Owner(owner) | Verifiable::Rest(owner) => (owner.app_name(), owner.user_id(), None),
        };
        let list = if differs { &mut self.differences } else { &mut self.undecided };
        list.push(json!({"appName": app, "userId": user, "sessionId": session, "message": message}));
        Ok(())
    }

    /// Returns whether nothing exists under the name on the command line.
    fn is_of_nothing(&self, selection: &Selection) -> bool {
        let nothing = self.sessions + self.changes == 0 && self.reported.is_empty();
        nothing
            && match selection {
                Selection::Everything => false,
                Selection::App(_) => self.users == 0,
                Selection::User(_) | Selection::Session(_) => true,
            }
    }

    /// Returns the numbers of verified apps, users and sessions.
    fn entries(&self) -> String {
        let Self { apps, users, sessions, .. } = self;
        format!("{}, {}, {}", plural(*apps, "app"), plural(*users, "user"), plural(*sessions, "session"))
    }

    fn counts(&self) -> String {
        let Self { events, changes, .. } = self;
        format!("{}, {}, {} in logs", self.entries(), plural(*events, "event"), plural(*changes, "change"))
    }

    /// Returns the line with the numbers. If something differs or is undecided, the line has no number of events, because
    /// the events of such a session are not counted.
    fn summary(&self) -> String {
        let differences = plural(self.differences.len() as u64, "difference");
        match (self.differences.len(), self.undecided.len()) {
            (0, 0) => format!("verified {}", self.counts()),
            (_, 0) => format!("checked {}: {differences}", self.entries()),
            (_, open) => format!("checked {}: {differences}, {open} undecided", self.entries()),
        }
    }

    fn print(self, out: &mut Output) -> Result<(), CommandFailure> {
        let Self { apps, users, sessions, events, changes, differences, undecided, .. } = &self;
        let (wrong, open) = (differences.len(), undecided.len());
        if out.format() == Format::Json {
            out.json(&json!({
                "verified": {"apps": apps, "users": users, "sessions": sessions, "events": events, "changes": changes},
                "differences": differences,
                "undecided": undecided,
            }))?;
        } else {
            out.line(self.summary())?;
            if wrong + open == 0 {
                out.line(styled(GOOD, "no differences: the stored state matches the events and logs"))?;
            }
        }
        match (wrong, open) {
            (0, 0) => Ok(()),
            (0, _) => {
                let message = format!(
                    "{} changed all the time; verify again when it is quieter",
                    plural(open as u64, "session, user or app")
                );
                Err(Error::new(ErrorKind::Conflict, message).into())
            }
            _ => Err(CommandFailure::Differences(wrong)),
        }
    }
}
