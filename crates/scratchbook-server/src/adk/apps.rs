//! What is hosted, and whether anything is.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::served::Served;

pub(super) async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

pub(super) async fn list(State(served): State<Arc<Served>>) -> Json<Value> {
    Json(json!(served.apps.names()))
}
