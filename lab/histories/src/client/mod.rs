//! How transactions reach a store: by the library or over HTTP.

mod elsewhere;
mod http;
mod library;

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use scratchbook::SessionKey;
use scratchbook::session::StateOwner;
use serde_json::{Map, Value};

pub use elsewhere::ReadElsewhere;
pub use http::HttpClient;
pub use library::LibraryClient;

/// Lists by their keys, without lists that have no element yet.
pub type Lists = BTreeMap<String, Vec<u64>>;

/// An event to append.
#[derive(Clone, Debug)]
pub struct EventAppend {
    /// The id of the event. A store recognizes a retry by this id.
    pub event_id: String,
    /// The elements to append, by the keys of their lists.
    pub elements: Vec<(String, u64)>,
    /// The version that the writer has seen. If it is set, the write is refused if one of these keys was written after
    /// that version.
    pub seen: Option<SeenVersion>,
}

/// What a reader has seen, in the client's form.
#[derive(Clone, Debug)]
pub enum SeenVersion {
    /// The library's form.
    Library(scratchbook::session::Seen),
    /// The form of `/v1`.
    Json(Value),
}

/// A committed event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedEvent {
    /// The number of the event in its session.
    pub seq: u64,
    /// The lists after the event.
    pub lists: Lists,
}

/// Keys of a session's state, read at one time.
#[derive(Clone, Debug)]
pub struct StateView {
    /// The lists.
    pub lists: Lists,
    /// The version of the state that they were read from.
    pub seen: SeenVersion,
}

/// An event of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// The session's id.
    pub session: String,
    /// The number of the event in its session.
    pub seq: u64,
    /// The id of the event.
    pub event_id: String,
    /// The lists that the event changed, as they were after it.
    pub lists: Lists,
}

/// A page of the feed, and the position of the next page.
#[derive(Clone, Debug)]
pub struct FeedPart {
    /// The events.
    pub events: Vec<FeedEvent>,
    /// The position after the events.
    pub cursor: String,
    /// Whether the feed ended here.
    pub is_end: bool,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// A key was written after the writer had seen it. Nothing was done.
    Conflict,
    /// The store refused the call. Nothing was done.
    Refused(String),
    /// The call did not reach the store, or the store cannot serve it now. Nothing was done.
    NotDone(String),
    /// The call may have been carried out, or may still be carried out later.
    Unknown(String),
    /// The store says that it has a defect, or that stored data is damaged. The outcome is unknown.
    Broken(String),
}

impl CallFailure {
    /// Returns whether the store has not answered the call, so that it can be repeated.
    #[must_use]
    pub fn is_without_answer(&self) -> bool {
        matches!(self, Self::NotDone(_) | Self::Unknown(_))
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("refused, because a key was written meanwhile"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::NotDone(why) => write!(f, "not carried out: {why}"),
            Self::Unknown(why) => write!(f, "the outcome is unknown: {why}"),
            Self::Broken(why) => write!(f, "a defect: {why}"),
        }
    }
}

impl std::error::Error for CallFailure {}

/// The form of a feed's cursors. A client can continue the feed of another client with the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorForm {
    /// The library's form.
    Library,
    /// The form of `/v1`.
    Http,
}

/// A client of one store or server.
#[async_trait]
pub trait HistoryClient: fmt::Debug + Send + Sync {
    /// Returns the form of its cursors.
    fn cursor_form(&self) -> CursorForm;
    /// Creates a session, unless it exists.
    async fn create(&self, session: &SessionKey) -> Result<(), CallFailure>;
    /// Appends an event.
    async fn append(&self, session: &SessionKey, append: &EventAppend) -> Result<CommittedEvent, CallFailure>;
    /// Reads keys of a session's state, all in one snapshot.
    async fn read(&self, session: &SessionKey, keys: &[String]) -> Result<StateView, CallFailure>;
    /// Reads the session's own keys as they were after an event.
    async fn read_at(&self, session: &SessionKey, seq: u64) -> Result<Lists, CallFailure>;
    /// Reads the next page of the app's feed. Without a cursor, this is the first page.
    async fn feed(&self, app: &str, cursor: Option<&str>) -> Result<FeedPart, CallFailure>;
    /// Checks that the stored state of a session is the state that its events give.
    async fn verify(&self, session: &SessionKey) -> Result<(), CallFailure>;
    /// Checks that the stored state of a user or an app is the state that its log gives.
    async fn verify_state(&self, owner: &StateOwner) -> Result<(), CallFailure>;
}

/// Returns the lists among the values of a state or a delta.
fn lists_in(values: &Map<String, Value>) -> Lists {
    let lists = values.iter().filter_map(|(key, value)| {
        let elements = value.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
        Some((key.clone(), elements))
    });
    lists.collect()
}
