//! The store that is measured, and the sessions that it begins with.

use std::path::PathBuf;
use std::sync::Arc;

use scratchbook::{CreateSessionConfig, GetSessionConfig, Session, SessionService, connect};
use scratchbook_compare::protocol::Hello;
use tokio::runtime::Runtime;

use crate::events::{APP, created, events};
use crate::failure::{CellFailure, Result};

/// A store with a runtime to use it on.
pub(crate) struct BenchStore {
    pub(crate) runtime: Runtime,
    pub(crate) sessions: Arc<dyn SessionService>,
    /// `memory`, `sqlite` or `postgres`.
    pub(crate) store: String,
    /// The folder, or the address of the database.
    pub(crate) location: String,
}

impl BenchStore {
    pub(crate) fn open(store: &str, location: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let sessions = runtime.block_on(connect(&uri(store, location)?))?.sessions;
        Ok(Self { runtime, sessions, store: store.to_owned(), location: location.to_owned() })
    }

    pub(crate) fn hello(&self) -> Hello {
        let configuration = match self.store.as_str() {
            "memory" => "the store in memory, as it comes; mimalloc",
            "sqlite" => {
                "one file, as it comes: WAL, synchronous=full, each append on the disk when it is acknowledged; mimalloc"
            }
            _ => {
                "as it comes: pool of 10 connections, batched statements, synchronous_commit of the server (on); mimalloc"
            }
        };
        Hello {
            system: "scratchbook".to_owned(),
            service: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store: self.store.clone(),
            configuration: configuration.to_owned(),
        }
    }

    /// Creates a session of a new user. The session begins with this many events.
    pub(crate) async fn session(&self, id: &str, events_before: u64) -> Result<Session> {
        let config = CreateSessionConfig::default().with_session_id(id).with_events(events(events_before)?);
        Ok(self.sessions.create_session(APP, &format!("user-{id}"), config).await?)
    }

    /// Returns a session of this length. It is created once, and kept for later rounds.
    pub(crate) async fn kept_session(&self, events_before: u64) -> Result<Session> {
        let id = format!("kept-{events_before}");
        let key = scratchbook::SessionKey::new(APP, &format!("user-{id}"), &id)?;
        match self.sessions.get_session(&key, &GetSessionConfig::state_only()).await? {
            Some(session) => Ok(session),
            None => self.session(&id, events_before).await,
        }
    }

    /// Creates a session and prints that this is done.
    pub(crate) fn first_answer(&self) -> Result<()> {
        self.runtime.block_on(async {
            let user = format!("user-{}", uuid::Uuid::now_v7());
            self.sessions.create_session(APP, &user, CreateSessionConfig::default().with_state(created())).await?;
            println!("done");
            // The process ends now, without closing the store: a user would not wait for this either.
            Ok(())
        })
    }

    /// Returns the folder of a store in files.
    pub(crate) fn folder(&self) -> PathBuf {
        self.location.clone().into()
    }
}

pub(crate) fn uri(store: &str, location: &str) -> Result<String> {
    match store {
        "memory" => Ok("memory:".to_owned()),
        "sqlite" => Ok(format!("sqlite://{location}/sessions.db")),
        "postgres" => Ok(location.to_owned()),
        other => Err(CellFailure::Unsupported(format!("the store {other} is unknown"))),
    }
}
