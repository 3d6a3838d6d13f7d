//! Readers of the feed. Each reader reads from its cursor on.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::database::{Change, ChangeKind, Database, Entry, Holder, Row, Store};
use crate::{Protocol, Rule, State};

/// A reader, which keeps what it has read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    pub(crate) read: Vec<Entry>,
    /// On PostgreSQL, the cursor's snapshot, as the number of commits that it shows. On MySQL, the number after the
    /// last one that was read.
    cursor: u8,
    /// The snapshot up to which pages are read, and the place in it after the last page (PostgreSQL).
    window: Option<(u8, Place)>,
    /// The entries that get numbers with the commit of this reader's transaction (MySQL).
    numbering: Option<BTreeMap<Entry, u8>>,
    /// Only if the rule on cursors is broken: whether the reader still has to take the next cursor.
    owes_cursor: bool,
}

/// The place of an entry among the entries that are read together.
type Place = (u8, u8, Reverse<u8>, u8, u8, u8);

impl Reader {
    pub(crate) fn at_the_end_of(database: &Database) -> Self {
        Self { read: Vec::new(), cursor: database.commits(), window: None, numbering: None, owes_cursor: false }
    }
}

impl Protocol {
    /// Takes the next step of a reader. Returns `false` if there is no step left.
    pub(crate) fn read(&self, state: &mut State, number: usize) -> bool {
        let State { database, readers, .. } = state;
        let Some(reader) = readers.get_mut(number) else { return false };
        match self.store {
            Store::Postgres => self.read_window(database, reader),
            Store::MySql => self.read_numbers(database, reader, number),
        }
    }

    /// Returns whether a reader has nothing to read.
    pub(crate) fn is_at_end(&self, state: &State, number: usize) -> bool {
        state.readers[number].numbering.is_none() && !self.read(&mut state.clone(), number)
    }

    /// Reads a page of the changes that the end of the window shows and the cursor does not show.
    fn read_window(&self, database: &Database, reader: &mut Reader) -> bool {
        if reader.owes_cursor {
            (reader.cursor, reader.owes_cursor) = (database.commits(), false);
            return true;
        }
        let (to, after) = match reader.window {
            Some((to, after)) => (to, Some(after)),
            None => (database.commits(), None),
        };
        if !self.keeps(Rule::FeedFollowsCommits) {
            let last = reader.read.iter().map(|entry| self.place(database, *entry)).max();
            return self.read_page(database, reader, 1, to, last).is_some();
        }
        if reader.window.is_none() && to == reader.cursor {
            return false;
        }
        match self.read_page(database, reader, reader.cursor, to, after) {
            Some(last) => reader.window = Some((to, last)),
            None => {
                reader.window = None;
                reader.owes_cursor = !self.keeps(Rule::CursorOfTheSameSnapshot);
                reader.cursor = to;
            }
        }
        true
    }

    /// Reads the next entry of some commits and returns its place. A page has only one entry here.
    fn read_page(
        &self,
        database: &Database,
        reader: &mut Reader,
        from: u8,
        to: u8,
        after: Option<Place>,
    ) -> Option<Place> {
        let now = database.now();
        let entries = database.entries(from, to).filter(|entry| now.shows(*entry, database.change(*entry)));
        let places = entries.map(|entry| (self.place(database, entry), entry));
        let (place, entry) = places.filter(|(place, _)| after.is_none_or(|after| *place > after)).min()?;
        reader.read.push(entry);
        Some(place)
    }

    /// Gives numbers to commits without a number, or reads the next entry by its number.
    fn read_numbers(&self, database: &mut Database, reader: &mut Reader, number: usize) -> bool {
        if let Some(numbering) = reader.numbering.take() {
            database.numbers.extend(numbering);
            database.release(Holder::Reader(number));
            return true;
        }
        let now = database.now();
        let shown = |entry: &Entry| now.shows(*entry, database.change(*entry));
        let entries: Vec<_> = database.entries(1, database.commits()).filter(shown).collect();
        if !self.keeps(Rule::FeedFollowsCommits) {
            database.numbers = entries.iter().map(|entry| (*entry, database.change(*entry).position.early)).collect();
        }
        let mut unnumbered: Vec<_> = entries.iter().filter(|entry| !database.numbers.contains_key(entry)).collect();
        if !unnumbered.is_empty() {
            if self.keeps(Rule::OneNumbersAtATime) && !database.lock(Row::Feed, Holder::Reader(number)) {
                return false;
            }
            let last = database.numbers.values().max().copied().unwrap_or_default();
            unnumbered.sort_by_key(|entry| self.place(database, **entry));
            reader.numbering = Some(unnumbered.into_iter().copied().zip(last + 1..).collect());
            return true;
        }
        let numbers = entries.iter().filter_map(|entry| Some((*database.numbers.get(entry)?, *entry)));
        let Some((number, entry)) = numbers.filter(|(number, _)| *number >= reader.cursor).min() else {
            return false;
        };
        reader.read.push(entry);
        reader.cursor = number + 1;
        true
    }

    fn place(&self, database: &Database, entry: Entry) -> Place {
        let Change { kind, position } = database.change(entry);
        let (client, attempt) = database.log[usize::from(entry.0)].transaction;
        if !self.keeps(Rule::FeedByPosition) {
            return (u8::try_from(client).unwrap_or(u8::MAX), attempt, Reverse(0), 0, 0, entry.1);
        }
        if self.store == Store::Postgres {
            return (position.sequence, 0, Reverse(0), 0, 0, entry.1);
        }
        // Removals come before what was made after them, and creations before events.
        let (of_kind, session, number) = match kind {
            ChangeKind::Erased { .. } => (2, 0, 0),
            ChangeKind::Deleted { session, .. } => (2, session.0, 0),
            ChangeKind::Created { session } => (1, session.0, 0),
            ChangeKind::Stored { session, number, .. } => (0, session.0, *number),
        };
        // The order is by the positions of the app and the user, then by kind (removals first), user, session and
        // number.
        (position.app, position.user, Reverse(of_kind), kind.user(), session, number)
    }
}
