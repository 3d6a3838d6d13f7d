//! Predicts whether the next write comes so soon that the writer should wait for it without sleeping.
//!
//! A caller that makes one write after the other sends the next write as soon as it has an answer. To sleep and to be
//! woken takes longer than this. A writer that looks for the write instead uses its processor for that time, so it
//! does this only if the last write came that soon, and if no other writes were committed with it.

use std::thread;
use std::time::{Duration, Instant};

use super::write_queue::{QueuedWrite, WriteReceiver};

/// How long the writer looks for a write before it sleeps.
const SOON: Duration = Duration::from_micros(100);

/// How fast a caller sends its next write.
#[derive(Debug, Default)]
pub(super) struct CallerPace {
    /// The time of the last answer, if it was the answer to a single write.
    answered: Option<Instant>,
    is_fast: bool,
}

impl CallerPace {
    /// Records when a write was queued that begins a new group.
    pub(super) fn next_write(&mut self, since: Instant) {
        self.is_fast = self.answered.is_some_and(|answered| since.saturating_duration_since(answered) <= SOON);
    }

    /// Records that a group of this many writes was answered.
    pub(super) fn answered(&mut self, writes: usize, now: Instant) {
        self.answered = (writes == 1).then_some(now);
    }

    /// Looks for the next write, if it is expected soon.
    pub(super) fn take_soon(&self, writes: &WriteReceiver) -> Option<QueuedWrite> {
        let until = self.answered.filter(|_| self.is_fast)? + SOON;
        loop {
            let next = writes.try_take_if(|_| true);
            if next.is_some() || Instant::now() >= until {
                return next;
            }
            // Other threads, perhaps the caller's, may need this processor.
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the writer looks for a write after groups of writes. Each group is given by the time between the
    /// last answer and its first write, in microseconds, and by its number of writes.
    fn is_fast_after(groups: &[(u64, usize)]) -> bool {
        let (mut pace, mut now) = (CallerPace::default(), Instant::now());
        for (gap, writes) in groups {
            now += Duration::from_micros(*gap);
            pace.next_write(now);
            now += Duration::from_micros(300);
            pace.answered(*writes, now);
        }
        pace.is_fast && pace.answered.is_some()
    }

    #[test]
    fn the_writer_stays_awake_only_for_a_single_fast_caller() {
        assert!(!is_fast_after(&[]) && !is_fast_after(&[(0, 1)]), "nothing is known of the caller");
        assert!(is_fast_after(&[(0, 1), (50, 1)]));
        assert!(!is_fast_after(&[(0, 1), (50, 1), (5_000, 1)]), "the caller became slow");
        assert!(is_fast_after(&[(0, 1), (5_000, 1), (50, 1)]), "the caller became fast");
        assert!(!is_fast_after(&[(0, 1), (50, 1), (50, 2)]), "there are several callers");
    }
}
