//! Renders the login pages, which contain no script.

use std::sync::LazyLock;

use axum::Extension;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};

use super::{NOWHERE, challenge};
use crate::access::{LOGIN, LOGOUT};
use crate::url_prefix::OwnHtml;

const STYLE: &str = include_str!("style.css");

/// The policy refuses scripts and other resources. It allows only the page's own style, by its hash, and forms that are
/// sent to this server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// Returns the form, with the error of the previous attempt.
pub(super) fn form(status: StatusCode, wrong: Option<&str>, next: &str) -> Response {
    let body = html! {
        form method="post" action=(LOGIN) {
            h1 { "Log in" }
            p { "This server takes a token. The person who runs it can make one for you." }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
            label for="token" { "Token" }
            input id="token" name="token" type="password" autocomplete="current-password" required autofocus;
            input name="next" type="hidden" value=(next);
            button { "Log in" }
        }
    };
    let answer = page(status, &body);
    // This status requires a header that says how to log in.
    if status == StatusCode::UNAUTHORIZED { ([challenge()], answer).into_response() } else { answer }
}

/// Returns the page for a person who is already logged in.
pub(super) fn inside(name: &str, next: &str) -> Response {
    let body = html! {
        form method="post" action=(LOGOUT) {
            h1 { "You are logged in" }
            p { "As " b { (name) } ", until you close the browser or log out." }
            @if next != NOWHERE { p { a href=(next) { "Go on" } } }
            p { a href="/" { "Dev interface" } " · " a href="/docs" { "API" } }
            button { "Log out" }
        }
    };
    page(StatusCode::OK, &body)
}

/// Returns a page that goes to the address by itself. Because it is a page of this server, the browser then sends the
/// cookie.
pub(super) fn go_on(address: &str) -> Response {
    let body = html! {
        p { a href=(address) { "Go on" } }
    };
    page_with(StatusCode::OK, &html! { meta http-equiv="refresh" content={ "0; url=" (address) }; }, &body)
}

fn page(status: StatusCode, body: &Markup) -> Response {
    page_with(status, &Markup::default(), body)
}

fn page_with(status: StatusCode, head: &Markup, body: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "scratchbook" }
                (head)
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    };
    let headers: [(HeaderName, HeaderValue); 4] = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        // Without this header browsers would not name the page that sends the form.
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, Extension(OwnHtml::Page), headers, page.into_string()).into_response()
}
