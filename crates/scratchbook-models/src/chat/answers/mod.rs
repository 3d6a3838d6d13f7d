//! Answers as they are received: their blocks, and the reason for their end. Each wire format has a file that parses
//! answers and adds the results.

pub(super) mod anthropic;
mod call;
pub(super) mod ollama;
pub(super) mod openai;
pub(super) mod responses;

use serde_json::{Map, Value};

use crate::opaque::attach;
use call::void;
use scratchbook_agent::model::LlmResponse;
use scratchbook_core::content::{Content, FunctionCall, Part};

pub(super) use call::{Finish, PartialCall};

/// The maximum number of calls in an answer.
const MOST_CALLS: usize = 1_000;

/// The field of a thought's attached data that names the field in which the provider sent the thought.
pub(super) const THOUGHT_FIELD: &str = "thoughtField";

/// Collects an answer. Readers add what they parse. Pieces can be taken out while the answer grows, and the whole
/// answer at its end.
#[derive(Debug, Default)]
pub(super) struct CollectedAnswer {
    blocks: Vec<Block>,
    /// What the provider has attached to the whole message.
    data: Map<String, Value>,
    /// The field in which the provider sends thoughts.
    thought_field: Option<&'static str>,
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
    /// A thought. Without text, it is one that only its provider can read.
    Thought {
        text: Option<String>,
        signature: String,
        data: Map<String, Value>,
    },
    Call(PartialCall),
}

impl CollectedAnswer {
    /// Adds text as a piece, and to the whole answer.
    pub(super) fn text(&mut self, text: &str) {
        self.show_text(text);
        self.keep_text(text);
    }

    /// Adds text of a thought as a piece, and to the whole answer.
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

    /// Extends the last thought and its signature.
    pub(super) fn keep_thought(&mut self, more: &str, more_signature: &str) {
        match self.blocks.last_mut() {
            Some(Block::Thought { text, signature, .. }) => {
                text.get_or_insert_default().push_str(more);
                signature.push_str(more_signature);
            }
            _ if more.is_empty() && more_signature.is_empty() => {}
            _ => self.start_thought(Some(more), more_signature, Map::new()),
        }
    }

    /// Starts a new block of text, whatever the previous block is.
    pub(super) fn start_text(&mut self, text: &str) {
        self.blocks.push(Block::Text(text.to_owned()));
    }

    /// Starts a new thought.
    pub(super) fn start_thought(&mut self, text: Option<&str>, signature: &str, data: Map<String, Value>) {
        self.blocks.push(Block::Thought { text: text.map(str::to_owned), signature: signature.to_owned(), data });
    }

    /// Adds text of a thought that goes back in this field.
    pub(super) fn thought_of(&mut self, field: &'static str, text: &str) {
        self.thought(text);
        self.thought_field = Some(field);
    }

    /// Returns what the provider has attached to the whole message.
    pub(super) fn data(&mut self) -> &mut Map<String, Value> {
        &mut self.data
    }

    /// Starts a new function call. An answer with too many calls ends with an error.
    pub(super) fn start_call(&mut self, call: PartialCall) {
        if self.ended {
            return;
        }
        if self.calls().count() >= MOST_CALLS {
            let message = format!("the answer has more than {MOST_CALLS} calls");
            return self.fail(Some("MALFORMED_FUNCTION_CALL"), Some(&message));
        }
        self.blocks.push(Block::Call(call));
    }

    /// Returns the last call with this index.
    pub(super) fn call(&mut self, index: u64) -> Option<&mut PartialCall> {
        self.calls().find(|call| call.index == Some(index))
    }

    /// Returns the calls so far, the last first.
    pub(super) fn calls(&mut self) -> impl Iterator<Item = &mut PartialCall> {
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

    /// Adds text with which the model refuses to answer.
    pub(super) fn refuse(&mut self, text: &str) {
        self.refusal.push_str(text);
    }

    /// Records that the provider broke off the answer with an error.
    pub(super) fn fail(&mut self, code: Option<&str>, message: Option<&str>) {
        let code = code.filter(|code| !code.is_empty()).unwrap_or("UNKNOWN_ERROR");
        let message = message.filter(|message| !message.is_empty()).unwrap_or("the model's provider says no more");
        self.failure = Some((code.to_owned(), message.to_owned()));
        self.ended = true;
    }

    /// Adds token counts in the provider's form; later ones replace earlier ones.
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

    /// Records the provider's mark that the stream has ended.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns whether the stream has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.ended
    }

    /// Returns whether the answer is complete, or the provider has broken it off with an error. Only token counts may
    /// follow the finish reason. An answer is complete without them.
    pub(super) fn has_ended(&self) -> bool {
        self.ended || self.finish.is_some()
    }

    /// Returns whether there are pieces to show.
    pub(super) fn has_pieces(&self, thoughts: Thoughts) -> bool {
        self.pieces.iter().any(|part| thoughts == Thoughts::Shown || part.thought != Some(true))
    }

