//! A client that calls a store in this process.

use async_trait::async_trait;
use scratchbook::session::{FeedCommit, FeedCursor, FeedStart, SessionServiceExt, StateOwner};
use scratchbook::state::Change;
use scratchbook::{
    AppendOptions, CreateSessionConfig, Error, ErrorKind, Event, GetSessionConfig, SessionKey, StateDelta, Store,
};

use super::{
    CallFailure, CommittedEvent, CursorForm, EventAppend, FeedEvent, FeedPart, HistoryClient, Lists, SeenVersion,
    StateView, lists_in,
};

/// How many entries a page of the feed has.
const PAGE: usize = 50;

/// Calls a store by the library.
#[derive(Clone, Debug)]
pub struct LibraryClient {
    store: Store,
}

impl LibraryClient {
    /// Creates a client of a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store }
    }
}

#[async_trait]
impl HistoryClient for LibraryClient {
    fn cursor_form(&self) -> CursorForm {
        CursorForm::Library
    }

    async fn create(&self, session: &SessionKey) -> Result<(), CallFailure> {
        let config = CreateSessionConfig::default().with_session_id(session.session_id());
        match self.store.sessions.create_session(session.app_name(), session.user_id(), config).await {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failure(&error)),
            _ => Ok(()),
        }
    }

    async fn append(&self, session: &SessionKey, append: &EventAppend) -> Result<CommittedEvent, CallFailure> {
        let mut delta = StateDelta::new();
        for (key, element) in &append.elements {
            delta.append(key, element).map_err(|e| failure(&e))?;
        }
        let event = Event::new("histories").with_id(append.event_id.as_str()).with_state_delta(delta);
        let options = match &append.seen {
            Some(SeenVersion::Library(seen)) => AppendOptions::by_key(seen.clone()),
            Some(SeenVersion::Json(_)) => {
                return Err(CallFailure::Refused("the version is another client's".to_owned()));
            }
            None => AppendOptions::default(),
        };
        let committed = self.store.sessions.append(session, event, options).await.map_err(|e| failure(&e))?;
        let seq = committed.event.seq.unwrap_or_default();
        Ok(CommittedEvent { seq, lists: changes_of(&committed.event) })
    }

    async fn read(&self, session: &SessionKey, keys: &[String]) -> Result<StateView, CallFailure> {
        let config = GetSessionConfig::state_only().with_state_keys(keys);
        let read = self.store.sessions.get_session(session, &config).await.map_err(|e| failure(&e))?;
        let session = read.ok_or_else(|| CallFailure::Refused(format!("no session {session}")))?;
        Ok(StateView { lists: lists_in(&session.state().to_map()), seen: SeenVersion::Library(session.seen().clone()) })
    }

    async fn read_at(&self, session: &SessionKey, seq: u64) -> Result<Lists, CallFailure> {
        let state = self.store.sessions.get_state_at(session, seq).await.map_err(|e| failure(&e))?;
        Ok(lists_in(&state.to_map()))
    }

    async fn feed(&self, app: &str, cursor: Option<&str>) -> Result<FeedPart, CallFailure> {
        let owner = StateOwner::app(app).map_err(|e| failure(&e))?;
        let start = cursor.map_or(FeedStart::Beginning, |cursor| FeedStart::After(FeedCursor::new(cursor)));
        let page = self.store.sessions.list_feed(&owner, &start, PAGE).await.map_err(|e| failure(&e))?;
        let is_end = page.entries.is_empty() && cursor == Some(page.cursor.as_str());
        let events = page.entries.into_iter().filter_map(|entry| match entry.commit {
            FeedCommit::Event { session, event } => Some(FeedEvent {
                session: session.session_id().to_owned(),
                seq: event.seq.unwrap_or_default(),
                event_id: event.id.to_string(),
                lists: changes_of(&event),
            }),
            _ => None,
        });
        Ok(FeedPart { events: events.collect(), cursor: page.cursor.as_str().to_owned(), is_end })
    }

    async fn verify(&self, session: &SessionKey) -> Result<(), CallFailure> {
        self.store.sessions.verify_session(session).await.map(drop).map_err(|e| failure(&e))
    }

    async fn verify_state(&self, owner: &StateOwner) -> Result<(), CallFailure> {
        self.store.sessions.verify_state(owner).await.map(drop).map_err(|e| failure(&e))
    }
}

fn changes_of(event: &Event) -> Lists {
    let values = event.actions.state_delta.iter().filter_map(|(key, change)| match change {
        Change::Set(value) => Some((key.to_owned(), value.clone())),
        _ => None,
    });
    lists_in(&values.collect())
}

fn failure(error: &Error) -> CallFailure {
    use ErrorKind::{
        AlreadyExists, Conflict, DataCorrupted, FailedPrecondition, Internal, InvalidArgument, NotFound,
        PayloadTooLarge, ResourceExhausted, Unsupported,
    };
    match error.kind() {
        Conflict => CallFailure::Conflict,
        DataCorrupted | Internal => CallFailure::Broken(error.to_string()),
        AlreadyExists | FailedPrecondition | InvalidArgument | NotFound | PayloadTooLarge | Unsupported => {
            CallFailure::Refused(error.to_string())
        }
        ResourceExhausted => CallFailure::NotDone(error.to_string()),
        _ => CallFailure::Unknown(error.to_string()),
    }
}
