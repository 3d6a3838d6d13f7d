//! Opens the store that a URI names.

use scratchbook_core::environment::check_clock;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::redact;
use scratchbook_core::store::Store;

use crate::kinds::{KINDS, StoreKind, feature_of};

/// Opens the store that a URI names:
/// - `memory:`
/// - `sqlite://PATH` (feature `sqlite`)
/// - `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` (feature `postgres`)
/// - `mysql://USER:PASSWORD@HOST:PORT/DATABASE` or `mariadb://` with the same parts (feature `mysql`)
/// - `vertexai://projects/P/locations/L/reasoningEngines/E` (feature `vertex-ai`); `VertexAiOptions::from_uri` lists
///   its parameters
///
/// In a SQLite URI, everything between `sqlite://` and a `?` is the path, relative or absolute. It is not decoded. A
/// missing file is created. `mode=ro` opens an existing file, also on a read-only file system, and refuses every write.
/// `synchronous=normal` is faster, but a power loss may lose the last commits. `lock_timeout_ms=N` limits how long a
/// write waits for other processes. Each of the [`Limits`] is set by a parameter with its name. The parameters of a
/// database on a server are described at its service, `PostgresSessionService` or `MySqlSessionService`. A driver in
/// the scheme, as in `postgresql+asyncpg://`, is ignored.
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
/// `InvalidArgument` if the URI names no store that this build supports; otherwise the error of opening the store.
pub async fn connect(uri: &str) -> Result<Store> {
    Ok(connect_with_limits(uri, |limits| limits).await?.0)
}

/// Opens the store that a URI names, as [`connect`] does, but with other limits. The function receives the URI's limits
/// and returns the limits to use. The URI's limits are returned together with the store, for a layer around the store
/// that enforces them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// use scratchbook::store::{Limits, connect_with_limits};
///
/// let doubled = |limits: Limits| limits.with_value_bytes(2 * limits.value_bytes);
/// let (store, limits) = connect_with_limits("memory:", doubled).await?;
/// assert_eq!(limits, Limits::default());
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// As for [`connect`].
pub async fn connect_with_limits(uri: &str, room: impl FnOnce(Limits) -> Limits + Send) -> Result<(Store, Limits)> {
    check_clock()?;
    (kind_of(uri)?.open)(uri, Box::new(room)).await
}

/// [Lists](MigrationRun::Dry) or [runs](MigrationRun::Real) the migrations that a store lacks. There are none if its
/// tables are up to date, and none for `memory:`.
///
/// [`connect`] runs the migrations too, unless the URI says otherwise. Use this function to run them separately, with a
/// database role that may change tables.
///
/// ```
/// use scratchbook::store::MigrationRun;
/// use scratchbook::store::migrate;
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
/// As for [`connect`].
pub async fn migrate(uri: &str, run: MigrationRun) -> Result<Vec<Migration>> {
    (kind_of(uri)?.migrate)(uri, run).await
}

fn kind_of(uri: &str) -> Result<&'static StoreKind> {
    KINDS.iter().find(|kind| (kind.is_named_by)(uri)).ok_or_else(|| unknown_scheme(uri))
}

/// The scheme of a URI, without the `+driver` that names a Python driver.
pub(crate) fn scheme(uri: &str) -> &str {
    uri.split([':', '+']).next().unwrap_or_default()
}

/// The error for a URI that names no store which this build supports.
fn unknown_scheme(uri: &str) -> Error {
    let known: Vec<_> = KINDS.iter().map(|kind| kind.example).collect();
    let known = known.join(", ");
    let scheme = scheme(uri);
    if !redact::is_scheme(scheme) {
        // The URI is not shown, since any part of it may be a password, as in libpq's `host=db password=s3cret`.
        return Error::invalid(format!("a store is named by a URI, which this is not; this build knows {known}"));
    }
    match KINDS.iter().find_map(|kind| (kind.misspelt)(scheme)) {
        Some(hint) => Error::invalid(hint),
        None => {
            let lacking = feature_of(scheme).map(|feature| {
                format!(
                    "; this one needs a build with the feature '{feature}', as by cargo's option --features {feature}"
                )
            });
            let lacking = lacking.unwrap_or_default();
            Error::invalid(format!("no store for the scheme '{scheme}'; this build knows {known}{lacking}"))
        }
    }
}
