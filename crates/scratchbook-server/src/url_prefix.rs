//! Addresses of pages and redirects behind a proxy that serves this server below a path.
//!
//! Handlers write addresses as if the server were at the root of its host, such as `/inspector`. The layer here makes
//! them relative to the requested path, such as `../inspector`. They are then right below every path, even if the
//! server does not know the path.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{CONTENT_LENGTH, LOCATION};
use axum::http::{HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::Response;
use ring::digest::{SHA256, digest};
use scratchbook::{Error, Result};

/// The path below which a proxy serves the server. It is empty if the server does not know it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UrlPrefix(Arc<str>);

/// Marks an answer whose HTML this server has written. Other answers may be HTML of a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OwnHtml {
    Page,
    /// A part that a script puts into the page whose address is one segment shorter.
    Part,
}

impl UrlPrefix {
    /// # Errors
    ///
    /// `InvalidArgument` if the path is not a slash and a name, once or more.
    pub(crate) fn new(path: &str) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_~.".contains(c);
        let is_segment = |segment: &str| segment.chars().all(is_plain) && !matches!(segment, "" | "." | "..");
        if path.strip_prefix('/').is_some_and(|names| names.split('/').all(is_segment)) {
            return Ok(Self(path.into()));
        }
        let message = format!(
            "the URL prefix must be a path such as /agents/shop, of letters, digits, '-', '_', '~' and '.', \
             without a slash at the end, got '{path}'"
        );
        Err(Error::invalid(message))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a short hash of the path, which distinguishes the servers behind the paths of one host.
    pub(crate) fn hash(&self) -> Option<u32> {
        let hash = digest(&SHA256, self.0.as_bytes());
        let first = hash.as_ref().first_chunk().copied().map(u32::from_be_bytes);
        first.filter(|_| !self.0.is_empty())
    }

    /// Removes the prefix from the path of a request. A proxy may have removed it already.
    pub(crate) fn strip(&self, mut request: Request) -> Request {
        let uri = request.uri();
        let rest = uri.path().strip_prefix(&*self.0).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = rest else { return request };
        let path = if rest.is_empty() { "/" } else { rest };
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let mut parts = uri.clone().into_parts();
        // The rest of a valid path is one, too.
        parts.path_and_query = format!("{path}{query}").parse().ok();
        if let Ok(stripped) = Uri::from_parts(parts) {
            request.extensions_mut().insert(OriginalUri(stripped.clone()));
            *request.uri_mut() = stripped;
        }
        request
    }
}

/// Makes the addresses in redirects and pages right for the client. A redirect names the prefix if it is known.
pub(crate) async fn make_relative(State(prefix): State<UrlPrefix>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    if let Some(below_root) = location.and_then(|location| location.strip_prefix('/')) {
        let start = if prefix.0.is_empty() { to_root(&path) } else { format!("{}/", prefix.0) };
        if let Ok(location) = HeaderValue::try_from(format!("{start}{below_root}")) {
            response.headers_mut().insert(LOCATION, location);
        }
    }
    let page = match response.extensions_mut().remove::<OwnHtml>() {
        None => return response,
        Some(OwnHtml::Page) => path.as_str(),
        Some(OwnHtml::Part) => path.rsplit_once('/').map_or("", |(page, _)| page),
    };
    let (mut parts, body) = response.into_parts();
    // The body is already in memory. The answer to HEAD has none.
    let html = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let html = html_relative_to(page, &String::from_utf8_lossy(&html));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(html))
}

/// The attributes that hold addresses. Other attributes hold texts of callers, which may begin with a slash.
const ADDRESSES: [&str; 7] = ["href", "src", "action", "data-live", "data-page", "data-part", "data-stop"];

/// Makes the addresses in the attributes of HTML relative to the path of a page. In text, quotation marks are escaped.
fn html_relative_to(page: &str, html: &str) -> String {
    let root = to_root(page);
    let mut relative = html.to_owned();
    for name in ADDRESSES {
        relative = relative.replace(&format!(" {name}=\"/"), &format!(" {name}=\"{root}"));
    }
    relative
}

/// Returns the relative address of the server's root, for a page with this path.
pub(crate) fn to_root(page: &str) -> String {
    match page.matches('/').count() {
        0 | 1 => "./".to_owned(),
        slashes => "../".repeat(slashes - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_a_path_of_plain_names() {
        for good in ["/a", "/agents/shop", "/a-b_c~d.e/1"] {
            assert_eq!(UrlPrefix::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "/", "a", "/a/", "//a", "/a//b", "/a b", "/a%20b", "/a/..", "/./a", "http://h/a", "/ä", "/a?b"]
        {
            assert!(UrlPrefix::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prefix_is_removed_from_whole_names_only() {
        let prefix = UrlPrefix::new("/agents/shop").unwrap();
        for (uri, stripped) in [
            ("/agents/shop/docs?a=/agents/shop", "/docs?a=/agents/shop"),
            ("/agents/shop", "/"),
            ("/agents/shop?a", "/?a"),
            ("/agents/shopping", "/agents/shopping"),
            ("/docs", "/docs"),
            ("http://host/agents/shop/docs", "http://host/docs"),
        ] {
            let request = Request::get(uri).body(Body::empty()).unwrap();
            assert_eq!(prefix.strip(request).uri(), stripped, "{uri}");
        }
    }

    #[test]
    fn address_in_html_is_relative_to_the_page() {
        for (page, address) in
            [("/", "./docs"), ("/inspector", "./docs"), ("/inspector/", "../docs"), ("/a/b/c", "../../docs")]
        {
            assert_eq!(html_relative_to(page, r#"<a href="/docs">"#), format!(r#"<a href="{address}">"#));
        }
        for text in ["<p> href=&quot;/docs", r#"<input value="/docs">"#, r#"<b data-key="/docs">"#] {
            assert_eq!(html_relative_to("/a/b", text), text);
        }
    }
}