    /// Returns the pieces that were added since the last call of this function.
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

    /// Returns the whole answer, with its usage in ADK's form.
    ///
    /// If the arguments of one call are not a JSON object, all calls of the answer are dropped, since an incomplete or
    /// blocked answer must not be acted on. Data that the provider has attached stays with the parts, by its origin.
    pub(super) fn into_response(mut self, usage: Option<Value>, thoughts: Thoughts, origin: &str) -> LlmResponse {
        let model_version = self.model.take();
        let mut response = LlmResponse { model_version, usage_metadata: usage, ..LlmResponse::default() };
        if let Some((code, message)) = self.failure {
            response.error_code = Some(code);
            response.error_message = Some(message);
            return response;
        }
        let finish = if self.refusal.is_empty() { self.finish.unwrap_or(Finish::Stop) } else { Finish::Safety };
        // Every thought goes back with the calls that it led to.
        let has_calls = self.blocks.iter().any(|block| matches!(block, Block::Call(_)));
        if let Some(field) = self.thought_field.filter(|_| has_calls) {
            for block in &mut self.blocks {
                if let Block::Thought { data, .. } = block {
                    data.insert(THOUGHT_FIELD.to_owned(), field.into());
                }
            }
        }
        if !self.data.is_empty() {
            let thought = self.blocks.iter_mut().find_map(|block| match block {
                Block::Thought { data, .. } => Some(data),
                _ => None,
            });
            match thought {
                Some(data) => data.extend(self.data),
                None => self.blocks.insert(0, Block::Thought { text: None, signature: String::new(), data: self.data }),
            }
        }
        let (mut parts, malformed) = parts(self.blocks, finish, origin);
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

/// Whether the response contains thoughts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thoughts {
    Shown,
    Hidden,
}

/// Removes the texts of thoughts, except those before a call that have to be sent back with it. What the provider has
/// attached stays.
fn hide_thoughts(parts: &mut Vec<Part>) {
    let calls = parts.iter().any(|part| part.function_call.is_some());
    parts.retain_mut(|part| {
        let is_attached = part.part_metadata.is_some() || (calls && part.thought_signature.is_some());
        if part.thought == Some(true) && !calls {
            part.text = None;
        }
        part.thought != Some(true) || is_attached
    });
}

/// Returns the parts of an answer, and the names of the calls with invalid arguments.
fn parts(blocks: Vec<Block>, finish: Finish, origin: &str) -> (Vec<Part>, Vec<String>) {
    let (mut parts, mut malformed) = (Vec::new(), Vec::new());
    for block in blocks {
        let (mut part, attached) = match block {
            Block::Text(text) if text.is_empty() => continue,
            Block::Text(text) => (Part::text(text), Map::new()),
            Block::Thought { text, signature, data } => {
                let is_empty = text.as_deref().is_none_or(str::is_empty);
                if is_empty && signature.is_empty() && data.is_empty() {
                    continue;
                }
                let thought_signature = Some(signature.into_bytes()).filter(|signature| !signature.is_empty());
                (Part { text, thought: Some(true), thought_signature, ..Part::default() }, data)
            }
            Block::Call(call) => match call.arguments(finish) {
                Some(args) => {
                    let id = Some(call.id).filter(|id| !id.is_empty());
                    let name = Some(call.name);
                    let made = FunctionCall { id, name, args: Some(args), ..FunctionCall::default() };
                    (Part { function_call: Some(made.into()), ..Part::default() }, call.data)
                }
                None => {
                    malformed.push(if call.name.is_empty() { "<unnamed>".to_owned() } else { call.name });
                    continue;
                }
            },
        };
        if !attached.is_empty() {
            attach(&mut part, origin, attached);
        }
        parts.push(part);
    }
    (parts, malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opaque::attached;

    #[test]
    fn every_thought_before_a_call_has_the_field_in_which_it_goes_back() {
        for thoughts in [Thoughts::Shown, Thoughts::Hidden] {
            let mut answer = CollectedAnswer::default();
            answer.thought_of("reasoning_content", "first");
            answer.text("Let me see.");
            answer.thought_of("reasoning_content", "second");
            answer.start_call(PartialCall { name: "f".to_owned(), ..PartialCall::default() });
            let parts = answer.into_response(None, thoughts, "openai::m").content.unwrap().parts.unwrap();
            let fields: Vec<_> = parts
                .iter()
                .filter(|part| part.thought == Some(true))
                .map(|part| (part.text.clone().unwrap(), attached(part, "openai::m").unwrap()[THOUGHT_FIELD].clone()))
                .collect();
            let field = Value::from("reasoning_content");
            assert_eq!(fields, [("first".to_owned(), field.clone()), ("second".to_owned(), field)]);
        }
    }
}
