//! Who calls, and what they may.

mod caller;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::served::Served;

pub(crate) use caller::{Caller, Right};

/// Who is let in.
#[derive(Debug)]
pub(crate) enum Access {
    /// Everyone, to everything: for a machine of one's own.
    Open,
}

/// Finds out who calls, before anything else is looked at.
pub(crate) async fn identify(State(served): State<Arc<Served>>, mut request: Request, next: Next) -> Response {
    let caller = match &served.access {
        Access::Open => Caller::anyone(),
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}
