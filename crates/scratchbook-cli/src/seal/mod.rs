//! `scratchbook seal`: writes the hashes of what is stored, by which a later `verify --against` finds what was changed.

mod against;
mod file;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt;
use scratchbook::plan::text_hash;
use scratchbook::session::{
    ChangeQuery, FeedCommit, FeedStart, GetSessionConfig, ListStateConfig, SessionService, StateOwner,
};
use scratchbook::state::Scope;
use scratchbook::{Error, ErrorKind, SessionKey};
use serde_json::{Value, json};

pub(crate) use self::against::against;
use self::file::{Head, Line, Places, SealReader, SealWriter, VERSION, hex};
use crate::args::SealArgs;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{Format, Output, plural, visible};
use crate::partial_file::PartialFile;
use crate::progress::Progress;
use crate::walk::{Depth, Selection, WalkEntry, walk};

/// How many events, keys or entries of a feed are read at a time.
const PAGE: usize = 500;

/// How often a session's keys are read again because the session was written to meanwhile.
const TRIES: u32 = 20;

/// An app whose feed names the database. It need not exist.
const NAMING_APP: &str = "scratchbook";

pub(crate) async fn seal(database: &OpenDatabase, args: SealArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let name = name_of(database).await?;
    let since = match &args.since {
        None => None,
        Some(path) => {
            let (head, hash) = SealReader::check(path)?;
            is_of(&head, &name, path)?;
            Some((head.to, hash))
        }
    };
    // The places are taken before anything is read, so that what is committed meanwhile is in the next seal.
    let mut to = Places::new();
    let apps = walk(database, &Selection::Everything, Depth::Owners);
    let mut apps = std::pin::pin!(apps);
    while let Some(entry) = apps.try_next().await? {
        if let WalkEntry::Owner(app @ StateOwner::App { .. }) = entry {
            let now = database.sessions.list_feed(&app, &FeedStart::Now, 1).await?;
            to.insert(app.app_name().to_owned(), now.cursor);
        }
    }
    let unfinished = PartialFile::new(&args.to);
    let progress = Progress::counting("sealing", out.format());
    let mut writer = SealWriter::create(&args.to)?;
    let (from, previous) = since.unzip();
    writer.write(&Head { seal: VERSION, database: name, from: from.clone(), to: to.clone(), previous })?;
    match from {
        None => everything(database, &mut writer, &progress).await?,
        Some(from) => {
            for app in to.keys() {
                since_place(database, app, from.get(app).cloned(), &mut writer, &progress).await?;
            }
        }
    }
    let (events, states) = writer.end()?;
    unfinished.keep();
    progress.finish();
    let file = args.to.display().to_string();
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"file": file, "sealed": {"events": events, "values": states}}))?);
    }
    Ok(out.line(format_args!(
        "sealed {} and {} of state in {}",
        plural(events, "event"),
        plural(states, "value"),
        visible(&file)
    ))?)
}

/// Returns the name of the database, which is part of every cursor of its feeds.
pub(super) async fn name_of(database: &OpenDatabase) -> Result<String, Error> {
    let now = database.sessions.list_feed(&StateOwner::app(NAMING_APP)?, &FeedStart::Now, 1).await?;
    Ok(now.cursor.feed().to_owned())
}

/// Refuses the seal of another database.
pub(super) fn is_of(head: &Head, name: &str, path: &std::path::Path) -> Result<(), Error> {
    if head.database == name {
        return Ok(());
    }
    let message = format!("the seal {} is of another database", path.display());
    Err(Error::new(ErrorKind::FailedPrecondition, message))
}

/// Returns the hash of a value as a seal has it.
pub(super) fn value_hash(value: &Value) -> String {
    hex(&text_hash(&value.to_string()))
}

/// Seals all that is stored.
async fn everything(
    database: &OpenDatabase,
    writer: &mut SealWriter,
    progress: &Progress,
) -> Result<(), CommandFailure> {
    let entries = walk(database, &Selection::Everything, Depth::Sessions);
    let mut entries = std::pin::pin!(entries);
    while let Some(entry) = entries.try_next().await? {
        match entry {
            WalkEntry::Owner(owner) => {
                let mut config = ListStateConfig::default().with_page_size(PAGE);
                loop {
                    let page = database.sessions.list_state(&owner, &config).await?;
                    for name in page.values.keys() {
                        shared_key(database, &owner, name, writer).await?;
                    }
                    config.after = page.next;
                    if config.after.is_none() {
                        break;
                    }
                }
            }
            WalkEntry::Session(session) => {
                events(database, session.key(), 0, u64::MAX, writer).await?;
                own_keys(database, session.key(), writer).await?;
            }
            WalkEntry::Named(_) => {}
            WalkEntry::Unlisted(_, error) => return Err(error.into()),
        }
        progress.show(plural(writer.events, "event"));
    }
    Ok(())
}

