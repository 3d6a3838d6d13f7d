//! The content that each event adds to a conversation.

use super::CLIENT_ID_PREFIX;
use scratchbook_core::content::{Content, FunctionCall, FunctionResponse, Part};
use scratchbook_core::event::Event;

/// One content of the conversation.
#[derive(Clone, Debug)]
pub(super) struct ConversationEntry<'a> {
    role: Option<&'a str>,
    said: EntryParts<'a>,
    /// The event that the content comes from; `None` for a report of another agent's words.
    event: Option<&'a Event>,
}

#[derive(Clone, Debug)]
enum EntryParts<'a> {
    /// All parts of the event.
    Whole(&'a [Part]),
    /// Some of the event's parts, or parts of several events.
    Picked(Vec<&'a Part>),
    /// A report about an event, without calls and responses.
    Quoted(Vec<Part>),
}

impl<'a> ConversationEntry<'a> {
    pub(super) fn of(event: &'a Event, content: &'a Content) -> Self {
        Self { role: content.role.as_deref(), said: EntryParts::Whole(content.parts()), event: Some(event) }
    }

    pub(super) fn quoted(parts: Vec<Part>) -> Self {
        Self { role: Some("user"), said: EntryParts::Quoted(parts), event: None }
    }

    /// Returns the same entry with these parts.
    pub(super) fn with_parts(&self, parts: Vec<&'a Part>) -> Self {
        Self { role: self.role, said: EntryParts::Picked(parts), event: self.event }
    }

    /// Returns the entry with the accepted parts; `None` if none is accepted.
    pub(super) fn retain(self, mut wanted: impl FnMut(&'a Part) -> bool) -> Option<Self> {
        let kept: Vec<_> = self.parts().filter(|part| wanted(part)).collect();
        if kept.len() == self.parts().count() {
            return Some(self);
        }
        (!kept.is_empty()).then(|| self.with_parts(kept))
    }

    /// Returns the event's own parts; empty for a report about an event.
    pub(super) fn parts(&self) -> impl Iterator<Item = &'a Part> + use<'a, '_> {
        let (whole, picked): (&'a [Part], &[&'a Part]) = match &self.said {
            EntryParts::Whole(parts) => (parts, &[]),
            EntryParts::Picked(parts) => (&[], parts),
            EntryParts::Quoted(_) => (&[], &[]),
        };
        whole.iter().chain(picked.iter().copied())
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &'a FunctionCall> + use<'a, '_> {
        self.parts().filter_map(|part| part.function_call.as_deref())
    }

    pub(super) fn responses(&self) -> impl Iterator<Item = &'a FunctionResponse> + use<'a, '_> {
        self.parts().filter_map(|part| part.function_response.as_deref())
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls().next().is_some()
    }

    pub(super) fn has_responses(&self) -> bool {
        self.responses().next().is_some()
    }

    pub(super) fn event(&self) -> Option<&'a Event> {
        self.event
    }

    pub(super) fn role(&self) -> Option<&'a str> {
        self.role
    }

    /// Builds the content. Ids that this crate has generated are removed unless `client_ids` is set.
    pub(super) fn into_content(self, client_ids: bool) -> Content {
        let own = |part: &Part| if client_ids { part.clone() } else { without_client_id(part) };
        let parts = match self.said {
            EntryParts::Whole(parts) => parts.iter().map(own).collect(),
            EntryParts::Picked(parts) => parts.into_iter().map(own).collect(),
            EntryParts::Quoted(parts) => parts,
        };
        Content { role: self.role.map(str::to_owned), parts: Some(parts), ..Content::default() }
    }
}

fn without_client_id(part: &Part) -> Part {
    let mut part = part.clone();
    let of_call = part.function_call.as_mut().map(|call| &mut call.id);
    let of_response = part.function_response.as_mut().map(|response| &mut response.id);
    for id in of_call.into_iter().chain(of_response) {
        id.take_if(|id| id.starts_with(CLIENT_ID_PREFIX));
    }
    part
}
