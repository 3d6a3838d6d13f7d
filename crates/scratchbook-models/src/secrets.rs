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

    /// Returns a text with secrets replaced, since a provider may repeat them: at least its first `most` bytes, or as
    /// many as there are.
    pub(super) fn hidden_in(&self, whole: &str, most: usize) -> String {
        // Only what is shown is searched. The cut may leave half of a secret at the end, where it is cut off.
        let longest = self.0.first().map_or(0, |(secret, _)| secret.len());
        let mut text = whole[..whole.floor_char_boundary(most.saturating_add(longest))].to_owned();
        let is_cut = text.len() < whole.len();
        for (secret, shown) in self.0.iter() {
            if secret.len() >= SHORTEST {
                text = text.replace(secret, shown);
                continue;
            }
            let mut hidden = String::with_capacity(text.len());
            let mut copied = 0;
            for (start, _) in text.match_indices(secret.as_str()) {
                hidden += &text[copied..start];
                copied = start + secret.len();
                let after = &text[copied..];
                let is_in_word = hidden.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
                hidden += if is_in_word { secret } else { shown };
            }
            hidden += &text[copied..];
            text = hidden;
        }
        if is_cut {
            text.truncate(text.floor_char_boundary(text.len().saturating_sub(longest)));
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
            Secrets::new(key.as_ref(), std::iter::empty()).hidden_in(text, text.len())
        };
        assert_eq!(hidden("x", "an extra x: xx, exactly \"x\" in x"), "an extra [key]: xx, exactly \"[key]\" in [key]");
        assert_eq!(hidden("long-secret", "a_long-secret_b"), "a_[key]_b");
    }

    #[test]
    fn hiding_takes_linear_time_and_leaves_no_half_of_a_secret_at_the_cut() {
        let provider = ProviderModel::parse("openai::m").unwrap().provider;
        let secrets = |key: &str| {
            let key = ApiKey::find(provider, Some(key.to_owned())).unwrap();
            Secrets::new(key.as_ref(), std::iter::empty())
        };
        let text = "x ".repeat(1 << 20);
        let begun = std::time::Instant::now();
        assert_eq!(secrets("x").hidden_in(&text, text.len()), "[key] ".repeat(1 << 20));
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        let text = "long-secret,".repeat(100);
        for most in 0..100 {
            let hidden = secrets("long-secret").hidden_in(&text, most);
            assert!(!hidden.replace("[key]", "").contains('l'), "{most}: {hidden}");
        }
        let plain = "ä".repeat(2000);
        assert!(plain.starts_with(&secrets("long-secret").hidden_in(&plain, 1001)));
        assert!(secrets("long-secret").hidden_in(&plain, 1001).len() >= 1000);
    }
}
