//! `Event` and `EventActions`, with the JSON fields of ADK.

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

/// The key in an event's metadata that marks it as imported.
#[doc(hidden)]
pub const RESTORED: &str = "__adk_internal_restored_event";

/// One entry of a session's event log: a message, call or action, its author, and the state changes it makes.
///
/// An event carries its state changes in [`actions.state_delta`](EventActions::state_delta); an append commits event
/// and changes together. Names are written in camelCase and read in camelCase or snake_case. Read events with
/// [`from_json`](Self::from_json), which also checks that each number survives a round trip. Unknown fields are kept
/// (in [`extra`](Self::extra), and in the field `extra` of each nested type) and written back, since a newer program
/// may have written them. [`check_known`](Self::check_known) refuses them in events that people write by hand.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The model that answered, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_version: Option<String>,
    /// The message, call or response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// Sources of the facts in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grounding_metadata: Option<Box<Value>>,
    /// Whether this is a piece of a streamed answer, which is shown to the caller and never stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
    /// Whether the model's turn ends here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_complete: Option<bool>,
    /// Why the turn ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_complete_reason: Option<Box<Value>>,
    /// The progress of an interaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interaction_status: Option<Box<Value>>,
    /// Why the model stopped, such as `STOP` or `MAX_TOKENS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The kind of failure that ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The description of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Whether the user interrupted the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
    /// Any data that a program keeps with the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_metadata: Option<Box<Map<String, Value>>>,
    /// The number of tokens used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<Box<Value>>,
    /// How to resume a live session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_session_resumption_update: Option<Box<Value>>,
    /// The live session this came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_session_id: Option<String>,
    /// A live server's notice that it will close.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub go_away: Option<Box<Value>>,
    /// Whether somebody is speaking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice_activity: Option<Box<Value>>,
    /// The transcription of the user's audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_transcription: Option<Box<Value>>,
    /// The transcription of the model's audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_transcription: Option<Box<Value>>,
    /// The mean log probability of the answer's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg_logprobs: Option<f64>,
    /// Log probabilities, token by token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs_result: Option<Box<Value>>,
    /// How the context cache was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_metadata: Option<Box<Value>>,
    /// The cited sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub citation_metadata: Option<Box<Value>>,
    /// The interaction this event belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interaction_id: Option<String>,
    /// The environment this event ran in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// The run this event belongs to.
    pub invocation_id: String,
    /// `user`, or the name of the agent.
    pub author: String,
    /// The effects of the event beyond its message.
    pub actions: EventActions,
    /// The output of a workflow node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<Value>>,
    /// The position in a workflow from which the event comes.
    pub node_info: NodeInfo,
    /// Ids of the calls in this event whose tools respond later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_running_tool_ids: Option<BTreeSet<String>>,
    /// The branch of a parallel run, `[outer.]PARALLEL.CHILD`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The scope that isolates a branch's history from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation_scope: Option<String>,
    /// The event's id within its session; if empty, a service generates one.
    pub id: String,
    /// The time of the event, in seconds since 1970; if `None`, a service sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<f64>,
    /// The event's number within its session, from 1 without gaps; `None` before the event is stored, and in stores
    /// that do not number events. The number is not in the JSON.
    #[serde(skip)]
    pub seq: Option<u64>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl Event {
    /// Creates an empty event by an author. The service that appends it sets its id and time.
    #[must_use]
    pub fn new(author: impl Into<String>) -> Self {
        Self { author: author.into(), ..Self::default() }
    }

    /// Sets the content.
    #[must_use]
    pub fn with_content(mut self, content: impl Into<Content>) -> Self {
        self.content = Some(content.into());
        self
    }

    /// Sets the state changes.
    #[must_use]
    pub fn with_state_delta(mut self, delta: StateDelta) -> Self {
        self.actions.state_delta = delta;
        self
    }

    /// Sets the id, which is the idempotency key of its append.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the id of the run.
    #[must_use]
    pub fn with_invocation_id(mut self, id: impl Into<String>) -> Self {
        self.invocation_id = id.into();
        self
    }

    /// Sets the time, in seconds since 1970.
    #[must_use]
    pub fn with_timestamp(mut self, seconds: f64) -> Self {
        self.timestamp = Some(seconds);
        self
    }

    /// Reads an event from JSON and checks its numbers, keys and timestamp.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for malformed JSON, numbers that would not survive a round trip, invalid state keys, and
    /// invalid timestamps.
    pub fn from_json(text: &str) -> Result<Self> {
        let event: Self = json::from_str(text).map_err(|e| e.context("the event"))?;
        event.check()?;
        Ok(event)
    }

    /// Returns top-level fields unknown to this version, kept as received; they are written back in JSON.
    #[must_use]
    pub fn extra(&self) -> &ExtraFields {
        &self.extra
    }

    /// Returns the top-level unknown fields, mutable, for a service that stores its own fields among them.
    pub fn extra_mut(&mut self) -> &mut ExtraFields {
        &mut self.extra
    }

    /// Returns the event without fields unknown to this version, for readers that refuse unknown fields.
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

    /// Refuses unknown fields inside the actions and the content. Use this for events that people write by hand, in
    /// which an unknown name is a mistake and would silently drop a change.
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
    /// `InvalidArgument`, naming the first unknown field.
    pub fn check_known(&self) -> Result<()> {
        check_known(self.extras())
    }

    /// Whether the event has unknown fields anywhere.
    pub(crate) fn has_extras(&self) -> bool {
        let own = [&self.extra, &self.node_info.extra];
        own.into_iter().chain(self.extras().map(|(_, fields)| fields)).any(|extra| !extra.is_empty())
    }

    /// Refuses unknown fields that have the name of a known field. Only a program can create such fields. The event's
    /// text would be read back differently or not at all.
    pub(crate) fn check_extras(&self, text: &str) -> Result<()> {
        if self.has_extras() && !serde_json::from_str::<Self>(text).is_ok_and(|read| read == *self) {
            return Err(Error::invalid("an unknown field of the event has the name of a known one; set that one"));
        }
        Ok(())
    }

    /// Returns the unknown fields inside the actions and the content, with their parents.
    fn extras(&self) -> impl Iterator<Item = Extra<'_>> {
        let compaction = self.actions.compaction.iter().flat_map(|compaction| {
            iter::once(("compaction", &compaction.extra)).chain(compaction.compacted_content.extras())
        });
        let content = self.content.iter().flat_map(Content::extras);
        iter::once(("actions", &self.actions.extra)).chain(compaction).chain(content)
    }

    /// Returns the function calls in the event.
    pub fn function_calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.content.iter().flat_map(Content::function_calls)
    }

    /// Returns the function responses in the event.
    pub fn function_responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.content.iter().flat_map(Content::function_responses)
    }

    /// Whether this is a piece of a streamed answer.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.partial == Some(true)
    }

    /// Marks the event as imported, in its [`custom_metadata`](Self::custom_metadata) under the name that ADK uses.
    /// Servers that accept events from clients use this. The event is then history: no run executes its calls or
    /// requests.
    pub fn mark_restored(&mut self) {
        self.custom_metadata.get_or_insert_default().insert(RESTORED.to_owned(), Value::Bool(true));
    }

    /// Whether the event is imported, see [`mark_restored`](Self::mark_restored).
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.custom_metadata.as_ref().is_some_and(|metadata| metadata.contains_key(RESTORED))
    }

    /// Whether this event is the agent's final answer, which is shown to the user and ends the agent's turn.
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

    /// Sets optional values that are `null` to `None`, because reading JSON does not distinguish the two.
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

    /// Checks the invariants that every store relies on.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        if let Some(seconds) = self.timestamp {
            check_timestamp(seconds)?;
        }
        // serde_json would silently write null for these.
        let compaction = self.actions.compaction.iter().flat_map(|c| [c.start_timestamp, c.end_timestamp]);
        if let Some(bad) = compaction.chain(self.avg_logprobs).find(|number| !number.is_finite()) {
            return Err(Error::invalid(format!(
                "the event's avg_logprobs or compaction holds {bad}, which JSON has no form for; leave it out"
            )));
        }
        self.actions.state_delta.check()
    }
}

