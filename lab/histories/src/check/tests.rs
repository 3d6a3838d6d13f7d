//! Plants faults in a history without faults, and tests that the checks find them.

use std::sync::Arc;
use std::time::Duration;

use scratchbook::connect;

use super::*;
use crate::client::LibraryClient;
use crate::drive::{GuardedWrite, HistoryRun, RefusedWrite};
use crate::history::TransactionStep;
use crate::workload::Workload;

/// Returns what a run on a store in memory observed.
async fn observed() -> Observed {
    let client = Arc::new(LibraryClient::new(connect("memory:").await.unwrap()));
    let workload = Workload::new("planted", 2, 2).unwrap();
    let run = HistoryRun::begin(vec![client], workload).await.unwrap();
    run.work(6, Duration::from_secs(1), 7).await.unwrap();
    let (observed, ended) = run.end().await;
    ended.unwrap();
    assert!(observed.entries.len() > 400, "{}", observed.entries.len());
    observed
}

/// Changes each list that the history has read.
fn change_reads(observed: &mut Observed, change: impl Fn(&str, &mut Vec<u64>)) {
    for entry in &mut observed.entries {
        for step in &mut entry.value {
            if let TransactionStep::Read { list, elements: Some(elements) } = step {
                change(list, elements);
            }
        }
    }
}

fn is_append(step: &TransactionStep) -> bool {
    matches!(step, TransactionStep::Append { .. })
}

