//! What a model answered so far, whichever way it came: the blocks of the answer and how it ended.

use serde_json::{Map, Value};

use super::call::{Call, Finish, void};
use scratchbook_agent::model::LlmResponse;
use scratchbook_core::content::{Content, FunctionCall, Part};

/// An answer in the making. Readers put in what they read; pieces to show come out while it grows, the whole at its end.
#[derive(Debug, Default)]
pub(super) struct Answer {
    blocks: Vec<Block>,
    pieces: Vec<Part>,
    finish: Option<Finish>,
    usage: Map<String, Value>,
    model: Option<String>,
    refusal: String,
    failure: Option<(String, String)>,
    ended: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thought { text: String, signature: String },
    Call(Call),
}

impl Answer {
    /// Text, shown and kept.
    pub(super) fn text(&mut self, text: &str) {
        self.show_text(text);
        self.keep_text(text);
    }

    /// Thought, shown and kept.
    pub(super) fn thought(&mut self, text: &str) {
        self.show_thought(text);
        self.keep_thought(text, "");
    }

    pub(super) fn show_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces.push(Part::text(text));
        }
    }

    pub(super) fn show_thought(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces.push(Part { thought: Some(true), ..Part::text(text) });
        }
    }

    pub(super) fn keep_text(&mut self, text: &str) {
        match self.blocks.last_mut() {
            Some(Block::Text(said)) => said.push_str(text),
            _ if text.is_empty() => {}
            _ => self.start_text(text),
        }
    }

    /// More of the last thought, and more of the token by which it is taken up again.
    pub(super) fn keep_thought(&mut self, more: &str, more_signature: &str) {
        match self.blocks.last_mut() {
            Some(Block::Thought { text, signature }) => {
                text.push_str(more);
                signature.push_str(more_signature);
            }
            _ if more.is_empty() && more_signature.is_empty() => {}
            _ => self.start_thought(more, more_signature),
        }
    }

    /// A block of text of its own, however the one before it looks.
    pub(super) fn start_text(&mut self, text: &str) {
        self.blocks.push(Block::Text(text.to_owned()));
    }

    /// A thought of its own.
    pub(super) fn start_thought(&mut self, text: &str, signature: &str) {
        self.blocks.push(Block::Thought { text: text.to_owned(), signature: signature.to_owned() });
    }

    /// A function call of its own.
    pub(super) fn start_call(&mut self, call: Call) {
        self.blocks.push(Block::Call(call));
    }

    /// The last call with this number.
    pub(super) fn call(&mut self, index: u64) -> Option<&mut Call> {
        self.calls().find(|call| call.index == Some(index))
    }

    /// The calls so far, the last first.
    pub(super) fn calls(&mut self) -> impl Iterator<Item = &mut Call> {
        self.blocks.iter_mut().rev().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            _ => None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn finish(&mut self, finish: Finish) {
        self.finish = Some(finish);
    }

    /// What the model says instead of an answer.
    pub(super) fn refuse(&mut self, text: &str) {
        self.refusal.push_str(text);
    }

    /// The provider broke the answer off with an error of its own.
    pub(super) fn fail(&mut self, code: Option<&str>, message: Option<&str>) {
        let code = code.filter(|code| !code.is_empty()).unwrap_or("UNKNOWN_ERROR");
        let message = message.filter(|message| !message.is_empty()).unwrap_or("the model's provider says no more");
        self.failure = Some((code.to_owned(), message.to_owned()));
        self.ended = true;
    }

    /// Counts of tokens as the wire has them; later ones replace earlier ones.
    pub(super) fn count(&mut self, usage: &Value) {
        let counts = usage.as_object().into_iter().flatten().filter(|(_, count)| !count.is_null());
        self.usage.extend(counts.map(|(name, count)| (name.clone(), count.clone())));
    }

    pub(super) fn usage(&self) -> &Map<String, Value> {
        &self.usage
    }

    pub(super) fn answered_by(&mut self, model: Option<&str>) {
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }

    /// The wire's own mark that nothing more comes.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Whether nothing more comes.
    pub(super) fn is_closed(&self) -> bool {
        self.ended
    }

    /// Whether the answer is whole, or broken off by the provider with a word. After the reason why it ended only counts
    /// of tokens may follow, which are nothing to lose an answer for.
    pub(super) fn has_ended(&self) -> bool {
        self.ended || self.finish.is_some()
    }

    /// What is to be shown since the last time.
    pub(super) fn take_pieces(&mut self, thoughts: Thoughts) -> Vec<LlmResponse> {
        let shown = std::mem::take(&mut self.pieces).into_iter();
        let shown = shown.filter(|part| thoughts == Thoughts::Shown || part.thought != Some(true));
        shown
            .map(|part| LlmResponse {
                content: Some(Content::new("model", vec![part])),
                partial: Some(true),
                model_version: self.model.clone(),
                ..LlmResponse::default()
            })
            .collect()
    }

    /// The whole, with its usage as ADK spells it.
    ///
    /// Arguments that are no JSON object make all calls of the answer void: nobody is to act on half of what was meant, nor
    /// on what was blocked.
    pub(super) fn into_response(self, usage: Option<Value>, thoughts: Thoughts) -> LlmResponse {
        let mut response = LlmResponse { model_version: self.model, usage_metadata: usage, ..LlmResponse::default() };
        if let Some((code, message)) = self.failure {
            response.error_code = Some(code);
            response.error_message = Some(message);
            return response;
        }
        let finish = if self.refusal.is_empty() { self.finish.unwrap_or(Finish::Stop) } else { Finish::Safety };
        let (mut parts, malformed) = parts(self.blocks, finish);
        response.finish_reason = Some(finish.as_str().to_owned());
        if finish != Finish::Stop {
            response.error_code = Some(finish.as_str().to_owned());
            response.error_message = Some(if self.refusal.is_empty() { finish.message() } else { self.refusal });
        }
        if finish == Finish::Safety || !malformed.is_empty() {
            parts.retain(|part| part.function_call.is_none());
        }
        if !malformed.is_empty() {
            let (code, message) = void(&malformed, finish);
            response.finish_reason = Some(code.to_owned());
            response.error_code = Some(code.to_owned());
            response.error_message = Some(message);
        }
        if thoughts == Thoughts::Hidden {
            hide_thoughts(&mut parts);
        }
        let said = !parts.is_empty() || response.error_code.is_none();
        response.content = said.then(|| Content::new("model", parts));
        response
    }
}

