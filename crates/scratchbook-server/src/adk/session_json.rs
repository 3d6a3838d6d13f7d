//! The JSON of whole sessions for ADK's clients. A session is read page by page as one snapshot, and is no larger than
//! an answer may be.

use axum::response::Response;
use scratchbook::environment::Deadline;
use scratchbook::json::bytes_of;
use scratchbook::session::ListSessionsConfig;
use scratchbook::{Error, ErrorKind, GetSessionConfig, Result, Scope, Session, SessionKey};

use super::shape;
use crate::access::Caller;
use crate::answers::{self, Share, is_out_of_memory, too_large};
use crate::app_state::AppState;
use crate::heavy::{is_small, off_worker};

/// Prefixes of the ids of sessions that ADK's evaluation creates. ADK's lists leave out these sessions.
const OF_EVALUATION: [&str; 2] = ["adk-eval-session-", "___eval___session___"];

/// The number of events in the first read.
const FIRST_PAGE: usize = 500;
/// The maximum number of events or sessions in one read.
const PAGE: usize = 1000;

/// A session whose stored size is this many times the limit of an answer is refused before it is written.
const MUCH_TOO_LARGE: u64 = 4;

/// The advice to a client whose session is too large.
const OF_SESSION: &str = "ask for the last events alone by ?num_recent_events=N, or for pages of them at \
    /v1/apps/{app}/users/{user}/sessions/{session}/events";

/// How many times a read is tried, because the session may be created again or pruned during the read.
const TRIES: u32 = 3;

/// Returns a session with its last events, or with all events if no number is given. Returns `None` if there is no such
/// session.
///
/// The state and the last event number on the first page form a snapshot. Events up to that number do not change, so
/// the later pages belong to the same snapshot.
///
/// # Errors
///
/// `PayloadTooLarge` if the session has more bytes than an answer may have.
pub(super) async fn session(
    app_state: &AppState,
    caller: &Caller,
    key: &SessionKey,
    last: Option<usize>,
) -> Result<Option<Response>> {
    match settled(app_state, caller, key, last).await? {
        SessionRead::Whole(text) => Ok(Some(text.ready())),
        SessionRead::Missing => Ok(None),
        SessionRead::Moved => Err(moved(key)),
    }
}

/// Reads a session up to [`TRIES`] times.
async fn settled(app_state: &AppState, caller: &Caller, key: &SessionKey, last: Option<usize>) -> Result<SessionRead> {
    for _ in 1..TRIES {
        match read(app_state, caller, key, last).await? {
            SessionRead::Moved => {}
            read => return Ok(read),
        }
    }
    read(app_state, caller, key, last).await
}

fn moved(key: &SessionKey) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the session {key} was changed all the time; try again"))
}

/// Returns the response for a session that has already been read.
///
/// # Errors
///
/// The errors of [`session`].
pub(super) async fn at_hand(app_state: &AppState, caller: &Caller, session: Session) -> Result<Response> {
    SessionText::new(app_state, caller).write_session(session).await.map(SessionText::ready)
}

/// Whether an answer failed because it is too long, or because there is no memory for its length just now. A part of it
/// may then be shown after a write, which must not be sent again.
pub(super) fn is_too_long(error: &Error) -> bool {
    error.kind() == ErrorKind::PayloadTooLarge || is_out_of_memory(error)
}

/// Returns a session after a write, as it is now. If the session is [too long](is_too_long) for an answer, or is changed
/// all the time, only its last events are shown, from one read. If its state is too long, the state is left out.
///
/// # Errors
///
/// `PayloadTooLarge` if the session is too large even without events and state.
pub(super) async fn written(app_state: &AppState, caller: &Caller, key: &SessionKey) -> Result<Option<Response>> {
    let unread = match settled(app_state, caller, key, None).await {
        Ok(SessionRead::Whole(text)) => return Ok(Some(text.ready())),
        Ok(SessionRead::Missing) => return Ok(None),
        Ok(SessionRead::Moved) => moved(key),
        Err(error) if is_too_long(&error) => error,
        Err(error) => return Err(error),
    };
    tracing::debug!(error = %unread, "a session that was written to is shown in part");
    let some = GetSessionConfig::default().with_page_bytes(app_state.page_bytes());
    for config in [some.clone(), some.without_state().with_num_recent_events(0)] {
        match app_state.store.sessions.get_session(key, &config).await {
            Err(error) if error.kind() == ErrorKind::PayloadTooLarge => {}
            Err(error) => return Err(error),
            Ok(None) => return Ok(None),
            Ok(Some(session)) => match at_hand(app_state, caller, session).await {
                Err(error) if is_too_long(&error) => {}
                done => return done.map(Some),
            },
        }
    }
    Err(unread)
}

