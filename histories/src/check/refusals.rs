//! Checks that each write that was refused because of its keys had a reason. The check of isolation finds writes that
//! should have been refused: such a write reads its keys and appends to them in one transaction.

use std::collections::HashMap;

use super::beginnings;
use crate::drive::RefusedWrite;
use crate::history::{EntryKind, HistoryEntry, TransactionStep};

/// Returns the refusals of writers whose keys no other client had written since the writers read them.
pub(super) fn violations(refusals: &[RefusedWrite], entries: &[HistoryEntry]) -> Vec<String> {
    let beginnings = beginnings(entries);
    // When the append of each element began, even if its outcome is unknown.
    let mut begun = HashMap::new();
    for (end, entry) in entries.iter().enumerate() {
        let Some(beginning) = beginnings[end].filter(|_| matches!(entry.kind, EntryKind::Ok | EntryKind::Info)) else {
            continue;
        };
        for step in &entry.value {
            if let TransactionStep::Append { list, element } = step {
                begun.insert((list, *element), beginning);
            }
        }
    }
    let has_reason = |refusal: &&RefusedWrite| {
        refusal.read.iter().any(|(list, read)| {
            begun
                .iter()
                .any(|((of, element), beginning)| *of == list && !read.contains(element) && *beginning < refusal.at)
        })
    };
    let without = refusals.iter().filter(|refusal| !has_reason(refusal));
    without
        .map(|refusal| format!("refused at {} without a reason: nobody wrote {:?}", refusal.at, refusal.read))
        .collect()
}
