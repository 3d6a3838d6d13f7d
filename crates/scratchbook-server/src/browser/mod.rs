//! Login with a browser. A browser sends no token by itself. So a person enters the token once in a form, and a cookie
//! keeps the token. Scripts cannot read the cookie, pages of other sites cannot send it, and the server uses it only on
//! requests of its own pages. A token never appears in an address or in a log.

mod cookie;
mod page;

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, LOCATION, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use scratchbook::environment::Environment;
use scratchbook::{Error, ErrorKind};

use crate::access::{Access, Caller, Identity, LOGIN, LOGOUT, is_open_to_all};
use crate::guard::{self, OwnPage};
use crate::headers::take_pages;
use crate::limits::Rates;
use crate::refusal::RefusedRequest;
use crate::url_prefix::to_root;
use cookie::Cookie;

/// The maximum size of the login form in bytes. It is small, because callers send it before they are logged in.
pub(crate) const FORM_BYTES: usize = 16 << 10;

/// The page that is shown after a login if the login did not begin on another page.
const NOWHERE: &str = "/login";

/// The state of the login pages.
#[derive(Clone, Debug)]
pub(crate) struct BrowserState {
    pub(crate) access: Access,
    pub(crate) rates: Option<Arc<Rates>>,
    pub(crate) environment: Arc<dyn Environment>,
}

/// Returns the routes. There are none if the server requires no login.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(state: BrowserState) -> Router<S> {
    match &state.access {
        Access::Open => Router::new(),
        Access::Login(_) => {
            Router::new().route(LOGIN, get(show).post(log_in)).route(LOGOUT, post(log_out)).with_state(state)
        }
    }
}

/// Returns whether the request is the login form, whose body is read without a token.
pub(crate) fn takes_form(parts: &Parts) -> bool {
    parts.method == Method::POST && parts.uri.path() == LOGIN
}

/// Uses the cookie of a request as its token if a page of this server sent the request, unless the path is open to all.
pub(crate) async fn read_cookie(mut request: Request, next: Next) -> Response {
    if !is_open_to_all(request.uri().path()) {
        take_cookie(&mut request);
    }
    next.run(request).await
}

/// Redirects to the form if a person asks for a page and has not logged in.
pub(crate) async fn offer_login(request: Request, next: Next) -> Response {
    let is_refused = request.extensions().get::<Identity>().is_some_and(|identity| identity.caller().is_none());
    let login = is_refused.then(|| instead_of(request.method(), request.uri(), request.headers())).flatten();
    match login {
        Some(login) => login,
        None => next.run(request).await,
    }
}

/// Uses the cookie of a request as its token if a page of this server sent the request and it has no other token.
/// Cookies are then removed, because no handler needs them.
fn take_cookie(request: &mut Request) {
    let own_page = request.extensions().get::<OwnPage>().copied();
    let token = own_page.and_then(|page| Cookie::of(page).token(request.headers()));
    request.headers_mut().remove(COOKIE);
    if let Some(header) = token.filter(|_| !request.headers().contains_key(AUTHORIZATION)) {
        request.headers_mut().insert(AUTHORIZATION, header);
    }
}

/// Returns the redirect to the form for a person who wants to see a page and has not logged in, or `None` for any other
/// request.
///
/// For a link on another site's page, returns a page that goes to the form by itself, because a browser sends the
/// cookie with that second request. If the cookie is valid, the form redirects to the wanted page; otherwise it is
/// shown, so that no browser is redirected endlessly.
fn instead_of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    let is_wanted = *method == Method::GET && guard::is_page(uri.path()) && take_pages(headers);
    let wanted = uri.path_and_query().filter(|_| is_wanted)?.as_str();
    let login = format!("{LOGIN}?next={}", utf8_percent_encode(wanted, NON_ALPHANUMERIC));
    if !is_from_elsewhere(headers) {
        return Some(to(&login));
    }
    let login = login.trim_start_matches('/');
    Some(page::go_on(&format!("{}{login}&from=link", to_root(uri.path()))))
}

/// Returns whether a person follows a link on another site's page. Browsers then send no cookie, even if they have one.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let says = |name: &str, value: &str| headers.get(name).is_some_and(|found| found.as_bytes() == value.as_bytes());
    (says("sec-fetch-site", "cross-site") || says("sec-fetch-site", "same-site")) && says("sec-fetch-mode", "navigate")
}

