//! The writer's statements, each compiled once.
//!
//! One is found by where its text stands in the program. rusqlite's own cache finds it by what the text says, which it
//! hashes twice for each use; that is felt where an append is a dozen statements.

use std::cell::RefCell;
use std::fmt;

use rusqlite::{Connection, Statement};

use super::error::Fallible;

/// Statements of a connection.
pub(super) struct Statements<'c> {
    connection: &'c Connection,
    known: RefCell<Vec<Known<'c>>>,
}

struct Known<'c> {
    /// The address and the length of its text: two texts may begin at one place.
    text: (usize, usize),
    /// Absent while it is used.
    statement: Option<Statement<'c>>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, known: RefCell::default() }
    }

    /// Does something with a statement, which keeps nothing of it afterwards.
    pub(super) fn with<T>(
        &self,
        sql: &'static str,
        work: impl FnOnce(&mut Statement<'c>) -> Fallible<T>,
    ) -> Fallible<T> {
        let (place, idle) = self.take(sql);
        let mut statement = match idle {
            Some(statement) => statement,
            None => self.connection.prepare(sql)?,
        };
        let done = work(&mut statement);
        // A large event is not kept until the next one.
        statement.clear_bindings();
        if let Some(known) = self.known.borrow_mut().get_mut(place) {
            known.statement = Some(statement);
        }
        done
    }

    /// The place of a statement, and it where it is there.
    fn take(&self, sql: &'static str) -> (usize, Option<Statement<'c>>) {
        let text = (sql.as_ptr().addr(), sql.len());
        let mut known = self.known.borrow_mut();
        if let Some(place) = known.iter().position(|known| known.text == text) {
            return (place, known[place].statement.take());
        }
        known.push(Known { text, statement: None });
        (known.len() - 1, None)
    }
}

impl fmt::Debug for Statements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").finish_non_exhaustive()
    }
}
