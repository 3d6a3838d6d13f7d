//! The frame of every page, the headers of every answer, and errors as pages.

use axum::Extension;
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use scratchbook::Error;
use serde::de::DeserializeOwned;

use super::assets;
use super::value::visible;
use crate::access::{Caller, LOGOUT};
use crate::public_error::PublicError;
use crate::scope::SurfaceError;
use crate::surface::INSPECTOR;
use crate::url_prefix::OwnHtml;

/// A page loads styles and scripts only from this server, and connects only to it. Inline scripts and styles are not
/// allowed.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; \
     frame-ancestors 'none'; base-uri 'none'",
);

/// A page to be put into the frame.
#[derive(Debug)]
pub(super) struct InspectorPage<'a> {
    pub(super) title: &'a str,
    /// The pages above this one: their names and addresses.
    pub(super) above: Vec<(String, String)>,
    pub(super) caller: Option<&'a Caller>,
    /// The scripts of the page, by their files.
    pub(super) scripts: &'static [&'static str],
    pub(super) body: Markup,
}

impl InspectorPage<'_> {
    pub(super) fn answer(&self) -> Response {
        self.with_status(StatusCode::OK)
    }

    pub(super) fn with_status(&self, status: StatusCode) -> Response {
        let name = self.caller.and_then(|caller| caller.name());
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (visible(self.title)) " · scratchbook" }
                    link rel="stylesheet" href=(assets::address("inspector.css"));
                    link rel="icon" href=(assets::address("icon.svg"));
                    @for script in self.scripts { script src=(assets::address(script)) defer {} }
                }
                body {
                    a.skip href="#main" { "Skip to content" }
                    header.top {
                        nav aria-label="Breadcrumb" {
                            a.home href=(INSPECTOR) { "scratchbook" }
                            @for (name, address) in &self.above {
                                span.slash aria-hidden="true" { "/" }
                                a href=(address) { bdi { (visible(name)) } }
                            }
                        }
                        div.who {
                            a href="/docs" { "API" }
                            @if let Some(name) = name {
                                span { bdi { (visible(name)) } }
                                form method="post" action=(LOGOUT) { button.plain { "Log out" } }
                            }
                        }
                    }
                    main id="main" { (self.body) }
                }
            }
        };
        (status, Extension(OwnHtml::Page), headers(), page.into_string()).into_response()
    }
}

/// Answers a script with a part of its page.
pub(super) fn part(part: &Markup) -> Response {
    (Extension(OwnHtml::Part), headers(), part.0.clone()).into_response()
}

/// Answers with plain text.
pub(super) fn plain(text: String) -> Response {
    const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut headers = headers();
    headers[0].1 = TEXT;
    (headers, text).into_response()
}

fn headers() -> [(HeaderName, HeaderValue); 4] {
    [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY),
        // Without this policy browsers would not send the origin of the page that a form is from.
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]
}

/// An error as a page.
#[derive(Debug)]
pub(crate) struct PageError(Error);

impl From<Error> for PageError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl SurfaceError for PageError {}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let PublicError { status, message, .. } = PublicError::of(&self.0);
        failure(status, message)
    }
}

/// Returns a layer's refusal as a page. If a status is given, it replaces the status of the error's kind.
pub(crate) fn refusal(status: Option<StatusCode>, error: &Error) -> Response {
    let PublicError { status: usual, message, .. } = PublicError::of(error);
    failure(status.unwrap_or(usual), message)
}

/// Answers requests with a method that a page does not support.
pub(super) async fn no_method() -> Response {
    failure(StatusCode::METHOD_NOT_ALLOWED, "this page does not take such a request; open it by its address")
}

/// The parameters of an address. If they are invalid, an error page says why.
#[derive(Debug)]
pub(super) struct PageQuery<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for PageQuery<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        let query = axum::extract::Query::try_from_uri(&parts.uri);
        let axum::extract::Query(query) = query.map_err(|e| Error::invalid(format!("the address is wrong: {e}")))?;
        Ok(Self(query))
    }
}

/// Answers requests for pages that do not exist.
pub(super) async fn not_found(_: Request) -> Response {
    failure(StatusCode::NOT_FOUND, "there is no such page")
}

fn failure(status: StatusCode, message: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("Error");
    let body = html! {
        section.error role="alert" {
            h1 { (title) }
            p { (visible(&sentence(message))) }
            p { a href=(INSPECTOR) { "All apps" } }
        }
    };
    InspectorPage { title, above: Vec::new(), caller: None, scripts: &[], body }.with_status(status)
}

/// Writes a message as a sentence.
pub(super) fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}
