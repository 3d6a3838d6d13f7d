//! An event in the making: the id it will have, and what callbacks and tools have done for it so far.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::board::{LayerId, Seen};
use super::context::InvocationContext;
use scratchbook_core::error::Result;
use scratchbook_core::event::{Event, EventActions};

/// An event that is not yet committed. Contexts are handed out for it; their writes and actions go into it in
/// the order in which they were handed out.
///
/// A draft lives until its event has been yielded and taken. What was written for it and is not committed by
/// then goes with it.
#[derive(Debug)]
pub(crate) struct EventDraft {
    context: InvocationContext,
    id: String,
    pages: Mutex<Vec<Arc<Page>>>,
    /// Pages that are used again for each piece of a streamed answer.
    slots: Mutex<Vec<Arc<Page>>>,
}

/// What one callback or tool call adds to an event.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) layer: LayerId,
    actions: Mutex<EventActions>,
}

impl Page {
    pub(crate) fn actions(&self) -> MutexGuard<'_, EventActions> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventDraft {
    pub(crate) fn new(context: &InvocationContext) -> Self {
        let id = context.environment().new_id();
        Self { context: context.clone(), id, pages: Mutex::default(), slots: Mutex::default() }
    }

    /// A page for a callback or a tool call.
    pub(crate) fn page(&self, seen_by: Seen) -> Arc<Page> {
        let layer = self.context.board().open(&self.id, seen_by, self.context.layer_group());
        let page = Arc::new(Page { layer, actions: Mutex::default() });
        self.pages().push(Arc::clone(&page));
        page
    }

    /// The page of the callback at a place, which is asked about each piece of a streamed answer.
    pub(crate) fn slot(&self, place: usize) -> Arc<Page> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        while slots.len() <= place {
            slots.push(self.page(Seen::ByAll));
        }
        Arc::clone(&slots[place])
    }

    /// Takes a page out again, with all that was written to it.
    pub(crate) fn tear_out(&self, page: &Arc<Page>) {
        self.context.board().discard(page.layer);
        self.pages().retain(|other| !Arc::ptr_eq(other, page));
    }

    /// Takes over a page of another draft, whose event is not to carry it.
    pub(crate) fn adopt(&self, other: &Self, page: &Arc<Page>) {
        self.context.board().carry(page.layer, &self.id);
        other.pages().retain(|kept| !Arc::ptr_eq(kept, page));
        self.pages().push(Arc::clone(page));
    }

    /// The event with its address and everything the pages add; pages written later go before the event's
    /// own changes.
    pub(crate) fn finish(&self, mut event: Event) -> Result<Event> {
        let mut actions = EventActions::default();
        for page in self.pages().iter() {
            let mut added = page.actions().clone();
            added.state_delta = self.context.board().delta(page.layer)?;
            merge_actions(&mut actions, added)?;
        }
        merge_actions(&mut actions, event.actions)?;
        event.actions = actions;
        event.id.clone_from(&self.id);
        self.context.address(&mut event);
        Ok(event)
    }

    /// An event of state and actions alone, or `None` where there are none.
    pub(crate) fn finish_changes(&self) -> Result<Option<Event>> {
        let event = self.finish(Event::default())?;
        Ok((event.actions != EventActions::default()).then_some(event))
    }

    fn pages(&self) -> MutexGuard<'_, Vec<Arc<Page>>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EventDraft {
    fn drop(&mut self) {
        for page in self.pages().iter() {
            self.context.board().discard(page.layer);
        }
    }
}

/// Notes that an artifact was saved. The larger version is the newer one, whatever the order in which saves return.
pub(super) fn note_version(versions: &mut BTreeMap<String, u64>, name: String, version: u64) {
    let newest = versions.entry(name).or_insert(version);
    *newest = version.max(*newest);
}

/// Adds actions to others; where both say something, the later wins.
fn merge_actions(into: &mut EventActions, later: EventActions) -> Result<()> {
    into.state_delta.merge(later.state_delta)?;
    for (name, version) in later.artifact_delta {
        note_version(&mut into.artifact_delta, name, version);
    }
    into.requested_auth_configs.extend(later.requested_auth_configs);
    into.requested_tool_confirmations.extend(later.requested_tool_confirmations);
    if !later.extra.is_empty() {
        into.extra.extend(later.extra.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    macro_rules! take_over {
        ($($field:ident),*) => {$(
            if later.$field.is_some() {
                into.$field = later.$field;
            }
        )*};
    }
    take_over!(
        skip_summarization,
        transfer_to_agent,
        transfer_reason,
        escalate,
        compaction,
        end_of_agent,
        agent_state,
        rewind_before_invocation_id,
        route,
        render_ui_widgets,
        set_model_response
    );
    Ok(())
}
