//! What a copy of a session has seen, as the text that Python keeps with the copy.

use std::collections::BTreeMap;

use scratchbook::{AppendOptions, Committed, ConflictMode, Error, LogPositions, Result, Scope, Session, json};
use serde::{Deserialize, Serialize};

/// The places up to which everything was seen, and keys that were seen further: those that the holder wrote itself.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seen {
    seq: u64,
    #[serde(default)]
    user: u64,
    #[serde(default)]
    app: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    keys: BTreeMap<String, u64>,
}

impl Seen {
    /// What a session that was read has seen.
    pub(crate) fn of(session: &Session) -> Self {
        let seen = session.seen();
        Self { seq: seen.seq(), user: seen.logs().user, app: seen.logs().app, keys: BTreeMap::new() }
    }

    /// As Python kept it.
    pub(crate) fn read(text: &str) -> Result<Self> {
        json::from_str(text).map_err(|e| e.context("what the session has seen; keep it as it was given"))
    }

    /// For Python to keep.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// How a writer appends that has seen this much.
    pub(crate) fn options(&self, conflict: ConflictMode) -> AppendOptions {
        let all = scratchbook::Seen::new(self.seq, LogPositions::new(self.user, self.app));
        let seen = self.keys.iter().fold(all, |all, (key, place)| all.with_key(key, *place));
        match conflict {
            ConflictMode::ByKey => AppendOptions::by_key(seen),
            ConflictMode::BySession => AppendOptions::by_session(seen),
            _ => AppendOptions::default(),
        }
    }

    /// Goes on over an own event: everything up to it was seen where it is the next one, and the keys it wrote in any case.
    pub(crate) fn has_written(&mut self, committed: &Committed) {
        let seq = committed.event.seq.unwrap_or_default();
        if seq == self.seq + 1 {
            self.seq = seq;
        }
        for (key, _) in committed.event.actions.state_delta.iter() {
            let (place, known) = match Scope::split(key).0 {
                Scope::Session | Scope::Temp => (seq, self.seq),
                Scope::User => (committed.logs.user, self.user),
                Scope::App => (committed.logs.app, self.app),
            };
            if place > known {
                let own = self.keys.entry(key.to_owned()).or_default();
                *own = place.max(*own);
            }
        }
        let seq = self.seq;
        self.keys.retain(|key, place| Scope::split(key).0 != Scope::Session || *place > seq);
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
