//! Pairs calls and responses, because models refuse a call without its response and a response without its call.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::entry::ConversationEntry;
use scratchbook_core::content::{FunctionCall, FunctionResponse, Part};
use scratchbook_core::event::Event;

/// Removes each response that is not preceded by its call. A response without an id is matched by its tool's name.
pub(super) fn without_orphaned_responses(entries: Vec<ConversationEntry<'_>>) -> Vec<ConversationEntry<'_>> {
    let mut made: HashSet<CallKey<'_>> = HashSet::new();
    let mut kept = Vec::with_capacity(entries.len());
    for entry in entries {
        // An entry does not answer its own calls.
        let calls: Vec<_> = entry.calls().filter_map(CallKey::of_call).collect();
        let entry = entry.retain(|part| {
            let Some(response) = &part.function_response else {
                return true;
            };
            let known = CallKey::of_response(response).is_some_and(|key| made.contains(&key));
            if !known {
                tracing::debug!(id = response.id, "a response without its call is left out of the request");
            }
            known
        });
        kept.extend(entry);
        made.extend(calls);
    }
    kept
}

/// Identifies the call of a response: by id, or by the tool's name if there is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::agent) enum CallKey<'a> {
    Id(&'a str),
    Name(&'a str),
}

impl<'a> CallKey<'a> {
    pub(in crate::agent) fn of_call(call: &'a FunctionCall) -> Option<Self> {
        Self::new(call.id.as_deref(), call.name.as_deref())
    }

    pub(in crate::agent) fn of_response(response: &'a FunctionResponse) -> Option<Self> {
        Self::new(response.id.as_deref(), response.name.as_deref())
    }

    fn new(id: Option<&'a str>, name: Option<&'a str>) -> Option<Self> {
        let given = |text: &&str| !text.is_empty();
        id.filter(given).map(Self::Id).or_else(|| name.filter(given).map(Self::Name))
    }
}

/// Removes calls without a response, which an interrupted run has left. Calls of long-running tools are kept, since
/// their responses come later.
pub(super) fn without_orphaned_calls(entries: Vec<ConversationEntry<'_>>) -> Vec<ConversationEntry<'_>> {
    let mut answered: HashSet<&str> = HashSet::new();
    for entry in &entries {
        answered.extend(entry.responses().filter_map(|response| response.id.as_deref()));
        let later = entry.event().and_then(|event| event.long_running_tool_ids.as_ref());
        answered.extend(later.into_iter().flatten().map(String::as_str));
    }
    let is_answered = |part: &Part| {
        let id = part.function_call.as_ref().and_then(|call| call.id.as_deref()).filter(|id| !id.is_empty());
        let Some(id) = id.filter(|id| !answered.contains(id)) else {
            return true;
        };
        tracing::debug!(id, "a call without a response is left out of the request");
        false
    };
    entries.into_iter().filter_map(|entry| entry.retain(is_answered)).collect()
}

/// Moves each response right after its call. If a call has several responses, the last one is kept. A model's words
/// between them are left out, since the model did not know the last response when it wrote them.
pub(super) fn responses_after_calls(entries: Vec<ConversationEntry<'_>>) -> Vec<ConversationEntry<'_>> {
    let Some(answers) = ResponseIndex::of(&entries) else {
        return entries;
    };
    let outdated = answers.outdated(&entries);
    let mut arranged = Vec::with_capacity(entries.len());
    let mut entries: Vec<_> = entries.into_iter().map(Some).collect();
    for place in 0..entries.len() {
        // One event may answer the calls of several events, so responses are written together with their calls.
        let Some(entry) = entries[place].take_if(|entry| !entry.has_responses()).filter(|_| !outdated[place]) else {
            continue;
        };
        let last = |call: &FunctionCall| answers.by_call.get(&(call.id.as_deref(), place))?.last().copied();
        let places: BTreeSet<usize> = entry.calls().filter_map(last).collect();
        let found: Vec<_> = places.into_iter().filter_map(|place| entries[place].as_ref()).collect();
        arranged.push(entry);
        arranged.extend(merged(&found));
    }
    arranged
}

/// Merges entries of responses: a later response to a call replaces the earlier one, other parts are added.
pub(super) fn merged<'a>(entries: &[&ConversationEntry<'a>]) -> Option<ConversationEntry<'a>> {
    let (first, later) = entries.split_first()?;
    if later.is_empty() {
        return Some((*first).clone());
    }
    let mut parts: Vec<&'a Part> = first.parts().collect();
    let id = |part: &&'a Part| part.function_response.as_ref().map(|response| response.id.as_deref());
    let mut places: HashMap<Option<&str>, usize> =
        parts.iter().enumerate().filter_map(|(place, part)| Some((id(part)?, place))).collect();
    for part in later.iter().flat_map(|entry| entry.parts()) {
        match id(&part).map(|id| *places.entry(id).or_insert(parts.len())) {
            Some(place) if place < parts.len() => parts[place] = part,
            _ => parts.push(part),
        }
    }
    Some(first.with_parts(parts))
}

/// The entries that answer each call. If several calls have the same id, a response belongs to the last such call
/// before it.
struct ResponseIndex<'a> {
    /// The places of the responses, by id and place of the call.
    by_call: HashMap<(Option<&'a str>, usize), Vec<usize>>,
}

impl<'a> ResponseIndex<'a> {
    /// Returns `None` if there are no responses.
    fn of(entries: &[ConversationEntry<'a>]) -> Option<Self> {
        if !entries.iter().any(ConversationEntry::has_responses) {
            return None;
        }
        let mut first: HashMap<Option<&str>, usize> = HashMap::new();
        let makes_calls = |entry: &&ConversationEntry<'_>| !entry.has_responses();
        for (place, entry) in entries.iter().enumerate().filter(|(_, entry)| makes_calls(entry)) {
            for call in entry.calls() {
                first.entry(call.id.as_deref()).or_insert(place);
            }
        }
        let mut last: HashMap<Option<&str>, usize> = HashMap::new();
        let mut by_call: HashMap<_, Vec<usize>> = HashMap::new();
        for (place, entry) in entries.iter().enumerate() {
            if entry.has_responses() {
                for id in entry.responses().map(|response| response.id.as_deref()) {
                    // A response that comes before every call with its id belongs to the first of these calls.
                    if let Some(call) = last.get(&id).or_else(|| first.get(&id)) {
                        by_call.entry((id, *call)).or_default().push(place);
                    }
                }
            } else {
                last.extend(entry.calls().map(|call| (call.id.as_deref(), place)));
            }
        }
        Some(Self { by_call })
    }

    /// Marks a model's words that stand between two responses to the same call of the same run.
    fn outdated(&self, entries: &[ConversationEntry<'_>]) -> Vec<bool> {
        let ends = ends_of_replies(entries);
        let mut outdated = vec![false; entries.len()];
        let pairs: HashSet<(usize, usize)> =
            self.by_call.values().flat_map(|places| places.windows(2).map(|pair| (pair[0], pair[1]))).collect();
        for (from, to) in pairs {
            let (Some(earlier), Some(later)) = (entries[from].event(), entries[to].event()) else {
                continue;
            };
            let asks = !earlier.actions.requested_tool_confirmations.is_empty()
                || !earlier.actions.requested_auth_configs.is_empty();
            let of_one = earlier.invocation_id == later.invocation_id && earlier.author == later.author;
            let between = entries.get(from + 1).and_then(ConversationEntry::event).map(|event| &event.invocation_id);
            if !asks && of_one && from + 1 < to && ends[from + 1] >= to && between == Some(&earlier.invocation_id) {
                outdated[from + 1..to].fill(true);
            }
        }
        outdated
    }
}

/// Returns, for each place, the end of the sequence of one run's replies that starts there, or the place itself if no
/// sequence starts there.
fn ends_of_replies(entries: &[ConversationEntry<'_>]) -> Vec<usize> {
    let mut ends: Vec<usize> = (0..entries.len()).collect();
    for place in (0..entries.len()).rev().filter(|place| is_reply(&entries[*place])) {
        let run =
            |place: usize| entries.get(place).and_then(ConversationEntry::event).map(|event| &event.invocation_id);
        let goes_on = ends.get(place + 1).copied().filter(|end| *end > place + 1 && run(place) == run(place + 1));
        ends[place] = goes_on.unwrap_or(place + 1);
    }
    ends
}

/// Returns whether an entry is a model's words without a call.
fn is_reply(entry: &ConversationEntry<'_>) -> bool {
    let of_model = |event: &Event| event.author != "user" && event.actions.compaction.is_none();
    entry.role() == Some("model")
        && entry.event().is_some_and(of_model)
        && !entry.has_calls()
        && entry.parts().any(|part| part.text.as_ref().is_some_and(|text| !text.is_empty()))
}
