//! The kinds of stores that this build supports: how a URI names each kind, and how it is opened.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use scratchbook_core::error::Result;
use scratchbook_core::memory::InMemorySessionService;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::store::Store;

#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::connect::scheme;

/// Computes a store's limits from those in its URI.
type AdjustLimits<'a> = Box<dyn FnOnce(Limits) -> Limits + Send + 'a>;

/// The result of opening a store: the store, and the limits in its URI.
type OpenedStore = Result<(Store, Limits)>;

/// A kind of store.
pub(crate) struct StoreKind {
    /// A URI of this kind, as error messages show it.
    pub(crate) example: &'static str,
    pub(crate) is_named_by: fn(uri: &str) -> bool,
    pub(crate) open: for<'a> fn(uri: &'a str, room: AdjustLimits<'a>) -> BoxFuture<'a, OpenedStore>,
    pub(crate) migrate: for<'a> fn(uri: &'a str, run: MigrationRun) -> BoxFuture<'a, Result<Vec<Migration>>>,
    /// Returns how a URI of this kind is written, if the scheme is a common mistake for it.
    pub(crate) misspelt: fn(scheme: &str) -> Option<&'static str>,
}

/// All kinds, in the order in which messages list them.
pub(crate) const KINDS: &[StoreKind] = &[
    MEMORY,
    #[cfg(feature = "sqlite")]
    SQLITE,
    #[cfg(feature = "postgres")]
    POSTGRES,
    #[cfg(feature = "mysql")]
    MYSQL,
    #[cfg(feature = "vertex-ai")]
    VERTEX_AI,
];

/// The schemes of kinds that a feature adds to a build, each with that feature.
const OPTIONAL: &[(&str, &str)] = &[
    ("sqlite", "sqlite"),
    ("postgresql", "postgres"),
    ("postgres", "postgres"),
    ("mysql", "mysql"),
    ("mariadb", "mysql"),
    ("vertexai", "vertex-ai"),
];

/// Returns the feature that adds the kind of store with this scheme.
pub(crate) fn feature_of(scheme: &str) -> Option<&'static str> {
    OPTIONAL.iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known)).map(|(_, feature)| *feature)
}

const MEMORY: StoreKind = StoreKind {
    example: "'memory:'",
    is_named_by: |uri| uri == "memory:" || uri == "memory://",
    open: |_, room| {
        Box::pin(async move {
            let limits = Limits::default();
            let store = InMemorySessionService::new().with_limits(room(limits));
            Ok((Store::new(Arc::new(store)), limits))
        })
    },
    migrate: |_, _| Box::pin(async { Ok(Vec::new()) }),
    misspelt: |_| None,
};

#[cfg(feature = "sqlite")]
const SQLITE: StoreKind = StoreKind {
    example: "'sqlite://PATH'",
    is_named_by: |uri| uri.starts_with("sqlite://"),
    open: |uri, room| {
        Box::pin(async move {
            let (store, limits) = scratchbook_sqlite::SqliteSessionService::connect_with_limits(uri, room).await?;
            Ok((Store::new(Arc::new(store)), limits))
        })
    },
    migrate: |uri, run| Box::pin(scratchbook_sqlite::migrate(uri, run)),
    // SQLAlchemy counts slashes differently, so its URI could name another file here.
    misspelt: |scheme| {
        let hint = "a SQLite file is written as sqlite://PATH, without a driver and with the path as it is: \
            sqlite://agents.db for one in this folder, sqlite:///data/agents.db for one that is named from the root";
        scheme.eq_ignore_ascii_case("sqlite").then_some(hint)
    },
};

#[cfg(feature = "postgres")]
const POSTGRES: StoreKind = StoreKind {
    example: "'postgresql://USER@HOST/DATABASE'",
    is_named_by: |uri| feature_of(scheme(uri)) == Some("postgres"),
    open: |uri, room| {
        Box::pin(async move {
            let (store, limits) = scratchbook_postgres::PostgresSessionService::connect_with_limits(uri, room).await?;
            Ok((Store::new(Arc::new(store)), limits))
        })
    },
    migrate: |uri, run| Box::pin(scratchbook_postgres::PostgresSessionService::migrate(uri, run)),
    misspelt: |_| None,
};

#[cfg(feature = "mysql")]
const MYSQL: StoreKind = StoreKind {
    example: "'mysql://USER@HOST/DATABASE'",
    is_named_by: |uri| feature_of(scheme(uri)) == Some("mysql"),
    open: |uri, room| {
        Box::pin(async move {
            let (store, limits) = scratchbook_mysql::MySqlSessionService::connect_with_limits(uri, room).await?;
            Ok((Store::new(Arc::new(store)), limits))
        })
    },
    migrate: |uri, run| Box::pin(scratchbook_mysql::MySqlSessionService::migrate(uri, run)),
    misspelt: |_| None,
};

#[cfg(feature = "vertex-ai")]
const VERTEX_AI: StoreKind = StoreKind {
    example: "'vertexai://projects/P/locations/L/reasoningEngines/E'",
    is_named_by: |uri| uri.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("vertexai")),
    open: |uri, _| {
        Box::pin(async move {
            // Google sets the limits of this store.
            let store = scratchbook_vertex::client::VertexAiSessionService::connect(uri).await?;
            Ok((Store::new(Arc::new(store)), Limits::default()))
        })
    },
    migrate: |_, _| Box::pin(async { Ok(Vec::new()) }),
    misspelt: |_| None,
};
