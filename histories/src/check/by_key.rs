//! Checks optimistic locking (`by_key`): a write is refused if and only if one of its keys was written since the writer
//! read it.

use std::collections::HashMap;

use super::beginnings;
use crate::drive::RefusedWrite;
use crate::history::{EntryKind, HistoryEntry, TransactionStep};

/// Returns the writes that were refused although no other client had written their keys since the writers read them.
pub(super) fn false_refusals(refusals: &[RefusedWrite], entries: &[HistoryEntry]) -> Vec<String> {
    let beginnings = beginnings(entries);
    // When the append of each element began, by its list, even if its outcome is unknown.
    let mut begun = HashMap::<_, Vec<_>>::new();
    for (end, entry) in entries.iter().enumerate() {
        let Some(beginning) = beginnings[end].filter(|_| matches!(entry.kind, EntryKind::Ok | EntryKind::Info)) else {
            continue;
        };
        for step in &entry.value {
            if let TransactionStep::Append { list, element } = step {
                begun.entry(list).or_default().push((*element, beginning));
            }
        }
    }
    let has_reason = |refusal: &&RefusedWrite| {
        refusal.read.iter().any(|(list, read)| {
            let appends = begun.get(list).into_iter().flatten();
            appends.into_iter().any(|(element, beginning)| *beginning < refusal.at && !read.contains(element))
        })
    };
    let without = refusals.iter().filter(|refusal| !has_reason(refusal));
    without
        .map(|refusal| format!("refused at {} without a reason: nobody wrote {:?}", refusal.at, refusal.read))
        .collect()
}

/// Returns the writes that were accepted although another client had written one of their keys since the writers read
/// it. Such a write has read the list, has appended one element, and got a list that has more than this element in
/// addition, or less.
pub(super) fn false_acceptances(entries: &[HistoryEntry]) -> Vec<String> {
    let accepted = entries.iter().filter(|entry| entry.kind == EntryKind::Ok);
    accepted.filter_map(falsely_accepted).collect()
}

fn falsely_accepted(entry: &HistoryEntry) -> Option<String> {
    let (mut read, mut expected) = (HashMap::new(), HashMap::new());
    for step in &entry.value {
        match step {
            TransactionStep::Append { list, element } => {
                let before = read.get(list).copied();
                expected.extend(before.map(|before: &Vec<u64>| (list, (before, [&before[..], &[*element]].concat()))));
            }
            TransactionStep::Read { list, elements: Some(elements) } => {
                read.insert(list, elements);
                if let Some((before, _)) = expected.get(list).filter(|(_, expected)| expected != elements) {
                    let place = entry.index;
                    return Some(format!(
                        "accepted at {place}, although {list} was written since it was {before:?}: it is {elements:?}"
                    ));
                }
            }
            TransactionStep::Read { .. } => {}
        }
    }
    None
}
