//! Checks which pages in browsers may call the server, and by which host names, as `adk api_server` does. Also sends
//! CORS headers.
//!
//! Without a login every page that a person opens could call a server on their machine. A browser sends the origin of a
//! page. If it sends no origin, as for a picture, it says whether the page is from the same origin, the same site or
//! another site. With DNS rebinding, an attacker lets the domain of a page resolve to this machine: the page then has
//! the server's origin, but its requests name a foreign host.

mod cors;
mod hosts;
mod origins;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, FORWARDED, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scratchbook::{Error, ErrorKind};

use crate::refusal::RefusedRequest;
use crate::surface::{self, Surface};

pub(crate) use origins::Origins;

/// The configuration of the checks.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) origins: Origins,
    /// The host at which the server listens, if it is known.
    pub(crate) host: Option<String>,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// A hash of the path below which a proxy serves the server, if it is known.
    pub(crate) prefix_hash: Option<u32>,
}

/// Marks requests that no page of another server can have sent. The server uses what a browser sends by itself, such as
/// a cookie, only for these requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPage {
    /// Whether the page was loaded over TLS, which a proxy may terminate.
    pub(crate) is_secure: bool,
    /// The port that the request names; `None` for the default port. Other servers may be on other ports of the host.
    pub(crate) port: Option<u16>,
    /// A hash of the path below which a proxy serves the server, if it is known.
    pub(crate) prefix_hash: Option<u32>,
}

/// Refuses requests of foreign pages, and answers the preflight requests of browsers.
pub(crate) async fn check(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    if let Some(own_page) = guard.own_page(&request) {
        request.extensions_mut().insert(own_page);
    }
    let headers = request.headers();
    if guard.is_foreign_host(&request) {
        return forbidden(&request, "Forbidden: host not allowed");
    }
    let origin = match headers.get(ORIGIN).map(|origin| origin.to_str()) {
        None => None,
        Some(Ok(origin)) if guard.allows(origin, headers) => Some(origin.to_owned()),
        Some(_) => return forbidden(&request, "Forbidden: origin not allowed"),
    };
    if origin.is_none() && guard.is_of_foreign_page(&request) {
        return forbidden(&request, "Forbidden: origin not allowed");
    }
    if guard.origins.is_empty() {
        return next.run(request).await;
    }
    if let Some(answer) = origin.as_deref().and_then(|origin| cors::preflight(&guard.origins, origin, &request)) {
        return answer;
    }
    let mut response = next.run(request).await;
    cors::mark(&guard.origins, origin.as_deref(), response.headers_mut());
    response
}

