//! One message and what comes of it.

use std::pin::pin;

use futures_util::StreamExt;
use scratchbook::{Error, Event, EventStream};

use super::calls::PendingCalls;
use super::screen::Screen;
use crate::failure::Failure;

/// How a turn ended.
#[derive(Debug)]
pub(super) enum TurnOutcome {
    /// As it should.
    Done,
    /// With an error of the agent, of its model, or of the store.
    Failed(Error),
    /// With what the model says of its own failure, such as that its answer was blocked.
    Refused,
    /// By Ctrl-C.
    CutOff,
}

/// Shows a run as it comes, until it is over or somebody has had enough.
pub(super) async fn follow(
    mut run: EventStream,
    calls: &mut PendingCalls,
    screen: &mut Screen<'_>,
) -> Result<TurnOutcome, Failure> {
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    // An event that tells of a failure, which an error may follow that tells of the same.
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
                if let Some(told) = failed.take() {
                    screen.failure(&told)?;
                }
                calls.note(&event);
                screen.event(&event)?;
                // A piece is told again by the whole.
                failed = (event.error_code.is_some() && !event.is_partial()).then_some(event);
            }
            Some(Err(error)) => {
                screen.end_line()?;
                return Ok(TurnOutcome::Failed(error));
            }
            None => {
                if let Some(told) = &failed {
                    screen.failure(told)?;
                }
                screen.end_line()?;
                return Ok(if failed.is_some() { TurnOutcome::Refused } else { TurnOutcome::Done });
            }
        }
    }
}