/// Returns a list with many elements, and what its last read found.
fn longest(observed: &Observed) -> (String, Vec<u64>) {
    let reads = observed.entries.iter().flat_map(|entry| &entry.value).filter_map(|step| match step {
        TransactionStep::Read { list, elements: Some(elements) } => Some((list.clone(), elements.clone())),
        _ => None,
    });
    reads.max_by_key(|(_, elements)| elements.len()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_in_memory_has_no_fault() {
    let observed = observed().await;
    let report = check(&observed);
    assert_eq!(report.violations, [""; 0]);
    assert!(!observed.refusals.is_empty() && observed.feed.as_ref().is_some_and(|feed| !feed.is_empty()), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_write_is_found() {
    let mut planted = observed().await;
    let (list, elements) = longest(&planted);
    change_reads(&mut planted, |of, read| {
        if of == list {
            read.retain(|element| *element != elements[3]);
        }
    });
    assert!(!isolation::violations(&planted.entries).is_empty());
    assert!(check(&planted).wrong_writes > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doubled_write_is_found() {
    let mut planted = observed().await;
    let (list, elements) = longest(&planted);
    change_reads(&mut planted, |of, read| {
        if of == list && read.len() == elements.len() {
            read.push(elements[3]);
        }
    });
    assert!(!isolation::violations(&planted.entries).is_empty());
    assert!(!counts::violations(&planted.entries).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_write_is_found() {
    let mut planted = observed().await;
    // The outcome of a commit to several lists becomes unknown, and one of its elements is never read.
    let several = |entry: &&mut HistoryEntry| {
        entry.kind == EntryKind::Ok && entry.value.iter().filter(|step| is_append(step)).count() > 1
    };
    let entry = planted.entries.iter_mut().find(several).unwrap();
    entry.kind = EntryKind::Info;
    entry.value.retain(is_append);
    let TransactionStep::Append { list, element } = entry.value[0].clone() else { unreachable!() };
    change_reads(&mut planted, |of, read| {
        if of == list {
            read.retain(|found| *found != element);
        }
    });
    assert!(!isolation::violations(&planted.entries).is_empty());
    assert!(!counts::violations(&planted.entries).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_in_the_place_of_another_is_found() {
    let mut planted = observed().await;
    let (own, elements) = longest(&planted);
    let mut reads = planted.entries.iter_mut().flat_map(|entry| &mut entry.value).filter_map(|step| match step {
        TransactionStep::Read { list, elements: Some(elements) } if *list != own => Some(elements),
        _ => None,
    });
    *reads.next().unwrap() = elements;
    drop(reads);
    assert!(!counts::violations(&planted.entries).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_cannot_be_checked_is_not_called_valid() {
    let mut planted = observed().await;
    let last = planted.entries.iter().rev().find(|entry| entry.value.iter().any(is_append)).unwrap().clone();
    let process = 1_000_000;
    let time = planted.entries.last().unwrap().time + 1;
    for kind in [EntryKind::Invoke, EntryKind::Ok] {
        let index = planted.entries.len();
        planted.entries.push(HistoryEntry { index, kind, process, time, ..last.clone() });
    }
    assert!(!isolation::violations(&planted.entries).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_read_is_found() {
    let mut planted = observed().await;
    let (list, elements) = longest(&planted);
    // The very last read of the list misses its last element.
    let reads = planted.entries.iter_mut().rev().flat_map(|entry| &mut entry.value);
    let last = reads.filter_map(|step| match step {
        TransactionStep::Read { list: of, elements: Some(found) } if *of == list => Some(found),
        _ => None,
    });
    let last = last.into_iter().next().unwrap();
    assert_eq!(last.pop(), elements.last().copied());
    assert!(!isolation::violations(&planted.entries).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapped_writes_are_found() {
    let mut planted = observed().await;
    let (list, elements) = longest(&planted);
    let (first, second) = (elements[3], elements[4]);
    // One reader finds two elements in the reverse order.
    let mut is_done = false;
    for step in planted.entries.iter_mut().flat_map(|entry| &mut entry.value) {
        if let TransactionStep::Read { list: of, elements: Some(read) } = step
            && *of == list
            && read.len() == elements.len()
            && !std::mem::replace(&mut is_done, true)
        {
            assert_eq!([read[3], read[4]], [first, second]);
            read.swap(3, 4);
        }
    }
    assert!(is_done && !isolation::violations(&planted.entries).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_lacks_doubles_or_swaps_commits_is_found_out() {
    let planted = observed().await;
    let violations = |change: &dyn Fn(&mut Vec<crate::client::FeedEvent>)| {
        let mut feed = planted.feed.clone().unwrap();
        change(&mut feed);
        feed::violations(&feed, &planted.committed)
    };
    assert_eq!(violations(&|_| {}), [""; 0]);
    assert!(!violations(&|feed| drop(feed.remove(10))).is_empty());
    assert!(!violations(&|feed| feed.push(feed[10].clone())).is_empty());
    assert!(!violations(&|feed| drop(feed.pop())).is_empty());
    // A reader that continues from an earlier cursor misses an event, or finds one twice.
    let feed = planted.feed.clone().unwrap();
    let again = |change: &dyn Fn(&mut Vec<crate::client::FeedEvent>)| {
        let mut rest = feed[20..].to_vec();
        change(&mut rest);
        feed::difference(&feed, 20, &rest)
    };
    assert_eq!(again(&|_| {}), None);
    assert!(again(&|rest| drop(rest.pop())).is_some());
    assert!(again(&|rest| rest.push(rest[3].clone())).is_some());
    assert!(again(&|rest| rest.insert(0, feed[19].clone())).is_some());
    // Two events of different sessions that wrote the same list of the app.
    let both = |feed: &[crate::client::FeedEvent]| {
        let of_app = |n: &usize| feed[*n].lists.keys().find(|key| key.starts_with("app:")).cloned();
        let pair = (0..feed.len()).zip(1..feed.len()).find(|(first, second)| {
            feed[*first].session != feed[*second].session && of_app(first).is_some() && of_app(first) == of_app(second)
        });
        pair.expect("two commits of one list of the app, one after the other")
    };
    assert!(
        !violations(&|feed| {
            let (first, second) = both(feed);
            feed.swap(first, second);
        })
        .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_without_a_reason_and_a_write_that_should_have_been_refused_are_found() {
    let mut planted = observed().await;
    let (list, elements) = longest(&planted);
    planted.refusals.push(RefusedWrite { read: vec![(list.clone(), elements.clone())], at: planted.entries.len() });
    assert_eq!(by_key::false_refusals(&planted.refusals, &planted.entries).len(), 1);
    // A writer read the list before its last element was appended and wrote afterwards, and was not refused.
    let process = 1_000_000;
    let read = |elements| TransactionStep::Read { list: list.clone(), elements };
    let append = TransactionStep::Append { list: "another/list".to_owned(), element: 1 };
    let mut push = |kind, value| {
        let (index, time) = (planted.entries.len(), planted.entries.last().unwrap().time + 1);
        planted.entries.push(HistoryEntry { index, kind, process, time, f: "txn", value });
    };
    push(EntryKind::Invoke, vec![read(None), append.clone()]);
    push(EntryKind::Ok, vec![read(Some(elements[..elements.len() - 1].to_vec())), append]);
    assert!(!isolation::violations(&planted.entries).is_empty());
    // The same with the list that the writer read.
    assert_eq!(by_key::false_acceptances(&planted.entries, &[]), [""; 0]);
    let element = 1_000_000;
    let append = TransactionStep::Append { list: list.clone(), element };
    let after = [&elements[..], &[element]].concat();
    let mut push = |kind, value| {
        let (index, time) = (planted.entries.len(), planted.entries.last().unwrap().time + 1);
        planted.entries.push(HistoryEntry { index, kind, process, time, f: "txn", value });
    };
    push(EntryKind::Invoke, vec![read(None), append.clone()]);
    push(EntryKind::Ok, vec![read(Some(elements[..elements.len() - 1].to_vec())), append, read(Some(after))]);
    // The same with an unknown outcome.
    let appended = vec![(list.clone(), elements[..2].to_vec(), elements[3])];
    planted.unknown_by_key.push(GuardedWrite { appended });
    let report = check(&planted);
    assert!(report.false_refusals == 1 && report.false_acceptances == 2 && report.wrong_writes > 1, "{report:?}");
}
