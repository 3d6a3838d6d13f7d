//! What is listed, page by page.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::session::{Session, TitleFilter};

/// How many bytes a page has, unless it is said.
#[doc(hidden)]
pub const PAGE_BYTES: u64 = 16 << 20;

/// Which keys of a user's or an app's state are listed, page by page, in byte order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListStateConfig {
    /// Only names that begin so.
    pub prefix: String,
    /// Only names after this one: the last one of the page before.
    pub after: Option<String>,
    /// How many at most, 1 to 1,000.
    pub page_size: usize,
    /// After about how many bytes a page ends; one key is always in it.
    pub page_bytes: u64,
}

impl Default for ListStateConfig {
    fn default() -> Self {
        Self { prefix: String::new(), after: None, page_size: 100, page_bytes: PAGE_BYTES }
    }
}

impl ListStateConfig {
    /// Only names that begin so.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only names after this one.
    #[must_use]
    pub fn with_after(mut self, name: impl Into<String>) -> Self {
        self.after = Some(name.into());
        self
    }

    /// How many names at most, 1 to 1,000; 100 otherwise.
    #[must_use]
    pub fn with_page_size(mut self, page_size: usize) -> Self {
        self.page_size = page_size;
        self
    }

    /// After about how many bytes a page ends, as the store keeps it; 16 MiB otherwise. One key is always in it.
    #[must_use]
    pub fn with_page_bytes(mut self, page_bytes: u64) -> Self {
        self.page_bytes = page_bytes;
        self
    }

    /// Refuses what means nothing. Every service calls this first.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a page size of 0 or above 1,000.
    pub fn check(&self) -> Result<()> {
        match self.page_size {
            1..=1000 => Ok(()),
            size => Err(Error::invalid(format!("the page size {size} is not from 1 to 1,000"))),
        }
    }
}

/// A page of a user's or an app's state.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StatePage {
    /// Names without prefix, in byte order, with their values.
    pub values: Map<String, Value>,
    /// Asks for the next page, as [`ListStateConfig::after`]; `None` at the end.
    pub next: Option<String>,
}

impl StatePage {
    /// A page; for stores, yours among them.
    #[must_use]
    pub fn new(values: Map<String, Value>, next: Option<String>) -> Self {
        Self { values, next }
    }
}

/// Which sessions are listed: all of the app or of one user, or those of them with a title or labels, page by page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListSessionsConfig {
    /// Only this user's.
    pub user_id: Option<String>,
    /// Only those with such a title.
    pub title: Option<TitleFilter>,
    /// Only those with all of these labels, compared byte by byte.
    pub labels: BTreeMap<String, String>,
    /// Which come first.
    pub order: ListOrder,
    /// How many at most in a page, 1 to 1,000.
    pub page_size: usize,
    /// After about how many bytes a page ends; one session is always in it.
    pub page_bytes: u64,
    /// The token of the page before.
    pub page_token: Option<String>,
}

/// Which sessions of a list come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// Those updated longest ago.
    #[default]
    OldestFirst,
    /// Those updated last.
    NewestFirst,
}

impl Default for ListSessionsConfig {
    fn default() -> Self {
        let (title, labels, order) = (None, BTreeMap::new(), ListOrder::default());
        Self { user_id: None, title, labels, order, page_size: 100, page_bytes: PAGE_BYTES, page_token: None }
    }
}

impl ListSessionsConfig {
    /// Only this user's sessions.
    #[must_use]
    pub fn with_user_id(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }

    /// Only sessions with this text in their title, in upper or lower case, and only those with a title unless it is
    /// empty.
    #[must_use]
    pub fn with_title_containing(mut self, text: impl Into<String>) -> Self {
        self.title = Some(TitleFilter::Containing(text.into()));
        self
    }

    /// Only sessions with this title, to the byte; where it is empty, only those without one.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(TitleFilter::Is(title.into()));
        self
    }

    /// Only sessions with this label, and all others that are asked for.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Those updated last come first.
    #[must_use]
    pub fn newest_first(mut self) -> Self {
        self.order = ListOrder::NewestFirst;
        self
    }

    /// How many sessions at most in a page, 1 to 1,000; 100 otherwise.
    #[must_use]
    pub fn with_page_size(mut self, page_size: usize) -> Self {
        self.page_size = page_size;
        self
    }

    /// After about how many bytes a page ends, as the store keeps it; 16 MiB otherwise. One session is always in it.
    ///
    /// Counted are the keys of the sessions themselves, and those of each further user once: the state of the first
    /// session's user and of the app is in every page, and in memory once.
    #[must_use]
    pub fn with_page_bytes(mut self, page_bytes: u64) -> Self {
        self.page_bytes = page_bytes;
        self
    }

    /// The page after the one that gave this token.
    #[must_use]
    pub fn with_page_token(mut self, page_token: impl Into<String>) -> Self {
        self.page_token = Some(page_token.into());
        self
    }
}

/// A page of sessions in the order of the list; state merged, no events. It may have fewer than were asked for and yet
/// be followed by another: it ends by [bytes](ListSessionsConfig::with_page_bytes) too, and if sessions are looked for by
/// title or label, it may even have none.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListSessionsResponse {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Asks for the next page; `None` at the end.
    pub next_page_token: Option<String>,
}

impl ListSessionsResponse {
    /// A page; for stores, yours among them.
    #[must_use]
    pub fn new(sessions: Vec<Session>, next_page_token: Option<String>) -> Self {
        Self { sessions, next_page_token }
    }
}
