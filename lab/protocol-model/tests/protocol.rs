//! Every order of steps keeps the invariants, and each broken rule breaks one of them.

use std::collections::BTreeSet;

use Store::{MySql, Postgres};
use scratchbook_protocol_model::invariant::{
    ACKNOWLEDGED, ALL, ALL_DONE, CREATED, FEED_COMPLETE, FEED_IN_ORDER, GAPLESS, NO_DEADLOCK, NO_ORPHANS, ONCE,
    OWN_WORK_FOUND, RISING,
};
use scratchbook_protocol_model::scenario::{
    self, batches, erasure, one_id, readers, recreation, same_owners, shared_keys,
};
use scratchbook_protocol_model::{Protocol, Rule, Scenario, Store};
use stateright::{Checker, HasDiscoveries, Model};

/// Checks all states of some scenarios, and returns how many states there are.
fn states_of(store: Store, scenarios: Vec<Scenario>) -> usize {
    let count = |scenario: Scenario| {
        let (name, losses) = (scenario.name, scenario.losses);
        let checker = Protocol::new(store, scenario).checker().threads(1).spawn_bfs().join();
        for invariant in ALL {
            let found = checker.discovery(invariant).map(|path| path.to_string());
            assert_eq!(found, None, "{store:?}, {name}: not so: {invariant}");
        }
        assert!(checker.discovery(ALL_DONE).is_some(), "{store:?}, {name}: not every client gets an answer");
        let is_found = checker.discovery(OWN_WORK_FOUND).is_some();
        assert!(is_found || losses == 0, "{store:?}, {name}: no retry finds its own work");
        println!("{store:?}, {name}: {} states", checker.unique_state_count());
        checker.unique_state_count()
    };
    scenarios.into_iter().map(count).sum()
}

#[test]
fn every_order_of_steps_on_postgres_keeps_the_invariants() {
    let states = states_of(Postgres, scenario::all());
    assert!(states > 250_000, "only {states} states: the model does less than it did");
}

#[test]
fn every_order_of_steps_on_mysql_keeps_the_invariants() {
    let states = states_of(MySql, scenario::all());
    assert!(states > 10_000, "only {states} states: the model does less than it did");
}

#[test]
#[ignore = "long: millions of states"]
fn every_order_of_steps_with_more_clients_and_lost_answers_keeps_the_invariants() {
    let states = states_of(Postgres, scenario::large()) + states_of(MySql, scenario::large());
    assert!(states > 1_000_000, "only {states} states: the model does less than it did");
}

/// A rule, a store, a scenario in which the store needs the rule, and the invariant that fails without the rule.
type Need = (Rule, Store, fn() -> Scenario, &'static str);

const NEEDED: [Need; 35] = [
    (Rule::NumberFromLockedRow, Postgres, batches, GAPLESS),
    (Rule::NumberFromLockedRow, MySql, batches, GAPLESS),
    (Rule::UniqueIds, Postgres, one_id, ONCE),
    (Rule::UniqueIds, MySql, one_id, ONCE),
    (Rule::DuplicateUndoesBatch, Postgres, one_id, GAPLESS),
    (Rule::DuplicateUndoesBatch, MySql, one_id, GAPLESS),
    (Rule::SameIdOnRetry, Postgres, one_id, ONCE),
    (Rule::SameIdOnRetry, MySql, one_id, ONCE),
    (Rule::RetryAfterLostAnswer, Postgres, one_id, ACKNOWLEDGED),
    (Rule::RetryAfterLostAnswer, MySql, one_id, ACKNOWLEDGED),
    (Rule::TokenOfCreation, Postgres, recreation, CREATED),
    (Rule::TokenOfCreation, MySql, recreation, CREATED),
    (Rule::PositionAfterLocks, Postgres, shared_keys, RISING),
    (Rule::LockUser, Postgres, shared_keys, RISING),
    (Rule::LockUser, MySql, shared_keys, RISING),
    (Rule::LockApp, Postgres, shared_keys, RISING),
    (Rule::LockApp, MySql, shared_keys, RISING),
    (Rule::SortedSessions, Postgres, batches, NO_DEADLOCK),
    (Rule::SortedSessions, MySql, batches, NO_DEADLOCK),
    (Rule::SessionsBeforeUsers, Postgres, erasure, NO_DEADLOCK),
    (Rule::SessionsBeforeUsers, MySql, erasure, NO_DEADLOCK),
    (Rule::UsersBeforeApps, Postgres, same_owners, NO_DEADLOCK),
    (Rule::UsersBeforeApps, MySql, same_owners, NO_DEADLOCK),
    (Rule::CreationLocksUser, Postgres, erasure, GAPLESS),
    (Rule::RemovalSeesWhatItWaitedFor, Postgres, recreation, NO_ORPHANS),
    (Rule::ErasureLocksUser, Postgres, erasure, GAPLESS),
    (Rule::ErasureLooksAgain, MySql, erasure, GAPLESS),
    (Rule::ErasureDoesNotWait, Postgres, erasure, NO_DEADLOCK),
    (Rule::ErasureDoesNotWait, MySql, erasure, NO_DEADLOCK),
    (Rule::FeedFollowsCommits, Postgres, shared_keys, FEED_COMPLETE),
    (Rule::FeedFollowsCommits, MySql, shared_keys, FEED_COMPLETE),
    (Rule::CursorOfTheSameSnapshot, Postgres, shared_keys, FEED_COMPLETE),
    (Rule::FeedByPosition, Postgres, shared_keys, FEED_IN_ORDER),
    (Rule::FeedByPosition, MySql, shared_keys, FEED_IN_ORDER),
    (Rule::OneNumbersAtATime, MySql, readers, FEED_COMPLETE),
];

#[test]
fn each_broken_rule_breaks_its_invariant() {
    let mut wrong = Vec::new();
    for (rule, store, scenario, invariant) in NEEDED {
        let checker = Protocol::new(store, scenario()).without(rule).checker().threads(1);
        let found = HasDiscoveries::AllOf(BTreeSet::from([invariant]));
        let checker = checker.finish_when(found).spawn_bfs().join();
        if let Some(path) = checker.discovery(invariant) {
            let steps = path.into_actions().len();
            println!("{store:?} without {rule:?}: not so after {steps} steps: {invariant}");
        } else {
            wrong.push(format!("{store:?} without {rule:?} in {}: {invariant}", scenario().name));
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "these rules are not needed for that");
}

#[test]
fn no_rule_is_left_out() {
    let needed: BTreeSet<_> = NEEDED.iter().map(|(rule, ..)| format!("{rule:?}")).collect();
    assert_eq!(needed, Rule::ALL.iter().map(|rule| format!("{rule:?}")).collect());
}