/// Seals what was committed to an app after a place in its feed; all of it if there is no place.
async fn since_place(
    database: &OpenDatabase,
    app: &str,
    from: Option<scratchbook::session::FeedCursor>,
    writer: &mut SealWriter,
    progress: &Progress,
) -> Result<(), CommandFailure> {
    let owner = StateOwner::app(app)?;
    let mut start = from.map_or(FeedStart::Beginning, FeedStart::After);
    loop {
        let page = database.sessions.list_feed(&owner, &start, PAGE).await?;
        if page.entries.is_empty() {
            return Ok(());
        }
        // The numbers of the first and the last event to seal; a session without events has (1, 0).
        let mut sessions: BTreeMap<SessionKey, (u64, u64)> = BTreeMap::new();
        let mut keys: BTreeSet<(StateOwner, String)> = BTreeSet::new();
        for entry in page.entries {
            match entry.commit {
                FeedCommit::Event { session, event } => {
                    for (key, _) in event.actions.state_delta.iter() {
                        match Scope::split(key) {
                            (Scope::User, name) => drop(keys.insert((session.user(), name.to_owned()))),
                            (Scope::App, name) => drop(keys.insert((session.app(), name.to_owned()))),
                            _ => {}
                        }
                    }
                    let seq = event.seq.unwrap_or_default();
                    let (first, last) = sessions.entry(session).or_insert((seq, seq));
                    *first = seq.min(*first);
                    *last = seq.max(*last);
                }
                // The events that a fork has copied are in no feed.
                FeedCommit::Created { session, forked_at, .. } => {
                    let (first, last) = sessions.entry(session).or_insert((1, 0));
                    *first = 1;
                    *last = forked_at.unwrap_or_default().max(*last);
                }
                FeedCommit::State { owner, changes } => {
                    keys.extend(changes.into_iter().map(|change| (owner.clone(), change.name)));
                }
                _ => {}
            }
        }
        for (key, (first, last)) in &sessions {
            events(database, key, first.saturating_sub(1), *last, writer).await?;
            own_keys(database, key, writer).await?;
        }
        for (owner, name) in &keys {
            shared_key(database, owner, name, writer).await?;
        }
        progress.show(plural(writer.events, "event"));
        start = FeedStart::After(page.cursor);
    }
}

/// Seals the events of a session after a number, up to another. A session that was deleted meanwhile has none.
async fn events(
    database: &OpenDatabase,
    key: &SessionKey,
    mut after: u64,
    last: u64,
    writer: &mut SealWriter,
) -> Result<(), CommandFailure> {
    while after < last {
        let most = usize::try_from(last - after).unwrap_or(PAGE).min(PAGE);
        let Some(page) = database.sessions.list_event_hashes(key, after, most).await? else {
            return Ok(());
        };
        let Some(end) = page.events.last().map(|event| event.seq) else {
            return Ok(());
        };
        for event in page.events.into_iter().take_while(|event| event.seq <= last) {
            let (app, user, session) = (key.app_name().into(), key.user_id().into(), key.session_id().into());
            writer.write(&Line::Event(app, user, session, event.seq, event.id, hex(&event.text)))?;
            writer.events += 1;
        }
        after = end;
    }
    Ok(())
}

/// Seals a session's own keys, each with the number of the event that wrote it.
async fn own_keys(database: &OpenDatabase, key: &SessionKey, writer: &mut SealWriter) -> Result<(), CommandFailure> {
    let state_only = GetSessionConfig::state_only();
    for _ in 0..TRIES {
        let Some(session) = database.sessions.get_session(key, &state_only).await? else {
            return Ok(());
        };
        let writers = match database.sessions.blame(key).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        // If the session was written to between the two reads, they do not belong together.
        let after = database.sessions.get_session(key, &state_only.clone().without_state()).await?;
        if after.is_none_or(|after| after.seq() != session.seq()) {
            continue;
        }
        for (name, value) in session.state().iter().filter(|(name, _)| Scope::split(name).0 == Scope::Session) {
            let Some(written) = writers.get(&name) else { continue };
            let (app, user, session) = (key.app_name(), key.user_id().to_owned(), key.session_id().to_owned());
            let hash = value_hash(value);
            writer.write(&Line::State(app.into(), Some(user), Some(session), name, written.seq, hash))?;
            writer.states += 1;
        }
        return Ok(());
    }
    let message = format!("the session {key} was changed all the time; seal it when it is quieter");
    Err(Error::new(ErrorKind::Conflict, message).into())
}

/// Seals the last write to a key of a user or an app, unless the write removed the key.
async fn shared_key(
    database: &OpenDatabase,
    owner: &StateOwner,
    name: &str,
    writer: &mut SealWriter,
) -> Result<(), CommandFailure> {
    let last = ChangeQuery::of_key(name, u64::MAX);
    let Some(change) = database.sessions.list_state_changes(owner, &last, 1).await?.into_iter().next() else {
        return Ok(());
    };
    let Some(value) = &change.value else { return Ok(()) };
    let (app, user) = (owner.app_name().to_owned(), owner.user_id().map(str::to_owned));
    writer.write(&Line::State(app, user, None, change.name, change.version, value_hash(value)))?;
    writer.states += 1;
    Ok(())
}