/// Whether thoughts are part of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thoughts {
    Shown,
    Hidden,
}

/// A signed thought before a call has to go back with the call, so it stays; other thoughts go.
fn hide_thoughts(parts: &mut Vec<Part>) {
    let calls = parts.iter().any(|part| part.function_call.is_some());
    parts.retain(|part| part.thought != Some(true) || (calls && part.thought_signature.is_some()));
}

/// The parts of an answer, and the names of the calls whose arguments cannot be read.
fn parts(blocks: Vec<Block>, finish: Finish) -> (Vec<Part>, Vec<String>) {
    let (mut parts, mut malformed) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Text(text) if text.is_empty() => {}
            Block::Text(text) => parts.push(Part::text(text)),
            Block::Thought { text, signature } => parts.push(Part {
                text: Some(text).filter(|text| !text.is_empty()),
                thought: Some(true),
                thought_signature: Some(signature.into_bytes()).filter(|signature| !signature.is_empty()),
                ..Part::default()
            }),
            Block::Call(call) => match call.arguments(finish) {
                Some(args) => parts.push(part_of(call.id, call.name, args)),
                None if call.name.is_empty() => malformed.push("<unnamed>".to_owned()),
                None => malformed.push(call.name),
            },
        }
    }
    (parts, malformed)
}

fn part_of(id: String, name: String, args: Map<String, Value>) -> Part {
    let call = FunctionCall {
        id: Some(id).filter(|id| !id.is_empty()),
        name: Some(name),
        args: Some(args),
        ..FunctionCall::default()
    };
    Part { function_call: Some(call.into()), ..Part::default() }
}
