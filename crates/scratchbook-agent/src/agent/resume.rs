//! A run that is taken up again: what its events say of where each agent was left.
//!
//! Nothing else is kept of a run. An agent that handed the conversation over is followed to the one that got it; calls
//! that the agent itself made and that nothing answers are run; a workflow agent has told in `agent_state` how far it was;
//! and whoever told `end_of_agent` is not run again. What other authors' events call is never run.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use super::confirmation::{self, Progress};
use super::tool_step::Calls;
use scratchbook_core::content::FunctionCall;
use scratchbook_core::event::Event;

/// The events of a run that is taken up again, from where an agent's part in it begins.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub events: Vec<Arc<Event>>,
    /// The agents that have gone on from here; whoever is run once more begins anew.
    taken: Mutex<HashSet<String>>,
}

/// A turn of an agent that had the conversation.
#[derive(Debug)]
struct Turn<'a> {
    agent: &'a str,
    past: Arc<Past>,
    /// Whether it has ended or handed over, and nobody has answered it since.
    is_over: bool,
}

/// Where an agent was left.
#[derive(Debug)]
pub(super) enum Left {
    /// It has not begun, or what it does next is up to itself.
    Going,
    /// It cannot go on before somebody answers.
    Waiting,
    /// It has said all, but has not told so.
    Done,
    /// It has told that it is done.
    Ended,
}

impl Past {
    pub(crate) fn new(events: Vec<Arc<Event>>) -> Self {
        Self { events, taken: Mutex::default() }
    }

