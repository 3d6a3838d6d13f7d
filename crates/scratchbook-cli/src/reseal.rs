//! `scratchbook reseal`: encrypts the state of a database with the current key.

use futures_util::{TryStreamExt, future};
use scratchbook::{Error, ErrorKind, SessionKey};
use serde_json::json;

use crate::args::AddressArgs;
use crate::database::OpenDatabase;
use crate::encryption::EncryptedSessions;
use crate::failure::CommandFailure;
use crate::output::{BAD, DIM, Format, Output, plural, styled, visible};
use crate::progress::Progress;
use crate::walk::{Depth, Selection, WalkEntry, walk};

/// How many sessions and owners are processed concurrently. A store writes one after the other.
const AT_ONCE: usize = 4;

/// Walks through a database without decrypting it, so that a value that cannot be decrypted does not stop the command.
pub(crate) async fn reseal(
    database: &OpenDatabase,
    sealed: &EncryptedSessions,
    args: AddressArgs,
    out: &mut Output,
) -> Result<(), CommandFailure> {
    let selection = Selection::of(&args, database).await?;
    let progress = Progress::counting("resealing", out.format());
    let mut report = ResealReport::default();
    let answers =
        walk(database, &selection, Depth::Sessions).map_ok(|entry| one(sealed, entry)).try_buffer_unordered(AT_ONCE);
    answers.try_for_each(|answer| future::ready(report.take(answer, &progress, out))).await?;
    progress.finish();
    report.print(sealed.current_key(), out)
}

/// An owner of state, and how many of its values were encrypted again.
struct ResealOutcome {
    of: OwnerKind,
    outcome: Result<u64, Error>,
}

#[derive(Clone, Copy)]
enum OwnerKind {
    App,
    User,
    Session,
}

/// Processes one entry. An error that concerns more than the entry, such as a missing key, ends the command.
async fn one(sealed: &EncryptedSessions, entry: WalkEntry) -> Result<ResealOutcome, CommandFailure> {
    let (of, outcome) = match entry {
        WalkEntry::Owner(owner) => {
            let of = if owner.user_id().is_some() { OwnerKind::User } else { OwnerKind::App };
            (of, sealed.reseal_state(&owner).await)
        }
        WalkEntry::Session(session) => (OwnerKind::Session, unless_deleted(sealed, session.key()).await),
        WalkEntry::Named(key) => (OwnerKind::Session, sealed.reseal_session(&key).await),
        WalkEntry::Unlisted(_, error) => (OwnerKind::User, Err(error)),
    };
    match outcome {
        Err(error) if error.kind() != ErrorKind::DataCorrupted => Err(error.into()),
        outcome => Ok(ResealOutcome { of, outcome }),
    }
}

/// Encrypts a listed session, which may have been deleted since.
async fn unless_deleted(sealed: &EncryptedSessions, key: &SessionKey) -> Result<u64, Error> {
    match sealed.reseal_session(key).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        outcome => outcome,
    }
}

/// The numbers of owners, sessions and values that were encrypted again.
#[derive(Debug, Default)]
struct ResealReport {
    values: u64,
    apps: u64,
    users: u64,
    sessions: u64,
    /// The errors for values that cannot be decrypted.
    unreadable: Vec<String>,
}

impl ResealReport {
    fn take(
        &mut self,
        ResealOutcome { of, outcome }: ResealOutcome,
        progress: &Progress,
        out: &mut Output,
    ) -> Result<(), CommandFailure> {
        let values = match outcome {
            Ok(values) => values,
            Err(error) => {
                let message = error.to_string();
                if out.format() == Format::Text {
                    progress.aside(|| out.line(format_args!("{}  {}", styled(BAD, "left"), visible(&message))))?;
                }
                self.unreadable.push(message);
                return Ok(());
            }
        };
        if values > 0 {
            self.values += values;
            match of {
                OwnerKind::App => self.apps += 1,
                OwnerKind::User => self.users += 1,
                OwnerKind::Session => self.sessions += 1,
            }
        }
        progress.show(self.counts());
        Ok(())
    }

    fn counts(&self) -> String {
        let Self { values, apps, users, sessions, .. } = self;
        let (apps, users, sessions) = (plural(*apps, "app"), plural(*users, "user"), plural(*sessions, "session"));
        format!("{} of {apps}, {users}, {sessions}", plural(*values, "value"))
    }

    fn print(self, key: &str, out: &mut Output) -> Result<(), CommandFailure> {
        let Self { values, apps, users, sessions, unreadable } = &self;
        if out.format() == Format::Json {
            let resealed = json!({"values": values, "apps": apps, "users": users, "sessions": sessions});
            out.json(&json!({"key": key, "resealed": resealed, "unreadable": unreadable}))?;
        } else {
            out.line(format_args!("resealed by the key '{key}': {}", self.counts()))?;
            let rest =
                "Events, initial states, logs, artifacts, titles and labels have the keys they had: keep those keys.";
            out.line(styled(DIM, rest))?;
        }
        if unreadable.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{} of the apps, users and sessions have a value that cannot be opened, and stay as they are",
            unreadable.len()
        );
        Err(Error::new(ErrorKind::DataCorrupted, message).into())
    }
}
