//! The errors that are planted.

/// An error in a file that the package `interleavings` includes.
pub(super) struct PlantedError {
    /// What is wrong with the code.
    pub(super) what: &'static str,
    /// The file, from the root of the repository.
    pub(super) file: &'static str,
    /// Texts that the file has once, each with the text that replaces it.
    pub(super) changes: &'static [(&'static str, &'static str)],
    /// The test that finds the error.
    pub(super) test: &'static str,
}

const QUEUE: &str = "crates/scratchbook-sqlite/src/queue.rs";
const GROUP: &str = "crates/scratchbook-sqlite/src/group.rs";
const BATCH: &str = "crates/scratchbook-database/src/batch.rs";
const NOTICES: &str = "crates/scratchbook-core/src/session/notices.rs";
const LOG: &str = "crates/scratchbook-server/src/runs/log.rs";
const LOCK: &str = "crates/scratchbook-agent/src/runner/session_lock.rs";

/// All errors. `docs/design/proof.md` has the same list.
pub(super) const ERRORS: [PlantedError; 14] = [
    PlantedError {
        what: "the queue wakes its thread before it is marked closed",
        file: QUEUE,
        changes: &[(
            "        self.waiting().closed = true;\n        self.changed.notify_all();\n",
            "        self.changed.notify_all();\n        self.waiting().closed = true;\n",
        )],
        test: "every_accepted_write_is_answered_once",
    },
    PlantedError {
        what: "a write wakes the thread before it is in the queue",
        file: QUEUE,
        changes: &[(
            "        waiting.items.push_back(item);\n        self.changed.notify_one();\n",
            "        drop(waiting);\n        self.changed.notify_one();\n        self.waiting().items.push_back(item);\n",
        )],
        test: "every_accepted_write_is_answered_once",
    },
    PlantedError {
        what: "a group goes on after it has lost its transaction",
        file: GROUP,
        changes: &[("            if tx.is_lost() {\n", "            if false && tx.is_lost() {\n")],
        test: "failed_commits_fail_only_their_own_writes",
    },
    PlantedError {
        what: "a group that could not be committed is answered as if it was",
        file: GROUP,
        changes: &[("Err(_) => Self::one_by_one(writer, tx, group),", "Err(_) => Self(group),")],
        test: "failed_commits_fail_only_their_own_writes",
    },
    PlantedError {
        what: "a queue that is closed leaves its items behind",
        file: QUEUE,
        changes: &[
            ("Some(item) => Next::Item(item),", "Some(item) if !waiting.closed => Next::Item(item),"),
            ("None => Next::Closed,", "_ => Next::Closed,"),
        ],
        test: "every_accepted_write_is_answered_once",
    },
    PlantedError {
        what: "a write that does not fit into a batch is dropped",
        file: BATCH,
        changes: &[("*next = Some(job);", "drop(job);")],
        test: "every_write_of_a_batch_gets_its_own_answer",
    },
    PlantedError {
        what: "a batch skips a write whose caller has left",
        file: BATCH,
        changes: &[(
            "        batch.push(job);",
            "        if !job.answer.is_closed() {\n            batch.push(job);\n        }",
        )],
        test: "writes_outlive_their_callers",
    },
    PlantedError {
        what: "a wait discards the notices that came before it",
        file: NOTICES,
        changes: &[(
            "        let is_open = self.last.borrow()",
            "        self.last.mark_unchanged();\n        let is_open = self.last.borrow()",
        )],
        test: "commits_reach_their_watchers",
    },
    PlantedError {
        what: "a new follower checks whether the store is open before it has the lock",
        file: NOTICES,
        changes: &[
            (
                "        let mut followers = self.followers();\n        let here = followers.entry",
                "        let open = self.all.borrow().open;\n        let mut followers = self.followers();\n        \
                 let here = followers.entry",
            ),
            ("open: self.all.borrow().open, at:", "open, at:"),
        ],
        test: "every_watch_ends_when_the_store_is_closed",
    },
    PlantedError {
        what: "a reader marks a notice as seen after its read instead of before",
        file: LOG,
        changes: &[
            ("            self.news.mark_unchanged();\n", ""),
            (
                "            let _ = self.news.changed().await;",
                "            self.news.mark_unchanged();\n            let _ = self.news.changed().await;",
            ),
        ],
        test: "every_reader_sees_each_event_once",
    },
    PlantedError {
        what: "the end of a run is announced before it is recorded",
        file: LOG,
        changes: &[(
            "        self.lock().outcome.get_or_insert(outcome);\n        self.news.send_replace(());\n",
            "        self.news.send_replace(());\n        self.lock().outcome.get_or_insert(outcome);\n",
        )],
        test: "the_end_of_a_run_is_seen_by_all_who_wait",
    },
    PlantedError {
        what: "a session's queue is removed while a run waits in it",
        file: LOCK,
        changes: &[("if queue.users == 0 {", "if queue.users <= 1 {")],
        test: "one_run_at_a_time",
    },
    PlantedError {
        what: "a run's permit is never released",
        file: LOCK,
        changes: &[("self.semaphore_permit.take();", "std::mem::forget(self.semaphore_permit.take());")],
        test: "one_run_at_a_time",
    },
    PlantedError {
        what: "a refused run removes the session's queue",
        file: LOCK,
        changes: &[(
            "                Err(_) => {\n                    let message = format!(\"another run",
            "                Err(_) => {\n                    self.lock().remove(key);\n                    let message = \
             format!(\"another run",
        )],
        test: "refused_runs_leave_nothing_behind",
    },
];
