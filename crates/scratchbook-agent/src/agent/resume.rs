//! Finds, from the events of a run, where each agent continues when the run is resumed.
//!
//! Only events are used; nothing else is stored about a run. The agent that received the conversation last continues.
//! It first runs its own calls that have no response. A workflow agent has recorded its position in `agent_state`. An
//! agent that recorded `end_of_agent` is not run again. Calls in other authors' events are never run.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use super::confirmation::{self, ConfirmationProgress};
use super::tool_step::ToolCalls;
use scratchbook_core::content::FunctionCall;
use scratchbook_core::event::Event;

/// The events of a resumed run, from the beginning of one agent's part in it.
#[derive(Debug, Default)]
pub(crate) struct PastEvents {
    pub events: Vec<Arc<Event>>,
    /// The agents that have already continued from these events. An agent that runs a second time starts from its
    /// beginning.
    resumed: Mutex<HashSet<String>>,
}

/// A turn of an agent that received the conversation.
#[derive(Debug)]
struct Handover<'a> {
    agent: &'a str,
    past: Arc<PastEvents>,
    /// Whether the agent has ended or handed over and has received no answer since then.
    is_over: bool,
}

/// The state of an agent's turn when the run stopped.
#[derive(Debug)]
pub(super) enum TurnStatus {
    /// The turn has not begun, or the agent itself decides how to continue.
    Continues,
    /// The agent cannot continue until an answer arrives.
    Waiting,
    /// The agent has given its final answer, but has not recorded the end of its turn.
    Answered,
    /// The agent has recorded the end of its turn.
    Ended,
}

impl PastEvents {
    pub(crate) fn new(events: Vec<Arc<Event>>) -> Self {
        Self { events, resumed: Mutex::default() }
    }

    /// Returns whether an agent may continue from these events. Returns `true` only once for each agent.
    pub(super) fn resume_once(&self, agent: &str) -> bool {
        self.resumed.lock().unwrap_or_else(PoisonError::into_inner).insert(agent.to_owned())
    }

    /// Returns the events from this place on.
    fn since(&self, place: usize) -> Arc<Self> {
        Arc::new(Self::new(self.events.get(place..).unwrap_or_default().to_vec()))
    }

