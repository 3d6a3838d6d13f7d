//! Secret keys: their values are kept out of feeds, logs and templates.

use async_trait::async_trait;

use crate::error::Result;
use crate::session::{
    CreateSessionConfig, FeedPage, FeedStart, ForkConfig, GetSessionConfig, ListSessionsConfig, ListSessionsResponse,
    SecretKeys, Session, SessionKey, SessionService, StateOwner, forward_sessions,
};

/// A service with secret keys. Calls that read or write the session or the state treat these keys like any others. In
/// other places, the values are hidden:
///
/// - feeds and watchers name the key, with the string `[secret]` instead of its value, unless the keys are
///   [`shown_in_feeds`](SecretKeys::shown_in_feeds);
/// - instruction templates refuse to insert them, unless the run allows it by `RunConfig::with_secrets_in_templates`
///   (feature `agent`);
/// - `Debug` of a session does not show them.
///
/// Messages of agents and arguments of tools are not searched for these values. In the database the keys are stored
/// like any others; `WithEncryption` encrypts them. `WithSecretKeys` has to be the outermost layer.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::layer::WithSecretKeys;
/// use scratchbook::session::{FeedCommit, SecretKeys};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sessions = WithSecretKeys::new(InMemorySessionService::new(), SecretKeys::new(["user:secret:"]));
/// let config = CreateSessionConfig::default().with_state(json!({"user:secret:pin": 1234}));
/// let session = sessions.create_session("bank", "alice", config).await?;
/// assert_eq!(session.state().get("user:secret:pin"), Some(&json!(1234)));
/// assert!(!format!("{session:?}").contains("1234"));
///
/// let feed = sessions.list_feed(&StateOwner::user("bank", "alice")?, &FeedStart::Beginning, 10).await?;
/// let FeedCommit::State { changes, .. } = &feed.entries[0].commit else { panic!() };
/// assert_eq!((changes[0].name.as_str(), &changes[0].value), ("secret:pin", &Some(json!("[secret]"))));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct WithSecretKeys<S> {
    service: S,
    secret: SecretKeys,
}

impl<S> WithSecretKeys<S> {
    /// Marks keys of a service as secret.
    #[must_use]
    pub fn new(service: S, secret: SecretKeys) -> Self {
        Self { service, secret }
    }

    fn mark(&self, session: Session) -> Session {
        session.with_secret_keys(&self.secret)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService> SessionService for WithSecretKeys<S> {
    forward_sessions!(self.service =>
        capabilities, get_initial_state, get_state_at, blame, locate_session, delete_session, append, get_state, state_bytes,
        list_state, put_state, list_state_changes, commits, update_session, prune, list_event_hashes, list_owners, delete_user,
        check_writable, close);

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        Ok(self.mark(self.service.create_session(app_name, user_id, config).await?))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        Ok(self.service.get_session(key, config).await?.map(|session| self.mark(session)))
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        Ok(self.mark(self.service.fork_session(key, config).await?))
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        let mut page = self.service.list_sessions(app_name, config).await?;
        page.sessions = page.sessions.into_iter().map(|session| self.mark(session)).collect();
        Ok(page)
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let mut page = self.service.list_feed(owner, start, limit).await?;
        page.entries = page.entries.into_iter().map(|entry| self.secret.hide(entry)).collect();
        Ok(page)
    }
}
