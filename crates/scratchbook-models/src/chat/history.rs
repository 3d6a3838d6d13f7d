//! The conversation as turns that every provider accepts: each call is followed by its response with the same id.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{ProviderProfile, WireProtocol};
use scratchbook_core::content::{Content, FunctionCall, FunctionResponse, Part};

/// The response of a call that has none in the conversation, in ADK's words.
const MISSING: &str =
    "Error: Missing tool result (tool execution may have been interrupted before a response was recorded).";

/// One side's turn.
#[derive(Debug)]
pub(super) enum ChatTurn {
    User(Vec<Part>),
    Model(Vec<Part>),
    /// The responses to the calls of the previous turn, in their order.
    Answers(Vec<Reply>),
}

/// The response to a call.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) id: String,
    pub(super) name: String,
    /// The response as JSON text.
    pub(super) text: String,
    /// Media that a tool returned with the response.
    pub(super) media: Vec<Part>,
}

/// Returns the turns of a conversation.
///
/// Providers refuse calls without responses and responses without calls. So each response is placed right after its
/// call, even if it came later. Of several responses to a call, the last counts. For a call without a
/// response, ADK's text for a missing response is sent. A response without a call becomes text.
pub(super) fn turns(contents: &[Content], profile: &ProviderProfile) -> Vec<ChatTurn> {
    let (turns, open, nameless) = (Vec::new(), HashMap::new(), Vec::new());
    let mut pairing = Pairing { profile, turns, open, nameless, sent: HashSet::new(), made: 0 };
    contents.iter().for_each(|content| pairing.read(content));
    pairing.turns
}

/// The position of a response to a call: the turn, and the place in that turn.
type ReplyPosition = (usize, usize);

/// The calls with one id.
#[derive(Default)]
struct CallsOfId {
    /// The calls of one turn that have no response yet. Some servers give the same id to all calls of an answer.
    waiting: VecDeque<ReplyPosition>,
    /// The call that got the last response.
    answered: Option<ReplyPosition>,
}

struct Pairing<'a> {
    profile: &'a ProviderProfile,
    turns: Vec<ChatTurn>,
    open: HashMap<String, CallsOfId>,
    /// Calls without ids that have no response yet. Each has its tool's name.
    nameless: Vec<(String, ReplyPosition)>,
    /// The ids of all calls so far.
    sent: HashSet<String>,
    /// How many ids were generated.
    made: usize,
}

impl Pairing<'_> {
    fn read(&mut self, content: &Content) {
        let mut said = Vec::new();
        let mut calls = false;
        for part in content.parts() {
            if let Some(response) = &part.function_response {
                said.extend(self.answer(response));
            } else {
                calls |= part.function_call.is_some();
                said.push(part.clone());
            }
        }
        if said.is_empty() {
            return;
        }
        if calls || matches!(content.role.as_deref(), Some("model" | "assistant")) {
            self.model(said);
        } else {
            self.turns.push(ChatTurn::User(said));
        }
    }

    fn model(&mut self, mut said: Vec<Part>) {
        let turn = self.turns.len() + 1;
        let mut replies = Vec::new();
        for call in said.iter_mut().filter_map(|part| part.function_call.as_mut()) {
            let name = call.name.clone().unwrap_or_default();
            let id = self.open(call, &name, (turn, replies.len()));
            call.id = Some(id.clone());
            replies.push(Reply { id, name, text: MISSING.to_owned(), media: Vec::new() });
        }
        self.turns.push(ChatTurn::Model(said));
        if !replies.is_empty() {
            self.turns.push(ChatTurn::Answers(replies));
        }
    }

    /// Records where a call's response belongs, and returns the id that is sent to the provider for the call and the
    /// response.
    fn open(&mut self, call: &FunctionCall, name: &str, place: ReplyPosition) -> String {
        match call.id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => {
                let calls = self.open.entry(id.to_owned()).or_default();
                calls.waiting.retain(|(turn, _)| *turn == place.0);
                calls.waiting.push_back(place);
                if self.is_taken(id) {
                    self.sent.insert(id.to_owned());
                    return id.to_owned();
                }
            }
            None => self.nameless.push((name.to_owned(), place)),
        }
        self.made += 1;
        format!("call{:05}", self.made)
    }

    /// Sets the response of its call. If there is no such call, returns the parts that describe the response.
    fn answer(&mut self, response: &FunctionResponse) -> Vec<Part> {
        let name = response.name.clone().unwrap_or_default();
        let text = serde_json::to_string(&response.response.clone().unwrap_or_default()).unwrap_or_default();
        // Parts that are not media are dropped.
        let media = response.parts.iter().flatten().filter_map(|part| serde_json::from_value(part.clone()).ok());
        let media: Vec<Part> =
            media.filter(|part: &Part| part.inline_data.is_some() || part.file_data.is_some()).collect();
        let place = match response.id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => self.open.get_mut(id).and_then(|calls| {
                calls.answered = calls.waiting.pop_front().or(calls.answered);
                calls.answered
            }),
            None => {
                let found = self.nameless.iter().position(|(of, _)| *of == name);
                found.map(|n| self.nameless.remove(n).1)
            }
        };
        let reply = place.and_then(|(turn, n)| match self.turns.get_mut(turn) {
            Some(ChatTurn::Answers(replies)) => replies.get_mut(n),
            _ => None,
        });
        match reply {
            Some(reply) => {
                reply.text = text;
                reply.media = media;
                Vec::new()
            }
            None => [Part::text(format!("`{name}` tool returned result: {text}"))].into_iter().chain(media).collect(),
        }
    }

    /// Returns whether an id is sent as it is. A provider itself refuses some ids, which another provider or ADK may have
    /// generated. Any other server may keep data in its ids, so they go back unchanged.
    fn is_taken(&self, id: &str) -> bool {
        let is_plain = || id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let longest = if self.profile.wire == WireProtocol::Chat { 40 } else { 64 };
        let fits = id.len() <= longest && (self.profile.wire == WireProtocol::Chat || is_plain());
        !self.profile.is_own || self.profile.wire == WireProtocol::Ollama || (fits && !self.sent.contains(id))
    }
}
