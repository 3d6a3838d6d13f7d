//! Puts the pieces of a streamed answer together as google-adk does: parts in order, consecutive text in one part, and
//! calls whose arguments came in pieces as one call.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::path;
use super::response::{GeminiAnswer, drop_calls, ended_badly};
use scratchbook_agent::model::LlmResponse;
use scratchbook_core::content::{Content, FunctionCall, Part};

/// The prefix of call ids that the model did not generate.
const OWN_ID: &str = "adk-";

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Aggregator {
    /// `None` marks the place of the call that is still arriving.
    parts: Vec<Option<Part>>,
    text: Option<Part>,
    call: Option<StreamedCall>,
    /// The fields of the whole answer apart from its parts.
    whole: LlmResponse,
    state: StreamState,
}

/// Distinguishes a complete stream from an interrupted one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum StreamState {
    #[default]
    Empty,
    /// A candidate without a finish reason.
    Candidate,
    Ended,
}

/// A call whose arguments arrive in pieces.
#[derive(Debug)]
struct StreamedCall {
    /// The call's place among the parts.
    place: usize,
    id: String,
    name: Option<String>,
    args: Map<String, Value>,
    /// Texts by their paths. They are inserted into the arguments at the end.
    texts: IndexMap<String, String>,
    thought_signature: Option<Vec<u8>>,
}

impl Aggregator {
    /// Adds a piece, and returns the piece as it is shown; `None` if there is nothing to show.
    pub(super) fn take(&mut self, answer: GeminiAnswer) -> Option<LlmResponse> {
        let GeminiAnswer { mut response, has_candidate } = answer;
        for part in response.content.iter_mut().filter_map(|content| content.parts.as_mut()).flatten() {
            self.part(part);
        }
        let whole = &mut self.whole;
        keep(&mut whole.usage_metadata, &response.usage_metadata);
        keep(&mut whole.grounding_metadata, &response.grounding_metadata);
        keep(&mut whole.citation_metadata, &response.citation_metadata);
        keep(&mut whole.finish_reason, &response.finish_reason);
        keep(&mut whole.error_message, &response.error_message);
        whole.model_version.clone_from(&response.model_version);
        if !has_candidate {
            whole.error_code.clone_from(&response.error_code);
        }
        if response.finish_reason.is_some() || response.error_code.is_some() {
            self.state = StreamState::Ended;
        } else if has_candidate && self.state == StreamState::Empty {
            self.state = StreamState::Candidate;
        }
        response.partial = Some(true);
        (response.content.is_some() || response.error_code.is_some()).then_some(response)
    }

    /// Returns the whole answer; `None` if the stream was interrupted.
    pub(super) fn finish(mut self) -> Option<LlmResponse> {
        if self.state == StreamState::Candidate {
            return None;
        }
        self.end_text();
        self.end_call();
        // A call that is repeated with the same id is one call, unless something about it is new.
        let mut calls: HashMap<String, Vec<FunctionCall>> = HashMap::new();
        let mut parts: Vec<_> = self.parts.into_iter().flatten().collect();
        parts.retain(|part| match part.function_call.as_deref() {
            Some(call) if call.id.as_deref().is_some_and(|id| !id.is_empty() && !id.starts_with(OWN_ID)) => {
                let same_id = calls.entry(call.id.clone().unwrap_or_default()).or_default();
                let is_new = !same_id.contains(call);
                same_id.push(call.clone());
                is_new
            }
            _ => true,
        });
        let mut whole = self.whole;
        whole.content = (!parts.is_empty()).then(|| Content::new("model", parts));
        if ended_badly(&whole) {
            drop_calls(&mut whole.content);
        }
        if whole.finish_reason.as_deref().is_some_and(|reason| reason != "STOP") {
            whole.error_code.clone_from(&whole.finish_reason);
        } else if whole.error_code.is_none() {
            whole.error_message = None;
        }
        whole.partial = Some(false);
        Some(whole)
    }

    /// Adds a part. A call gets the id that it will have in the whole answer.
    fn part(&mut self, part: &mut Part) {
        if part.text.as_deref().is_some_and(|text| !text.is_empty()) {
            self.text(part);
        } else if let Some(call) = part.function_call.as_mut() {
            let signature = part.thought_signature.as_ref();
            if self.is_streamed(call) {
                self.streamed(call, signature);
            } else {
                self.end_text();
                self.end_call();
                if call.name.as_deref().is_some_and(|name| !name.is_empty()) {
                    own_id(call);
                    self.parts.push(Some(part.clone()));
                }
            }
        } else {
            self.end_text();
            self.parts.push(Some(part.clone()));
        }
    }

