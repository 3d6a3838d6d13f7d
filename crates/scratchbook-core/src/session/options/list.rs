//! Options and results of lists, which come in pages.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::session::{Session, TitleFilter};

/// The default size of a page, in bytes.
#[doc(hidden)]
pub const PAGE_BYTES: u64 = 16 << 20;

/// Which keys of a user's or an app's state to list, page by page, in byte order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListStateConfig {
    /// Only names with this prefix.
    pub prefix: String,
    /// Only names after this name, which is the last name of the previous page.
    pub after: Option<String>,
    /// The maximum number of names in a page, 1 to 1,000.
    pub page_size: usize,
    /// About how many bytes a page may have; a page always has at least one key.
    pub page_bytes: u64,
}

impl Default for ListStateConfig {
    fn default() -> Self {
        Self { prefix: String::new(), after: None, page_size: 100, page_bytes: PAGE_BYTES }
    }
}

impl ListStateConfig {
    /// Lists only names with this prefix.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Lists only names after this one.
    #[must_use]
    pub fn with_after(mut self, name: impl Into<String>) -> Self {
        self.after = Some(name.into());
        self
    }

    /// Sets the maximum number of names in a page, 1 to 1,000; the default is 100.
    #[must_use]
    pub fn with_page_size(mut self, page_size: usize) -> Self {
        self.page_size = page_size;
        self
    }

    /// Sets about how many bytes a page may have, as stored; the default is 16 MiB. A page always has at least one key.
    #[must_use]
    pub fn with_page_bytes(mut self, page_bytes: u64) -> Self {
        self.page_bytes = page_bytes;
        self
    }

    /// Refuses invalid options. Every service calls this first.
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
    /// The start of the next page, as [`ListStateConfig::after`]; `None` at the end.
    pub next: Option<String>,
}

impl StatePage {
    /// Creates a page. For store implementations, including your own.
    #[must_use]
    pub fn new(values: Map<String, Value>, next: Option<String>) -> Self {
        Self { values, next }
    }
}

/// Which sessions to list: all of the app or of one user, optionally only those with a title or labels, page by page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListSessionsConfig {
    /// Only sessions of this user.
    pub user_id: Option<String>,
    /// Only sessions whose title matches.
    pub title: Option<TitleFilter>,
    /// Only sessions with all of these labels, compared byte by byte.
    pub labels: BTreeMap<String, String>,
    /// Which sessions come first.
    pub order: ListOrder,
    /// The maximum number of sessions in a page, 1 to 1,000.
    pub page_size: usize,
    /// About how many bytes a page may have; a page always has at least one session.
    pub page_bytes: u64,
    /// The token of the previous page.
    pub page_token: Option<String>,
}

/// Which sessions of a list come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The least recently updated sessions.
    #[default]
    OldestFirst,
    /// The most recently updated sessions.
    NewestFirst,
}

impl Default for ListSessionsConfig {
    fn default() -> Self {
        let (title, labels, order) = (None, BTreeMap::new(), ListOrder::default());
        Self { user_id: None, title, labels, order, page_size: 100, page_bytes: PAGE_BYTES, page_token: None }
    }
}

impl ListSessionsConfig {
    /// Lists only this user's sessions.
    #[must_use]
    pub fn with_user_id(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }

    /// Lists only sessions whose title contains this text, ignoring case. A non-empty text excludes sessions without a
    /// title.
    #[must_use]
    pub fn with_title_containing(mut self, text: impl Into<String>) -> Self {
        self.title = Some(TitleFilter::Containing(text.into()));
        self
    }

    /// Lists only sessions with exactly this title; an empty one selects sessions without a title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(TitleFilter::Is(title.into()));
        self
    }

    /// Lists only sessions with this label, in addition to those already set.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Lists the most recently updated sessions first.
    #[must_use]
    pub fn newest_first(mut self) -> Self {
        self.order = ListOrder::NewestFirst;
        self
    }

    /// Sets the maximum number of sessions in a page, 1 to 1,000; the default is 100.
    #[must_use]
    pub fn with_page_size(mut self, page_size: usize) -> Self {
        self.page_size = page_size;
        self
    }

    /// Sets about how many bytes a page may have, as stored; the default is 16 MiB. A page always has at least one
    /// session.
    ///
    /// The sessions' own keys count, and the keys of each user count once. The keys of the app and of the first
    /// session's user do not count: every page has them, and they are in memory only once.
    #[must_use]
    pub fn with_page_bytes(mut self, page_bytes: u64) -> Self {
        self.page_bytes = page_bytes;
        self
    }

    /// Continues after the page that returned this token.
    #[must_use]
    pub fn with_page_token(mut self, page_token: impl Into<String>) -> Self {
        self.page_token = Some(page_token.into());
        self
    }
}

/// A page of sessions in the order of the list, with merged state and without events. It can have fewer sessions than
/// requested although more follow: it is also limited by [bytes](ListSessionsConfig::with_page_bytes), and in a search
/// by title or label it can even be empty.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListSessionsResponse {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// The token of the next page; `None` at the end.
    pub next_page_token: Option<String>,
}

impl ListSessionsResponse {
    /// Creates a page. For store implementations, including your own.
    #[must_use]
    pub fn new(sessions: Vec<Session>, next_page_token: Option<String>) -> Self {
        Self { sessions, next_page_token }
    }
}
