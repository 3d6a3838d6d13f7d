//! Filters of session lists. They are applied here and not in the databases, whose rules for letter case differ.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::session::{ListSessionsConfig, SessionMetadata, TitleFilter};

/// A filter of sessions by title and labels.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// The text of a substring search is case-folded.
    title: Option<TitleFilter>,
    labels: BTreeMap<String, String>,
}

impl SessionFilter {
    /// Builds the filter for a list's options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a title or labels that no session can have.
    pub fn new(config: &ListSessionsConfig) -> Result<Self> {
        let text = match &config.title {
            Some(TitleFilter::Is(text) | TitleFilter::Containing(text)) => Some(text.clone()),
            None => None,
        };
        let labels = SessionMetadata::new(text, config.labels.clone())?.labels;
        let title = match &config.title {
            Some(TitleFilter::Containing(text)) if text.is_empty() => None,
            Some(TitleFilter::Containing(text)) => Some(TitleFilter::Containing(folded(text))),
            other => other.clone(),
        };
        Ok(Self { title, labels })
    }

    /// Whether every session matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.labels.is_empty()
    }

    /// Whether a session matches.
    #[must_use]
    pub fn matches(&self, metadata: &SessionMetadata) -> bool {
        let title = metadata.title.as_deref().unwrap_or_default();
        let has_title = match &self.title {
            None => true,
            Some(TitleFilter::Is(wanted)) => title == wanted,
            Some(TitleFilter::Containing(wanted)) => folded(title).contains(wanted),
        };
        has_title && self.labels.iter().all(|(name, value)| metadata.labels.get(name) == Some(value))
    }
}

/// Folds case independently of language: each letter is converted to upper case and then to lower case, so that `ς`
/// equals `σ` and `ß` equals `ss`.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn upper_and_lower_case_are_alike() {
        for (a, b) in
            [("Straße", "STRASSE"), ("ΟΔΟΣ", "οδος"), ("Éa", "éA"), ("K", "\u{212a}"), ("\u{130}", "i\u{307}")]
        {
            assert_eq!(folded(a), folded(b), "{a} and {b}");
        }
        assert_ne!(folded("e"), folded("é"));
    }
}
