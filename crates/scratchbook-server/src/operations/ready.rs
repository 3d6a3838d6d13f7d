//! `/health/ready`: whether requests can be served, which takes the store.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use scratchbook::{Error, ErrorKind};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::access::Access;
use crate::served::Served;

/// Whoever asks, asks again soon: a store that takes longer is not ready.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn ready(State(served): State<Arc<Served>>) -> (StatusCode, Json<Value>) {
    let read = timeout(PATIENCE, served.look_at_store()).await.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        Err(Error::new(ErrorKind::Unavailable, format!("the store has not answered within {seconds} s")))
    });
    match read {
        Ok(()) => (StatusCode::OK, Json(json!({"status": "ready"}))),
        Err(error) => {
            let kind = error.kind().as_str();
            tracing::warn!(kind, %error, "not ready");
            // Everybody may ask; what is wrong with the store is not for everybody.
            let why = match served.access {
                Access::Open => json!({"kind": kind, "message": error.public_message()}),
                Access::Login(_) => json!({"kind": kind}),
            };
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "unavailable", "store": why})))
        }
    }
}
