//! Adds the changes of a whole streamed answer to its pieces if the whole answer is available together with them.
//!
//! In ADK, the pieces and the whole answer share one set of actions. A client that reads a piece late therefore finds
//! the changes of the whole answer in the piece. Here a piece shows these changes only if the whole answer is ready at
//! the same time. No piece waits for the whole answer.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::StreamExt;

use super::EventStream;
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;

/// How many events are held back at most while looking for the whole answer.
const MOST: usize = 256;

/// Returns the same events in the same order. Pieces that are ready together with their whole answer carry its changes;
/// the other pieces carry their own.
pub(super) fn with_changes_in_pieces(mut events: EventStream) -> EventStream {
    Box::pin(async_stream::try_stream! {
        while let Some(event) = events.next().await {
            let mut ready = vec![event];
            while ready.len() < MOST && ready.last().is_some_and(is_piece) {
                match poll_fn(|context| Poll::Ready(events.poll_next_unpin(context))).await {
                    Poll::Ready(Some(event)) => ready.push(event),
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            share_changes(&mut ready);
            for event in ready {
                yield event?;
            }
        }
    })
}

fn is_piece(event: &Result<Event>) -> bool {
    event.as_ref().is_ok_and(Event::is_partial)
}

/// Copies the changes of a whole answer to the pieces before it, but not the answer's other actions.
fn share_changes(events: &mut [Result<Event>]) {
    let Some((Ok(whole), pieces)) = events.split_last_mut() else {
        return;
    };
    if whole.is_partial() {
        return;
    }
    for piece in pieces.iter_mut().flatten() {
        piece.actions.state_delta.clone_from(&whole.actions.state_delta);
        piece.actions.artifact_delta.clone_from(&whole.actions.artifact_delta);
    }
}
