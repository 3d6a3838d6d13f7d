//! Scopes of commits as texts for other processes.

use std::fmt::Write as _;

use super::{Places, Whose};

/// The maximum number of scopes in one text, so that it fits into PostgreSQL's limit for notifications.
const IN_ONE_TEXT: usize = 150;

impl Whose {
    /// Encodes scopes as texts for another process; each text holds several.
    #[doc(hidden)]
    pub fn to_texts(all: &[Self]) -> Vec<String> {
        let text = |some: &[Self]| {
            let mut text = String::new();
            for whose in some {
                let (sort, places) = match whose {
                    Self::Nobody => continue,
                    Self::One(places) => ('=', *places),
                    Self::AllOf(places) => ('*', *places),
                    // An empty text: a process that does not know the scope sends the same.
                    Self::Anybody => return String::new(),
                };
                text.push(sort);
                for place in [Some(places.app), places.user, places.session].into_iter().flatten() {
                    // Writing to a `String` cannot fail.
                    let _ = write!(text, "{place:016x}");
                }
            }
            text
        };
        if all.contains(&Self::Anybody) {
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
            let Some(places) = places(&one[sort.len_utf8()..]) else {
                return vec![Self::Anybody];
            };
            all.push(match sort {
                '=' => Self::One(places),
                '*' => Self::AllOf(places),
                _ => return vec![Self::Anybody],
            });
        }
        if all.is_empty() { vec![Self::Anybody] } else { all }
    }
}

fn places(text: &str) -> Option<Places> {
    if !text.is_ascii() || !text.len().is_multiple_of(16) {
        return None;
    }
    let place = |n: usize| match text.get(n * 16..(n + 1) * 16) {
        None => Some(None),
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(Some),
    };
    Some(Places { app: place(0)??, user: place(1)?, session: place(2)? })
}

#[cfg(test)]
mod tests {
    use super::Whose;
    use crate::session::{SessionKey, StateOwner};

    #[test]
    fn what_is_told_is_read_again() {
        let key = SessionKey::new("app", "alice", "s").unwrap();
        let (alice, app) = (StateOwner::user("app", "alice").unwrap(), StateOwner::app("app").unwrap());
        let all = vec![Whose::session(&key), Whose::owner(&alice), Whose::all_of(&alice), Whose::owner(&app)];
        let texts = Whose::to_texts(&all);
        assert_eq!(texts.iter().map(|text| Whose::parse(text)).collect::<Vec<_>>(), [all]);
        let many: Vec<_> =
            (0..1000).map(|n| Whose::session(&SessionKey::new("app", "alice", &n.to_string()).unwrap())).collect();
        let texts = Whose::to_texts(&many);
        assert!(texts.iter().all(|text| text.len() < 8000), "a notice of PostgreSQL has 8,000 bytes");
        assert_eq!(texts.iter().flat_map(|text| Whose::parse(text)).collect::<Vec<_>>(), many);
    }

    #[test]
    fn what_cannot_be_read_may_be_anybodys() {
        for text in ["", "x", "=", "=12", "?0123456789abcdef", "=0123456789abcdeg", "=é"] {
            assert_eq!(Whose::parse(text), [Whose::Anybody], "{text:?}");
        }
        let one = Whose::owner(&StateOwner::app("app").unwrap());
        assert_eq!(Whose::to_texts(&[one, Whose::Anybody]), [""]);
    }
}
