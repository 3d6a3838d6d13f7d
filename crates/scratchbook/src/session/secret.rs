//! Keys whose values are not to be shown.

use std::sync::Arc;

use crate::state::Scope;

/// What stands in the place of a value that is not to be shown.
pub(crate) const HIDDEN: &str = "[secret]";

/// Keys that are marked as secret, by how they begin.
///
/// ```
/// use scratchbook::SecretKeys;
///
/// let secret = SecretKeys::new(["user:secret:", "app:token"]);
/// assert!(secret.contains("user:secret:pin") && secret.contains("app:token"));
/// assert!(!secret.contains("secret:pin"));
/// assert!(!SecretKeys::default().contains("user:secret:pin"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretKeys(Arc<[String]>);

impl SecretKeys {
    /// All keys that begin so, with their prefix: `user:secret:`, `app:token`.
    #[must_use]
    pub fn new<P: Into<String>>(beginnings: impl IntoIterator<Item = P>) -> Self {
        Self(beginnings.into_iter().map(Into::into).collect())
    }

    /// Whether a key, with its prefix, is marked.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.0.iter().any(|beginning| key.starts_with(beginning.as_str()))
    }

    /// Whether no key is marked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key without its prefix is marked.
    pub(crate) fn contains_name(&self, scope: Scope, name: &str) -> bool {
        !self.is_empty() && self.contains(&scope.key(name))
    }

    /// These and others.
    pub(crate) fn and(&self, others: &Self) -> Self {
        if self.is_empty() { others.clone() } else { Self::new(self.0.iter().chain(others.0.iter()).cloned()) }
    }
}
