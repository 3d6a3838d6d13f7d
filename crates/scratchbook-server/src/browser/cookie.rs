//! The cookie in which a browser keeps a token.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

use crate::guard::OwnPage;

/// The beginning of the cookie's name without TLS. Browsers send a cookie to every port of its host, so the name ends
/// with the port and, behind a path of a proxy, with a hash of the path, to distinguish the servers of a host.
const PLAIN: &str = "scratchbook-login";
/// The beginning of the cookie's name with TLS. Browsers accept such a name only from exactly this host.
const SECURE: &str = "__Host-scratchbook-login";

/// The maximum length of a token, in bytes. Browsers keep cookies of at most 4,096 bytes, including name and
/// attributes.
const MOST: usize = 3_800;

/// The cookie for the pages of this server at their scheme and port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cookie {
    page: OwnPage,
}

impl Cookie {
    pub(super) fn of(page: OwnPage) -> Self {
        Self { page }
    }

    fn name(self) -> String {
        self.named(if self.page.is_secure { SECURE } else { PLAIN })
    }

    fn named(self, name: &str) -> String {
        let port = self.page.port.map(|port| format!("-{port}")).unwrap_or_default();
        let prefix = self.page.prefix_hash.map(|hash| format!("-{hash:08x}")).unwrap_or_default();
        format!("{name}{port}{prefix}")
    }

    /// Returns the token in a request's cookies, in the form of the header that other clients send.
    pub(super) fn token(self, headers: &HeaderMap) -> Option<HeaderValue> {
        let cookies = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let own = self.name();
        pairs.find(|(name, _)| *name == own).and_then(|(_, token)| header(token))
    }

    /// Returns the header that makes a browser keep a token until the browser is closed, or `None` if no cookie can
    /// hold the token.
    pub(super) fn keep(self, token: &str) -> Option<HeaderValue> {
        if !fits(token) {
            return None;
        }
        let secure = if self.page.is_secure { "; Secure" } else { "" };
        let mut cookie =
            HeaderValue::try_from(format!("{}={token}; Path=/; HttpOnly; SameSite=Strict{secure}", self.name()))
                .ok()?;
        cookie.set_sensitive(true);
        Some(cookie)
    }

    /// Returns the header that makes a browser forget the cookie.
    pub(super) fn forget(self) -> impl Iterator<Item = HeaderValue> {
        [(PLAIN, ""), (SECURE, "; Secure")].into_iter().filter_map(move |(name, secure)| {
            let name = self.named(name);
            HeaderValue::try_from(format!("{name}=; Path=/; HttpOnly; SameSite=Strict{secure}; Max-Age=0")).ok()
        })
    }
}

/// Returns the header for a token, or `None` if the text cannot be a token.
pub(super) fn header(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}")).ok().filter(|_| fits(token))?;
    header.set_sensitive(true);
    Some(header)
}

/// Returns whether a text has only the characters of a token (RFC 6750, 2.1), which a cookie can hold without encoding.
fn fits(token: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    !token.is_empty() && token.len() <= MOST && token.bytes().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (COOKIE, line.parse().unwrap())).collect()
    }

    #[test]
    fn a_token_is_found_among_other_cookies_by_the_name_for_how_it_came() {
        let [plain, secure] =
            [false, true].map(|is_secure| Cookie::of(OwnPage { is_secure, port: None, prefix_hash: None }));
        let both = headers(&["a=b; scratchbook-login=plain", "__Host-scratchbook-login=secure; c=d"]);
        assert_eq!(plain.token(&both).unwrap(), "Bearer plain");
        assert_eq!(secure.token(&both).unwrap(), "Bearer secure");
        assert_eq!(
            secure.token(&headers(&["scratchbook-login=plain"])),
            None,
            "anybody on the network could have set it"
        );
        let other = Cookie::of(OwnPage { is_secure: false, port: Some(8001), prefix_hash: None });
        assert_eq!(other.token(&both), None, "it is of a server on another port");
        assert_eq!(other.token(&headers(&["scratchbook-login=a; scratchbook-login-8001=b"])).unwrap(), "Bearer b");
        for none in ["", "scratchbook-login", "scratchbook-login=", "scratchbook-login=a b", "scratchbook-logins=x"] {
            assert_eq!(plain.token(&headers(&[none])), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_token_is_not_kept() {
        let cookie = Cookie::of(OwnPage { is_secure: true, port: Some(8443), prefix_hash: None });
        let kept = cookie.keep("a.b-c_d~e+f/g=").unwrap();
        assert_eq!(
            kept.to_str().unwrap(),
            "__Host-scratchbook-login-8443=a.b-c_d~e+f/g=; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        for none in ["", "a;b", "a b", "a\n", "ü", &"x".repeat(MOST + 1)] {
            assert_eq!(cookie.keep(none), None);
        }
    }
}
