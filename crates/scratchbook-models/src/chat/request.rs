//! A request as every provider accepts it: calls with their responses, texts, and data of types that the provider takes.

use super::history::{ChatTurn, Reply, turns};
use super::parts::{self, NotTaken, Piece};
use super::{ProviderProfile, WireProtocol, options};
use scratchbook_agent::model::{FunctionDeclaration, LlmRequest};
use scratchbook_core::content::Part;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// The message of an empty conversation, in ADK's words.
pub(crate) const BEGIN: &str = "Handle the requests as specified in the System Instruction.";

/// The message after the model's last words, in ADK's words.
pub(crate) const GO_ON: &str =
    "Continue processing previous requests as instructed. Exit or provide a summary if no more outputs are needed.";

/// What is sent to a model.
pub(super) struct Conversation<'a> {
    pub(super) request: &'a LlmRequest,
    pub(super) profile: &'a ProviderProfile,
    /// The instruction, with the answer's schema if the provider has no other place for it.
    pub(super) system: Option<String>,
    pub(super) turns: Vec<Turn>,
    /// The tools that may be called.
    pub(super) tools: Vec<&'a FunctionDeclaration>,
}

/// One side's turn. It is not empty.
pub(super) enum Turn {
    User(Vec<Piece>),
    Model(Vec<Part>),
    /// The responses to the calls of the previous turn.
    Replies(Vec<Reply>),
}

impl<'a> Conversation<'a> {
    pub(super) fn new(request: &'a LlmRequest, profile: &'a ProviderProfile) -> Result<Self> {
        if let Some(tool) = request.built_in_tools.first() {
            let names: Vec<_> = tool.as_object().into_iter().flat_map(|tool| tool.keys().cloned()).collect();
            let message = format!(
                "the built-in tool '{}' exists for Gemini's models only; give the agent one, or leave the tool out",
                names.join("', '")
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let said = turns(&request.contents, profile);
        let asked = said.iter().rposition(|turn| matches!(turn, ChatTurn::User(_)));
        let mut turns = Vec::new();
        for (n, turn) in said.into_iter().enumerate() {
            match turn {
                ChatTurn::User(said) => {
                    let not_taken = if Some(n) == asked { NotTaken::Refused } else { NotTaken::Named };
                    let pieces = parts::user(&said, profile, not_taken)?;
                    turns.extend((!pieces.is_empty()).then_some(Turn::User(pieces)));
                }
                ChatTurn::Model(said) => {
                    let sent = parts::model(&said, profile);
                    turns.extend((!sent.is_empty()).then_some(Turn::Model(sent)));
                }
                ChatTurn::Answers(replies) => {
                    // Media comes after all responses, as the user's; only Anthropic takes it inside of them.
                    let media = replies.iter().flat_map(|reply| &reply.media);
                    let media: Vec<_> = media.flat_map(|part| parts::media(part, profile)).collect();
                    turns.push(Turn::Replies(replies));
                    if profile.wire != WireProtocol::Anthropic && !media.is_empty() {
                        turns.push(Turn::User(media));
                    }
                }
            }
        }
        let more = match turns.last() {
            None => Some(BEGIN),
            Some(Turn::Model(_)) => Some(GO_ON),
            Some(_) => None,
        };
        turns.extend(more.map(|text| Turn::User(vec![Piece::Text(text.to_owned())])));
        let schema = request.output_schema.as_ref().filter(|_| options::answer_schema(request, profile).is_none());
        let schema = schema
            .map(|schema| format!("Answer with JSON that has this JSON Schema, and with nothing else:\n{schema}"));
        let texts: Vec<_> = request.system_instruction.clone().into_iter().chain(schema).collect();
        let system = Some(texts.join("\n\n")).filter(|text| !text.is_empty());
        Ok(Self { request, profile, system, turns, tools: options::tools(request, profile).collect() })
    }
}