    /// Appends text to the previous text if both or neither are thoughts. The first signature is kept.
    fn text(&mut self, part: &Part) {
        let is_thought = part.thought == Some(true);
        if self.text.as_ref().is_some_and(|text| (text.thought == Some(true)) != is_thought) {
            self.end_text();
        }
        let run = self.text.get_or_insert_with(|| Part {
            text: Some(String::new()),
            thought: is_thought.then_some(true),
            ..Part::default()
        });
        if let (Some(text), Some(more)) = (&mut run.text, &part.text) {
            text.push_str(more);
        }
        keep_first(&mut run.thought_signature, part.thought_signature.as_ref());
    }

    fn end_text(&mut self) {
        self.parts.extend(self.text.take().map(Some));
    }

    /// Returns whether a call is a piece of a streamed call.
    fn is_streamed(&self, call: &FunctionCall) -> bool {
        call.partial_args.as_ref().is_some_and(|pieces| !pieces.is_empty())
            || call.will_continue.is_some()
            || (self.call.is_some() && call.args.as_ref().is_none_or(Map::is_empty))
    }

    fn streamed(&mut self, piece: &mut FunctionCall, signature: Option<&Vec<u8>>) {
        let open = self.call.as_ref().and_then(|call| call.name.as_ref());
        if open.is_some() && piece.name.is_some() && open != piece.name.as_ref() {
            self.end_text();
            self.end_call();
        }
        if self.call.is_none() {
            self.end_text();
            own_id(piece);
            self.call = Some(StreamedCall {
                place: self.parts.len(),
                id: piece.id.clone().unwrap_or_default(),
                name: None,
                args: Map::new(),
                texts: IndexMap::new(),
                thought_signature: None,
            });
            self.parts.push(None);
        }
        if let Some(call) = &mut self.call {
            keep(&mut call.name, &piece.name);
            if piece.id.as_deref().is_none_or(str::is_empty) {
                piece.id = Some(call.id.clone());
            }
            keep_first(&mut call.thought_signature, signature);
            piece.partial_args.iter().flatten().for_each(|arg| call.arg(arg));
        }
        if piece.will_continue != Some(true) {
            self.end_text();
            self.end_call();
        }
    }

    fn end_call(&mut self) {
        if let Some(call) = self.call.take()
            && let Some(place) = self.parts.get_mut(call.place)
        {
            *place = call.into_part();
        }
    }
}

impl StreamedCall {
    /// Adds a piece of an argument. A piece without a value is an empty list or object of unknown type, and is ignored.
    fn arg(&mut self, arg: &Value) {
        let Some(path) = arg.get("jsonPath").and_then(Value::as_str).filter(|path| !path.is_empty()) else {
            return;
        };
        if let Some(more) = arg.get("stringValue").and_then(Value::as_str) {
            if !self.texts.contains_key(path) {
                let before = path::get(&self.args, path).and_then(Value::as_str).unwrap_or_default().to_owned();
                self.texts.insert(path.to_owned(), before);
                // Arguments keep the order in which they began.
                path::set(&mut self.args, path, "".into());
            }
            if let Some(text) = self.texts.get_mut(path) {
                text.push_str(more);
            }
            return;
        }
        let value = match (arg.get("numberValue"), arg.get("boolValue"), arg.get("nullValue")) {
            (Some(value), ..) | (None, Some(value), _) => value.clone(),
            (None, None, Some(_)) => Value::Null,
            (None, None, None) => return,
        };
        self.texts.shift_remove(path);
        path::set(&mut self.args, path, value);
    }

    /// Returns the call; `None` if it never had a name.
    fn into_part(mut self) -> Option<Part> {
        let name = self.name.filter(|name| !name.is_empty())?;
        for (path, text) in self.texts {
            path::set(&mut self.args, &path, text.into());
        }
        let mut part = Part::function_call(name, self.args);
        if let Some(call) = &mut part.function_call {
            call.id = Some(self.id);
        }
        part.thought_signature = self.thought_signature;
        Some(part)
    }
}

/// Generates an id for a call. The id is the same in the pieces and in the whole answer.
fn own_id(call: &mut FunctionCall) {
    if call.id.as_deref().is_none_or(str::is_empty) {
        call.id = Some(format!("{OWN_ID}{}", Uuid::new_v4()));
    }
}

fn keep<T: Clone>(kept: &mut Option<T>, new: &Option<T>) {
    if new.is_some() {
        kept.clone_from(new);
    }
}

fn keep_first(kept: &mut Option<Vec<u8>>, new: Option<&Vec<u8>>) {
    if kept.is_none() {
        *kept = new.filter(|bytes| !bytes.is_empty()).cloned();
    }
}