/// Returns all sessions of a user, however many pages they fill.
///
/// Each session contains the state of the user and of the app. This state is shared in memory, but the text repeats it
/// for each session.
///
/// # Errors
///
/// `PayloadTooLarge` if the sessions have more bytes than an answer may have.
pub(super) async fn list(app_state: &AppState, caller: &Caller, app_name: &str, user_id: &str) -> Result<Response> {
    let config = ListSessionsConfig::default().with_user_id(user_id).with_page_size(1000);
    let mut config = config.with_page_bytes(app_state.page_bytes());
    let mut text = SessionText::new(app_state, caller);
    text.instead = "list the sessions page by page at /v1/apps/{app}/users/{user}/sessions";
    loop {
        Deadline::current().check()?;
        let mut page = app_state.store.sessions.list_sessions(app_name, &config).await?;
        config.page_size = next_limit(config.page_size, page.sessions.len());
        page.sessions.retain(|session| !OF_EVALUATION.iter().any(|begin| session.id().starts_with(begin)));
        text = text.write_list(page.sessions).await?;
        let Some(token) = page.next_page_token else { break };
        config = config.with_page_token(token);
    }
    text.out.extend_from_slice(if text.out.is_empty() { b"[]" } else { b"]" });
    Ok(text.ready())
}

/// Returns how many items to request next, if the last read returned `came` of `limit` items. Some stores read more
/// items than fit into a page and drop the rest.
fn next_limit(limit: usize, came: usize) -> usize {
    if came < limit { came.max(1) } else { (limit * 2).min(PAGE) }
}

/// The result of reading a session.
enum SessionRead {
    Whole(SessionText),
    Missing,
    /// The session has changed in the meantime.
    Moved,
}

async fn read(app_state: &AppState, caller: &Caller, key: &SessionKey, last: Option<usize>) -> Result<SessionRead> {
    let sessions = &app_state.store.sessions;
    let page = |after, limit| {
        let config = GetSessionConfig::default().with_events_after(after, limit);
        config.with_page_bytes(app_state.page_bytes())
    };
    let mut limit = FIRST_PAGE;
    let begin = match last {
        None => 0,
        Some(last) => {
            let nothing = GetSessionConfig::state_only().without_state();
            let Some(session) = sessions.get_session(key, &nothing).await? else { return Ok(SessionRead::Missing) };
            session.seq().saturating_sub(last as u64)
        }
    };
    let Some(first) = sessions.get_session(key, &page(begin, limit)).await? else { return Ok(SessionRead::Missing) };
    let Some(to) = first.known_seq() else {
        // A store without event numbers cannot page by them.
        let mut config = GetSessionConfig::default();
        config.num_recent_events = last;
        let Some(whole) = sessions.get_session(key, &config).await? else { return Ok(SessionRead::Missing) };
        return SessionText::new(app_state, caller).write_session(whole).await.map(SessionRead::Whole);
    };
    // Other writers may have appended events since the last number was read.
    let from = last.map_or(begin, |last| to.saturating_sub(last as u64));
    if from == begin && first.events().last().is_none_or(|event| event.seq >= Some(to)) {
        return SessionText::new(app_state, caller).write_session(first).await.map(SessionRead::Whole);
    }
    // A session that is far too large is refused without writing it. The limit is a multiple of an answer's limit,
    // because the shown text may be shorter than the stored text.
    let most = (app_state.limits.answer_bytes as u64).saturating_mul(MUCH_TOO_LARGE);
    if last.is_none() && first.stored_bytes().is_some_and(|bytes| bytes > most) {
        return Err(too_large(app_state.limits.answer_bytes, OF_SESSION));
    }
    let (made, updated, mut after) = (first.create_time(), first.last_update_time(), begin);
    let mut text = SessionText::new(app_state, caller);
    let mut session = first.clone();
    text = text.write(move |out| shape::push_session_head(out, &first)).await?;
    loop {
        Deadline::current().check()?;
        let events: Vec<_> = session.events().iter().filter(|event| event.seq <= Some(to)).cloned().collect();
        let (begins, ends) = (events.first().and_then(|event| event.seq), events.last().and_then(|event| event.seq));
        // Events before the first page may have been pruned. After the first page no event may be missing.
        let is_next = after == begin || begins == Some(after + 1);
        let Some(end) = ends.filter(|_| is_next && session.create_time() == made) else {
            return Ok(SessionRead::Moved);
        };
        after = end;
        limit = next_limit(limit, events.len());
        let write = move |out: &mut Vec<u8>| {
            events
                .iter()
                .filter(|event| event.seq > Some(from))
                .try_for_each(|event| shape::push_next_event(out, event))
        };
        text = text.write(write).await?;
        if after >= to {
            break;
        }
        match sessions.get_session(key, &page(after, limit).without_state()).await? {
            Some(next) => session = next,
            None => return Ok(SessionRead::Moved),
        }
    }
    shape::push_session_end(&mut text.out, updated)?;
    Ok(SessionRead::Whole(text))
}

