//! Checks what is stored after several processes have written.

use std::collections::BTreeMap;

use scratchbook::connect;
use scratchbook::session::{ChangeQuery, StateOwner};

use super::load::Acknowledgements;
use crate::database::{APP, check_whole};

/// Checks a database after all writers have ended: it has what was acknowledged, with the same numbers, and nothing
/// else; it is whole; and each write to a shared key counts once. Returns the number of its events.
pub(super) async fn stored(uri: &str, told: &Acknowledgements) -> usize {
    let service = connect(uri).await.unwrap().sessions;
    let sessions = check_whole(service.as_ref(), &Default::default()).await;
    let mut stored = BTreeMap::new();
    let mut owners = vec![StateOwner::app(APP).unwrap()];
    for session in &sessions {
        owners.push(StateOwner::user(APP, session.key().user_id()).unwrap());
        for event in session.events().iter() {
            let doubled = stored.insert(event.id.clone(), event.seq.unwrap());
            assert_eq!(doubled, None, "{} is there twice", event.id);
        }
    }
    let lost: Vec<_> = told.acknowledged.keys().filter(|id| !stored.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{} acknowledged appends are lost: {lost:?}", lost.len());
    assert_eq!(stored, told.acknowledged);
    for owner in owners {
        let mut versions = BTreeMap::new();
        for change in service.list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap() {
            let version: &mut u64 = versions.entry(change.name.clone()).or_default();
            *version += 1;
            assert_eq!(change.version, *version, "{owner:?}: {change:?}");
        }
    }
    service.close().await.unwrap();
    stored.len()
}

/// Prints the result.
pub(super) fn report(what: &str, told: &Acknowledgements, stored: usize) {
    println!(
        "{what}: {} acknowledged, {stored} stored, none lost, none doubled; {:.1} s without a write; {} calls ended \
         without an answer and were made again",
        told.acknowledged.len(),
        told.longest_pause().as_secs_f64(),
        told.failures,
    );
}
