//! The conversation as turns that every provider accepts: each call is followed by its response with the same id.

use std::collections::HashMap;

use genai::adapter::AdapterKind;

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
pub(super) fn turns(contents: &[Content], provider: AdapterKind) -> Vec<ChatTurn> {
    let mut pairing = Pairing { provider, turns: Vec::new(), open: HashMap::new(), nameless: Vec::new(), made: 0 };
    contents.iter().for_each(|content| pairing.read(content));
    pairing.turns
}

/// Returns the names of the tools that are called or respond in a turn.
pub(super) fn names(turn: &mut ChatTurn) -> Vec<&mut String> {
    match turn {
        ChatTurn::User(_) => Vec::new(),
        ChatTurn::Model(said) => {
            let calls = said.iter_mut().filter_map(|part| part.function_call.as_mut());
            calls.map(|call| call.name.get_or_insert_default()).collect()
        }
        ChatTurn::Answers(replies) => replies.iter_mut().map(|reply| &mut reply.name).collect(),
    }
}

/// The position of a response to a call: the turn, and the place in that turn.
type ReplyPosition = (usize, usize);

struct Pairing {
    provider: AdapterKind,
    turns: Vec<ChatTurn>,
    /// The last call with each id.
    open: HashMap<String, ReplyPosition>,
    /// Calls without ids that have no response yet. Each has its tool's name.
    nameless: Vec<(String, ReplyPosition)>,
    /// How many ids were generated.
    made: usize,
}

impl Pairing {
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
                self.open.insert(id.to_owned(), place);
                if is_taken(self.provider, id) {
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
            Some(id) => self.open.get(id).copied(),
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
}

/// Returns whether a provider accepts an id, which another provider or ADK may have generated.
fn is_taken(provider: AdapterKind, id: &str) -> bool {
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    match provider {
        AdapterKind::Mistral => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        // This is OpenAI's limit. Anthropic accepts only plain ids.
        AdapterKind::OpenAI => id.len() <= 40,
        _ => plain && id.len() <= 64,
    }
}
