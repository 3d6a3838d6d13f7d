//! `Event` and `EventActions`, field by field as ADK spells them in JSON.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::content::{Content, FunctionCall, FunctionResponse};
use crate::error::{Error, Result};
use crate::extra::{Extra, ExtraFields, check_known};
use crate::json;
use crate::state::StateDelta;

/// Where the metadata of an event say that it was brought from elsewhere.
#[doc(hidden)]
pub const RESTORED: &str = "__adk_internal_restored_event";

/// One entry of a session's log: who said or did what, and what it changed.
///
/// An event carries its state changes in [`actions.state_delta`](EventActions::state_delta); when a service
/// appends it, event and changes are committed together. Names go out in camelCase and come in as camelCase
/// or snake_case; read them with [`from_json`](Self::from_json), which checks what serde does not: that each
/// number comes back as it is. Unknown fields are kept ([`extra`](Self::extra), and the fields of that name in what an event
/// holds) and given back: a newer program may have written them. [`check_known`](Self::check_known) refuses them where
/// they would be mistakes.
///
/// ```
/// use scratchbook::{Event, StateDelta};
///
/// let event = Event::new("system")
///     .with_invocation_id("inv_login_update")
///     .with_state_delta(StateDelta::new().with("task_status", "active")?);
/// assert!(event.is_final_response());
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The model that answered, with its version.
    #[serde(default, alias = "model_version", skip_serializing_if = "Option::is_none")]
    pub model_version: Option<String>,
    /// What was said, called or answered.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::json::optional_object")]
    pub content: Option<Content>,
    /// Where the answer's facts come from.
    #[serde(default, alias = "grounding_metadata", skip_serializing_if = "Option::is_none")]
    pub grounding_metadata: Option<Box<Value>>,
    /// Whether this is a piece of a streamed answer: shown to the caller, never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
    /// Whether the model's turn ends here.
    #[serde(default, alias = "turn_complete", skip_serializing_if = "Option::is_none")]
    pub turn_complete: Option<bool>,
    /// Why the turn ended.
    #[serde(default, alias = "turn_complete_reason", skip_serializing_if = "Option::is_none")]
    pub turn_complete_reason: Option<Box<Value>>,
    /// How far an interaction has come.
    #[serde(default, alias = "interaction_status", skip_serializing_if = "Option::is_none")]
    pub interaction_status: Option<Box<Value>>,
    /// Why the model stopped, such as `STOP` or `MAX_TOKENS`.
    #[serde(default, alias = "finish_reason", skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// What kind of failure ended the run.
    #[serde(default, alias = "error_code", skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The failure in words.
    #[serde(default, alias = "error_message", skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Whether the user cut the answer short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
    /// Anything a program wants to keep beside the event.
    #[serde(default, alias = "custom_metadata", skip_serializing_if = "Option::is_none")]
    pub custom_metadata: Option<Box<Map<String, Value>>>,
    /// How many tokens were used.
    #[serde(default, alias = "usage_metadata", skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<Box<Value>>,
    /// How a live session can be taken up again.
    #[serde(default, alias = "live_session_resumption_update", skip_serializing_if = "Option::is_none")]
    pub live_session_resumption_update: Option<Box<Value>>,
    /// The live session this came from.
    #[serde(default, alias = "live_session_id", skip_serializing_if = "Option::is_none")]
    pub live_session_id: Option<String>,
    /// A live server's notice that it will close.
    #[serde(default, alias = "go_away", skip_serializing_if = "Option::is_none")]
    pub go_away: Option<Box<Value>>,
    /// Whether somebody speaks.
    #[serde(default, alias = "voice_activity", skip_serializing_if = "Option::is_none")]
    pub voice_activity: Option<Box<Value>>,
    /// What the user's audio says.
    #[serde(default, alias = "input_transcription", skip_serializing_if = "Option::is_none")]
    pub input_transcription: Option<Box<Value>>,
    /// What the model's audio says.
    #[serde(default, alias = "output_transcription", skip_serializing_if = "Option::is_none")]
    pub output_transcription: Option<Box<Value>>,
    /// The mean log probability of the answer's tokens.
    #[serde(default, alias = "avg_logprobs", skip_serializing_if = "Option::is_none")]
    pub avg_logprobs: Option<f64>,
    /// Log probabilities, token by token.
    #[serde(default, alias = "logprobs_result", skip_serializing_if = "Option::is_none")]
    pub logprobs_result: Option<Box<Value>>,
    /// What a context cache did.
    #[serde(default, alias = "cache_metadata", skip_serializing_if = "Option::is_none")]
    pub cache_metadata: Option<Box<Value>>,
    /// What is cited.
    #[serde(default, alias = "citation_metadata", skip_serializing_if = "Option::is_none")]
    pub citation_metadata: Option<Box<Value>>,
    /// The interaction this belongs to.
    #[serde(default, alias = "interaction_id", skip_serializing_if = "Option::is_none")]
    pub interaction_id: Option<String>,
    /// The environment this ran in.
    #[serde(default, alias = "environment_id", skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// The run this event belongs to.
    #[serde(default, alias = "invocation_id")]
    pub invocation_id: String,
    /// `user`, or the name of the agent.
    #[serde(default)]
    pub author: String,
    /// What the event does beyond being said.
    #[serde(default, deserialize_with = "crate::json::object")]
    pub actions: EventActions,
    /// What a workflow node gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<Value>>,
    /// Where in a workflow the event arose.
    #[serde(default, alias = "node_info", deserialize_with = "crate::json::object")]
    pub node_info: NodeInfo,
    /// Ids of the calls in this event whose tools answer later.
    #[serde(default, alias = "long_running_tool_ids", skip_serializing_if = "Option::is_none")]
    pub long_running_tool_ids: Option<BTreeSet<String>>,
    /// The branch of a parallel run, `[outer.]PARALLEL.CHILD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What isolates a branch's history from others.
    #[serde(default, alias = "isolation_scope", skip_serializing_if = "Option::is_none")]
    pub isolation_scope: Option<String>,
    /// The event's id within its session; empty until a service makes one.
    #[serde(default)]
    pub id: String,
    /// When the event arose, in seconds since 1970; `None` until a service fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<f64>,
    /// The event's number within its session, from 1 without gaps; `None` until it is stored, and where its store does not tell.
    /// Not in the JSON.
    #[serde(skip)]
    pub seq: Option<u64>,
    /// Fields that this version does not know of, as they came.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl Event {
    /// An event by an author, with nothing in it. The service that appends it gives it an id and a time.
    #[must_use]
    pub fn new(author: impl Into<String>) -> Self {
        Self { author: author.into(), ..Self::default() }
    }

    /// The same event with content.
    #[must_use]
    pub fn with_content(mut self, content: impl Into<Content>) -> Self {
        self.content = Some(content.into());
        self
    }

    /// The same event with state changes.
    #[must_use]
    pub fn with_state_delta(mut self, delta: StateDelta) -> Self {
        self.actions.state_delta = delta;
        self
    }

    /// The same event with an id, which makes appending it again safe.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// The same event with the id of a run.
    #[must_use]
    pub fn with_invocation_id(mut self, id: impl Into<String>) -> Self {
        self.invocation_id = id.into();
        self
    }

    /// The same event with a time in seconds since 1970.
    #[must_use]
    pub fn with_timestamp(mut self, seconds: f64) -> Self {
        self.timestamp = Some(seconds);
        self
    }

    /// Reads an event from JSON, checking its numbers, keys and timestamp.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for malformed JSON, numbers that would not come back as they are, bad state keys, and timestamps
    /// that are no seconds since 1970.
    pub fn from_json(text: &str) -> Result<Self> {
        let event: Self = json::from_str(text).map_err(|e| e.context("the event"))?;
        event.check()?;
        Ok(event)
    }

    /// Top-level fields that this version does not know, as they came; they are given back in JSON.
    #[must_use]
    pub fn extra(&self) -> &ExtraFields {
        &self.extra
    }

    /// The same fields, to be changed: for a service on the way, whose own fields are no part of the event.
    pub fn extra_mut(&mut self) -> &mut ExtraFields {
        &mut self.extra
    }

    /// The event without what this version does not know of, for readers who take nothing else.
    #[must_use]
    pub fn known(&self) -> Cow<'_, Self> {
        if !self.has_extras() {
            return Cow::Borrowed(self);
        }
        let mut known = self.clone();
        known.extra = ExtraFields::default();
        known.node_info.extra = ExtraFields::default();
        known.actions.extra = ExtraFields::default();
        known.content.iter_mut().for_each(Content::clear_extras);
        if let Some(compaction) = &mut known.actions.compaction {
            compaction.extra = ExtraFields::default();
            compaction.compacted_content.clear_extras();
        }
        Cow::Owned(known)
    }

    /// Refuses fields inside the actions and the content that this version does not know of: for events that people write
    /// by hand, where such a name is a mistake that would leave a change undone.
    ///
    /// ```
    /// use scratchbook::Event;
    ///
    /// let event = Event::from_json(r#"{"author": "agent", "actions": {"stateDelt": {"n": 1}}}"#)?;
    /// assert!(event.check_known().unwrap_err().to_string().contains("\"stateDelt\" in 'actions'"));
    /// # Ok::<(), scratchbook::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the first of them.
    pub fn check_known(&self) -> Result<()> {
        check_known(self.extras())
    }

    /// Whether it has unknown fields anywhere.
    fn has_extras(&self) -> bool {
        let own = [&self.extra, &self.node_info.extra];
        own.into_iter().chain(self.extras().map(|(_, fields)| fields)).any(|extra| !extra.is_empty())
    }

    /// Refuses unknown fields that have the name of a known one, which programs alone can make: the event's text would be
    /// read as another or not at all.
    pub(crate) fn check_extras(&self, text: &str) -> Result<()> {
        if self.has_extras() && !serde_json::from_str::<Self>(text).is_ok_and(|read| read == *self) {
            return Err(Error::invalid("an unknown field of the event has the name of a known one; set that one"));
        }
        Ok(())
    }

    /// The unknown fields inside the actions and the content, with what they are in.
    fn extras(&self) -> impl Iterator<Item = Extra<'_>> {
        let compaction = self.actions.compaction.iter().flat_map(|compaction| {
            iter::once(("compaction", &compaction.extra)).chain(compaction.compacted_content.extras())
        });
        let content = self.content.iter().flat_map(Content::extras);
        iter::once(("actions", &self.actions.extra)).chain(compaction).chain(content)
    }

    /// The function calls in the event.
    pub fn function_calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.content.iter().flat_map(Content::function_calls)
    }

    /// The function responses in the event.
    pub fn function_responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.content.iter().flat_map(Content::function_responses)
    }

    /// Whether this is a piece of a streamed answer.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.partial == Some(true)
    }

    /// Marks the event as one that was brought from elsewhere, in its [`custom_metadata`](Self::custom_metadata) under ADK's
    /// name for that: whoever takes events from clients does so. The event counts as history; no run carries out what it
    /// calls or asks for.
    pub fn mark_restored(&mut self) {
        self.custom_metadata.get_or_insert_default().insert(RESTORED.to_owned(), Value::Bool(true));
    }

    /// Whether the event was brought from elsewhere, see [`mark_restored`](Self::mark_restored).
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.custom_metadata.as_ref().is_some_and(|metadata| metadata.contains_key(RESTORED))
    }

    /// Whether this event ends its agent's turn: the answer that is shown to the user.
    #[must_use]
    pub fn is_final_response(&self) -> bool {
        let long_running = self.long_running_tool_ids.as_ref().is_some_and(|ids| !ids.is_empty());
        if self.actions.skip_summarization == Some(true) || long_running {
            return true;
        }
        let calls = self.function_calls().next().is_some();
        if self.error_code.is_some() && !calls && !self.is_partial() {
            return true;
        }
        let responses = self.function_responses().next().is_some();
        !calls && !responses && !self.is_partial() && !self.ends_with_code_result()
    }

    fn ends_with_code_result(&self) -> bool {
        let last = self.content.as_ref().and_then(|content| content.parts().last());
        last.is_some_and(|part| part.code_execution_result.is_some())
    }

    /// Takes out `null` where a value is optional: JSON has one form for both.
    pub(crate) fn drop_nulls(&mut self) {
        macro_rules! drop_nulls {
            ($of:expr; $($field:ident),*) => {$(
                $of.$field.take_if(|value| value.is_null());
            )*};
        }
        drop_nulls!(self; grounding_metadata, turn_complete_reason, interaction_status, usage_metadata,
            live_session_resumption_update, go_away, voice_activity, input_transcription, output_transcription,
            logprobs_result, cache_metadata, citation_metadata, output);
        drop_nulls!(self.actions; route, set_model_response);
        for part in self.content.iter_mut().filter_map(|content| content.parts.as_mut()).flatten() {
            drop_nulls!(part; media_resolution, video_metadata, tool_call, tool_response, audio_transcription,
                media_processing, speech_metadata);
        }
    }

    /// Checks what every store relies on.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        if let Some(seconds) = self.timestamp {
            check_timestamp(seconds)?;
        }
        // serde_json would write null for these without a word.
        let compaction = self.actions.compaction.iter().flat_map(|c| [c.start_timestamp, c.end_timestamp]);
        if let Some(bad) = compaction.chain(self.avg_logprobs).find(|number| !number.is_finite()) {
            return Err(Error::invalid(format!(
                "the event's avg_logprobs or compaction holds {bad}, which JSON has no form for; leave it out"
            )));
        }
        self.actions.state_delta.check()
    }
}

