//! The stores that every promise is tested on. A store is one function here, and one line in the list.

use std::sync::Arc;
use std::time::Duration;

use scratchbook::{InMemorySessionService, Store, connect};
use tempfile::TempDir;

/// Calls a macro with the name of every store and the function that opens an empty one.
macro_rules! for_each_store {
    ($callback:path) => {
        $callback!(memory, crate::stores::memory);
        $callback!(sqlite, crate::stores::sqlite);
        #[cfg(all(feature = "encryption", feature = "compression", feature = "schema"))]
        $callback!(sqlite_behind_all_layers, crate::stores::sqlite_behind_all_layers);
        #[cfg(feature = "mysql")]
        $callback!(mariadb, crate::stores::mariadb);
        #[cfg(feature = "mysql")]
        $callback!(mysql, crate::stores::mysql);
        #[cfg(feature = "postgres")]
        $callback!(postgres, crate::stores::postgres);
    };
}

/// Returns a store in memory.
pub(crate) async fn memory() -> (Store, ()) {
    (Store::new(Arc::new(InMemorySessionService::new())), ())
}

#[cfg(all(feature = "encryption", feature = "compression", feature = "schema"))]
const DEADLINE: Duration = Duration::from_secs(60);

#[cfg(all(feature = "encryption", feature = "compression", feature = "schema"))]
fn encrypted(store: Store) -> Store {
    use scratchbook::layer::{Keyring, WithEncryption};
    let keys = Keyring::new("now", [7; 32]).unwrap().with_old("before", [3; 32]).unwrap();
    let sessions = WithEncryption::new(store.sessions, keys.clone());
    Store::of(Arc::new(sessions), Arc::new(WithEncryption::new(store.artifacts, keys)))
}

#[cfg(all(feature = "encryption", feature = "compression", feature = "schema"))]
fn compressed(store: Store) -> Store {
    use scratchbook::layer::WithCompression;
    let sessions = WithCompression::above(store.sessions, 16);
    Store::of(Arc::new(sessions), Arc::new(WithCompression::above(store.artifacts, 16)))
}

/// All layers around each other keep every promise. Data is encrypted, and nearly all values are compressed first. The app
/// of a promise has no schema, and no call takes as long as the deadline.
#[cfg(all(feature = "encryption", feature = "compression", feature = "schema"))]
pub(crate) async fn sqlite_behind_all_layers() -> (Store, TempDir) {
    use scratchbook::SqliteSessionService;
    use scratchbook::layer::{StateSchema, WithDeadline, WithMetrics, WithSecretKeys, WithStateSchema};
    use scratchbook::session::SecretKeys;
    use scratchbook::store::{Limits, SqliteOptions};
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::default().with_limits(scratchbook::layer::sealed_limits(Limits::default()));
    let store = SqliteSessionService::open(folder.path().join("sessions.db"), options).await.unwrap();
    let store = compressed(encrypted(Store::new(Arc::new(store))));
    let sessions = WithSecretKeys::new(WithMetrics::new(store.sessions), SecretKeys::new(["user:secret:"]));
    let sessions = WithStateSchema::new(sessions).with_app("of another app", StateSchema::new(1));
    let sessions = WithDeadline::new(sessions, DEADLINE);
    let artifacts = WithDeadline::new(WithMetrics::new(store.artifacts), DEADLINE);
    (Store::of(Arc::new(sessions), Arc::new(artifacts)), folder)
}

/// Returns a store in its own file, which is removed with the folder.
pub(crate) async fn sqlite() -> (Store, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sqlite://{}", folder.path().join("sessions.db").display());
    (connect(&uri).await.unwrap(), folder)
}

/// Returns a store in its own database on the MySQL that the tests share.
#[cfg(feature = "mysql")]
pub(crate) async fn mysql() -> (Store, crate::mysql::server::TestDatabase) {
    let database = crate::mysql::server::TestDatabase::emptied().await;
    (connect(&database.uri()).await.unwrap(), database)
}

/// Returns a store in its own database on the MariaDB that the tests share.
#[cfg(feature = "mysql")]
pub(crate) async fn mariadb() -> (Store, crate::mariadb::server::TestDatabase) {
    let database = crate::mariadb::server::TestDatabase::emptied().await;
    (connect(&database.uri()).await.unwrap(), database)
}

/// Returns a store in its own schema on the server that the tests share.
#[cfg(feature = "postgres")]
pub(crate) async fn postgres() -> (Store, crate::postgres::server::TestSchema) {
    let schema = crate::postgres::server::TestSchema::new();
    (connect(&schema.uri("&pool_size=4")).await.unwrap(), schema)
}
