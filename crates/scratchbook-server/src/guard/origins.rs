//! The origins whose pages may call the server from browsers.

use axum::http::Uri;
use regex::Regex;
use scratchbook::{Error, Result};

/// The prefix of an expression that matches origins.
const REGEX: &str = "regex:";

/// All origins.
const ANY: &str = "*";

/// Origins as `adk api_server` takes them: single origins, an expression after `regex:`, or `*`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    named: Vec<String>,
    matching: Vec<Regex>,
    /// The hosts of the origins that are named.
    hosts: Vec<String>,
}

impl Origins {
    /// # Errors
    ///
    /// `InvalidArgument` if an expression is invalid, or an origin is one that no browser sends.
    pub(crate) fn new(origins: &[String]) -> Result<Self> {
        let mut all = Self::default();
        for origin in origins {
            let Some(expression) = origin.strip_prefix(REGEX) else {
                let origin = as_browsers_send(origin)?;
                all.hosts.extend(host_of(&origin));
                all.named.push(origin);
                continue;
            };
            // The whole origin has to match.
            let regex = Regex::new(&format!(r"\A(?:{expression})\z"));
            all.matching.push(regex.map_err(|e| {
                // The message shows the place of the error on several lines; the last line has the reason.
                let said = e.to_string();
                let reason = said.lines().last().unwrap_or_default().trim_start_matches("error: ");
                Error::invalid(format!("the allowed origin '{origin}' is no regular expression: {reason}"))
            })?);
        }
        Ok(all)
    }

    /// Returns whether no origins are allowed. Then only pages of the server's own origin may call.
    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.matching.is_empty()
    }

    pub(super) fn allow(&self, origin: &str) -> bool {
        self.allow_all()
            || self.named.iter().any(|name| name == origin)
            || self.matching.iter().any(|m| m.is_match(origin))
    }

    /// Returns whether a host belongs to a named origin. Requests through a proxy on the same machine name that host.
    pub(super) fn vouch_for(&self, host: &str) -> bool {
        self.allow_all() || self.hosts.iter().any(|name| name == host)
    }

    pub(super) fn allow_all(&self) -> bool {
        self.named.iter().any(|name| name == ANY)
    }
}

/// Returns an origin as browsers send it: in lower case, without a slash at the end and without the scheme's usual port.
/// Refuses what no browser sends, since it would have no effect. Pages without an origin send `null`.
fn as_browsers_send(origin: &str) -> Result<String> {
    if origin == ANY || origin == "null" {
        return Ok(origin.to_owned());
    }
    let wrong = |why: &str| {
        let message =
            format!("the allowed origin must be one such as https://shop.example:8443, {why}, got '{origin}'");
        Error::invalid(message)
    };
    let lower = origin.to_ascii_lowercase();
    let (scheme, host) = lower.split_once("://").ok_or_else(|| wrong("with its scheme"))?;
    let host = host.strip_suffix('/').unwrap_or(host);
    if host.contains('/') {
        return Err(wrong("without a path"));
    }
    if host.contains('*') {
        return Err(wrong(r"without '*'; for many names write regex:https://[a-z]+\.shop\.example"));
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_of = |text: &str, more: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c));
    let is_address = name.starts_with('[') && name.ends_with(']') && is_of(name, "[]:.");
    if scheme.is_empty() || !is_of(scheme, "+-.") || name.is_empty() || !(is_of(name, "-._") || is_address) {
        return Err(wrong("with its scheme and its host in ASCII ('xn--...')"));
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(wrong("with a port from 0 to 65535"));
    }
    match (scheme, port) {
        ("http", Some("80")) | ("https", Some("443")) | (_, None) => Ok(format!("{scheme}://{name}")),
        (_, Some(port)) => Ok(format!("{scheme}://{name}:{port}")),
    }
}

/// Returns the host of an origin, in lower case.
pub(super) fn host_of(origin: &str) -> Option<String> {
    let uri: Uri = origin.parse().ok()?;
    let host = uri.host()?;
    Some(host.trim_start_matches('[').trim_end_matches(']').to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::as_browsers_send;

    #[test]
    fn allowed_origin_is_written_as_browsers_send_it_or_refused() {
        for (given, sent) in [
            ("https://shop.example", "https://shop.example"),
            ("HTTP://Shop.Example:3000/", "http://shop.example:3000"),
            ("https://shop.example:443", "https://shop.example"),
            ("http://shop.example:443", "http://shop.example:443"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("http://[::1]", "http://[::1]"),
            ("tauri://localhost", "tauri://localhost"),
            ("null", "null"),
            ("*", "*"),
        ] {
            assert_eq!(as_browsers_send(given).unwrap(), sent, "{given}");
        }
        for (given, why) in [
            ("shop.example", "with its scheme"),
            ("https://", "with its scheme and its host"),
            ("://shop.example", "with its scheme and its host"),
            ("http://shop.example/chat", "without a path"),
            ("http://shop.example//", "without a path"),
            ("http://*.shop.example", "without '*'"),
            ("http://shop.example:x", "with a port"),
            ("http://shop.example:", "with a port"),
            ("http://ann@shop.example", "in ASCII"),
            ("http://shöp.example", "in ASCII"),
            ("http://shop.example?a", "in ASCII"),
        ] {
            let error = as_browsers_send(given).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(given), "{given}: {error}");
        }
    }
}