/// Returns the redirect of a browser from `/` to a page; `None` for every other client.
pub(crate) fn root(method: &Method, headers: &HeaderMap, page: &str) -> Option<Response> {
    (*method == Method::GET && take_pages(headers)).then(|| to(page))
}

/// Shows the login form. A person who is already logged in sees their name and the button to log out.
async fn show(State(state): State<BrowserState>, mut request: Request) -> Response {
    if let Some(one_too_many) = state.rates.as_ref().and_then(|rates| rates.count(None, &request)) {
        return one_too_many;
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    take_cookie(&mut request);
    let next = next(query.as_bytes());
    match caller(&state, request.headers()) {
        // A person who is logged in has followed a link from another site.
        Ok(_) if !field(query.as_bytes(), "from").is_empty() && next != NOWHERE => to(&next),
        Ok(caller) => page::inside(caller.name().map_or("", |name| name), &next),
        Err(_) => page::form(StatusCode::OK, None, &next),
    }
}

async fn log_in(State(state): State<BrowserState>, request: Request) -> Response {
    if let Some(one_too_many) = state.rates.as_ref().and_then(|rates| rates.count(None, &request)) {
        return one_too_many;
    }
    // This check also keeps a foreign page from logging a person in as somebody else.
    let Some(own_page) = request.extensions().get::<OwnPage>().copied() else { return foreign() };
    let Ok(body) = Bytes::from_request(request, &()).await else {
        return page::form(StatusCode::BAD_REQUEST, Some("The form did not come whole; send it again."), NOWHERE);
    };
    let (token, next) = (field(&body, "token"), next(&body));
    let cookie = Cookie::of(own_page);
    let (Some(header), Some(kept)) = (cookie::header(token.trim()), cookie.keep(token.trim())) else {
        return page::form(StatusCode::UNAUTHORIZED, Some("This is no token."), &next);
    };
    match caller(&state, &HeaderMap::from_iter([(AUTHORIZATION, header)])) {
        Ok(_) => ([(SET_COOKIE, kept)], to(&next)).into_response(),
        Err(why) => page::form(StatusCode::UNAUTHORIZED, Some(&why), &next),
    }
}

async fn log_out(request: Request) -> Response {
    match request.extensions().get::<OwnPage>() {
        Some(own_page) => {
            let forgotten = Cookie::of(*own_page).forget().map(|cookie| (SET_COOKIE, cookie));
            (AppendHeaders(forgotten), to(LOGIN)).into_response()
        }
        None => foreign(),
    }
}

/// Returns the caller that sent these headers, or the reason why the login fails.
fn caller(state: &BrowserState, headers: &HeaderMap) -> Result<Caller, String> {
    state.access.caller(headers, state.environment.now()).map_err(|error| error.in_words())
}

fn foreign() -> Response {
    let message = "the form of this server's own page is taken, and no other";
    RefusedRequest::from(Error::new(ErrorKind::PermissionDenied, message)).into_response()
}

fn to(place: &str) -> Response {
    let header: (HeaderName, HeaderValue) =
        (LOCATION, HeaderValue::from_str(place).unwrap_or(HeaderValue::from_static(LOGIN)));
    (StatusCode::SEE_OTHER, [header]).into_response()
}

/// Returns the page to show after the login. It is a path on this server, never an address elsewhere.
fn next(form: &[u8]) -> String {
    let next = field(form, "next");
    let is_path = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic());
    if is_path && is_plain { next } else { NOWHERE.to_owned() }
}

/// Returns a field of a form or a query. If the name occurs several times, the first field counts.
fn field(form: &[u8], name: &str) -> String {
    let mut fields = form_urlencoded::parse(form);
    fields.find(|(found, _)| found == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Returns the challenge of a 401 answer. Browsers do not show a login dialog of their own for this challenge.
fn challenge() -> (HeaderName, HeaderValue) {
    (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_server() {
        for (form, place) in [
            ("next=%2Fdev-ui%2F%3Fapp%3Ddemo", "/dev-ui/?app=demo"),
            ("next=%2F", "/"),
            ("", NOWHERE),
            ("next=https%3A%2F%2Fevil.example", NOWHERE),
            ("next=%2F%2Fevil.example", NOWHERE),
            ("next=%2F%5Cevil.example", NOWHERE),
            ("next=%2Fa%0d%0aSet-Cookie%3A%20x", NOWHERE),
            ("next=javascript%3Aalert(1)", NOWHERE),
        ] {
            assert_eq!(next(form.as_bytes()), place, "{form}");
        }
    }
}
