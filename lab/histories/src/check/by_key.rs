//! Checks optimistic locking (`by_key`): a write is refused if and only if one of its keys was written since the writer
//! read it.

use std::collections::{HashMap, HashSet};

use super::beginnings;
use super::counts::{appends, reads};
use crate::drive::{GuardedWrite, RefusedWrite};
use crate::history::{EntryKind, HistoryEntry, TransactionStep};

/// Returns the writes that were refused although no other client had written their keys since the writers read them.
pub(super) fn false_refusals(refusals: &[RefusedWrite], entries: &[HistoryEntry]) -> Vec<String> {
    let beginnings = beginnings(entries);
    let stored: HashSet<_> =
        entries.iter().flat_map(reads).flat_map(|(list, all)| all.iter().map(move |one| (list, *one))).collect();
    // When the append of each element began, by its list. An append with an unknown outcome counts only if somebody
    // has read its element.
    let mut begun = HashMap::<_, Vec<_>>::new();
    for (end, entry) in entries.iter().enumerate() {
        let Some(beginning) = beginnings[end].filter(|_| entry.kind != EntryKind::Fail) else { continue };
        for (list, element) in appends(entry) {
            if entry.kind == EntryKind::Ok || stored.contains(&(list, *element)) {
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
/// it. Such a write read a list, appended one element, and got back something other than that list with the element. If
/// its outcome is unknown, the last read of the list shows what came before the element.
pub(super) fn false_acceptances(entries: &[HistoryEntry], unknown: &[GuardedWrite]) -> Vec<String> {
    let last: HashMap<_, _> = entries.iter().flat_map(reads).collect();
    let is_wrong = |(list, read, element): &(String, Vec<u64>, u64)| {
        let stored = last.get(list)?;
        let place = stored.iter().position(|one| one == element)?;
        (stored[..place] != read[..])
            .then(|| format!("accepted, although {list} was written since it was {read:?}: it is {stored:?}"))
    };
    let of_unknown = unknown.iter().filter_map(|write| write.appended.iter().find_map(is_wrong));
    let accepted = entries.iter().filter(|entry| entry.kind == EntryKind::Ok).filter_map(falsely_accepted);
    accepted.chain(of_unknown).collect()
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
