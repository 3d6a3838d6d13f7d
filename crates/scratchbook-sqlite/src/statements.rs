//! The writer's prepared statements, each compiled once.
//!
//! A statement is found by the address of its text. rusqlite's own cache hashes the text twice per use, which is
//! measurable when an append takes a dozen statements.

use std::cell::RefCell;
use std::fmt;

use rusqlite::{Connection, Statement};

use super::error::Fallible;

/// The prepared statements of a connection.
pub(super) struct Statements<'c> {
    connection: &'c Connection,
    entries: RefCell<Vec<StatementSlot<'c>>>,
}

struct StatementSlot<'c> {
    /// The address and the length of the text, because two texts may begin at the same address.
    text: (usize, usize),
    /// `None` while the statement is in use.
    statement: Option<Statement<'c>>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, entries: RefCell::default() }
    }

    /// Runs `work` with a statement, and clears its bindings afterwards.
    pub(super) fn with<T>(
        &self,
        sql: &'static str,
        work: impl FnOnce(&mut Statement<'c>) -> Fallible<T>,
    ) -> Fallible<T> {
        let (index, idle) = self.take(sql);
        let mut statement = match idle {
            Some(statement) => statement,
            None => self.connection.prepare(sql)?,
        };
        let done = work(&mut statement);
        // Otherwise a large event would stay in memory until the next one.
        statement.clear_bindings();
        if let Some(entry) = self.entries.borrow_mut().get_mut(index) {
            entry.statement = Some(statement);
        }
        done
    }

    /// Returns the index of a statement, and the statement itself if it is compiled and not in use.
    fn take(&self, sql: &'static str) -> (usize, Option<Statement<'c>>) {
        let text = (sql.as_ptr().addr(), sql.len());
        let mut entries = self.entries.borrow_mut();
        if let Some(index) = entries.iter().position(|entry| entry.text == text) {
            return (index, entries[index].statement.take());
        }
        entries.push(StatementSlot { text, statement: None });
        (entries.len() - 1, None)
    }
}

impl fmt::Debug for Statements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").finish_non_exhaustive()
    }
}
