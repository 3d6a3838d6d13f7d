//! Limits the bytes of all answers that are being made and sent, since a slow client keeps its answer in memory for
//! long.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use scratchbook::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which bytes are counted.
const UNIT: usize = 1 << 10;

/// The bytes that all answers may have together.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// The bytes that one answer holds until it is sent.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    held: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Returns a new share, which holds no bytes yet.
    pub(crate) fn share(&self) -> Share {
        Share { budget: self.clone(), held: None, bytes: 0 }
    }
}

impl Share {
    /// Takes the bytes that the share lacks for an answer of this many bytes.
    ///
    /// # Errors
    ///
    /// `Unavailable` if other answers have taken too much of the budget.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<()> {
        let (has, wanted) = (self.bytes.div_ceil(UNIT), bytes.div_ceil(UNIT));
        let Some(missing) = wanted.checked_sub(has).filter(|missing| *missing > 0) else { return Ok(()) };
        let missing = u32::try_from(missing).map_err(|_| busy())?;
        let permit = Arc::clone(&self.budget.0).try_acquire_many_owned(missing).map_err(|_| busy())?;
        match &mut self.held {
            Some(held) => held.merge(permit),
            held => *held = Some(permit),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Holds the share for as long as the body of an answer exists.
    pub(crate) fn hold(self, response: Response) -> Response {
        response.map(|body| Body::new(HeldBody { body, _share: self }))
    }
}

fn busy() -> Error {
    let message = "the answers that are being sent take up all the room there is for answers; try again in a moment";
    Error::new(ErrorKind::Unavailable, message)
}

/// A body with its share.
struct HeldBody {
    body: Body,
    _share: Share,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How many bytes of a body are passed to the connection at a time.
const PIECE: usize = 64 << 10;

/// A complete body, which is passed to the connection in pieces.
pub(super) struct BodyPieces(Bytes);

impl BodyPieces {
    pub(super) fn of(text: Vec<u8>) -> Body {
        Body::new(Self(text.into()))
    }
}

impl HttpBody for BodyPieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.len().min(PIECE);
        Poll::Ready((piece > 0).then(|| Ok(Frame::data(self.0.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_given_back_with_its_answer() {
        let budget = Budget::new(10 * UNIT);
        let mut share = budget.share();
        share.grow_to(UNIT).unwrap();
        share.grow_to(8 * UNIT).unwrap();
        // The share never shrinks, and takes only the missing bytes.
        share.grow_to(1).unwrap();
        let refused = budget.share().grow_to(3 * UNIT).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.is_retryable());
        let answer = share.hold(Response::new(Body::from("all of it")));
        assert_eq!(answer.body().size_hint().exact(), Some(9));
        assert!(budget.share().grow_to(3 * UNIT).is_err());
        drop(answer);
        budget.share().grow_to(10 * UNIT).unwrap();
    }
}
