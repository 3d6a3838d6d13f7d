//! The style and the scripts, embedded in the program: one script for each behaviour.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};

use crate::surface::INSPECTOR;

/// The files: their names, types and contents.
const FILES: [(&str, &str, &str); 8] = [
    ("inspector.css", CSS, include_str!("assets/inspector.css")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("overview.js", SCRIPT, include_str!("assets/overview.js")),
    ("parts.js", SCRIPT, include_str!("assets/parts.js")),
    ("talk.js", SCRIPT, include_str!("assets/talk.js")),
    ("time.js", SCRIPT, include_str!("assets/time.js")),
    ("travel.js", SCRIPT, include_str!("assets/travel.js")),
];

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A digest of all files, which is part of their addresses: a browser caches the files until they change.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let all: Vec<u8> = FILES.iter().flat_map(|(.., text)| text.bytes()).collect();
    digest(&SHA256, &all).as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

/// Returns the address of a file.
pub(super) fn address(file: &str) -> String {
    format!("{INSPECTOR}/assets/{file}?v={}", *VERSION)
}

pub(super) async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(file, ..)| *file == name) {
        Some((_, kind, text)) => {
            ([(CONTENT_TYPE, *kind), (CACHE_CONTROL, "private, max-age=31536000, immutable")], *text).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no such file").into_response(),
    }
}
