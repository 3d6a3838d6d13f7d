//! Limits the bytes of all answers that are being made and sent, since a slow client keeps its answer in memory for
//! long.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use scratchbook::{Error, ErrorKind, Result};
use tokio::time::timeout;

use crate::access::{Account, Caller};
use crate::memory_pool::{MemoryPool, TakenMemory};

/// The size that all answers to reads may have together, in answers of the maximum size. Answers to writes have as much
/// memory for themselves, since a write is already committed when it is answered.
const ANSWERS: usize = 8;

/// How long a committed write waits for memory for its answer.
const WAIT: Duration = Duration::from_secs(1);

/// Answers with fewer bytes are not counted.
pub(super) const SMALL: usize = 64 << 10;

/// The bytes that all answers may have together. One account may use half of them.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Pools>);

#[derive(Debug)]
struct Pools {
    reads: MemoryPool,
    writes: MemoryPool,
}

/// The bytes that one answer holds until it is sent.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    account: Option<Account>,
    taken: TakenMemory,
    bytes: u64,
}

impl Budget {
    /// Returns the budget for answers of at most this many bytes each.
    pub(crate) fn new(answer_bytes: usize) -> Self {
        let pool = || MemoryPool::new(answer_bytes.saturating_mul(ANSWERS));
        Self(Arc::new(Pools { reads: pool(), writes: pool() }))
    }

    /// Returns a new share of the bytes for reads. It holds no bytes yet.
    pub(crate) fn share(&self, caller: &Caller) -> Share {
        self.share_of(caller.own_account())
    }

    pub(super) fn share_of(&self, account: Option<Account>) -> Share {
        Share { budget: self.clone(), account, taken: TakenMemory::default(), bytes: 0 }
    }

    /// Returns a share for the answer to a committed write, and waits for its bytes.
    ///
    /// # Errors
    ///
    /// `Internal` if no bytes are free in time. The write must not be sent again.
    pub(super) async fn share_of_write(&self, account: Option<Account>, bytes: usize) -> Result<Share> {
        let taken = timeout(WAIT, self.0.writes.take(account.as_ref(), bytes as u64)).await;
        let taken = taken.map_err(|_| {
            Error::internal(
                "the request was carried out, but there is no memory for its answer just now; read the result before you \
                 send the request again",
            )
        })?;
        Ok(Share { taken, bytes: bytes as u64, ..self.share_of(account) })
    }
}

impl Share {
    /// Takes the bytes that the share lacks for an answer of this many bytes.
    ///
    /// # Errors
    ///
    /// `Unavailable` if other answers have taken too much of the budget.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<()> {
        let wanted = if bytes < SMALL { 0 } else { (bytes as u64).next_multiple_of(1 << 10) };
        let Some(missing) = wanted.checked_sub(self.bytes).filter(|missing| *missing > 0) else { return Ok(()) };
        let more = self.budget.0.reads.try_take(self.account.as_ref(), missing).ok_or_else(busy)?;
        self.taken.add(more);
        self.bytes = wanted;
        Ok(())
    }

    /// Holds the share for as long as the body of an answer exists.
    pub(crate) fn hold(self, response: Response) -> Response {
        response.map(|body| Body::new(HeldBody { body, _share: self }))
    }
}

fn busy() -> Error {
    let message = "the answers that are being sent take up all the memory there is for answers; try again in a moment";
    Error::new(ErrorKind::Unavailable, message).with_source(NoMemory)
}

/// The cause of an error if there is no memory for an answer.
#[derive(Debug)]
struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory for answers is free")
    }
}

impl StdError for NoMemory {}

/// Whether an answer failed because there is no memory for its length just now.
pub(crate) fn is_out_of_memory(error: &Error) -> bool {
    error.source().is_some_and(|source| source.is::<NoMemory>())
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
    use crate::access::{LoginName, Right};

    const MIB: usize = 1 << 20;

    fn caller(name: &str) -> Caller {
        Caller::new(LoginName::Token(name.into()), Right::ALL.into())
    }

    #[test]
    fn a_share_is_given_back_with_its_answer() {
        let budget = Budget::new(MIB);
        let mut share = budget.share_of(None);
        share.grow_to(MIB).unwrap();
        share.grow_to(7 * MIB).unwrap();
        // The share never shrinks, and takes only the missing bytes.
        share.grow_to(MIB).unwrap();
        let refused = budget.share_of(None).grow_to(2 * MIB).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.is_retryable());
        budget.share_of(None).grow_to(SMALL - 1).unwrap();
        let answer = share.hold(Response::new(Body::from("all of it")));
        assert_eq!(answer.body().size_hint().exact(), Some(9));
        assert!(budget.share_of(None).grow_to(2 * MIB).is_err());
        drop(answer);
        budget.share_of(None).grow_to(8 * MIB).unwrap();
    }

    #[tokio::test]
    async fn one_account_has_half_of_the_bytes_and_reads_leave_those_of_writes() {
        let (budget, ann, bob) = (Budget::new(MIB), caller("ann"), caller("bob"));
        let mut reads = [budget.share(&ann), budget.share(&bob)];
        reads[0].grow_to(4 * MIB).unwrap();
        assert!(is_out_of_memory(&budget.share(&ann).grow_to(MIB).unwrap_err()));
        reads[1].grow_to(4 * MIB).unwrap();
        let written = |caller: &Caller, bytes| budget.share_of_write(caller.own_account(), bytes);
        let held = written(&ann, 4 * MIB).await.unwrap();
        let refused = written(&ann, MIB).await.unwrap_err();
        assert!(refused.kind() == ErrorKind::Internal && !refused.is_retryable());
        written(&bob, MIB).await.unwrap();
        drop(held);
        written(&ann, MIB).await.unwrap();
    }
}
