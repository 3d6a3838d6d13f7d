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
    /// `InvalidArgument` if an expression is invalid, or an origin has no scheme.
    pub(crate) fn new(origins: &[String]) -> Result<Self> {
        let mut all = Self::default();
        for origin in origins {
            let Some(expression) = origin.strip_prefix(REGEX) else {
                check(origin)?;
                all.hosts.extend(host_of(origin));
                all.named.push(origin.clone());
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

/// Refuses an origin that no browser sends, since such an origin would have no effect. Pages without an origin send
/// `null`.
fn check(origin: &str) -> Result<()> {
    let has_scheme = origin.split_once("://").is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty());
    if has_scheme || origin == ANY || origin == "null" {
        return Ok(());
    }
    let message = format!("the allowed origin '{origin}' has no scheme; write it as https://shop.example");
    Err(Error::invalid(message))
}

/// Returns the host of an origin, in lower case.
pub(super) fn host_of(origin: &str) -> Option<String> {
    let uri: Uri = origin.parse().ok()?;
    let host = uri.host()?;
    Some(host.trim_start_matches('[').trim_end_matches(']').to_lowercase())
}