/// Returns the size in bytes of the user's and the app's state in a session.
fn shared_bytes(session: &Session) -> usize {
    let of = |scope| usize::try_from(bytes_of(&session.state().only(scope))).unwrap_or(usize::MAX);
    of(Scope::User).saturating_add(of(Scope::App))
}

/// The written part of an answer.
struct SessionText {
    out: Vec<u8>,
    share: Share,
    answer_bytes: usize,
    /// The advice to a client whose answer is too large.
    instead: &'static str,
}

impl SessionText {
    fn new(app_state: &AppState, caller: &Caller) -> Self {
        let (share, answer_bytes) = (app_state.answers.share(caller), app_state.limits.answer_bytes);
        Self { out: Vec::new(), share, answer_bytes, instead: OF_SESSION }
    }

    /// Writes more of the answer, on a separate thread and not on a worker of the runtime.
    async fn write(mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<()> + Send + 'static) -> Result<Self> {
        let mut out = std::mem::take(&mut self.out);
        self.out = off_worker(move || write(&mut out).map(|()| out)).await??;
        self.checked()
    }

    async fn write_session(mut self, session: Session) -> Result<Self> {
        if is_small(&session) {
            shape::push_session(&mut self.out, &session)?;
            return self.checked();
        }
        self.write(move |out| shape::push_session(out, &session)).await
    }

    /// Writes the next sessions of a list, up to the size that an answer may have.
    async fn write_list(mut self, sessions: Vec<Session>) -> Result<Self> {
        let (most, is_small) = (self.answer_bytes, is_small(&sessions));
        let instead = self.instead;
        let push = move |out: &mut Vec<u8>| {
            // Often the shared state alone is too large. Its size can be computed without writing it.
            if !is_small && sessions.first().map_or(0, shared_bytes).saturating_mul(sessions.len()) > most {
                return Err(too_large(most, instead));
            }
            // Writing stops once the text exceeds the limit, since the answer is then refused.
            let mut left = sessions.iter();
            while let Some(session) = left.next().filter(|_| out.len() <= most) {
                out.push(if out.is_empty() { b'[' } else { b',' });
                shape::push_session(out, session)?;
            }
            Ok(())
        };
        if is_small {
            push(&mut self.out)?;
            return self.checked();
        }
        self.write(push).await
    }

    fn checked(mut self) -> Result<Self> {
        if self.out.len() > self.answer_bytes {
            return Err(too_large(self.answer_bytes, self.instead));
        }
        self.share.grow_to(self.out.len())?;
        Ok(self)
    }

    fn ready(self) -> Response {
        answers::ready(self.out, Some(self.share))
    }
}
