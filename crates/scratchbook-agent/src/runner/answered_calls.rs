//! Messages that answer calls. Such a message continues the run that made the calls.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::agent::{ConfirmationProgress, is_request, progress};
use crate::tool::ToolConfirmation;
use scratchbook_core::content::{Content, FunctionCall, FunctionResponse, Part};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;

/// The calls that a message answers; none by default.
#[derive(Debug, Default)]
pub(super) struct AnsweredCalls {
    /// The run that made the calls.
    pub(super) run: Option<String>,
    /// The agents that made the calls, each with the parts of the message that answer them.
    pub(super) callers: Vec<CallingAgent>,
    /// Whether the message answers open requests for confirmations. No other message may answer them in the meantime.
    pub(super) confirms: bool,
    /// Whether the session already contains all answers of the message and the answers have taken effect.
    pub(super) is_settled: bool,
}

/// An agent that made calls, on its branch.
#[derive(Debug)]
pub(super) struct CallingAgent {
    pub(super) agent: String,
    pub(super) branch: Option<String>,
    /// The parts of the message that answer this agent. Parts that answer no call are added to the first agent.
    pub(super) parts: Vec<Part>,
}

impl AnsweredCalls {
    /// Finds the calls that a message answers, by ADK's rule: all of them belong to one run.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` if a call is not among the events or has another name, or if the calls belong to several runs;
    /// - `InvalidArgument` for an answer to a call that only its tool may answer, because the tool is not long-running;
    /// - `InvalidArgument` if a confirmation is invalid, comes with text or is answered in two ways;
    /// - `InvalidArgument` if the message makes calls itself;
    /// - `Conflict` if a confirmation was given before and its call has no response yet;
    /// - `FailedPrecondition` if the request for the confirmation is in an imported event.
    pub(super) fn of(message: &Content, events: &[Arc<Event>]) -> Result<Self> {
        refuse_calls(message)?;
        if message.function_responses().next().is_none() {
            return Ok(Self::default());
        }
        let mut reader = MessageReader::new(message.parts(), events);
        for part in message.parts() {
            match answer_of(part) {
                Some((id, response)) => reader.add_answer(id, response, part)?,
                None => reader.others.push(part.clone()),
            }
        }
        reader.finish()
    }

    /// Refuses a message that answers two agents on one branch, since only one of them at a time can continue the run.
    pub(super) fn check_branches(&self) -> Result<()> {
        for (place, caller) in self.callers.iter().enumerate() {
            if let Some(other) = self.callers[..place].iter().find(|other| other.branch == caller.branch) {
                let (one, two) = (&other.agent, &caller.agent);
                let message = format!("the message answers calls of the agents {one} and {two}; answer one at a time");
                return Err(Error::invalid(message));
            }
        }
        Ok(())
    }

    /// Returns the agents whose calls the last of these events answers.
    pub(super) fn of_last(events: &[Arc<Event>]) -> Vec<CallingAgent> {
        let mut answered = Self::default();
        let last = events.iter().rfind(|event| event.actions.compaction.is_none());
        let parts = last.and_then(|last| last.content.as_ref()).map(Content::parts).unwrap_or_default();
        let calls = calls_of(parts, events);
        for part in parts {
            if let Some((place, _)) = answer_of(part).and_then(|(id, _)| calls.get(id)) {
                answered.take(&events[*place], part.clone());
            }
        }
        answered.callers
    }

    /// Returns the ids of the requests for confirmations that the message answers.
    pub(super) fn confirmations(&self) -> HashSet<&str> {
        let answers = self.callers.iter().flat_map(|caller| &caller.parts).filter_map(answer_of);
        let is_confirmation = |answer: &FunctionResponse| answer.name.as_deref() == Some(ToolConfirmation::CALL_NAME);
        answers.filter(|(_, answer)| is_confirmation(answer)).map(|(id, _)| id).collect()
    }

    fn take(&mut self, event: &Event, part: Part) {
        let of_event = |caller: &&mut CallingAgent| caller.agent == event.author && caller.branch == event.branch;
        match self.callers.iter_mut().find(of_event) {
            Some(caller) => caller.parts.push(part),
            None => {
                let (agent, branch) = (event.author.clone(), event.branch.clone());
                self.callers.push(CallingAgent { agent, branch, parts: vec![part] });
            }
        }
    }
}

/// Reads the parts of a message that answers calls.
struct MessageReader<'a> {
    events: &'a [Arc<Event>],
    calls: CallsById<'a>,
    answered: AnsweredCalls,
    /// The id of the first call that is answered.
    first: &'a str,
    /// The answers to requests for confirmations, by the ids of the requests.
    confirmations: BTreeMap<&'a str, ToolConfirmation>,
    /// The parts that answer no call.
    others: Vec<Part>,
    /// Whether the message repeats a confirmation whose call already has its response.
    repeats: bool,
    /// Whether the message answers a call that is not a request for a confirmation.
    answers_tool: bool,
}

impl<'a> MessageReader<'a> {
    fn new(parts: &[Part], events: &'a [Arc<Event>]) -> Self {
        Self {
            events,
            calls: calls_of(parts, events),
            answered: AnsweredCalls::default(),
            first: "",
            confirmations: BTreeMap::new(),
            others: Vec::new(),
            repeats: false,
            answers_tool: false,
        }
    }

