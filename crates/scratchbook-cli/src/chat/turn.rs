//! One run of the agent.

use std::pin::pin;

use futures_util::StreamExt;
use scratchbook::agent::EventStream;
use scratchbook::{Error, Event};

use super::calls::PendingCalls;
use super::screen::Screen;
use crate::failure::CommandFailure;

/// The outcome of a run.
#[derive(Debug)]
pub(super) enum TurnOutcome {
    /// The run was completed.
    Done,
    /// The agent, its model or the store failed.
    Failed(Error),
    /// The model reported an error in an event, such as a blocked answer.
    Refused,
    /// Ctrl-C stopped the run.
    CutOff,
}

/// Shows the events of a run until it ends or Ctrl-C stops it.
pub(super) async fn follow(
    mut run: EventStream,
    calls: &mut PendingCalls,
    screen: &mut Screen<'_>,
) -> Result<TurnOutcome, CommandFailure> {
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    // The last event, if it has an error. The run's own error may repeat this error.
    let mut failed: Option<Event> = None;
    loop {
        let item = tokio::select! {
            biased;
            Ok(()) = &mut interrupted => {
                screen.end_line()?;
                return Ok(TurnOutcome::CutOff);
            }
            item = run.next() => item,
        };
        match item {
            Some(Ok(event)) => {
                if let Some(earlier) = failed.take() {
                    screen.failure(&earlier)?;
                }
                calls.note(&event);
                screen.event(&event)?;
                // Partial events are ignored, because the complete event repeats their error.
                failed = (event.error_code.is_some() && !event.is_partial()).then_some(event);
            }
            Some(Err(error)) => {
                screen.end_line()?;
                return Ok(TurnOutcome::Failed(error));
            }
            None => {
                if let Some(event) = &failed {
                    screen.failure(event)?;
                }
                screen.end_line()?;
                return Ok(if failed.is_some() { TurnOutcome::Refused } else { TurnOutcome::Done });
            }
        }
    }
}
