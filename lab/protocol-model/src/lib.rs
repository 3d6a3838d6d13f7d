//! A model of how commits are made on PostgreSQL and MySQL. A checker runs the model through every order of its steps.
//!
//! The model contains everything that the order of commits depends on: statements with their snapshots, locks on rows,
//! numbers and positions, commits, lost answers and retries, and readers of the feed. A [`Rule`] is a decision that the
//! stores rely on; a [`Protocol`] can break one, and then an [`invariant`] has to fail.
//!
//! The model relies on the following properties of the databases: a commit becomes visible as a whole and before its
//! locks are released, a statement of PostgreSQL reads the rows of its snapshot and the newest version of a row that it
//! locks, and a statement of MySQL reads the newest committed rows.

mod client;
mod database;
mod feed;
pub mod invariant;
mod rule;
pub mod scenario;
mod step;
mod transaction;

pub use client::{Address, Append, Operation};
pub use database::Store;
pub use rule::Rule;
pub use scenario::Scenario;

use stateright::{Model, Property};

use client::{Client, ClientId};
use database::Database;
use feed::Reader;
use transaction::Transaction;

/// A scenario on a store, with at most one broken rule.
#[derive(Clone, Debug)]
pub struct Protocol {
    store: Store,
    scenario: Scenario,
    broken: Option<Rule>,
}

/// The database, and its clients and readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    database: Database,
    transactions: Vec<Transaction>,
    clients: Vec<Client>,
    readers: Vec<Reader>,
    /// How many answers can still be lost.
    losses: u8,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Action {
    /// A transaction takes its next step.
    Step { client: ClientId, attempt: u8 },
    /// A client loses its connection and tries again, while the server continues the first attempt.
    LoseAnswer { client: ClientId },
    /// The server finds that no client waits for a transaction any more, and rolls the transaction back.
    RollBack { client: ClientId, attempt: u8 },
    /// A reader of the feed takes its next step.
    Read { reader: usize },
}

impl Protocol {
    /// Returns the protocol with all its rules.
    #[must_use]
    pub fn new(store: Store, scenario: Scenario) -> Self {
        Self { store, scenario, broken: None }
    }

    /// Breaks a rule.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self { broken: Some(rule), ..self }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let database = Database::with_sessions(&self.scenario.sessions);
        let readers = vec![Reader::at_the_end_of(&database); self.scenario.readers];
        let clients = self.scenario.clients.iter().cloned().map(Client::new).collect();
        let losses = self.scenario.losses;
        let mut state = State { database, transactions: Vec::new(), clients, readers, losses };
        (0..state.clients.len()).for_each(|client| state.begin_next(client));
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for transaction in &state.transactions {
            let (client, attempt) = (transaction.client, transaction.attempt);
            actions.push(Action::Step { client, attempt });
            if transaction.is_orphan {
                actions.push(Action::RollBack { client, attempt });
            } else if state.losses > 0 {
                actions.push(Action::LoseAnswer { client });
            }
        }
        actions.extend((0..state.readers.len()).map(|reader| Action::Read { reader }));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let is_possible = match action {
            Action::Step { client, attempt } => self.step(&mut state, client, attempt),
            Action::LoseAnswer { client } => {
                state.lose_answer(client, self);
                true
            }
            Action::RollBack { client, attempt } => {
                state.end(client, attempt);
                true
            }
            Action::Read { reader } => self.read(&mut state, reader),
        };
        is_possible.then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariant::properties()
    }
}
