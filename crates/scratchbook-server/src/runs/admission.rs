//! Admission of runs: limits the runs of each session, and keeps room for other callers.
//!
//! A session has one run at a time; its other runs wait. So a session with runs takes one place, which passes from each
//! run to the next. Waiting runs take no place.

use std::collections::{HashMap, VecDeque};

use metrics::gauge;
use scratchbook::{Error, ErrorKind, Result, RunRequest, SessionKey, json};

use super::shares::{NoShare, Shares};
use crate::access::Account;

/// The minimum value of the limit on the bytes that all runs in progress keep, including their messages as JSON.
const BYTES: usize = 128 << 20;
/// About how many bytes a run keeps in addition to its message.
const RUN_BYTES: usize = 16 << 10;
/// How many bytes each place adds to the limit.
const PLACE_BYTES: usize = 4 * RUN_BYTES;

/// The runs that were admitted and have not ended.
#[derive(Debug)]
pub(super) struct Admission {
    max_runs: usize,
    max_waiting: usize,
    places: Shares<Account>,
    bytes: Shares<Account>,
    lines: HashMap<SessionKey, WaitingRuns>,
    next_number: u64,
}

/// The runs of a session.
#[derive(Debug, Default)]
struct WaitingRuns {
    /// The runs in the order of their arrival. The first run has the place.
    runs: VecDeque<Admitted>,
    /// The number of requests that wait until a run of the same invocation has ended.
    asking: usize,
}

#[derive(Debug)]
struct Admitted {
    number: u64,
    account: Account,
    bytes: usize,
}

impl Admission {
    /// Admits runs of at most `max_runs` sessions at a time, and at most `max_waiting` waiting runs for each session.
    pub(super) fn new(max_runs: usize, max_waiting: usize) -> Self {
        let bytes = BYTES.max(max_runs.saturating_mul(PLACE_BYTES));
        let (places, bytes) = (Shares::new(max_runs), Shares::new(bytes));
        Self { max_runs, max_waiting, places, bytes, lines: HashMap::new(), next_number: 0 }
    }

    /// Admits a run that keeps this many bytes, and returns its number.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted` if too many runs wait for the session, if there is no place, or if the account has used its
    /// share.
    pub(super) fn enter(&mut self, key: &SessionKey, account: &Account, bytes: usize) -> Result<u64> {
        let waits = self.lines.get(key).is_some_and(|line| !line.runs.is_empty());
        if waits {
            self.check_waiting(key)?;
        } else {
            self.places.check(account, 1).map_err(|refused| self.no_place(refused))?;
        }
        self.bytes.check(account, bytes).map_err(no_bytes)?;
        self.bytes.take(account, bytes);
        if !waits {
            self.places.take(account, 1);
        }
        let number = self.next_number;
        self.next_number += 1;
        let line = self.lines.entry(key.clone()).or_default();
        line.runs.push_back(Admitted { number, account: account.clone(), bytes });
        gauge!(name(waits), "app" => key.app_name().to_owned()).increment(1);
        Ok(number)
    }

    /// Records that a run has ended: its place goes to the next run of the session.
    pub(super) fn leave(&mut self, key: &SessionKey, number: u64) {
        let Some(line) = self.lines.get_mut(key) else { return };
        let Some(at) = line.runs.iter().position(|run| run.number == number) else { return };
        let Some(Admitted { account, bytes, .. }) = line.runs.remove(at) else { return };
        self.bytes.give_back(&account, bytes);
        if at == 0 {
            self.places.give_back(&account, 1);
            if let Some(next) = line.runs.front() {
                self.places.take(&next.account, 1);
            }
        }
        gauge!(name(!line.runs.is_empty()), "app" => key.app_name().to_owned()).decrement(1);
        self.forget(key);
    }

    /// Counts a request that waits for another run of the same invocation, as if the request were a waiting run.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted` if too many runs wait for the session, or if no bytes are left for the account.
    pub(super) fn ask(&mut self, key: &SessionKey, account: &Account, bytes: usize) -> Result<()> {
        self.check_waiting(key)?;
        self.bytes.check(account, bytes).map_err(no_bytes)?;
        self.bytes.take(account, bytes);
        self.lines.entry(key.clone()).or_default().asking += 1;
        Ok(())
    }

    /// Stops counting a request that waited for another run of the same invocation.
    pub(super) fn asked(&mut self, key: &SessionKey, account: &Account, bytes: usize) {
        self.bytes.give_back(account, bytes);
        if let Some(line) = self.lines.get_mut(key) {
            line.asking = line.asking.saturating_sub(1);
        }
        self.forget(key);
    }