/// Refuses what is not a time in seconds since 1970.
pub(crate) fn check_timestamp(seconds: f64) -> Result<()> {
    // 9999-12-31T23:59:59Z and a second: no calendar goes further, while milliseconds do.
    const END: f64 = 253_402_300_800.0;
    let hint = if seconds >= END { "; it looks like milliseconds" } else { "" };
    if seconds.is_finite() && (0.0..END).contains(&seconds) {
        return Ok(());
    }
    Err(Error::invalid(format!("the timestamp {seconds} is not in seconds since 1970{hint}")))
}

/// What an event does beyond being said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventActions {
    /// Whether a tool's response is shown as it is, not summed up by the model.
    #[serde(default, alias = "skip_summarization", skip_serializing_if = "Option::is_none")]
    pub skip_summarization: Option<bool>,
    /// The state changes that are committed with the event.
    #[serde(default, alias = "state_delta")]
    pub state_delta: StateDelta,
    /// Artifacts saved, by file name, with the version each got.
    #[serde(default, alias = "artifact_delta")]
    pub artifact_delta: BTreeMap<String, u64>,
    /// The agent that is to go on.
    #[serde(default, alias = "transfer_to_agent", skip_serializing_if = "Option::is_none")]
    pub transfer_to_agent: Option<String>,
    /// Why it is handed on.
    #[serde(default, alias = "transfer_reason", skip_serializing_if = "Option::is_none")]
    pub transfer_reason: Option<String>,
    /// Whether the loop around the agent is to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate: Option<bool>,
    /// Credentials that tools ask for, by call id.
    #[serde(default, alias = "requested_auth_configs")]
    pub requested_auth_configs: Map<String, Value>,
    /// Confirmations that tools ask for, by call id.
    #[serde(default, alias = "requested_tool_confirmations")]
    pub requested_tool_confirmations: Map<String, Value>,
    /// A summary that stands for earlier events.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::json::optional_object")]
    pub compaction: Option<Box<EventCompaction>>,
    /// Whether the agent has finished for good.
    #[serde(default, alias = "end_of_agent", skip_serializing_if = "Option::is_none")]
    pub end_of_agent: Option<bool>,
    /// Where a resumable agent stands.
    #[serde(default, alias = "agent_state", skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Box<Map<String, Value>>>,
    /// The run before which the session was taken back to.
    #[serde(default, alias = "rewind_before_invocation_id", skip_serializing_if = "Option::is_none")]
    pub rewind_before_invocation_id: Option<String>,
    /// The way a workflow goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Box<Value>>,
    /// Pieces of user interface to show.
    #[serde(default, alias = "render_ui_widgets", skip_serializing_if = "Option::is_none")]
    pub render_ui_widgets: Option<Vec<Value>>,
    /// An answer set by a tool in the model's place.
    #[serde(default, alias = "set_model_response", skip_serializing_if = "Option::is_none")]
    pub set_model_response: Option<Box<Value>>,
    /// Fields that this version does not know of, as they came.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A summary that stands for the events of a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventCompaction {
    /// The first event's time, in seconds.
    #[serde(alias = "start_timestamp")]
    pub start_timestamp: f64,
    /// The last event's time, in seconds.
    #[serde(alias = "end_timestamp")]
    pub end_timestamp: f64,
    /// The summary.
    #[serde(alias = "compacted_content", deserialize_with = "crate::json::object")]
    pub compacted_content: Content,
    /// Fields that this version does not know of, as they came.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl EventCompaction {
    /// A summary of the events between two times, in seconds since 1970.
    #[must_use]
    pub fn new(start_timestamp: f64, end_timestamp: f64, compacted_content: Content) -> Self {
        Self { start_timestamp, end_timestamp, compacted_content, extra: ExtraFields::default() }
    }
}

/// Where in a workflow an event arose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// The node's path; empty for the user's events.
    #[serde(default)]
    pub path: String,
    /// The nodes whose output this is.
    #[serde(default, alias = "output_for", skip_serializing_if = "Option::is_none")]
    pub output_for: Option<Vec<String>>,
    /// Whether the message is the node's output.
    #[serde(default, alias = "message_as_output", skip_serializing_if = "Option::is_none")]
    pub message_as_output: Option<bool>,
    /// Fields that this version does not know of, as they came.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::*;
    use crate::content::Part;

    /// A body or a history holds many of them, most of whose fields are absent in each.
    #[test]
    fn what_is_mostly_absent_takes_next_to_no_room() {
        assert!(size_of::<Part>() <= 200, "a part takes {} bytes", size_of::<Part>());
        assert!(size_of::<Event>() <= 1000, "an event takes {} bytes", size_of::<Event>());
    }
}
