//! Scopes of commits as texts for other processes.

use std::fmt::Write as _;

use super::{CommitScope, ScopeHashes};

/// The maximum number of scopes in one text, so that it fits into PostgreSQL's limit for notifications.
const IN_ONE_TEXT: usize = 150;

impl CommitScope {
    /// Encodes scopes as texts for another process; each text holds several.
    #[doc(hidden)]
    pub fn to_texts(all: &[Self]) -> Vec<String> {
        let text = |some: &[Self]| {
            let mut text = String::new();
            for scope in some {
                let (sort, hashes) = match scope {
                    Self::Nothing => continue,
                    Self::One(hashes) => ('=', *hashes),
                    Self::AllOf(hashes) => ('*', *hashes),
                    // The empty text means any scope.
                    Self::Unknown => return String::new(),
                };
                text.push(sort);
                for place in [Some(hashes.app), hashes.user, hashes.session].into_iter().flatten() {
                    // Writing to a `String` cannot fail.
                    let _ = write!(text, "{place:016x}");
                }
            }
            text
        };
        if all.contains(&Self::Unknown) {
            return vec![String::new()];
        }
        all.chunks(IN_ONE_TEXT).map(text).collect()
    }

    /// Decodes a text from another process; an invalid one means any scope.
    #[doc(hidden)]
    pub fn parse(text: &str) -> Vec<Self> {
        let mut all = Vec::new();
        let mut rest = text;
        while let Some(sort) = rest.chars().next() {
            let end = rest[sort.len_utf8()..].find(['=', '*']).map_or(rest.len(), |at| at + sort.len_utf8());
            let (one, after) = rest.split_at(end);
            rest = after;
            let Some(hashes) = hashes(&one[sort.len_utf8()..]) else {
                return vec![Self::Unknown];
            };
            all.push(match sort {
                '=' => Self::One(hashes),
                '*' => Self::AllOf(hashes),
                _ => return vec![Self::Unknown],
            });
        }
        if all.is_empty() { vec![Self::Unknown] } else { all }
    }
}

fn hashes(text: &str) -> Option<ScopeHashes> {
    if !text.is_ascii() || !text.len().is_multiple_of(16) {
        return None;
    }
    let place = |n: usize| match text.get(n * 16..(n + 1) * 16) {
        None => Some(None),
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(Some),
    };
    Some(ScopeHashes { app: place(0)??, user: place(1)?, session: place(2)? })
}

#[cfg(test)]
mod tests {
    use super::CommitScope;
    use crate::session::{SessionKey, StateOwner};

    #[test]
    fn what_is_told_is_read_again() {
        let key = SessionKey::new("app", "alice", "s").unwrap();
        let (alice, app) = (StateOwner::user("app", "alice").unwrap(), StateOwner::app("app").unwrap());
        let all = vec![
            CommitScope::session(&key),
            CommitScope::owner(&alice),
            CommitScope::all_of(&alice),
            CommitScope::owner(&app),
        ];
        let texts = CommitScope::to_texts(&all);
        assert_eq!(texts.iter().map(|text| CommitScope::parse(text)).collect::<Vec<_>>(), [all]);
        let many: Vec<_> = (0..1000)
            .map(|n| CommitScope::session(&SessionKey::new("app", "alice", &n.to_string()).unwrap()))
            .collect();
        let texts = CommitScope::to_texts(&many);
        assert!(texts.iter().all(|text| text.len() < 8000), "a notice of PostgreSQL has 8,000 bytes");
        assert_eq!(texts.iter().flat_map(|text| CommitScope::parse(text)).collect::<Vec<_>>(), many);
    }

    #[test]
    fn what_cannot_be_read_may_be_anybodys() {
        for text in ["", "x", "=", "=12", "?0123456789abcdef", "=0123456789abcdeg", "=é"] {
            assert_eq!(CommitScope::parse(text), [CommitScope::Unknown], "{text:?}");
        }
        let one = CommitScope::owner(&StateOwner::app("app").unwrap());
        assert_eq!(CommitScope::to_texts(&[one, CommitScope::Unknown]), [""]);
    }
}
