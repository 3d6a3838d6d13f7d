//! The search for sessions: by title, by label, and by id.

use scratchbook::session::ListSessionsConfig;
use scratchbook::{ErrorKind, GetSessionConfig, Result, Session, SessionKey};

use super::address::encoded;
use crate::access::Caller;
use crate::app_state::AppState;

/// How many sessions a page has.
pub(super) const SESSIONS: usize = 50;

/// How many pages of a search are looked through for one page that is shown.
const PAGES: usize = 10;

/// About how many bytes of state a page of sessions may have: the list shows none of it.
const BYTES: u64 = 1 << 20;

/// A page of sessions.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The session with the id that was searched for.
    pub(super) by_id: Option<Session>,
    pub(super) sessions: Vec<Session>,
    /// Asks for the next page.
    pub(super) next: Option<String>,
}

/// A search, as a person has written it: `NAME=VALUE` is a label, anything else a part of the title, or an id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search<'a> {
    pub(super) text: &'a str,
    pub(super) token: Option<&'a str>,
}

impl Search<'_> {
    /// Looks for the sessions of a user, or of the whole app.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(super) async fn run(
        self,
        app_state: &AppState,
        caller: &Caller,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<Found> {
        let text = self.text.trim();
        let mut config = ListSessionsConfig::default().newest_first().with_page_size(SESSIONS).with_page_bytes(BYTES);
        config.user_id = user_id.map(str::to_owned);
        config.page_token = self.token.map(str::to_owned);
        let config = match text.split_once('=') {
            _ if text.is_empty() => config,
            Some((name, value)) => config.with_label(name.trim(), value.trim()),
            None => config.with_title_containing(text),
        };
        let mut found = Found::default();
        if !text.is_empty() && self.token.is_none() {
            found.by_id = by_id(app_state, caller, app_name, user_id, text).await?;
        }
        self.list(app_state, app_name, config, &mut found).await?;
        if let Some(session) = &found.by_id {
            found.sessions.retain(|other| other.key() != session.key());
        }
        Ok(found)
    }

    /// A page of a search may be empty although others follow: goes on for a few of them.
    async fn list(
        self,
        app_state: &AppState,
        app_name: &str,
        mut config: ListSessionsConfig,
        found: &mut Found,
    ) -> Result<()> {
        for _ in 0..PAGES {
            let page = app_state.store.sessions.list_sessions(app_name, &config).await?;
            found.sessions.extend(page.sessions);
            found.next = page.next_page_token;
            match &found.next {
                Some(token) if found.sessions.is_empty() => config.page_token = Some(token.clone()),
                _ => break,
            }
        }
        Ok(())
    }

    /// The query of the next page.
    pub(super) fn query(self, token: &str) -> String {
        format!("?find={}&page={}", encoded(self.text), encoded(token))
    }
}

/// The session with this id, within the caller's reach.
async fn by_id(
    app_state: &AppState,
    caller: &Caller,
    app_name: &str,
    user_id: Option<&str>,
    id: &str,
) -> Result<Option<Session>> {
    let key = match user_id {
        Some(user_id) => SessionKey::new(app_name, user_id, id).ok(),
        None => match app_state.store.sessions.locate_session(app_name, id).await {
            Ok(key) => key,
            // It is no id, several users have it, or the store cannot look for it.
            Err(error) if unanswerable(error.kind()) => None,
            Err(error) => return Err(error),
        },
    };
    let Some(key) = key.filter(|key| caller.reaches(app_name, Some(key.user_id()))) else { return Ok(None) };
    app_state.store.sessions.get_session(&key, &GetSessionConfig::state_only().without_state()).await
}

fn unanswerable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidArgument | ErrorKind::FailedPrecondition | ErrorKind::Unsupported)
}
