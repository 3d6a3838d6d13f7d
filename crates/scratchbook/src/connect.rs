//! Opening the store that a URI names, whichever of this build it is.

use std::sync::Arc;

use scratchbook_core::error::{Error, Result};
use scratchbook_core::memory::InMemorySessionService;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::redact;
use scratchbook_core::store::Store;
#[cfg(feature = "mysql")]
use scratchbook_mysql::MySqlSessionService;
#[cfg(feature = "postgres")]
use scratchbook_postgres::PostgresSessionService;
#[cfg(feature = "sqlite")]
use scratchbook_sqlite::SqliteSessionService;
#[cfg(feature = "vertex-ai")]
use scratchbook_vertex::client::VertexAiSessionService;

/// Opens the store that a URI names: `memory:`, `sqlite://PATH` (feature `sqlite`),
/// `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` (feature `postgres`), or
/// `mysql://USER:PASSWORD@HOST:PORT/DATABASE`, with `mariadb` for `mysql` if you like (feature `mysql`), or
/// `vertexai://projects/P/locations/L/reasoningEngines/E` (feature `vertex-ai`, whose `VertexAiOptions::from_uri` has the
/// parameters).
///
/// Everything after `sqlite://` up to a `?` is the path, relative or absolute, as it is; the file is made where
/// it is missing. `?mode=ro` reads a file that is there and refuses every write, `synchronous=normal` gives up
/// durability on power loss for speed, and `lock_timeout_ms=N` says how long a write waits for other processes; each of
/// the [`Limits`] has a parameter of its name. The other parameters of a database on a server are with its service,
/// `PostgresSessionService` or `MySqlSessionService`; a driver in the scheme, as in `postgresql+asyncpg://`, is ignored.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// let store = scratchbook::connect("memory:").await?;
/// store.sessions.create_session("app", "user", Default::default()).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// `InvalidArgument` for a URI that names no store of this build; and what opening the store gives.
pub async fn connect(uri: &str) -> Result<Store> {
    Ok(connect_with_limits(uri, |limits| limits).await?.0)
}

/// Opens the store that a URI names, as [`connect`] does, with other limits than those of the URI: the function makes
/// them of those. The URI's limits are returned beside the store, for a layer around it that holds to them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// use scratchbook::{Limits, connect_with_limits};
///
/// let doubled = |limits: Limits| limits.with_value_bytes(2 * limits.value_bytes);
/// let (store, limits) = connect_with_limits("memory:", doubled).await?;
/// assert_eq!(limits, Limits::default());
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// As [`connect`].
pub async fn connect_with_limits(uri: &str, room: impl FnOnce(Limits) -> Limits) -> Result<(Store, Limits)> {
    if uri == "memory:" || uri == "memory://" {
        let limits = Limits::default();
        let store = InMemorySessionService::new().with_limits(room(limits));
        return Ok((Store::new(Arc::new(store)), limits));
    }
    #[cfg(feature = "sqlite")]
    if uri.starts_with("sqlite://") {
        let (store, limits) = SqliteSessionService::connect_with_limits(uri, room).await?;
        return Ok((Store::new(Arc::new(store)), limits));
    }
    #[cfg(feature = "postgres")]
    if is_postgres(uri) {
        let (store, limits) = PostgresSessionService::connect_with_limits(uri, room).await?;
        return Ok((Store::new(Arc::new(store)), limits));
    }
    #[cfg(feature = "mysql")]
    if is_mysql(uri) {
        let (store, limits) = MySqlSessionService::connect_with_limits(uri, room).await?;
        return Ok((Store::new(Arc::new(store)), limits));
    }
    #[cfg(feature = "vertex-ai")]
    if is_vertex_ai(uri) {
        // The limits of that store are Google's.
        return Ok((Store::new(Arc::new(VertexAiSessionService::connect(uri).await?)), Limits::default()));
    }
    Err(unknown_scheme(uri))
}

/// The migrations that a store lacks, [looked for](MigrationRun::Dry) or [carried out](MigrationRun::Real); none where
/// its tables are up to date, and for `memory:`, which has none.
///
/// [`connect`] carries them out too, unless the URI says otherwise: this is for those who do it apart, with a role
/// that may change tables.
///
/// ```
/// use scratchbook::{MigrationRun, migrate};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// let uri = format!("sqlite://{}", folder.path().join("agents.db").display());
/// for migration in migrate(&uri, MigrationRun::Real).await? {
///     println!("{} {}", migration.version, migration.name);
/// }
/// assert_eq!(migrate(&uri, MigrationRun::Dry).await?, []);
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// As [`connect`].
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    expect(unused_variables, reason = "memory has no tables")
)]
pub async fn migrate(uri: &str, run: MigrationRun) -> Result<Vec<Migration>> {
    if uri == "memory:" || uri == "memory://" {
        return Ok(Vec::new());
    }
    #[cfg(feature = "sqlite")]
    if uri.starts_with("sqlite://") {
        return scratchbook_sqlite::migrate(uri, run).await;
    }
    #[cfg(feature = "postgres")]
    if is_postgres(uri) {
        return PostgresSessionService::migrate(uri, run).await;
    }
    #[cfg(feature = "mysql")]
    if is_mysql(uri) {
        return MySqlSessionService::migrate(uri, run).await;
    }
    #[cfg(feature = "vertex-ai")]
    if is_vertex_ai(uri) {
        return Ok(Vec::new());
    }
    Err(unknown_scheme(uri))
}

/// The scheme of a URI, without the `+driver` that names a Python driver.
fn scheme(uri: &str) -> &str {
    uri.split([':', '+']).next().unwrap_or_default()
}

#[cfg(feature = "postgres")]
fn is_postgres(uri: &str) -> bool {
    ["postgresql", "postgres"].iter().any(|known| scheme(uri).eq_ignore_ascii_case(known))
}

#[cfg(feature = "mysql")]
fn is_mysql(uri: &str) -> bool {
    ["mysql", "mariadb"].iter().any(|known| scheme(uri).eq_ignore_ascii_case(known))
}

#[cfg(feature = "vertex-ai")]
fn is_vertex_ai(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("vertexai"))
}

/// The error for a URI that names no store of this build.
fn unknown_scheme(uri: &str) -> Error {
    let known = [
        Some("'memory:'"),
        cfg!(feature = "sqlite").then_some("'sqlite://PATH'"),
        cfg!(feature = "postgres").then_some("'postgresql://USER@HOST/DATABASE'"),
        cfg!(feature = "mysql").then_some("'mysql://USER@HOST/DATABASE'"),
        cfg!(feature = "vertex-ai").then_some("'vertexai://projects/P/locations/L/reasoningEngines/E'"),
    ];
    let known: Vec<_> = known.into_iter().flatten().collect();
    let scheme = scheme(uri);
    if !redact::is_scheme(scheme) {
        // Any part of it may be a password, as in libpq's `host=db password=s3cret`.
        return Error::invalid(format!(
            "a store is named by a URI, which this is not; this build knows {}",
            known.join(", ")
        ));
    }
    if cfg!(feature = "sqlite") && scheme.eq_ignore_ascii_case("sqlite") {
        // SQLAlchemy counts slashes in another way: a path made of such a URI could be another file than was meant.
        return Error::invalid(
            "a SQLite file is written as sqlite://PATH, without a driver and with the path as it is: sqlite://agents.db \
             for one in this folder, sqlite:///data/agents.db for one that is named from the root",
        );
    }
    Error::invalid(format!("no store for the scheme '{scheme}'; this build knows {}", known.join(", ")))
}
