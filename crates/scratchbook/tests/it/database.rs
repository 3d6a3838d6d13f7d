//! Databases in temporary folders, and other processes that use them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scratchbook::session::{ChangeQuery, StateChange, StateOwner};
use scratchbook::state::fold;
use scratchbook::store::SqliteOptions;
use scratchbook::{
    AppendOptions, CreateSessionConfig, Event, GetSessionConfig, Result, Session, SessionKey, SessionService,
    SessionServiceExt, SqliteSessionService, StateDelta,
};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// Names the database of a child process. Without this variable, a child's test does nothing.
const CHILD: &str = "SCRATCHBOOK_TEST_CHILD";

pub(crate) const APP: &str = "app";
pub(crate) const USER: &str = "alice";

/// A path in its own folder, which is removed with this value.
pub(crate) struct DatabaseFile {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

impl DatabaseFile {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        Self { _folder: folder, path }
    }

    pub(crate) async fn open(&self) -> SqliteSessionService {
        self.try_open(SqliteOptions::default()).await.unwrap()
    }

    pub(crate) async fn open_with(&self, options: SqliteOptions) -> SqliteSessionService {
        self.try_open(options).await.unwrap()
    }

    pub(crate) async fn try_open(&self, options: SqliteOptions) -> Result<SqliteSessionService> {
        SqliteSessionService::open(&self.path, options).await
    }

    /// Returns the path with a suffix.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    /// Runs statements; nobody else may have the file open in this process.
    pub(crate) fn sql(&self, statements: &str) {
        rusqlite::Connection::open(&self.path).unwrap().execute_batch(statements).unwrap();
    }

    /// Returns a command that runs one test of this binary on this database.
    pub(crate) fn child(&self, test: &str) -> Command {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, &self.path).stdout(Stdio::piped());
        child
    }
}

/// Returns the database for this process, if it is a child process.
pub(crate) fn of_parent() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

pub(crate) fn number_from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

pub(crate) async fn open_path(path: &Path) -> SqliteSessionService {
    SqliteSessionService::open(path, SqliteOptions::default()).await.unwrap()
}

pub(crate) fn key(session_id: &str) -> SessionKey {
    SessionKey::new(APP, USER, session_id).unwrap()
}

pub(crate) async fn create(service: &dyn SessionService, session_id: &str, state: Value) -> Session {
    let config = CreateSessionConfig::default().with_session_id(session_id).with_state(state);
    service.create_session(APP, USER, config).await.unwrap()
}

pub(crate) async fn get(service: &dyn SessionService, key: &SessionKey) -> Option<Session> {
    service.get_session(key, &GetSessionConfig::default()).await.unwrap()
}

pub(crate) fn event(delta: StateDelta) -> Event {
    Event::new("agent").with_state_delta(delta)
}

pub(crate) fn setting(key: &str, value: impl serde::Serialize) -> Event {
    event(StateDelta::new().with(key, value).unwrap())
}

pub(crate) async fn append(service: &dyn SessionService, key: &SessionKey, event: Event) -> Result<u64> {
    let committed = service.append(key, event, AppendOptions::default()).await?;
    Ok(committed.event.seq.unwrap())
}

/// Checks that a database is whole: numbers have no gaps, every state is the fold of its log, and each event is stored
/// completely or not at all. Returns the sessions.
pub(crate) async fn check_whole(service: &dyn SessionService, initial: &Map<String, Value>) -> Vec<Session> {
    let page = service.list_sessions(APP, &Default::default()).await.unwrap();
    assert!(page.next_page_token.is_none());
    let mut sessions = Vec::new();
    let mut written = BTreeSet::new();
    for listed in page.sessions {
        let session = get(service, listed.key()).await.unwrap();
        let numbers: Vec<_> = session.events().iter().map(|event| event.seq.unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "gaps in {}", session.key());
        assert_eq!(session.seq(), numbers.len() as u64);
        assert_eq!(own(&session.state().to_map()), own(&fold(initial.clone(), deltas(&session))), "{}", session.key());
        for event in session.events().iter() {
            let shared = event.actions.state_delta.iter().filter(|(key, _)| is_shared(key));
            written.extend(shared.map(|(key, _)| (event.id.clone(), key.to_owned())));
        }
        let verified = service.verify_session(session.key()).await.unwrap().unwrap();
        assert_eq!(verified.events, session.seq(), "{}", session.key());
        sessions.push(session);
    }
    let mut logged = BTreeSet::new();
    let users: BTreeSet<&str> = sessions.iter().map(|session| session.key().user_id()).collect();
    let of_users = users.into_iter().map(|user| (StateOwner::user(APP, user).unwrap(), "user:"));
    for (owner, prefix) in of_users.chain([(StateOwner::app(APP).unwrap(), "app:")]) {
        let log = service.list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
        assert_eq!(service.get_state(&owner).await.unwrap(), fold_log(&log), "{owner:?}");
        assert_eq!(service.verify_state(&owner).await.unwrap().events, log.len() as u64, "{owner:?}");
        let by_event = log.iter().filter(|change| !change.event_id.is_empty());
        logged.extend(by_event.map(|change| (change.event_id.clone(), format!("{prefix}{}", change.name))));
    }
    assert_eq!(logged, written, "the log and the events tell different things");
    sessions
}

fn deltas(session: &Session) -> impl Iterator<Item = &StateDelta> {
    session.events().iter().map(|event| &event.actions.state_delta)
}

fn is_shared(key: &str) -> bool {
    key.starts_with("user:") || key.starts_with("app:")
}

/// The session's own keys, in byte order.
fn own(state: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut own: Vec<_> = state.clone().into_iter().filter(|(key, _)| !is_shared(key)).collect();
    own.sort_by(|a, b| a.0.cmp(&b.0));
    own
}

fn fold_log(log: &[StateChange]) -> Map<String, Value> {
    let mut state = Map::new();
    for change in log {
        match &change.value {
            Some(value) => state.insert(change.name.clone(), value.clone()),
            None => state.shift_remove(&change.name),
        };
    }
    state
}
