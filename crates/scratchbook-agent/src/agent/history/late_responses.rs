//! Moves late responses from the end of the conversation to their calls and leaves out the entries in between. The
//! model then continues after these responses.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::entry::ConversationEntry;
use super::pairs::{CallKey, merged};
use scratchbook_core::content::Part;

/// Cuts the conversation after the call that the last entry answers, and moves each response next to its call.
pub(super) fn beside_their_calls(mut entries: Vec<ConversationEntry<'_>>) -> Vec<ConversationEntry<'_>> {
    let [before @ .., last] = &entries[..] else {
        return entries;
    };
    if !last.has_responses() || before.last().is_none_or(|calls| answers_only(last, calls)) {
        return entries;
    }
    let owners = owners(&entries);
    let mut answered: BTreeMap<usize, Vec<&Part>> = BTreeMap::new();
    let mut beside = Vec::new();
    for (part, owner) in last.parts().zip(&owners[before.len()]) {
        match owner {
            CallMatch::Call(place) => answered.entry(*place).or_default().push(part),
            CallMatch::NoAnswer => beside.push(part),
            CallMatch::NoCall => {}
        }
    }
    let Some(mut latest) = answered.last_entry() else {
        return entries;
    };
    let until = latest.key() + 1;
    latest.get_mut().extend(beside);
    let mut answers = earlier_answers(before, &owners, &answered);
    for (place, parts) in &answered {
        answers.entry(*place).or_default().push(last.with_parts(parts.clone()));
    }
    entries.truncate(until);
    let mut arranged = Vec::with_capacity(until + answers.len());
    for (place, entry) in entries.into_iter().enumerate() {
        arranged.extend(without_moved(entry, &owners[place], &answered));
        let beside: Vec<_> = answers.get(&place).into_iter().flatten().collect();
        arranged.extend(merged(&beside));
    }
    arranged
}

/// Returns whether the entry `calls` makes all the calls that `answers` answers. In this common case, nothing moves.
fn answers_only(answers: &ConversationEntry<'_>, calls: &ConversationEntry<'_>) -> bool {
    let made: HashSet<_> = calls.calls().filter_map(CallKey::of_call).collect();
    answers.responses().all(|response| CallKey::of_response(response).is_some_and(|key| made.contains(&key)))
}

/// How a part relates to a call.
#[derive(Clone, Copy, Debug)]
enum CallMatch {
    /// The part answers the call at this place.
    Call(usize),
    /// The part answers a call that is not in the conversation.
    NoCall,
    /// The part is not a response.
    NoAnswer,
}

/// Returns the call that each part of each entry answers: the last call before the part with the same key.
fn owners(entries: &[ConversationEntry<'_>]) -> Vec<Vec<CallMatch>> {
    let mut last: HashMap<CallKey<'_>, usize> = HashMap::new();
    let mut owners = Vec::with_capacity(entries.len());
    for (place, entry) in entries.iter().enumerate() {
        let owner = |part: &Part| match &part.function_response {
            None => CallMatch::NoAnswer,
            Some(response) => {
                let call = CallKey::of_response(response).and_then(|key| last.get(&key));
                call.map_or(CallMatch::NoCall, |place| CallMatch::Call(*place))
            }
        };
        owners.push(entry.parts().map(owner).collect());
        last.extend(entry.calls().filter_map(CallKey::of_call).map(|key| (key, place)));
    }
    owners
}

/// Returns the earlier responses to each call, by the call's place. They are grouped by the entry that contains them.
fn earlier_answers<'a>(
    entries: &[ConversationEntry<'a>],
    owners: &[Vec<CallMatch>],
    answered: &BTreeMap<usize, Vec<&Part>>,
) -> HashMap<usize, Vec<ConversationEntry<'a>>> {
    let mut earlier: HashMap<usize, Vec<ConversationEntry<'a>>> = HashMap::new();
    for (entry, owners) in entries.iter().zip(owners).filter(|(entry, _)| entry.has_responses()) {
        let mut calls: Vec<usize> = owners
            .iter()
            .filter_map(|owner| match owner {
                CallMatch::Call(place) if answered.contains_key(place) => Some(*place),
                _ => None,
            })
            .collect();
        calls.sort_unstable();
        calls.dedup();
        for call in calls {
            let is_for = |owner: &CallMatch| match owner {
                CallMatch::Call(place) => *place == call,
                CallMatch::NoCall => false,
                CallMatch::NoAnswer => !entry.has_calls(),
            };
            let parts: Vec<_> =
                entry.parts().zip(owners).filter(|(_, owner)| is_for(owner)).map(|(part, _)| part).collect();
            earlier.entry(call).or_default().push(entry.with_parts(parts));
        }
    }
    earlier
}

/// Returns the entry without the responses that are moved; `None` if it has no call or response left.
fn without_moved<'a>(
    entry: ConversationEntry<'a>,
    owners: &[CallMatch],
    moved: &BTreeMap<usize, Vec<&Part>>,
) -> Option<ConversationEntry<'a>> {
    if !entry.has_responses() {
        return Some(entry);
    }
    let stays = |owner: &CallMatch| !matches!(owner, CallMatch::Call(place) if moved.contains_key(place));
    let kept: Vec<_> = entry.parts().zip(owners).filter(|(_, owner)| stays(owner)).map(|(part, _)| part).collect();
    let counts = kept.iter().any(|part| part.function_call.is_some() || part.function_response.is_some());
    counts.then(|| if kept.len() == owners.len() { entry.clone() } else { entry.with_parts(kept) })
}
