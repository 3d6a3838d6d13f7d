//! Events that wait to be read. Pieces of streamed replies may be dropped from them.

use std::collections::VecDeque;
use std::sync::Arc;

use scratchbook::Event;

/// How many pieces wait at most.
const MOST_PIECES: usize = 4096;

/// Events in order. All whole events are kept, but only the latest pieces of streamed replies.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    events: VecDeque<Arc<Event>>,
    pieces: usize,
}

impl Backlog {
    /// Adds an event at the end. If too many pieces wait, the pieces of complete replies are dropped first, then the
    /// oldest pieces.
    pub(super) fn push(&mut self, event: Arc<Event>) {
        if event.is_partial() {
            if self.pieces == MOST_PIECES {
                self.thin();
            }
            self.pieces += 1;
        }
        self.events.push_back(event);
    }

    /// Takes the event at the beginning.
    pub(super) fn pop(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.pieces -= usize::from(event.is_partial());
        Some(event)
    }

    /// Drops the pieces of a reply that has arrived as a whole.
    pub(super) fn settle(&mut self, whole: &Event) {
        if self.pieces > 0 {
            self.retain(|event| !event.is_partial() || !is_same_reply(event, whole));
        }
    }

    /// Returns the number of the event with this id. Partial events are ignored.
    pub(super) fn seq_of(&self, event_id: &str) -> Option<u64> {
        self.events.iter().filter(|event| !event.is_partial()).find(|event| event.id == event_id)?.seq
    }

    fn thin(&mut self) {
        let mut wholes: Vec<Arc<Event>> = Vec::new();
        let mut kept = VecDeque::with_capacity(self.events.len());
        for event in std::mem::take(&mut self.events).into_iter().rev() {
            let is_piece = event.is_partial();
            if is_piece && wholes.iter().any(|whole| is_same_reply(&event, whole)) {
                continue;
            }
            if !is_piece && wholes.iter().all(|whole| !is_same_reply(&event, whole)) {
                wholes.push(Arc::clone(&event));
            }
            kept.push_front(event);
        }
        self.events = kept;
        self.count();
        if self.pieces == MOST_PIECES
            && let Some(oldest) = self.events.iter().position(|event| event.is_partial())
        {
            self.events.remove(oldest);
            self.pieces -= 1;
        }
    }

    fn retain(&mut self, keep: impl Fn(&Event) -> bool) {
        self.events.retain(|event| keep(event));
        self.count();
    }

    fn count(&mut self) {
        self.pieces = self.events.iter().filter(|event| event.is_partial()).count();
    }
}

/// Returns whether two events belong to the same reply. An agent ends each reply on its branch before it begins the
/// next.
fn is_same_reply(one: &Event, other: &Event) -> bool {
    one.author == other.author && one.branch == other.branch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(author: &str) -> Arc<Event> {
        let mut event = Event::new(author);
        event.partial = Some(true);
        Arc::new(event)
    }

    fn whole(author: &str, seq: u64) -> Arc<Event> {
        let mut event = Event::new(author);
        event.seq = Some(seq);
        event.id = format!("{author}-{seq}");
        Arc::new(event)
    }

    fn shown(mut backlog: Backlog) -> Vec<(String, bool)> {
        std::iter::from_fn(|| backlog.pop()).map(|event| (event.author.clone(), event.is_partial())).collect()
    }

    #[test]
    fn a_whole_settles_the_pieces_of_its_own_reply() {
        let mut backlog = Backlog::default();
        [piece("a"), piece("b"), piece("a")].into_iter().for_each(|event| backlog.push(event));
        backlog.settle(&whole("a", 1));
        backlog.push(whole("a", 1));
        assert_eq!(shown(backlog), [("b".to_owned(), true), ("a".to_owned(), false)]);
    }

    #[test]
    fn pieces_are_bounded_and_wholes_are_all_kept() {
        let mut backlog = Backlog::default();
        for seq in 1..=3 {
            (0..MOST_PIECES).for_each(|_| backlog.push(piece("a")));
            backlog.push(whole("a", seq));
        }
        (0..2 * MOST_PIECES).for_each(|_| backlog.push(piece("b")));
        assert_eq!(backlog.pieces, MOST_PIECES);
        assert_eq!(backlog.events.len(), MOST_PIECES + 3);
        assert_eq!(backlog.seq_of("a-2"), Some(2));
    }
}
