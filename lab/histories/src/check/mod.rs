//! Checks everything that a run observed.

mod by_key;
mod counts;
pub(crate) mod feed;
mod isolation;

use std::fmt;

use crate::drive::Observed;
use crate::history::{EntryKind, HistoryEntry};

/// What a run did, and what was wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many transactions that write were committed.
    pub written: usize,
    /// How many transactions that only read were answered, with the reads at the end.
    pub read: usize,
    /// How many writes were refused because one of their keys had been written.
    pub refused: usize,
    /// How many other transactions were not carried out.
    pub failed: usize,
    /// How many writes have an unknown outcome.
    pub unknown: usize,
    /// How many writes were refused because of a key that nobody had written.
    pub false_refusals: usize,
    /// How many writes were accepted although one of their keys had been written.
    pub false_acceptances: usize,
    /// The violations, in words.
    pub violations: Vec<String>,
    /// How many of the violations are wrong writes: lost, doubled, stored in part, stored although they were
    /// refused, or accepted although one of their keys had been written. Reports of defects and damaged data count, too.
    pub wrong_writes: usize,
}

/// Checks what a run observed: the history as a whole, each acknowledged write, the feed, and each refusal.
#[must_use]
pub fn check(observed: &Observed) -> Report {
    let count = |kind| observed.entries.iter().filter(|entry| entry.kind == kind).count();
    let is_write = |entry: &&HistoryEntry| counts::appends(entry).next().is_some();
    let written = observed.entries.iter().filter(|entry| entry.kind == EntryKind::Ok).filter(is_write).count();
    let mut violations = observed.wrong.clone();
    violations.extend(isolation::violations(&observed.entries));
    let of_writes = counts::violations(&observed.entries);
    let accepted = by_key::false_acceptances(&observed.entries, &observed.unknown_by_key);
    let refused = by_key::false_refusals(&observed.refusals, &observed.entries);
    let (false_acceptances, false_refusals) = (accepted.len(), refused.len());
    let wrong_writes = of_writes.len() + false_acceptances + observed.defects.len();
    violations.extend(observed.defects.clone());
    violations.extend(observed.feed.iter().flat_map(|feed| feed::violations(feed, &observed.committed)));
    violations.extend(of_writes.into_iter().chain(accepted).chain(refused));
    if written == 0 {
        violations.push("nothing was written, so nothing was checked".to_owned());
    }
    Report {
        written,
        read: count(EntryKind::Ok) - written,
        refused: observed.refusals.len(),
        failed: count(EntryKind::Fail).saturating_sub(observed.refusals.len()),
        unknown: count(EntryKind::Info),
        false_refusals,
        false_acceptances,
        violations,
        wrong_writes,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, read, refused, failed, unknown, violations, .. } = self;
        let count = violations.len();
        write!(
            f,
            "{written} written, {read} read, {refused} refused, {failed} failed, {unknown} unknown, {count} violations"
        )
    }
}

/// Returns the place at which each transaction began, by the place of its end.
fn beginnings(entries: &[HistoryEntry]) -> Vec<Option<usize>> {
    let mut open = std::collections::HashMap::new();
    let of = |entry: &HistoryEntry| match entry.kind {
        EntryKind::Invoke => {
            open.insert(entry.process, entry.index);
            None
        }
        EntryKind::Ok | EntryKind::Fail | EntryKind::Info => open.remove(&entry.process),
    };
    entries.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