impl Guard {
    /// Returns whether a request names another host, although it can only come from this machine.
    fn is_foreign_host(&self, request: &Request) -> bool {
        if !self.is_on_loopback() {
            return false;
        }
        let is_foreign = |host: &str| !hosts::is_loopback(host) && !self.origins.vouch_for(&hosts::bare(host));
        // A host in the request target takes precedence over the header (RFC 9112, 3.2.2).
        if request.uri().host().is_some_and(is_foreign) {
            return true;
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        // Browsers always name a host.
        let Some(host) = hosts.next() else { return false };
        let Some(host) = host.to_str().ok().map(str::trim).filter(|_| hosts.next().is_none()) else { return true };
        is_foreign(host)
    }

    /// Returns whether the browser marks a request without an origin as sent by a page of another origin. As with
    /// origins, a page on another port or another host of the same domain counts as foreign. Following a link to a page
    /// of this server is allowed: the person sees that page, and the foreign page learns nothing about it.
    fn is_of_foreign_page(&self, request: &Request) -> bool {
        let headers = request.headers();
        let says =
            |name: &str, value: &str| headers.get(name).is_some_and(|found| found.as_bytes() == value.as_bytes());
        let is_foreign = says("sec-fetch-site", "cross-site") || says("sec-fetch-site", "same-site");
        let follows_link = request.method() == Method::GET
            && says("sec-fetch-mode", "navigate")
            && says("sec-fetch-dest", "document")
            && is_page(request.uri().path());
        is_foreign && !follows_link && !self.origins.allow_all()
    }

    /// Returns whether pages of this origin may call: the origin is allowed, or it is the server's own.
    fn allows(&self, origin: &str, headers: &HeaderMap) -> bool {
        if self.origins.allow(origin) {
            return true;
        }
        if self.origins.is_empty() && self.is_on_loopback() {
            let host = origins::host_of(origin).unwrap_or_default();
            if !hosts::is_loopback(&host) {
                return false;
            }
        }
        self.own_origin(headers).is_some_and(|own| own == origin)
    }

    /// Returns the mark of a request from a page of this server, or from a person who entered its address. Requests of
    /// other origins get no mark.
    ///
    /// Scripts of allowed origins can send any header, so headers of proxies do not count here. The browser itself says
    /// whether a page is from the same origin, and names the host that it has reached. Over `http` to another machine,
    /// the browser does not say where a page is from, and sends no origin with reads. Such a read changes nothing, and
    /// a foreign page cannot see its answer.
    fn own_page(&self, request: &Request) -> Option<OwnPage> {
        let headers = request.headers();
        let named = named_host(request);
        let is_own = match (headers.get(ORIGIN), headers.get("sec-fetch-site")) {
            (Some(_), Some(site)) => site == "same-origin",
            (Some(origin), None) => {
                let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
                // A proxy may terminate TLS.
                origin.is_some_and(|(scheme, host)| {
                    (scheme == self.scheme || scheme == "https")
                        && named.is_some_and(|named| named.eq_ignore_ascii_case(host))
                })
            }
            (None, Some(site)) => site == "same-origin" || site == "none",
            (None, None) => request.method().is_safe(),
        };
        let is_secure = self.own_origin(headers).is_some_and(|own| own.starts_with("https://"));
        let port = named.and_then(|named| named.rsplit_once(':')?.1.parse().ok());
        is_own.then_some(OwnPage { is_secure, port, prefix_hash: self.prefix_hash })
    }

    fn is_on_loopback(&self) -> bool {
        self.host.as_deref().is_some_and(hosts::is_loopback)
    }

    /// Returns the origin that this request was sent to. A proxy in front of the server reports this origin; without a
    /// proxy, the client does.
    fn own_origin(&self, headers: &HeaderMap) -> Option<String> {
        let first = |name: &str| {
            let value = headers.get(name)?.to_str().ok()?;
            value.split(',').next().map(str::trim)
        };
        if let Some(element) = first(FORWARDED.as_str()) {
            let pairs = || element.split(';').filter_map(|pair| pair.split_once('='));
            let value = |name: &str| {
                let (_, value) = pairs().find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
                Some(value.trim().trim_matches('"'))
            };
            if let (Some(scheme), Some(host)) = (value("proto"), value("host")) {
                return Some(format!("{}://{host}", scheme.to_lowercase()));
            }
        }
        let host = first("x-forwarded-host").or_else(|| first(HOST.as_str()))?;
        let scheme = first("x-forwarded-proto").map_or_else(|| self.scheme.to_owned(), str::to_lowercase);
        Some(format!("{scheme}://{host}"))
    }
}

/// Returns the host that a request names, with its port if that is not the default port.
fn named_host(request: &Request) -> Option<&str> {
    let of_address = request.uri().authority().map(|authority| authority.as_str());
    of_address.or_else(|| request.headers().get(HOST)?.to_str().ok()).map(str::trim)
}

/// Returns whether a path belongs to a page for people.
pub(crate) fn is_page(path: &str) -> bool {
    matches!(path, "/" | "/docs" | "/dev-ui" | "/login")
        || path.starts_with("/dev-ui/")
        || surface::is_of_inspector(path)
}

fn forbidden(request: &Request, text: &'static str) -> Response {
    let path = request.uri().path();
    if Surface::of(path) == Some(Surface::Vertex) || surface::is_of_inspector(path) {
        return RefusedRequest::from(Error::new(ErrorKind::PermissionDenied, text)).into_response();
    }
    (StatusCode::FORBIDDEN, [(CONTENT_TYPE, "text/plain")], text).into_response()
}