/// Refuses an invalid time in seconds since 1970.
pub(crate) fn check_timestamp(seconds: f64) -> Result<()> {
    // 9999-12-31T23:59:59Z plus a second: date types end here, and a present time in milliseconds is larger.
    const END: f64 = 253_402_300_800.0;
    let hint = if seconds >= END { "; it looks like milliseconds" } else { "" };
    if seconds.is_finite() && (0.0..END).contains(&seconds) {
        return Ok(());
    }
    Err(Error::invalid(format!("the timestamp {seconds} is not in seconds since 1970{hint}")))
}

/// The effects of an event beyond its message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventActions {
    /// Whether a tool's response is shown as it is, without a summary by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_summarization: Option<bool>,
    /// The state changes that are committed with the event.
    pub state_delta: StateDelta,
    /// Saved artifacts, by file name, with the version of each.
    pub artifact_delta: BTreeMap<String, u64>,
    /// The agent that takes over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_to_agent: Option<String>,
    /// The reason for the transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_reason: Option<String>,
    /// Whether the enclosing loop ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate: Option<bool>,
    /// Credentials that tools request, by call id.
    pub requested_auth_configs: Map<String, Value>,
    /// Confirmations that tools request, by call id.
    pub requested_tool_confirmations: Map<String, Value>,
    /// A summary that replaces earlier events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Box<EventCompaction>>,
    /// Whether the agent has finished for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_of_agent: Option<bool>,
    /// The checkpoint of a resumable agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Box<Map<String, Value>>>,
    /// The first run that a rewind undid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewind_before_invocation_id: Option<String>,
    /// The route that a workflow takes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Box<Value>>,
    /// User interface widgets to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub render_ui_widgets: Option<Vec<Value>>,
    /// An answer set by a tool instead of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_model_response: Option<Box<Value>>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A summary that replaces the events of a time span.
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
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl EventCompaction {
    /// Creates a summary of the events between two times, in seconds since 1970.
    #[must_use]
    pub fn new(start_timestamp: f64, end_timestamp: f64, compacted_content: Content) -> Self {
        Self { start_timestamp, end_timestamp, compacted_content, extra: ExtraFields::default() }
    }
}

/// The position in a workflow from which an event comes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// The node's path; empty for the user's events.
    #[serde(default)]
    pub path: String,
    /// The nodes whose output this event is.
    #[serde(default, alias = "output_for", skip_serializing_if = "Option::is_none")]
    pub output_for: Option<Vec<String>>,
    /// Whether the message is the node's output.
    #[serde(default, alias = "message_as_output", skip_serializing_if = "Option::is_none")]
    pub message_as_output: Option<bool>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::*;
    use crate::content::Part;

    /// A request body or a history contains many events, and most fields of each event are absent.
    #[test]
    fn what_is_mostly_absent_takes_next_to_no_room() {
        assert!(size_of::<Part>() <= 200, "a part takes {} bytes", size_of::<Part>());
        assert!(size_of::<Event>() <= 1000, "an event takes {} bytes", size_of::<Event>());
    }
}
