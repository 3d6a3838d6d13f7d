//! A body whose end triggers the next step of its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use hyper::body::{Frame, SizeHint};

use super::connections::ConnectionHandle;
use super::places::Phase;

/// A body that triggers the next step of its connection when it is dropped, whether or not it was read to its end.
#[derive(Debug)]
pub(super) struct GuardedBody<B: HttpBody> {
    body: B,
    is_read: bool,
    then: Then,
}

/// The next step of a connection, which runs when this value is dropped.
#[derive(Debug)]
pub(super) struct Then {
    line: Arc<ConnectionHandle>,
    phase: Phase,
}

impl<B: HttpBody> GuardedBody<B> {
    pub(super) fn new(body: B, then: Then) -> Self {
        Self { body, is_read: false, then }
    }
}

impl<B: HttpBody> Drop for GuardedBody<B> {
    fn drop(&mut self) {
        // Only the body of a request is followed by an answer.
        if self.then.phase == Phase::Answering && !self.is_read && !self.body.is_end_stream() {
            self.then.line.leave_rest();
        }
    }
}

impl Then {
    pub(super) fn new(line: &Arc<ConnectionHandle>, phase: Phase) -> Self {
        Self { line: Arc::clone(line), phase }
    }
}

impl<B: HttpBody + Unpin> HttpBody for GuardedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        this.is_read |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Then {
    fn drop(&mut self) {
        self.line.change(self.phase);
    }
}