    /// Lets an agent go on from here, once.
    pub(super) fn take(&self, agent: &str) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(agent.to_owned())
    }

    /// What came after a place.
    fn since(&self, place: usize) -> Arc<Self> {
        Arc::new(Self::new(self.events.get(place..).unwrap_or_default().to_vec()))
    }

    /// The part of one branch and of those below it.
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

    /// The state that an agent told last, and what came after that.
    pub(super) fn state(&self, agent: &str, branch: Option<&str>) -> Option<(&Map<String, Value>, Arc<Self>)> {
        let place = self
            .events
            .iter()
            .rposition(|event| is_own(event, agent, branch) && event.actions.agent_state.is_some())?;
        Some((self.events[place].actions.agent_state.as_deref()?, self.since(place + 1)))
    }

    /// The agents that led to the one that goes on, from this one on, each with its part: that is who got the conversation
    /// last, or whose call was answered last, and when that one is done, the last that is not.
    pub(super) fn handovers(self: &Arc<Self>, agent: &str, branch: Option<&str>) -> Vec<(String, Arc<Self>)> {
        let mut turns = vec![Turn { agent, past: Arc::clone(self), is_over: false }];
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
                turns.push(Turn { agent, past: self.since(place + 1), is_over: false });
                current = turns.len() - 1;
            }
        }
        if turns[current].is_over {
            current = turns.iter().rposition(|turn| !turn.is_over).unwrap_or(current);
        }
        turns.truncate(current + 1);
        turns.into_iter().map(|turn| (turn.agent.to_owned(), turn.past)).collect()
    }

    /// Who made the first call that an event answers.
    fn caller(&self, answer: &Event, branch: Option<&str>) -> Option<&str> {
        let id = answer.function_responses().next()?.id.as_deref()?;
        let makes_it = |event: &&Arc<Event>| {
            event.branch.as_deref() == branch && event.function_calls().any(|call| call.id.as_deref() == Some(id))
        };
        self.events.iter().find(makes_it).map(|event| event.author.as_str())
    }

    /// Whether nothing is left to do for an agent and those it handed over to.
    pub(crate) fn has_ended(self: &Arc<Self>, agent: &str, branch: Option<&str>) -> bool {
        let last = self.handovers(agent, branch).pop();
        last.is_some_and(|(name, past)| past.told_end(&name, branch)) && Pending::of(Some(self)).is_empty()
    }

    /// Whether an agent has told that it is done, and nobody has answered a call of its since.
    fn told_end(&self, agent: &str, branch: Option<&str>) -> bool {
        let end = self
            .events
            .iter()
            .rposition(|event| is_own(event, agent, branch) && event.actions.end_of_agent == Some(true));
        end.is_some_and(|end| {
            let mut answers = self.events[end..].iter().filter(|event| event.author == "user");
            !answers.any(|event| self.caller(event, branch) == Some(agent))
        })
    }

    /// Where an agent that had the conversation last was left. Only one that asks a model owes answers to calls.
    pub(super) fn left(&self, agent: &str, branch: Option<&str>, asks_model: bool) -> Left {
        if self.told_end(agent, branch) {
            return Left::Ended;
        }
        if !asks_model {
            return Left::Going;
        }
        if !self.owed(agent, branch).is_empty() {
            return Left::Going;
        }
        if self.awaits(agent, branch) && !self.has_consent(agent, branch) {
            return Left::Waiting;
        }
        let said =
            |event: &&Arc<Event>| (event.author == "user" || is_own(event, agent, branch)) && event.content.is_some();
        match self.events.iter().rev().find(said) {
            Some(last) if last.author == agent && last.is_final_response() => {
                if Pending::of(Some(self)).is_empty() {
                    Left::Done
                } else {
                    Left::Waiting
                }
            }
            _ => Left::Going,
        }
    }

    /// The calls of an agent that were to be run and have no answer. What a client has brought along is no agent's call.
    pub(super) fn owed(&self, agent: &str, branch: Option<&str>) -> Vec<Calls> {
        let asked_about: BTreeSet<_> =
            self.requests(agent, branch).filter_map(|(_, request)| confirmation::original_call(request)?.id).collect();
        let mut owed = Vec::new();
        for (place, event) in self.own(agent, branch).filter(|(_, event)| !event.is_restored()) {
            let is_owed = |call: &&FunctionCall| {
                let asked = call.id.as_ref().is_some_and(|id| asked_about.contains(id));
                let waits = is_long_running(event, call) && self.is_begun(place, agent, branch);
                !confirmation::is_request(call) && !asked && !waits && !is_answered(call, self.after(place))
            };
            let calls: Vec<_> = event.function_calls().filter(is_owed).cloned().collect();
            if !calls.is_empty() {
                owed.push(Calls { calls, ..Calls::default() });
            }
        }
        owed
    }

    /// Whether an agent has made calls that are begun and whose first answers are still to come.
    pub(super) fn awaits(&self, agent: &str, branch: Option<&str>) -> bool {
        self.own(agent, branch).any(|(place, event)| {
            event.function_calls().any(|call| {
                let begun = confirmation::is_request(call) || self.is_begun(place, agent, branch);
                is_long_running(event, call) && begun && !is_answered(call, self.after(place))
            })
        })
    }

    /// Whether the user has answered a request of an agent for a confirmation, and the call is still to be run.
    fn has_consent(&self, agent: &str, branch: Option<&str>) -> bool {
        self.requests(agent, branch).any(|(place, request)| {
            confirmation::progress(request, self.after(place).iter().map(Arc::as_ref)) == Progress::Answered
        })
    }

    /// Whether the tools that an event calls were begun. One that answers later need not have said anything; its agent then
    /// has told so.
    fn is_begun(&self, place: usize, agent: &str, branch: Option<&str>) -> bool {
        let tells = |event: &Arc<Event>| event.content.is_some() || event.actions.agent_state.is_some();
        self.after(place).iter().any(|event| is_own(event, agent, branch) && tells(event))
    }

    /// The requests of an agent for confirmations, with their places.
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

    /// Whether an agent of these has ended the loop around it.
    pub(super) fn escalated(&self, by: impl Fn(&str) -> bool) -> bool {
        self.events.iter().any(|event| event.actions.escalate == Some(true) && by(&event.author))
    }
}

/// Calls whose last answer has to come from outside: while there are any, what runs an agent goes no further.
#[derive(Debug, Default)]
pub(super) struct Pending(BTreeSet<String>);

impl Pending {
    /// Those that a run was left with.
    pub(super) fn of(past: Option<&Past>) -> Self {
        let mut pending = Self::default();
        for event in past.into_iter().flat_map(|past| &past.events) {
            pending.see(event);
        }
        pending
    }

    /// Takes in what an event calls or answers. What a tool itself answers at once is a first answer, not the last.
    pub(super) fn see(&mut self, event: &Event) {
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

/// Whether an event is an agent's own; what tells of a failure is not, since what failed is tried again.
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
