//! Checks that each acknowledged element is stored once, that no refused element is stored, that no commit is stored in
//! part, and that every element was appended by a client.

use std::collections::{HashMap, HashSet};

use crate::history::{EntryKind, HistoryEntry, TransactionStep};

/// The elements of lists.
type Elements<'e> = HashMap<&'e String, HashSet<u64>>;

/// Returns which elements are lost, doubled, stored although they were refused, stored without the rest of their
/// commit, or read although no client appended them. The last read of a list shows what is stored.
pub(super) fn violations(entries: &[HistoryEntry]) -> Vec<String> {
    let stored: HashMap<_, _> = entries.iter().flat_map(reads).collect();
    let doubled = stored.iter().filter_map(|(list, elements)| {
        let mut seen = HashSet::new();
        let twice: Vec<_> = elements.iter().filter(|element| !seen.insert(**element)).collect();
        (!twice.is_empty()).then(|| format!("{list} has twice: {twice:?}"))
    });
    let mut violations: Vec<_> = doubled.collect();
    for entry in entries.iter().filter(|entry| entry.kind != EntryKind::Invoke) {
        let is_stored = |list: &String, element: &u64| stored.get(list).is_some_and(|all| all.contains(element));
        let (there, missing): (Vec<_>, Vec<_>) = appends(entry).partition(|(list, element)| is_stored(list, element));
        let place = entry.index;
        match entry.kind {
            EntryKind::Ok if !missing.is_empty() => {
                violations.push(format!("lost, of the commit at {place}: {missing:?}"));
            }
            EntryKind::Fail if !there.is_empty() => {
                violations.push(format!("stored, but refused at {place}: {there:?}"));
            }
            EntryKind::Info => violations.extend(in_part(entry, entries)),
            _ => {}
        }
    }
    violations.extend(from_nobody(entries));
    violations
}

/// Returns a description of a commit with an unknown outcome that is stored only in part. The commit may have been
/// carried out during the reads at the end, so the last transaction that reads all of its lists shows what is stored.
fn in_part(entry: &HistoryEntry, entries: &[HistoryEntry]) -> Option<String> {
    let lists: HashSet<_> = appends(entry).map(|(list, _)| list).collect();
    let place = entry.index;
    let of_all = entries.iter().rev().map(|entry| reads(entry).collect::<HashMap<_, _>>());
    let Some(stored) = of_all.into_iter().find(|read| lists.iter().all(|list| read.contains_key(list))) else {
        return Some(format!("the lists of the commit at {place} were not read at one time"));
    };
    let (there, missing): (Vec<_>, Vec<_>) = appends(entry).partition(|(list, element)| stored[list].contains(element));
    (!there.is_empty() && !missing.is_empty())
        .then(|| format!("stored in part, at {place}: {there:?} without {missing:?}"))
}

/// Returns a read of a list with elements that no client can have appended.
fn from_nobody(entries: &[HistoryEntry]) -> Option<String> {
    let mut appended = Elements::new();
    for (list, element) in entries.iter().filter(|entry| entry.kind == EntryKind::Invoke).flat_map(appends) {
        appended.entry(list).or_default().insert(*element);
    }
    let is_known = |list: &String, element: &u64| appended.get(list).is_some_and(|all| all.contains(element));
    let strange = entries.iter().find_map(|entry| {
        let (list, _) = reads(entry).find(|(list, read)| !read.iter().all(|element| is_known(list, element)))?;
        Some((entry.index, list))
    });
    strange.map(|(place, list)| format!("{list} was read at {place} with elements that nobody appended"))
}

pub(super) fn appends(entry: &HistoryEntry) -> impl Iterator<Item = (&String, &u64)> {
    entry.value.iter().filter_map(|step| match step {
        TransactionStep::Append { list, element } => Some((list, element)),
        TransactionStep::Read { .. } => None,
    })
}

/// Returns what the reads of a committed transaction found.
pub(super) fn reads(entry: &HistoryEntry) -> impl Iterator<Item = (&String, &Vec<u64>)> {
    let steps = entry.value.iter().filter(|_| entry.kind == EntryKind::Ok);
    steps.filter_map(|step| match step {
        TransactionStep::Read { list, elements } => elements.as_ref().map(|elements| (list, elements)),
        TransactionStep::Append { .. } => None,
    })
}
