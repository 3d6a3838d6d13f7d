//! What an event adds to a conversation.

use super::CLIENT_ID_PREFIX;
use scratchbook_core::content::{Content, FunctionCall, FunctionResponse, Part};
use scratchbook_core::event::Event;

/// One content to come.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    role: Option<&'a str>,
    said: Said<'a>,
    /// The event it is of; another agent's words have none.
    event: Option<&'a Event>,
}

#[derive(Clone, Debug)]
enum Said<'a> {
    /// All parts of an event.
    Whole(&'a [Part]),
    /// Some of its parts, or of several events.
    Picked(Vec<&'a Part>),
    /// Words about an event; no calls, no answers.
    Told(Vec<Part>),
}

impl<'a> Entry<'a> {
    pub(super) fn of(event: &'a Event, content: &'a Content) -> Self {
        Self { role: content.role.as_deref(), said: Said::Whole(content.parts()), event: Some(event) }
    }

    pub(super) fn told(parts: Vec<Part>) -> Self {
        Self { role: Some("user"), said: Said::Told(parts), event: None }
    }

    /// The same entry with these parts.
    pub(super) fn with_parts(&self, parts: Vec<&'a Part>) -> Self {
        Self { role: self.role, said: Said::Picked(parts), event: self.event }
    }

    /// The same entry with the parts that are wanted; itself where that is all, nothing where it is none.
    pub(super) fn retain(self, mut wanted: impl FnMut(&'a Part) -> bool) -> Option<Self> {
        let kept: Vec<_> = self.parts().filter(|part| wanted(part)).collect();
        if kept.len() == self.parts().count() {
            return Some(self);
        }
        (!kept.is_empty()).then(|| self.with_parts(kept))
    }

    /// The parts of its event; of words about one, none.
    pub(super) fn parts(&self) -> impl Iterator<Item = &'a Part> + use<'a, '_> {
        let (whole, picked): (&'a [Part], &[&'a Part]) = match &self.said {
            Said::Whole(parts) => (parts, &[]),
            Said::Picked(parts) => (&[], parts),
            Said::Told(_) => (&[], &[]),
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

    /// The content, which is the model's own to keep; without ids that were made here, unless these are wanted.
    pub(super) fn into_content(self, client_ids: bool) -> Content {
        let own = |part: &Part| if client_ids { part.clone() } else { without_client_id(part) };
        let parts = match self.said {
            Said::Whole(parts) => parts.iter().map(own).collect(),
            Said::Picked(parts) => parts.into_iter().map(own).collect(),
            Said::Told(parts) => parts,
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
