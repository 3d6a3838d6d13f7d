//! What a copy of a session has seen, as the text that Python keeps with the copy.

use std::collections::{BTreeMap, BTreeSet};

use pyo3::prelude::*;
use scratchbook::session::{Committed, ConflictMode, LogPositions};
use scratchbook::{AppendOptions, Error, Result, Scope, Session, json};
use serde::{Deserialize, Serialize};

use crate::ending::visited;
use crate::error::exception;

/// How many numbers beyond a gap are kept. A gap that exists only because appends of one copy ended out of order is
/// closed long before this limit; a gap from another writer's event is never closed.
const MOST_BEYOND: usize = 256;

/// What a copy has seen: the places up to which it has seen everything, the keys of which it has seen later values, and
/// the events beyond a gap, which its holder wrote.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopyVersion {
    seq: u64,
    #[serde(default)]
    user: u64,
    #[serde(default)]
    app: u64,
    /// When the session was created. The time distinguishes the session from a later one with the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    keys: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    own: BTreeSet<u64>,
}

/// What an append has written, and the places at which it was committed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct WrittenAppend {
    seq: u64,
    user: u64,
    app: u64,
    keys: Vec<String>,
}

impl WrittenAppend {
    pub(crate) fn of(committed: &Committed) -> Self {
        let keys = committed.event.actions.state_delta.iter().map(|(key, _)| key.to_owned()).collect();
        let seq = committed.event.seq.unwrap_or_default();
        Self { seq, user: committed.logs.user, app: committed.logs.app, keys }
    }

    /// The text that Python passes to [`advance`].
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a copy has seen after a write by its holder. `seen` is what the copy has seen now, because several appends may
/// be running, and their answers come in any order.
///
/// Returns what the copy has seen, how many of the copy's own events come after the written one (`None` if the copy has
/// that event already), and the written keys for which the copy already has a later value.
#[pyfunction]
pub(crate) fn advance(py: Python<'_>, seen: &str, written: &str) -> PyResult<(String, Option<usize>, Vec<String>)> {
    let advanced = || {
        let mut seen = CopyVersion::read(seen)?;
        let written: WrittenAppend = json::from_str(written)?;
        let later = seen.later_than(written.seq);
        let older = seen.known_later(&written);
        seen.has_written(written);
        Ok((seen.text(), later, older))
    };
    visited(py, || advanced().map_err(|error: Error| exception(py, &error)))
}

impl CopyVersion {
    /// What a session that was read has seen.
    pub(crate) fn of(session: &Session) -> Self {
        let seen = session.seen();
        let (user, app, created) = (seen.logs().user, seen.logs().app, seen.create_time());
        Self { seq: seen.seq(), user, app, created, ..Self::default() }
    }

    /// Parses the text that Python kept.
    pub(crate) fn read(text: &str) -> Result<Self> {
        json::from_str(text).map_err(|e| e.context("what the session has seen; keep it as it was given"))
    }

    /// The text for Python to keep.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The append options of a writer that has seen this much.
    pub(crate) fn options(&self, conflict: ConflictMode) -> AppendOptions {
        let all = scratchbook::session::Seen::new(self.seq, LogPositions::new(self.user, self.app));
        let all = self.created.iter().fold(all, |all, created| all.with_create_time(*created));
        let seen = self.keys.iter().fold(all, |all, (key, place)| all.with_key(key, *place));
        match conflict {
            ConflictMode::ByKey => AppendOptions::by_key(seen),
            ConflictMode::BySession => AppendOptions::by_session(seen),
            _ => AppendOptions::default(),
        }
    }

    /// Returns how many events of the copy come after a number, or `None` if the copy has the event with this number.
    fn later_than(&self, seq: u64) -> Option<usize> {
        let is_known = seq <= self.seq || self.own.contains(&seq);
        (!is_known).then(|| self.own.range(seq..).count())
    }

    /// The keys of a write for which the copy has the written value or a later one.
    fn known_later(&self, written: &WrittenAppend) -> Vec<String> {
        let is_known = |key: &&String| {
            let known = self.keys.get(*key).copied().unwrap_or_default();
            place(key, written.seq, written.user, written.app) <= known.max(place(key, self.seq, self.user, self.app))
        };
        written.keys.iter().filter(is_known).cloned().collect()
    }

    fn has_written(&mut self, WrittenAppend { seq, user, app, keys }: WrittenAppend) {
        self.own.insert(seq);
        while self.own.remove(&(self.seq + 1)) {
            self.seq += 1;
        }
        while self.own.len() > MOST_BEYOND {
            self.own.pop_first();
        }
        for key in keys {
            let place = place(&key, seq, user, app);
            let known = self.keys.entry(key).or_default();
            *known = place.max(*known);
        }
        let all = (self.seq, self.user, self.app);
        self.own.retain(|number| *number > all.0);
        self.keys.retain(|key, known| *known > place(key, all.0, all.1, all.2));
    }
}

/// The number or the position that applies to a key.
fn place(key: &str, seq: u64, user: u64, app: u64) -> u64 {
    match Scope::split(key).0 {
        Scope::Session | Scope::Temp => seq,
        Scope::User => user,
        Scope::App => app,
    }
}

/// A conflict mode by its name.
pub(crate) fn conflict_mode(name: &str) -> Result<ConflictMode> {
    match name {
        "merge" => Ok(ConflictMode::Merge),
        "by_key" => Ok(ConflictMode::ByKey),
        "strict" => Ok(ConflictMode::BySession),
        other => {
            Err(Error::invalid(format!("no conflict mode is called '{other}'; there are merge, by_key and strict")))
        }
    }
}
