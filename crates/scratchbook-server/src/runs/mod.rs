//! Runs and their readers. A run continues to its end, whether or not a client follows it.
//!
//! A run is a separate task, which keeps a [log](log) of its events. When the run has ended, the log is dropped,
//! because the events are in the session. If the end of the process cuts a run off, its events so far are in the
//! session too. If the app's runner is [resumable](scratchbook::agent::RunnerBuilder::resumable), a request with the id
//! of such a run and no message resumes it.

mod admission;
mod answered;
mod backlog;
mod follow;
mod log;
mod run;
mod shares;
mod sync;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scratchbook::environment::Environment;
use scratchbook::{Error, ErrorKind, GetSessionConfig, Result, RunRequest, Runner, SessionKey, SessionService, plan};
use tokio::sync::watch;
use tracing::Instrument;

pub(crate) use follow::RunFollower;
pub(crate) use log::{RunOutcome, RunReader};
pub(crate) use run::Run;

use admission::{Admission, bytes_of};
use answered::answered_invocation;

use crate::access::Account;
use crate::bodies::Held;

/// How many finished runs are remembered, each with its outcome.
const REMEMBERED: usize = 1024;
/// How long to wait for runs that were cancelled.
const CANCEL_TIME: Duration = Duration::from_millis(250);

/// The runs in progress in this process.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    inner: Arc<RunsState>,
}

#[derive(Debug)]
struct RunsState {
    environment: Arc<dyn Environment>,
    table: Mutex<RunTable>,
    /// Wakes the tasks that wait for runs to end.
    ends: watch::Sender<()>,
}

#[derive(Debug)]
struct RunTable {
    is_closing: bool,
    admission: Admission,
    /// The runs in progress, by session and invocation.
    under_way: BTreeMap<(SessionKey, String), Arc<Run>>,
    /// The runs that ended last.
    over: VecDeque<Over>,
}

/// A run that has ended.
#[derive(Clone, Debug)]
struct Over {
    key: SessionKey,
    invocation_id: String,
    outcome: RunOutcome,
}

impl Runs {
    /// Allows `max_runs` runs at a time, and `max_waiting` waiting runs for each of their sessions.
    pub(crate) fn new(max_runs: usize, max_waiting: usize, environment: Arc<dyn Environment>) -> Self {
        let admission = Admission::new(max_runs, max_waiting);
        let table = RunTable { is_closing: false, admission, under_way: BTreeMap::new(), over: VecDeque::new() };
        let (table, ends) = (Mutex::new(table), watch::Sender::new(()));
        Self { inner: Arc::new(RunsState { environment, table, ends }) }
    }

    /// Starts a run on a session for an account, and returns it with a reader that misses none of its events. If a run
    /// of the same invocation is in progress, the new run waits for its end. As soon as the run is admitted, to run or
    /// to wait, its bytes are counted with the runs, and the room that its request body took is released.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the invocation's id is invalid; `NotFound` if the session is missing; `ResourceExhausted`
    /// if the limit of runs in progress is reached, for all accounts or for this one, or the limit of runs that wait
    /// for the session; `Unavailable` if the server is about to end.
    pub(crate) async fn start(
        &self,
        runner: &Runner,
        key: &SessionKey,
        account: &Account,
        body: &Held,
        mut request: RunRequest,
    ) -> Result<(Arc<Run>, RunReader)> {
        let sessions = runner.session_service();
        let answered = match &request.message {
            Some(message) => answered_invocation(sessions.as_ref(), key, message).await?,
            None => None,
        };
        let given = answered.or_else(|| request.invocation_id.take().filter(|id| !id.is_empty()));
        let is_new = given.is_none();
        // The id is checked here, because it is stored and put into headers before the run itself would refuse it.
        if let Some(id) = given.as_deref() {
            plan::check_id("invocation id", id)?;
            plan::check_nameable("invocation id", id)?;
        }
        let id = given.unwrap_or_else(|| format!("e-{}", self.inner.environment.new_id()));
        request.invocation_id = Some(id.clone());
        request.is_new |= is_new;
        let bytes = bytes_of(&request);
        loop {
            let session = sessions.get_session(key, &GetSessionConfig::state_only().without_state()).await?;
            let session = session.ok_or_else(|| Error::not_found(format!("there is no session {key}")))?;
            let before = match session.known_seq() {
                _ if is_new => 0,
                Some(last) => last,
                None => count(sessions.as_ref(), key).await?,
            };
            let run = Run::new(key.clone(), id.clone(), self.inner.environment.now(), before);
            let entered = self.enter(run, account, bytes)?;
            // The body is released now, since this run, or the run that it waits for, may take hours.
            body.release();
            match entered {
                Entered::New(run) => {
                    let (events, reader) = (runner.run(key.user_id(), key.session_id(), request), run.read());
                    let task = Arc::clone(&run).drive(events, self.clone()).instrument(run.span());
                    tokio::spawn(task);
                    return Ok((run, reader));
                }
                Entered::Taken(earlier, _asking) => drop(earlier.ended().await),
            }
        }
    }