    fn add_answer(&mut self, id: &'a str, response: &FunctionResponse, part: &Part) -> Result<()> {
        let (place, call) = *self.calls.get(id).ok_or_else(|| {
            Error::invalid(format!(
                "the message answers the call '{id}', which is not among the events of the session; answer one that is"
            ))
        })?;
        let event = &self.events[place];
        self.check_run(id, event)?;
        self.answered.run = Some(event.invocation_id.clone());
        self.answered.take(event, named(part, response, id, call)?);
        check_long_running(id, call, event)?;
        if !is_request(call) {
            self.answers_tool = true;
            return Ok(());
        }
        self.add_confirmation(id, response, event)?;
        match progress_now(call, &self.events[place + 1..]) {
            ConfirmationProgress::Open => self.answered.confirms = true,
            ConfirmationProgress::Consumed => self.repeats = true,
            ConfirmationProgress::Answered => return Err(taken(id)),
        }
        Ok(())
    }

    /// Refuses a call that does not belong to the same run as the calls before it.
    fn check_run(&mut self, id: &'a str, event: &Event) -> Result<()> {
        match &self.answered.run {
            None => {
                self.first = id;
                Ok(())
            }
            Some(run) if *run == event.invocation_id => Ok(()),
            Some(run) => Err(Error::invalid(format!(
                "the message answers the call '{}' of the run {run} and the call '{id}' of the run {}; answer those of \
                 one run at a time",
                self.first, event.invocation_id
            ))),
        }
    }

    /// Adds the answer to a request for a confirmation.
    fn add_confirmation(&mut self, id: &'a str, response: &FunctionResponse, request: &Event) -> Result<()> {
        if request.is_restored() {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!("the confirmation '{id}' was asked for elsewhere; have the agent make the call anew"),
            ));
        }
        let given = ToolConfirmation::from_response(&response.response.clone().unwrap_or_default())
            .map_err(|e| e.context(format!("the answer to '{id}'")))?;
        if self.confirmations.insert(id, given.clone()).is_some_and(|other| other != given) {
            return Err(Error::invalid(format!(
                "the message answers the confirmation '{id}' in two ways; answer it once"
            )));
        }
        Ok(())
    }

    fn finish(self) -> Result<AnsweredCalls> {
        let mut answered = self.answered;
        if (answered.confirms || self.repeats) && !self.others.is_empty() {
            // A model sees a confirmation only together with the response of the confirmed call, which comes later. It
            // would not see the other parts of the message.
            return Err(Error::invalid(
                "a message that confirms a call can say nothing else; say it in another message",
            ));
        }
        if let Some(caller) = answered.callers.first_mut() {
            caller.parts.extend(self.others);
        }
        answered.is_settled = self.repeats && !answered.confirms && !self.answers_tool;
        Ok(answered)
    }
}

fn refuse_calls(message: &Content) -> Result<()> {
    let Some(call) = message.function_calls().next() else {
        return Ok(());
    };
    let name = call.name.as_deref().unwrap_or_default();
    Err(Error::invalid(format!("a user's message cannot call '{name}'; say something, or answer a call")))
}

/// Refuses an answer to a call that the tool itself answers.
fn check_long_running(id: &str, call: &FunctionCall, event: &Event) -> Result<()> {
    if event.long_running_tool_ids.as_ref().is_some_and(|ids| ids.contains(id)) {
        return Ok(());
    }
    let name = call.name.as_deref().unwrap_or_default();
    Err(Error::invalid(format!(
        "the message answers the call '{id}' of '{name}', which its tool answers; answer a call of a tool that is \
         long-running, or a request for a confirmation"
    )))
}

fn answer_of(part: &Part) -> Option<(&str, &FunctionResponse)> {
    let response = part.function_response.as_ref()?;
    Some((response.id.as_deref().filter(|id| !id.is_empty())?, response))
}

/// Calls by id, each with the place of its event.
type CallsById<'a> = HashMap<&'a str, (usize, &'a FunctionCall)>;

/// Returns the calls that these parts answer. If several calls have one id, the last one is meant.
///
/// The events are looked through once: a message may answer ten thousand calls.
fn calls_of<'a>(parts: &[Part], events: &'a [Arc<Event>]) -> CallsById<'a> {
    let wanted: HashSet<&str> = parts.iter().filter_map(answer_of).map(|(id, _)| id).collect();
    let mut calls = CallsById::new();
    for (place, event) in events.iter().enumerate().rev() {
        if calls.len() == wanted.len() {
            break;
        }
        for call in event.function_calls() {
            if let Some(id) = call.id.as_deref().filter(|id| wanted.contains(id)) {
                calls.entry(id).or_insert((place, call));
            }
        }
    }
    calls
}

/// Returns the response, with the name of its call added.
fn named(part: &Part, response: &FunctionResponse, id: &str, call: &FunctionCall) -> Result<Part> {
    if response.name.is_some() && response.name != call.name {
        let [given, called] = [&response.name, &call.name].map(|name| name.as_deref().unwrap_or_default());
        return Err(Error::invalid(format!("the message answers the call '{id}' of '{called}' as one of '{given}'")));
    }
    let mut part = part.clone();
    if let Some(response) = &mut part.function_response {
        response.name.clone_from(&call.name);
    }
    Ok(part)
}

/// Returns the progress of a request. If the user has sent a message without answers after a confirmation whose call
/// has no response, the request is open again.
fn progress_now(request: &FunctionCall, later: &[Arc<Event>]) -> ConfirmationProgress {
    let of = |events: &[Arc<Event>]| progress(request, events.iter().map(Arc::as_ref));
    match of(later) {
        ConfirmationProgress::Answered => {
            let says_else = |event: &Arc<Event>| {
                event.author == "user" && event.content.is_some() && event.function_responses().next().is_none()
            };
            of(&later[later.iter().rposition(says_else).map_or(0, |place| place + 1)..])
        }
        progress => progress,
    }
}

fn taken(id: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the confirmation '{id}' was given before, and its call is still being run or was cut off; to run it again, \
             start a run without a message"
        ),
    )
}
