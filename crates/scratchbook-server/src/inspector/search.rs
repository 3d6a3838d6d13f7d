//! The search for sessions: by title, by label, and by id.

use scratchbook::session::ListSessionsConfig;
use scratchbook::{ErrorKind, GetSessionConfig, Result, Session, SessionKey};

use super::address::encoded;
use crate::access::Caller;
use crate::app_state::AppState;

/// How many sessions a page has.
pub(super) const SESSIONS: usize = 50;

/// How many pages of the store are read at most for one page of results.
const PAGES: usize = 10;

/// About how many bytes of state are read with a page of sessions. The list does not show the state.
const BYTES: u64 = 1 << 20;

/// A page of sessions.
#[derive(Debug, Default)]
pub(super) struct SearchPage {
    /// The session with the id that was searched for.
    pub(super) by_id: Option<Session>,
    pub(super) sessions: Vec<Session>,
    /// The token of the next page.
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
    /// The errors of the store.
    pub(super) async fn run(
        self,
        app_state: &AppState,
        caller: &Caller,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<SearchPage> {
        let text = self.text.trim();
        let mut config = ListSessionsConfig::default().newest_first().with_page_size(SESSIONS).with_page_bytes(BYTES);
        config.user_id = user_id.map(str::to_owned);
        config.page_token = self.token.map(str::to_owned);
        let config = match text.split_once('=') {
            _ if text.is_empty() => config,
            Some((name, value)) => config.with_label(name.trim(), value.trim()),
            None => config.with_title_containing(text),
        };
        let mut found = SearchPage::default();
        if !text.is_empty() && self.token.is_none() {
            found.by_id = by_id(app_state, caller, app_name, user_id, text).await?;
        }
        self.list(app_state, app_name, config, &mut found).await?;
        if let Some(session) = &found.by_id {
            found.sessions.retain(|other| other.key() != session.key());
        }
        Ok(found)
    }

    /// Reads up to `PAGES` pages until one has sessions, since a page of a search may be empty although others follow.
    async fn list(
        self,
        app_state: &AppState,
        app_name: &str,
        mut config: ListSessionsConfig,
        found: &mut SearchPage,
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

    /// Returns the query of the next page.
    pub(super) fn query(self, token: &str) -> String {
        format!("?find={}&page={}", encoded(self.text), encoded(token))
    }
}

/// Returns the session with this id, if the caller may access it.
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
            // The text is not an id, several users have a session with this id, or the store cannot find sessions by
            // id.
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
