//! Secrets that are sent to a provider and must not appear in messages: the key, and values of headers.

use std::fmt;
use std::sync::Arc;

use super::provider::{ApiKey, ProviderModel};

/// The minimum length of a secret in a header. Shorter words, such as `1` or `true`, are not secrets, and replacing
/// them would garble messages. A shorter key is replaced only where it stands alone.
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
        let mut text = text.to_owned();
        for (secret, shown) in self.0.iter() {
            if secret.len() >= SHORTEST {
                text = text.replace(secret, shown);
                continue;
            }
            let mut rest = std::mem::take(&mut text);
            while let Some((before, after)) = rest.split_once(secret) {
                text += before;
                let is_in_word = text.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
                text += if is_in_word { secret } else { shown };
                rest = after.to_owned();
            }
            text += &rest;
        }
        text
    }
}

/// Warns if a key goes to OpenAI although a variable that older programs read names another server.
pub(super) fn warn_of_unread_address(model: &ProviderModel) {
    let is_set = |name| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let openai = ["openai::m", "openai_resp::m"].map(ProviderModel::parse);
    let is_openai = openai.iter().flatten().any(|openai| openai.provider == model.provider);
    if is_openai && is_set("OPENAI_API_BASE") && !is_set("OPENAI_BASE_URL") {
        tracing::warn!("OPENAI_API_BASE is not read, and the key goes to api.openai.com; set OPENAI_BASE_URL instead");
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiKey, ProviderModel, Secrets};

    #[test]
    fn a_short_key_is_hidden_only_where_it_stands_alone() {
        let provider = ProviderModel::parse("openai::m").unwrap().provider;
        let hidden = |key: &str, text: &str| {
            let key = ApiKey::find(provider, Some(key.to_owned())).unwrap();
            Secrets::new(key.as_ref(), std::iter::empty()).hidden_in(text)
        };
        assert_eq!(hidden("x", "an extra x: xx, exactly \"x\" in x"), "an extra [key]: xx, exactly \"[key]\" in [key]");
        assert_eq!(hidden("long-secret", "a_long-secret_b"), "a_[key]_b");
    }
}
