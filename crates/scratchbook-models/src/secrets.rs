//! What a provider is told and no message may repeat: the key, and values of headers.

use std::fmt;
use std::sync::Arc;

use super::provider::Key;

/// Shorter words of headers are no secrets, and hiding `1` or `true` would spoil what is said.
const SHORTEST: usize = 8;

/// Secrets, each with what is shown in its place.
#[derive(Clone)]
pub(super) struct Secrets(Arc<[(String, &'static str)]>);

impl Secrets {
    pub(super) fn new<'a>(key: Option<&Key>, headers: impl Iterator<Item = &'a str>) -> Self {
        let key = key.map(|key| (key.as_str().to_owned(), "[key]")).filter(|(key, _)| !key.is_empty());
        // Of `Bearer x` a provider may repeat the `x` alone.
        let words = headers.flat_map(|value| value.split([' ', '\t', ';', ',']));
        let words = words.filter(|word| word.len() >= SHORTEST).map(|word| (word.to_owned(), "[header]"));
        let mut all: Vec<_> = key.into_iter().chain(words).collect();
        // What is part of another is hidden after it; the key comes first of its like.
        all.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        Self(all.into())
    }

    /// A text without the secrets: a provider may repeat them.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (secret, shown)| text.replace(secret, shown))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}