    /// Returns a run, if it is in progress.
    pub(crate) fn find(&self, key: &SessionKey, invocation_id: &str) -> Option<Arc<Run>> {
        self.lock().under_way.get(&(key.clone(), invocation_id.to_owned())).cloned()
    }

    /// Returns how a run ended, if it is one of the last that ended in this process.
    pub(crate) fn outcome(&self, key: &SessionKey, invocation_id: &str) -> Option<RunOutcome> {
        let table = self.lock();
        let of_run = |over: &&Over| over.key == *key && over.invocation_id == invocation_id;
        table.over.iter().rev().find(of_run).map(|over| over.outcome.clone())
    }

    /// Returns the runs of a session that are in progress, ordered by their ids.
    pub(crate) fn list(&self, key: &SessionKey) -> Vec<Arc<Run>> {
        let table = self.lock();
        let of_session = table.under_way.range((key.clone(), String::new())..);
        of_session.take_while(|((of_run, _), _)| of_run == key).map(|(_, run)| Arc::clone(run)).collect()
    }

    /// Accepts no more runs, waits up to `time` for the runs in progress, and then cancels the rest.
    pub(crate) async fn close(&self, time: Duration) {
        self.lock().is_closing = true;
        if tokio::time::timeout(time, self.idle()).await.is_ok() {
            return;
        }
        let left: Vec<_> = self.lock().under_way.values().cloned().collect();
        tracing::warn!(runs = left.len(), "runs are cancelled: the server ends");
        left.iter().for_each(|run| run.cancel());
        // An agent that never yields to the runtime cannot be cancelled.
        let _ = tokio::time::timeout(CANCEL_TIME, self.idle()).await;
    }

    async fn idle(&self) {
        let mut ends = self.inner.ends.subscribe();
        loop {
            ends.mark_unchanged();
            if self.lock().under_way.is_empty() {
                return;
            }
            // The sender lives as long as `self`.
            let _ = ends.changed().await;
        }
    }

    fn enter(&self, mut run: Run, account: &Account, bytes: usize) -> Result<Entered> {
        let mut table = self.lock();
        let table = &mut *table;
        if table.is_closing {
            return Err(Error::new(ErrorKind::Unavailable, "the server is about to end; try again later"));
        }
        let place = (run.key.clone(), run.invocation_id.clone());
        if let Some(earlier) = table.under_way.get(&place) {
            table.admission.ask(&run.key, account, bytes)?;
            let asking = Asking { runs: self.clone(), key: run.key, account: account.clone(), bytes };
            return Ok(Entered::Taken(Arc::clone(earlier), asking));
        }
        run.number = table.admission.enter(&run.key, account, bytes)?;
        let run = Arc::new(run);
        table.under_way.insert(place, Arc::clone(&run));
        Ok(Entered::New(run))
    }

