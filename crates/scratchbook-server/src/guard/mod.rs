//! Checks which pages in browsers may call, and by which names of this host, as `adk api_server` does, and CORS.
//!
//! Without a login every page that a person opens could call a server on their machine. A browser names the origin
//! of a page or, if it sends none, as for a picture, how far away the page is. A page whose domain was pointed at this
//! machine later (DNS rebinding) has the server's origin, but its requests name a foreign host.

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

use crate::inspector;
use crate::refusal::Refused;
use crate::surface::Surface;

pub(crate) use origins::Origins;

/// The configuration of the checks.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) origins: Origins,
    /// The host at which the server listens, if it is known.
    pub(crate) host: Option<String>,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
}

/// Marks requests that no page of another server can have sent. Only for these does the server use what a browser sends
/// by itself, such as a cookie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPage {
    /// Whether the page was loaded over TLS, which may be that of a proxy.
    pub(crate) is_secure: bool,
    /// The port that the request names; `None` for the usual one. Other servers may be on other ports of the host.
    pub(crate) port: Option<u16>,
}

/// Refuses foreign pages, and answers what browsers ask about allowed ones.
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
    /// Whether a request that can only come from this machine names another host.
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

    /// Whether the browser marks a request without an origin as sent by a page of another origin. As with origins, a
    /// page on another port or another host of the same domain counts as foreign. A person who follows a link to a page
    /// of this server sees that page, and the other page learns nothing of it.
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

    /// Whether a page of this origin may call: one that is allowed, or the server's own.
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

    /// The mark of a request from a page of this server, or from a person who entered its address. Other origins get
    /// none.
    ///
    /// Scripts of allowed origins can send any header, so headers of proxies do not count here. The browser itself says
    /// whether a page is from the same origin, and names the host that it has reached. Over `http` to another machine
    /// it does not say where a page is from, and sends no origin with reads. Such a request changes nothing, and a
    /// foreign page cannot see the answer.
    fn own_page(&self, request: &Request) -> Option<OwnPage> {
        let headers = request.headers();
        let named = named_host(request);
        let is_own = match (headers.get(ORIGIN), headers.get("sec-fetch-site")) {
            (Some(_), Some(site)) => site == "same-origin",
            (Some(origin), None) => {
                let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
                // The TLS may be that of a proxy.
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
        is_own.then_some(OwnPage { is_secure, port })
    }

    fn is_on_loopback(&self) -> bool {
        self.host.as_deref().is_some_and(hosts::is_loopback)
    }

    /// The origin that this request has reached, as a proxy in front of the server reports it, or else the client.
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

/// The host that a request names, and its port, if that is not the usual one.
fn named_host(request: &Request) -> Option<&str> {
    let of_address = request.uri().authority().map(|authority| authority.as_str());
    of_address.or_else(|| request.headers().get(HOST)?.to_str().ok()).map(str::trim)
}

/// Whether a path is that of a page for people.
pub(crate) fn is_page(path: &str) -> bool {
    matches!(path, "/" | "/docs" | "/dev-ui" | "/login") || path.starts_with("/dev-ui/") || inspector::is_its_path(path)
}

fn forbidden(request: &Request, text: &'static str) -> Response {
    let path = request.uri().path();
    if Surface::of(path) == Some(Surface::Vertex) || inspector::is_its_path(path) {
        return Refused::from(Error::new(ErrorKind::PermissionDenied, text)).into_response();
    }
    (StatusCode::FORBIDDEN, [(CONTENT_TYPE, "text/plain")], text).into_response()
}