    /// Returns the events of one branch and of the branches below it.
    pub(super) fn on_branch(&self, branch: &str) -> Arc<Self> {
        let below = |event: &&Arc<Event>| {
            event
                .branch
                .as_deref()
                .and_then(|of_event| of_event.strip_prefix(branch))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        Arc::new(Self::new(self.events.iter().filter(below).cloned().collect()))
    }

    /// Returns the state that an agent recorded last, and the events after it.
    pub(super) fn state(&self, agent: &str, branch: Option<&str>) -> Option<(&Map<String, Value>, Arc<Self>)> {
        let place = self
            .events
            .iter()
            .rposition(|event| is_own(event, agent, branch) && event.actions.agent_state.is_some())?;
        Some((self.events[place].actions.agent_state.as_deref()?, self.since(place + 1)))
    }

    /// Returns the agents from this one to the one that continues, each with its part of the events. The run continues
    /// with the agent that was the last to receive the conversation or an answer. If this agent is done, the run
    /// continues with the last agent that is not done.
    pub(super) fn handovers(self: &Arc<Self>, agent: &str, branch: Option<&str>) -> Vec<(String, Arc<Self>)> {
        let mut turns = vec![Handover { agent, past: Arc::clone(self), is_over: false }];
        let mut current = 0;
        for (place, event) in self.events.iter().enumerate() {
            if event.author == "user" {
                let caller = self.caller(event, branch);
                if let Some(answered) = turns.iter().rposition(|turn| Some(turn.agent) == caller) {
                    turns[answered].is_over = false;
                    current = answered;
                }
            } else if event.actions.end_of_agent == Some(true) {
                let own = turns.iter_mut().filter(|turn| is_own(event, turn.agent, branch));
                own.for_each(|turn| turn.is_over = true);
            } else if is_own(event, turns[current].agent, branch)
                && let Some(agent) = &event.actions.transfer_to_agent
            {
                turns[current].is_over = true;
                turns.push(Handover { agent, past: self.since(place + 1), is_over: false });
                current = turns.len() - 1;
            }
        }
        if turns[current].is_over {
            current = turns.iter().rposition(|turn| !turn.is_over).unwrap_or(current);
        }
        turns.truncate(current + 1);
        turns.into_iter().map(|turn| (turn.agent.to_owned(), turn.past)).collect()
    }

    /// Returns the author of the first call that the event answers.
    fn caller(&self, answer: &Event, branch: Option<&str>) -> Option<&str> {
        let id = answer.function_responses().next()?.id.as_deref()?;
        let makes_it = |event: &&Arc<Event>| {
            event.branch.as_deref() == branch && event.function_calls().any(|call| call.id.as_deref() == Some(id))
        };
        self.events.iter().find(makes_it).map(|event| event.author.as_str())
    }

    /// Returns whether an agent and the agents it handed over to have nothing left to do.
    pub(crate) fn has_ended(self: &Arc<Self>, agent: &str, branch: Option<&str>) -> bool {
        let last = self.handovers(agent, branch).pop();
        last.is_some_and(|(name, past)| past.has_recorded_end(&name, branch)) && AwaitedCalls::of(Some(self)).is_empty()
    }

    /// Returns whether an agent has recorded its end and has received no answer to a call since then.
    fn has_recorded_end(&self, agent: &str, branch: Option<&str>) -> bool {
        let end = self
            .events
            .iter()
            .rposition(|event| is_own(event, agent, branch) && event.actions.end_of_agent == Some(true));
        end.is_some_and(|end| {
            let mut answers = self.events[end..].iter().filter(|event| event.author == "user");
            !answers.any(|event| self.caller(event, branch) == Some(agent))
        })
    }

    /// Returns the state of an agent's turn. Without a model (`asks_model` is false), an agent that has not ended
    /// always continues.
    pub(super) fn status(&self, agent: &str, branch: Option<&str>, asks_model: bool) -> TurnStatus {
        if self.has_recorded_end(agent, branch) {
            return TurnStatus::Ended;
        }
        if !asks_model {
            return TurnStatus::Continues;
        }
        if !self.unanswered_calls(agent, branch).is_empty() {
            return TurnStatus::Continues;
        }
        if self.awaits(agent, branch) && !self.has_consent(agent, branch) {
            return TurnStatus::Waiting;
        }
        let said =
            |event: &&Arc<Event>| (event.author == "user" || is_own(event, agent, branch)) && event.content.is_some();
        match self.events.iter().rev().find(said) {
            Some(last) if last.author == agent && last.is_final_response() => {
                if AwaitedCalls::of(Some(self)).is_empty() { TurnStatus::Answered } else { TurnStatus::Waiting }
            }
            _ => TurnStatus::Continues,
        }
    }

    /// Returns an agent's calls that should have run but have no response. Calls that a client imported are not
    /// included.
    pub(super) fn unanswered_calls(&self, agent: &str, branch: Option<&str>) -> Vec<ToolCalls> {
        let asked_about: BTreeSet<_> =
            self.requests(agent, branch).filter_map(|(_, request)| confirmation::original_call(request)?.id).collect();
        let mut unanswered_calls = Vec::new();
        for (place, event) in self.own(agent, branch).filter(|(_, event)| !event.is_restored()) {
            let is_unanswered = |call: &&FunctionCall| {
                let asked = call.id.as_ref().is_some_and(|id| asked_about.contains(id));
                let waits = is_long_running(event, call) && self.is_begun(place, agent, branch);
                !confirmation::is_request(call) && !asked && !waits && !is_answered(call, self.after(place))
            };
            unanswered_calls.push(ToolCalls::of(event, is_unanswered));
        }
        unanswered_calls.retain(|calls| !calls.is_empty());
        unanswered_calls
    }

    /// Returns whether an agent made calls that have started but have no first response yet.
    pub(super) fn awaits(&self, agent: &str, branch: Option<&str>) -> bool {
        self.own(agent, branch).any(|(place, event)| {
            event.function_calls().any(|call| {
                let begun = confirmation::is_request(call) || self.is_begun(place, agent, branch);
                is_long_running(event, call) && begun && !is_answered(call, self.after(place))
            })
        })
    }

    /// Returns whether the user has answered an agent's request for a confirmation and the confirmed call has not run
    /// yet.
    fn has_consent(&self, agent: &str, branch: Option<&str>) -> bool {
        self.requests(agent, branch).any(|(place, request)| {
            confirmation::progress(request, self.after(place).iter().map(Arc::as_ref)) == ConfirmationProgress::Answered
        })
    }

    /// Returns whether the tool calls of the event at this place were started. For a long-running tool without a
    /// response, the agent's checkpoint shows this.
    fn is_begun(&self, place: usize, agent: &str, branch: Option<&str>) -> bool {
        let tells = |event: &Arc<Event>| event.content.is_some() || event.actions.agent_state.is_some();
        self.after(place).iter().any(|event| is_own(event, agent, branch) && tells(event))
    }

    /// Returns an agent's requests for confirmations, with their places.
    fn requests<'a>(
        &'a self,
        agent: &'a str,
        branch: Option<&'a str>,
    ) -> impl Iterator<Item = (usize, &'a FunctionCall)> {
        self.own(agent, branch).flat_map(|(place, event)| {
            event.function_calls().filter(|call| confirmation::is_request(call)).map(move |call| (place, call))
        })
    }

