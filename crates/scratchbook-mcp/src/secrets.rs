//! Secrets that are sent to a server and must not appear in messages: values of headers and of variables.

use std::fmt;

use crate::params::McpConnectionParams;

/// The minimum length of a secret. Replacing shorter words, such as `1` or `true`, would garble messages.
const SHORTEST: usize = 6;

/// The text that replaces a secret.
const HIDDEN: &str = "[secret]";

/// The secrets of a connection, the longest first, so that a secret is replaced before a shorter one that it contains.
pub(crate) struct ConnectionSecrets(Vec<String>);

impl ConnectionSecrets {
    pub(crate) fn of(params: &McpConnectionParams) -> Self {
        let values: Vec<&str> = match params {
            McpConnectionParams::Stdio(params) => params.env.values().chain(&params.args).map(String::as_str).collect(),
            McpConnectionParams::StreamableHttp(params) => {
                let query = params.url.split_once('?').map(|(_, query)| query).unwrap_or_default();
                params.headers.iter().map(|(_, value)| value.as_str()).chain(query.split(['&', '='])).collect()
            }
        };
        // A server may repeat only one word of a header.
        let words = values.iter().flat_map(|value| value.split_whitespace().chain([*value]));
        let mut secrets: Vec<_> = words.filter(|word| word.len() >= SHORTEST).map(str::to_owned).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// Returns the text without secrets, since a server may repeat them.
    pub(crate) fn hidden_in(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }
}

impl fmt::Debug for ConnectionSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionSecrets")
    }
}
