//! A message that answers calls goes on with the run that made them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::agent::{Progress, is_request, progress};
use crate::tool::ToolConfirmation;
use scratchbook_core::content::{Content, FunctionCall, FunctionResponse, Part};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;

/// What a message answers; nothing by default.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// The run whose calls these are.
    pub(super) run: Option<String>,
    /// Who made them, each with the parts for it.
    pub(super) callers: Vec<Caller>,
    /// Whether it answers requests for confirmations: then nobody else may answer them meanwhile.
    pub(super) confirms: bool,
    /// Whether all it says was said before and has been carried out.
    pub(super) is_settled: bool,
}

/// An agent that has made calls, on its branch.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) agent: String,
    pub(super) branch: Option<String>,
    /// The parts of the message that answer it; what answers nothing is with the first.
    pub(super) parts: Vec<Part>,
}

impl Answered {
    /// What a message answers, by ADK's rule: all of it belongs to one run.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` where a call is not among the events or has another name, where the calls are of several runs,
    /// where a tool is to answer itself, where a confirmation is none, stands beside text or is given in two
    /// ways, and where the message calls tools itself; `Conflict` where a
    /// confirmation was given before and what was confirmed has not been answered yet; `FailedPrecondition` where it was
    /// asked for elsewhere.
    pub(super) fn of(message: &Content, events: &[Arc<Event>]) -> Result<Self> {
        if let Some(call) = message.function_calls().next() {
            let name = call.name.as_deref().unwrap_or_default();
            return Err(Error::invalid(format!(
                "a user's message cannot call '{name}'; say something, or answer a call"
            )));
        }
        let mut answered = Self::default();
        if message.function_responses().next().is_none() {
            return Ok(answered);
        }
        let mut first = "";
        let (mut consumed, mut says_more) = (false, false);
        let mut others = Vec::new();
        let mut confirmations = BTreeMap::new();
        for part in message.parts() {
            let Some((id, response)) = answer_of(part) else {
                others.push(part.clone());
                continue;
            };
            let (place, call) = find(id, events)?;
            let event = &events[place];
            match &answered.run {
                None => first = id,
                Some(run) if *run == event.invocation_id => {}
                Some(run) => {
                    return Err(Error::invalid(format!(
                        "the message answers the call '{first}' of the run {run} and the call '{id}' of the run {}; \
                         answer those of one run at a time",
                        event.invocation_id
                    )));
                }
            }
            answered.run = Some(event.invocation_id.clone());
            answered.take(event, named(part, response, id, call)?);
            if !event.long_running_tool_ids.as_ref().is_some_and(|ids| ids.contains(id)) {
                let name = call.name.as_deref().unwrap_or_default();
                return Err(Error::invalid(format!(
                    "the message answers the call '{id}' of '{name}', which its tool answers; answer a call of a tool that \
                     is long-running, or a request for a confirmation"
                )));
            }
            if !is_request(call) {
                says_more = true;
                continue;
            }
            if event.is_restored() {
                return Err(Error::new(
                    ErrorKind::FailedPrecondition,
                    format!("the confirmation '{id}' was asked for elsewhere; have the agent make the call anew"),
                ));
            }
            let given = ToolConfirmation::from_response(&response.response.clone().unwrap_or_default())
                .map_err(|e| e.context(format!("the answer to '{id}'")))?;
            if confirmations.insert(id, given.clone()).is_some_and(|other| other != given) {
                return Err(Error::invalid(format!(
                    "the message answers the confirmation '{id}' in two ways; answer it once"
                )));
            }
            match progress_now(call, &events[place + 1..]) {
                Progress::Open => answered.confirms = true,
                Progress::Consumed => consumed = true,
                Progress::Answered => return Err(taken(id)),
            }
        }
        if (answered.confirms || consumed) && !others.is_empty() {
            // The call's answer comes after it, and a model is shown that beside the call: it would not hear the rest.
            return Err(Error::invalid(
                "a message that confirms a call can say nothing else; say it in another message",
            ));
        }
        if let Some(caller) = answered.callers.first_mut() {
            caller.parts.extend(others);
        }
        answered.is_settled = consumed && !answered.confirms && !says_more;
        Ok(answered)
    }

    /// Refuses what answers two agents on one branch: of these, one at a time goes on with a run.
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

    /// Whom the last of some events answers.
    pub(super) fn of_last(events: &[Arc<Event>]) -> Vec<Caller> {
        let mut answered = Self::default();
        let last = events.iter().rfind(|event| event.actions.compaction.is_none());
        for part in last.and_then(|last| last.content.as_ref()).map(Content::parts).unwrap_or_default() {
            if let Some((place, _)) = answer_of(part).and_then(|(id, _)| find(id, events).ok()) {
                answered.take(&events[place], part.clone());
            }
        }
        answered.callers
    }

    /// The ids of the requests for confirmations that it answers.
    pub(super) fn confirmations(&self) -> HashSet<&str> {
        let answers = self.callers.iter().flat_map(|caller| &caller.parts).filter_map(answer_of);
        let is_confirmation = |answer: &FunctionResponse| answer.name.as_deref() == Some(ToolConfirmation::CALL_NAME);
        answers.filter(|(_, answer)| is_confirmation(answer)).map(|(id, _)| id).collect()
    }

    fn take(&mut self, event: &Event, part: Part) {
        let of_event = |caller: &&mut Caller| caller.agent == event.author && caller.branch == event.branch;
        match self.callers.iter_mut().find(of_event) {
            Some(caller) => caller.parts.push(part),
            None => {
                let (agent, branch) = (event.author.clone(), event.branch.clone());
                self.callers.push(Caller { agent, branch, parts: vec![part] });
            }
        }
    }
}

fn answer_of(part: &Part) -> Option<(&str, &FunctionResponse)> {
    let response = part.function_response.as_ref()?;
    Some((response.id.as_deref().filter(|id| !id.is_empty())?, response))
}

/// The last call of an id, and the place of its event.
fn find<'a>(id: &str, events: &'a [Arc<Event>]) -> Result<(usize, &'a FunctionCall)> {
    let of_event = |event: &'a Event| event.function_calls().find(|call| call.id.as_deref() == Some(id));
    let mut found = events.iter().enumerate().rev().filter_map(|(place, event)| Some((place, of_event(event)?)));
    found.next().ok_or_else(|| {
        Error::invalid(format!(
            "the message answers the call '{id}', which is not among the events of the session; answer one that is"
        ))
    })
}

/// An answer under the name of its call.
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

/// How far a request has come since the user has said something else last; what was left at that is open again.
fn progress_now(request: &FunctionCall, later: &[Arc<Event>]) -> Progress {
    let of = |events: &[Arc<Event>]| progress(request, events.iter().map(Arc::as_ref));
    match of(later) {
        Progress::Answered => {
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