    fn own<'a>(&'a self, agent: &'a str, branch: Option<&'a str>) -> impl Iterator<Item = (usize, &'a Arc<Event>)> {
        self.events.iter().enumerate().filter(move |(_, event)| is_own(event, agent, branch))
    }

    fn after(&self, place: usize) -> &[Arc<Event>] {
        self.events.get(place + 1..).unwrap_or_default()
    }

    /// Returns whether one of these agents has ended the loop that runs it.
    pub(super) fn escalated(&self, by: impl Fn(&str) -> bool) -> bool {
        self.events.iter().any(|event| event.actions.escalate == Some(true) && by(&event.author))
    }
}

/// Calls whose final response comes from outside. While there are such calls, the agent that runs the calling agent
/// does not continue.
#[derive(Debug, Default)]
pub(super) struct AwaitedCalls(BTreeSet<String>);

impl AwaitedCalls {
    /// Returns the calls that were still unanswered when a run stopped.
    pub(super) fn of(past: Option<&PastEvents>) -> Self {
        let mut awaited = Self::default();
        for event in past.into_iter().flat_map(|past| &past.events) {
            awaited.update(event);
        }
        awaited
    }

    /// Adds the long-running calls of an event and removes the calls that the user answers in it. A tool's immediate
    /// response does not count, since it is not the final one.
    pub(super) fn update(&mut self, event: &Event) {
        if event.author == "user" {
            for id in event.function_responses().filter_map(|response| response.id.as_deref()) {
                self.0.remove(id);
            }
        } else {
            let calls = event.function_calls().filter(|call| is_long_running(event, call));
            self.0.extend(calls.filter_map(|call| call.id.clone()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns whether an event is an agent's own. A report of a failure does not count, because the failed step is
/// retried.
fn is_own(event: &Event, agent: &str, branch: Option<&str>) -> bool {
    let failed = event.error_code.is_some() && event.content.is_none();
    event.author == agent && event.branch.as_deref() == branch && !failed
}

fn is_long_running(event: &Event, call: &FunctionCall) -> bool {
    let ids = event.long_running_tool_ids.as_ref();
    call.id.as_ref().is_some_and(|id| ids.is_some_and(|ids| ids.contains(id)))
}

fn is_answered(call: &FunctionCall, later: &[Arc<Event>]) -> bool {
    let answers = |event: &Arc<Event>| {
        event.function_responses().any(|response| match (&call.id, &response.id) {
            (Some(id), Some(of)) => id == of,
            _ => call.name == response.name,
        })
    };
    later.iter().any(answers)
}
