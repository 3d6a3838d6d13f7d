//! Secrets that are sent to a provider and must not appear in messages: the key, and values of headers.

use std::fmt;
use std::sync::Arc;

use super::provider::ApiKey;

/// The minimum length of a secret in a header. Shorter words, such as `1` or `true`, are not secrets, and replacing
/// them would garble messages.
const SHORTEST: usize = 8;

/// Secrets, each with its replacement.
#[derive(Clone)]
pub(super) struct Secrets(Arc<[(String, &'static str)]>);

impl Secrets {
    pub(super) fn new<'a>(key: Option<&ApiKey>, headers: impl Iterator<Item = &'a str>) -> Self {
        let key = key.map(|key| (key.as_str().to_owned(), "[key]")).filter(|(key, _)| !key.is_empty());
        // Each word of a header is a secret of its own: of `Bearer x`, a provider may repeat `x` alone.
        let words = headers.flat_map(|value| value.split([' ', '\t', ';', ',']));
        let words = words.filter(|word| word.len() >= SHORTEST).map(|word| (word.to_owned(), "[header]"));
        let mut all: Vec<_> = key.into_iter().chain(words).collect();
        // Longer secrets are replaced first, so that a secret inside another does not break the longer one. Among
        // secrets of the same length the key comes first.
        all.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        Self(all.into())
    }

    /// Returns the text with secrets replaced, since a provider may repeat them.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (secret, shown)| text.replace(secret, shown))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}
