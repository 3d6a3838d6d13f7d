//! A store on Agent Engine Sessions of Vertex AI, which uses Google's own client.
//!
//! It works with every server of that API, including `scratchbook serve`.

mod append;
mod artifact;
mod connection;
mod events;
mod failure;
mod message;
mod names;
mod operation;
mod options;
mod owners;
mod retry;
mod sessions;
mod unsupported;
mod uri;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use google_cloud_aiplatform_v1::client::SessionService as GoogleClient;

use self::names::ResourceNames;
use self::owners::CheckedOwners;
use self::retry::Patience;
use self::unsupported::{IN_SESSION, OTHER_STORE, unsupported};
use scratchbook_core::environment::Environment;
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, Capabilities, Committed, CreateSessionConfig, GetSessionConfig, ListSessionsConfig,
    ListSessionsResponse, Prune, Session, SessionKey, SessionService, SessionUpdate, unsupported_sessions,
};
use scratchbook_core::store::closed;

pub use options::{VertexAiCredentials, VertexAiOptions};

/// Keeps sessions in Agent Engine Sessions of Vertex AI, or in another server with the same API.
///
/// The API supports less than this crate's own stores. Unsupported operations fail with `Unsupported`;
/// `docs/vertex-store.md` in the repository lists them. An app is a reasoning engine: its name is the engine's id or
/// its full name, unless the options name one engine for all apps.
///
/// Events have numbers only if a session is read from its beginning, because the API has no numbers. So
/// [`refresh`](scratchbook_core::session::SessionServiceExt::refresh) reads from the beginning as well.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// use scratchbook::store::{VertexAiOptions, VertexAiSessionService};
/// use scratchbook::SessionService;
///
/// let options = VertexAiOptions::new("my-project", "us-central1").with_reasoning_engine("1234567890");
/// let sessions = VertexAiSessionService::open(options).await?;
/// let session = sessions.create_session("shop", "alice", Default::default()).await?;
/// # Ok(()) }
/// ```
pub struct VertexAiSessionService {
    client: GoogleClient,
    names: ResourceNames,
    owners: CheckedOwners,
    endpoint: String,
    create_timeout: Duration,
    patience: Patience,
    environment: Arc<dyn Environment>,
    closed: AtomicBool,
}

impl fmt::Debug for VertexAiSessionService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VertexAiSessionService").field("endpoint", &self.endpoint).field("place", &self.names).finish()
    }
}

impl VertexAiSessionService {
    /// Connects to the sessions at a URI, which [`VertexAiOptions::from_uri`] parses.
    ///
    /// # Errors
    ///
    /// As [`VertexAiOptions::from_uri`] and [`open`](Self::open).
    pub async fn connect(uri: &str) -> Result<Self> {
        Self::open(VertexAiOptions::from_uri(uri)?).await
    }

    /// Connects with options. Nothing is sent to the server before the first call. If Google's application-default
    /// credentials are used, this asks them for a token.
    ///
    /// The service belongs to the Tokio runtime in which it was opened, and does not outlive it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if an option is invalid, or if credentials would be sent unencrypted; `Unauthenticated` if no
    /// application-default credentials give a token; `FailedPrecondition` outside of a Tokio runtime.
    pub async fn open(options: VertexAiOptions) -> Result<Self> {
        let client = connection::build(&options).await?;
        Ok(Self {
            client,
            names: ResourceNames::new(&options.project, &options.location, options.reasoning_engine.as_deref()),
            owners: CheckedOwners::default(),
            endpoint: options.endpoint(),
            create_timeout: options.create_timeout,
            patience: Patience(options.retry_timeout),
            environment: options.environment,
            closed: AtomicBool::new(false),
        })
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }
}

#[async_trait]
impl SessionService for VertexAiSessionService {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    unsupported_sessions!(IN_SESSION => get_state, state_bytes, list_state, put_state);
    unsupported_sessions!(OTHER_STORE =>
        get_initial_state, get_state_at, blame, list_state_changes, list_feed, commits, list_event_hashes);
    unsupported_sessions!("create a session with the state, and append the events to it" => fork_session);
    unsupported_sessions!("list the sessions of each engine" => list_owners);
    unsupported_sessions!("delete the user's sessions one by one" => delete_user);

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        self.check_open()?;
        self.create(app_name, user_id, config).await
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        self.check_open()?;
        self.read(key, config).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        self.check_open()?;
        self.list(app_name, config).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        self.check_open()?;
        self.locate(app_name, session_id).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.check_open()?;
        self.delete(key).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        self.check_open()?;
        self.append_to(key, event, options).await
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        self.check_open()?;
        self.change(key, update).await
    }

    /// The server deletes expired sessions itself, so there are no expired sessions to prune.
    async fn prune(&self, what: Prune, _: usize) -> Result<u64> {
        self.check_open()?;
        match what {
            Prune::Expired => Ok(0),
            Prune::Events { .. } => Err(unsupported("no pruning of events", "let sessions expire, or delete them")),
            Prune::StateLog { .. } => Err(unsupported("no log of state", OTHER_STORE)),
        }
    }

    async fn check_writable(&self) -> Result<Vec<String>> {
        // Makes no test write, because it could not be rolled back.
        self.check_open().map(|()| Vec::new())
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}
