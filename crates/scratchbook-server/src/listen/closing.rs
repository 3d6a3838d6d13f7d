//! Shutdown of streams, which would otherwise never end.

use std::future::pending;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::watch;

use crate::sse;

/// A flag that says whether the server is ending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing {
    closed: Arc<watch::Sender<bool>>,
}

impl Closing {
    /// Ends all streams.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Waits until the server ends.
    fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closed = self.closed.subscribe();
        async move {
            // If the sender is gone, the handler ends the stream.
            if closed.wait_for(|closed| *closed).await.is_err() {
                pending::<()>().await;
            }
        }
    }
}

/// Ends streams of events, between two frames, when the server ends. Their followers reconnect elsewhere.
pub(crate) async fn end_streams(State(closing): State<Closing>, request: Request, next: Next) -> Response {
    sse::until(next.run(request).await, closing.closed())
}