    fn check_waiting(&self, key: &SessionKey) -> Result<()> {
        let waiting = self.lines.get(key).map_or(0, |line| line.runs.len().saturating_sub(1) + line.asking);
        if waiting < self.max_waiting {
            return Ok(());
        }
        let message = format!(
            "{waiting} runs wait for this session, as many as may at a time; try again when one of its runs has ended"
        );
        Err(Error::new(ErrorKind::ResourceExhausted, message))
    }

    fn no_place(&self, refused: NoShare) -> Error {
        let message = match refused {
            NoShare::Full => {
                format!("{} runs are under way, as many as there may be; try again later", self.max_runs)
            }
            NoShare::Share => "you have as many runs under way as one caller may while so few places are left for \
                 others; try again when one of yours has ended"
                .to_owned(),
        };
        Error::new(ErrorKind::ResourceExhausted, message)
    }

    fn forget(&mut self, key: &SessionKey) {
        if self.lines.get(key).is_some_and(|line| line.runs.is_empty() && line.asking == 0) {
            self.lines.remove(key);
        }
    }
}

/// Returns about how many bytes a run keeps while it is in progress.
pub(super) fn bytes_of(request: &RunRequest) -> usize {
    let kept = json::bytes_of(&(&request.message, &request.state_delta, &request.config.custom_metadata));
    usize::try_from(kept).unwrap_or(usize::MAX).saturating_add(RUN_BYTES)
}

fn name(waits: bool) -> &'static str {
    if waits { "scratchbook_runs_waiting" } else { "scratchbook_runs" }
}

fn no_bytes(refused: NoShare) -> Error {
    let whose = match refused {
        NoShare::Full => "the runs under way",
        NoShare::Share => "your runs under way",
    };
    let message =
        format!("the messages of {whose} are as long as they may be together; try again when a run has ended");
    Error::new(ErrorKind::ResourceExhausted, message)
}

#[cfg(test)]
mod tests {
    use scratchbook::StateDelta;

    use super::*;
    use crate::access::Caller;

    fn session(id: &str) -> SessionKey {
        SessionKey::new("app", "user", id).unwrap()
    }

    #[test]
    fn messages_of_runs_under_way_are_held_to_a_size_together() {
        let mut admission = Admission::new(1_000, 8);
        let long = RunRequest::message("x".repeat(1 << 20)).with_state_delta(StateDelta::new().with("k", "v").unwrap());
        let bytes = bytes_of(&long);
        assert!(bytes > (1 << 20) + RUN_BYTES, "{bytes}");
        let account = |user| Caller::anyone().account(Some(user));
        let refused = (0..).find_map(|n| {
            let entered = admission.enter(&session(&n.to_string()), &account("u"), bytes);
            entered.err().map(|refused| (n, refused.to_string()))
        });
        let (count, said) = refused.unwrap();
        assert_eq!(count, BYTES / 2 / bytes, "half of them are left for others");
        assert!(said.contains("the messages of your runs under way are as long as they may be together"), "{said}");
        admission.enter(&session("other"), &account("v"), bytes).unwrap();
        let said = admission.ask(&session("0"), &account("u"), bytes).unwrap_err().to_string();
        assert!(said.contains("the messages of your runs"), "one that waits for its own run keeps as much: {said}");
        admission.leave(&session("0"), 0);
        admission.ask(&session("1"), &account("u"), bytes).unwrap();
        assert!(admission.enter(&session("0"), &account("u"), bytes).is_err());
        admission.asked(&session("1"), &account("u"), bytes);
        admission.enter(&session("0"), &account("u"), bytes).unwrap();
    }

    #[test]
    fn what_has_ended_leaves_nothing() {
        let mut admission = Admission::new(2, 3);
        let (key, account) = (session("s"), |user| Caller::anyone().account(Some(user)));
        let runs = ["u", "v", "u"].map(|user| admission.enter(&key, &account(user), 9).unwrap());
        admission.ask(&key, &account("u"), 9).unwrap();
        assert!(admission.ask(&key, &account("w"), 9).is_err() && admission.enter(&key, &account("w"), 9).is_err());
        // The place passes to the next run, and counts in the share of that run's account.
        admission.leave(&key, runs[0]);
        assert!(admission.enter(&session("t"), &account("v"), 9).is_err());
        let other = admission.enter(&session("t"), &account("u"), 9).unwrap();
        admission.leave(&key, runs[2]);
        admission.leave(&key, runs[1]);
        admission.asked(&key, &account("u"), 9);
        admission.leave(&session("t"), other);
        assert!(admission.lines.is_empty());
        assert_eq!(admission.places.check(&account("w"), 2), Ok(()));
        assert_eq!(admission.bytes.check(&account("w"), BYTES), Ok(()));
    }
}
