//! The work of a recorded process: it appends, deletes and copies, closes and reopens the database, and prints what is
//! acknowledged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scratchbook::store::SqliteOptions;
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, Result, SessionKey, SessionService, SqliteSessionService,
    StateDelta,
};
use serde_json::json;

use super::Durability;

/// The app of all sessions, and the user whose sessions are not deleted.
pub(super) const APP: &str = "app";
pub(super) const USER: &str = "alice";

/// The user whose sessions are deleted.
pub(super) const GONE: &str = "gone";

/// The sessions.
pub(super) const SESSIONS: [&str; 4] = ["0", "1", "2", "3"];

/// How many tasks append at the same time.
const WRITERS: usize = 8;

/// How often a process opens the database.
const TIMES: usize = 2;

/// What a recorded process does.
#[derive(Debug, clap::Args)]
pub struct Work {
    /// The database's file.
    pub database: PathBuf,
    /// When a commit is acknowledged.
    #[arg(long)]
    pub setting: Durability,
    /// About how many events are appended.
    #[arg(long)]
    pub events: usize,
    /// A name that no other process has had on this database.
    #[arg(long)]
    pub name: String,
    /// The seed of what is appended.
    #[arg(long)]
    pub seed: u64,
}

impl Work {
    /// Does the work.
    ///
    /// # Errors
    /// The error of a call that the database refuses.
    pub async fn run(&self) -> Result<()> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        for time in 0..TIMES {
            let service = Arc::new(open(&self.database, self.setting).await?);
            for session in SESSIONS {
                create(&service, &key(USER, session)?).await?;
            }
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let name = format!("{}-{time}-{writer}", self.name);
                    let (count, random) = (self.events / TIMES / WRITERS, random.fork());
                    tokio::spawn(append(Arc::clone(&service), name, SESSIONS[writer % SESSIONS.len()], count, random))
                })
                .collect();
            self.delete(&service, time).await?;
            if random.bool() {
                self.copy(&service, time).await?;
            }
            for writer in writers {
                writer.await.map_err(|error| scratchbook::Error::internal("a writer").with_source(error))??;
            }
            service.close().await?;
        }
        Ok(())
    }

    /// Makes a session and deletes it.
    async fn delete(&self, service: &SqliteSessionService, time: usize) -> Result<()> {
        let name = format!("{}-{time}", self.name);
        let key = key(GONE, &name)?;
        create(service, &key).await?;
        let delta = StateDelta::new().with("text", secret(&name))?;
        service.append(&key, Event::new("agent").with_state_delta(delta), AppendOptions::default()).await?;
        service.delete_session(&key).await?;
        println!("deleted {name}");
        Ok(())
    }

    async fn copy(&self, service: &SqliteSessionService, time: usize) -> Result<()> {
        let name = format!("copy-{}-{time}.db", self.name);
        service.backup(self.database.with_file_name(&name)).await?;
        println!("copied {name}");
        Ok(())
    }
}

/// Opens the database.
pub(super) async fn open(path: &Path, setting: Durability) -> Result<SqliteSessionService> {
    SqliteSessionService::open(path, SqliteOptions::default().with_synchronous(setting.into())).await
}

pub(super) fn key(user: &str, session: &str) -> Result<SessionKey> {
    SessionKey::new(APP, user, session)
}

/// Returns the text of a session that is deleted.
pub(super) fn secret(session: &str) -> String {
    format!("the text of {session}, which was deleted")
}

async fn create(service: &SqliteSessionService, key: &SessionKey) -> Result<()> {
    let config = CreateSessionConfig::default().with_session_id(key.session_id());
    match service.create_session(key.app_name(), key.user_id(), config).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

async fn append(
    service: Arc<SqliteSessionService>,
    name: String,
    session: &str,
    count: usize,
    mut random: fastrand::Rng,
) -> Result<()> {
    let key = key(USER, session)?;
    for n in 0..count {
        let length = if random.u8(..20) == 0 { random.usize(..30_000) } else { random.usize(..2_000) };
        let mut delta = StateDelta::new();
        delta.set(format!("step_{}", n % 7), json!({"by": name, "text": "x".repeat(length)}))?;
        delta.remove(format!("step_{}", (n + 3) % 7))?;
        delta.set("user:last", name.as_str())?;
        if n % 5 == 0 {
            delta.set(format!("app:count_{}", n % 3), n)?;
            delta.remove(format!("user:gone_{}", n % 2))?;
        }
        let id = format!("{name}-{n}");
        let event = Event::new("agent").with_id(id.as_str()).with_state_delta(delta);
        let stored = service.append(&key, event, AppendOptions::default()).await?.event;
        println!("stored {session} {} {id}", stored.seq.unwrap_or_default());
    }
    Ok(())
}