    /// Forgets a run that has ended; its readers keep its log.
    fn end(&self, run: &Run, outcome: &RunOutcome) {
        let mut table = self.lock();
        table.under_way.remove(&(run.key.clone(), run.invocation_id.clone()));
        table.admission.leave(&run.key, run.number);
        if table.over.len() == REMEMBERED {
            table.over.pop_front();
        }
        let (key, invocation_id) = (run.key.clone(), run.invocation_id.clone());
        table.over.push_back(Over { key, invocation_id, outcome: outcome.clone() });
        drop(table);
        run.end(outcome.clone());
        self.inner.ends.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, RunTable> {
        self.inner.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outcome of admitting a run.
enum Entered {
    New(Arc<Run>),
    /// A run of the same invocation is in progress, and has to end first.
    Taken(Arc<Run>, Asking),
}

/// A request that waits for the end of another run of the same invocation. Dropping this value stops counting the
/// request.
struct Asking {
    runs: Runs,
    key: SessionKey,
    account: Account,
    bytes: usize,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.runs.lock().admission.asked(&self.key, &self.account, self.bytes);
    }
}

/// Returns how many events a session has. The read asks for events by number, because only then do some stores count
/// them.
async fn count(sessions: &dyn SessionService, key: &SessionKey) -> Result<u64> {
    let config = GetSessionConfig::default().without_state().with_events_after(u64::MAX, 0);
    let session = sessions.get_session(key, &config).await?;
    Ok(session.and_then(|session| session.known_seq()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use scratchbook::agent::FunctionAgent;
    use scratchbook::environment::SystemEnvironment;
    use scratchbook::{CreateSessionConfig, connect};

    use super::*;
    use crate::access::Caller;

    /// Returns the parts of a run that never ends by itself.
    async fn endless() -> (Runs, Runner, SessionKey) {
        let sessions = connect("memory:").await.unwrap().sessions;
        let session = sessions.create_session("app", "user", CreateSessionConfig::default()).await.unwrap();
        let agent = FunctionAgent::new("endless", |_| stream::pending());
        let runner = Runner::builder("app", agent, sessions).build().unwrap();
        (Runs::new(9, 8, Arc::new(SystemEnvironment)), runner, session.key().clone())
    }

    fn anyone() -> Account {
        Caller::anyone().account(None)
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_do_not_end_in_time_are_cancelled_and_none_begins_any_more() {
        let (runs, runner, key) = endless().await;
        let (run, mut reader) = runs.start(&runner, &key, &anyone(), &Held::default(), "go".into()).await.unwrap();
        runs.close(Duration::from_secs(30)).await;
        assert!(matches!(run.ended().await, RunOutcome::Cancelled));
        assert!(reader.next().await.is_none() && runs.list(&key).is_empty());
        let refused = runs.start(&runner, &key, &anyone(), &Held::default(), "go".into()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
    }

    #[tokio::test]
    async fn a_run_that_is_dropped_with_its_runtime_lets_its_readers_go() {
        let (runs, runner, key) = endless().await;
        let started = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (_, reader) =
                runtime.block_on(runs.start(&runner, &key, &anyone(), &Held::default(), "go".into())).unwrap();
            reader
        });
        let mut reader = started.join().unwrap();
        assert!(reader.next().await.is_none());
        assert!(matches!(reader.outcome(), Some(RunOutcome::Failed(_))));
    }

    #[tokio::test]
    async fn the_runs_that_ended_last_are_remembered() {
        let (runs, runner, key) = endless().await;
        let first = RunRequest::message("go").with_invocation_id("first");
        let (run, _) = runs.start(&runner, &key, &anyone(), &Held::default(), first).await.unwrap();
        run.cancel();
        run.ended().await;
        for n in 0..=REMEMBERED {
            assert_eq!(runs.outcome(&key, "first").is_some(), n < REMEMBERED, "{n}");
            let over = Run::new(key.clone(), n.to_string(), 0.0, 0);
            runs.end(&over, &RunOutcome::Completed);
        }
    }
}
