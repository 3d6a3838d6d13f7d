//! Checks what became of the events that the system acknowledged: lost, refused, disordered, doubled.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::data::EventOrigin;

/// The counts of one cell.
#[derive(Debug, Default)]
pub(crate) struct CellErrors {
    pub(crate) lost: usize,
    pub(crate) refused: usize,
    pub(crate) disordered: usize,
    pub(crate) doubled: usize,
}

impl CellErrors {
    /// Compares the acknowledged events of a session with the stored ones, in their order. `lacking` are acknowledged
    /// events whose change of the state is missing. If an event and its change are both missing, the event counts once.
    ///
    /// Two neighbouring events of a writer are disordered if the later one comes first.
    pub(crate) fn compare(&mut self, acknowledged: &[EventOrigin], stored: &[EventOrigin], lacking: &[EventOrigin]) {
        let mut counts: HashMap<EventOrigin, usize> = HashMap::new();
        for origin in stored {
            *counts.entry(*origin).or_default() += 1;
        }
        let gone = acknowledged.iter().filter(|origin| !counts.contains_key(origin));
        self.lost += gone.chain(lacking).collect::<HashSet<_>>().len();
        self.doubled += counts.values().map(|count| count - 1).sum::<usize>();
        let mut latest = HashMap::new();
        for (writer, number) in stored {
            let before = latest.insert(writer, number);
            self.disordered += usize::from(before.is_some_and(|before| before > number));
        }
    }

    pub(crate) fn counts(&self) -> Value {
        let Self { lost, refused, disordered, doubled } = self;
        json!({"lost": lost, "refused": refused, "disordered": disordered, "doubled": doubled})
    }
}
