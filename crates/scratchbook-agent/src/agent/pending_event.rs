//! Builds an event from its id and the changes and actions of callbacks and tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::InvocationContext;
use super::invocation_state::{InvocationState, LayerId, Visibility};
use scratchbook_core::error::Result;
use scratchbook_core::event::{Event, EventActions};

/// An event that is not committed yet. Callbacks and tool calls receive contexts that write to it. The event contains
/// their changes and actions in the order in which the contexts were created.
///
/// A pending event has to be kept until its event has been yielded and taken: dropping it drops the changes that are
/// not committed.
#[derive(Debug)]
pub(crate) struct PendingEvent {
    context: InvocationContext,
    id: String,
    layers: Mutex<Vec<Arc<EventLayer>>>,
    /// Layers that are reused for each piece of a streamed answer.
    piece_layers: Mutex<Vec<Arc<EventLayer>>>,
}

/// The changes and actions that one callback or tool call adds to an event.
#[derive(Debug)]
pub(crate) struct EventLayer {
    pub(crate) id: LayerId,
    actions: Mutex<EventActions>,
}

impl EventLayer {
    pub(crate) fn actions(&self) -> MutexGuard<'_, EventActions> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the actions.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the layer's event is complete, committed or dropped, or if its call has failed.
    pub(crate) fn change(&self, state: &InvocationState, change: impl FnOnce(&mut EventActions)) -> Result<()> {
        // `PendingEvent::finish` seals the layer while it holds this lock, so that no change falls between.
        let mut actions = self.actions();
        state.check_open(self.id)?;
        change(&mut actions);
        Ok(())
    }
}

impl PendingEvent {
    pub(crate) fn new(context: &InvocationContext) -> Self {
        let id = context.environment().new_id();
        Self { context: context.clone(), id, layers: Mutex::default(), piece_layers: Mutex::default() }
    }

    /// Opens a layer for a callback or a tool call.
    pub(crate) fn layer(&self, visibility: Visibility) -> Arc<EventLayer> {
        let id = self.context.invocation_state().open(&self.id, visibility, self.context.layer_group());
        let layer = Arc::new(EventLayer { id, actions: Mutex::default() });
        self.layers().push(Arc::clone(&layer));
        layer
    }

    /// Returns the layer of the callback with this index. The same layer is used for each piece of a streamed answer.
    pub(crate) fn piece_layer(&self, place: usize) -> Arc<EventLayer> {
        let mut piece_layers = self.piece_layers.lock().unwrap_or_else(PoisonError::into_inner);
        while piece_layers.len() <= place {
            piece_layers.push(self.layer(Visibility::Everyone));
        }
        Arc::clone(&piece_layers[place])
    }

    /// Drops a layer and everything written to it.
    pub(crate) fn drop_layer(&self, layer: &Arc<EventLayer>) {
        self.context.invocation_state().discard(layer.id);
        self.layers().retain(|other| !Arc::ptr_eq(other, layer));
    }

    /// Drops a layer and everything written to it, and opens a new one in its place among the layers.
    pub(crate) fn replace_layer(&self, layer: &Arc<EventLayer>) -> Arc<EventLayer> {
        let id = self.context.invocation_state().replace(layer.id);
        let new = Arc::new(EventLayer { id, actions: Mutex::default() });
        for kept in self.layers().iter_mut().filter(|kept| Arc::ptr_eq(kept, layer)) {
            *kept = Arc::clone(&new);
        }
        new
    }

    /// Moves a layer from another pending event to this one.
    pub(crate) fn move_layer_from(&self, other: &Self, layer: &Arc<EventLayer>) {
        self.context.invocation_state().carry(layer.id, &self.id);
        other.layers().retain(|kept| !Arc::ptr_eq(kept, layer));
        self.layers().push(Arc::clone(layer));
    }

    /// Completes the event: sets its origin, and adds the content of all layers in their order. The event's own changes
    /// come last.
    pub(crate) fn finish(&self, mut event: Event) -> Result<Event> {
        let mut actions = EventActions::default();
        let (state, is_piece) = (self.context.invocation_state(), event.is_partial());
        for layer in self.layers().iter() {
            let own = layer.actions();
            let mut added = own.clone();
            added.state_delta = if is_piece { state.delta(layer.id)? } else { state.sealed_delta(layer.id)? };
            drop(own);
            merge_actions(&mut actions, added)?;
        }
        merge_actions(&mut actions, event.actions)?;
        event.actions = actions;
        event.id.clone_from(&self.id);
        self.context.set_origin(&mut event);
        Ok(event)
    }

    /// Returns an event with changes and actions but no content; `None` if there are none.
    pub(crate) fn finish_changes(&self) -> Result<Option<Event>> {
        let event = self.finish(Event::default())?;
        Ok((event.actions != EventActions::default()).then_some(event))
    }

    fn layers(&self) -> MutexGuard<'_, Vec<Arc<EventLayer>>> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingEvent {
    fn drop(&mut self) {
        for layer in self.layers().iter() {
            self.context.invocation_state().discard(layer.id);
        }
    }
}

/// Records that an artifact was saved. Saves may return in any order, so the largest version is kept.
pub(super) fn note_version(versions: &mut BTreeMap<String, u64>, name: String, version: u64) {
    let newest = versions.entry(name).or_insert(version);
    *newest = version.max(*newest);
}

/// Merges actions; if both set a field, the later value wins.
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
