//! Databases of older versions of the tables, as dumps of MariaDB.

use scratchbook::connect;
use scratchbook::store::{MigrationRun, migrate};

use super::server::TestDatabase;
use crate::fixtures;

#[tokio::test]
async fn a_database_of_every_version_is_read_and_written() {
    for version in ["v1", "v2", "v3", "v4", "v5"] {
        let database = TestDatabase::new().await;
        database.client(&fixtures::fixture(&format!("mysql/{version}.sql")));
        fixtures::check(&connect(&database.uri()).await.unwrap()).await;
    }
}

/// By default, `mysqldump` makes such a copy.
#[tokio::test]
async fn a_copy_of_an_older_version_gets_the_procedures_that_it_lost() {
    let (by_us, by_hand) = (TestDatabase::new().await, TestDatabase::new().await);
    for database in [&by_us, &by_hand] {
        database.client(&fixtures::fixture("mysql/v1.sql"));
        database.sql("DROP PROCEDURE scratchbook_write_1").await;
    }
    let lacking = migrate(&by_us.uri(), MigrationRun::Dry).await.unwrap();
    assert_eq!(lacking.iter().map(|migration| migration.version).collect::<Vec<_>>(), [2, 3, 4, 5]);
    fixtures::check(&connect(&by_us.uri()).await.unwrap()).await;
    lacking.iter().for_each(|migration| by_hand.client(&migration.sql));
    fixtures::check(&connect(&format!("{}?migrate=check", by_hand.uri())).await.unwrap()).await;
}

/// Writes a dump, the next fixture, to the file that `SCRATCHBOOK_NEW_FIXTURE` names; otherwise this does nothing.
#[tokio::test]
async fn a_dump_is_made_for_the_next_fixture() {
    let Some(path) = std::env::var_os("SCRATCHBOOK_NEW_FIXTURE") else {
        return;
    };
    let database = TestDatabase::new().await;
    let store = connect(&database.uri()).await.unwrap();
    fixtures::fill(&store).await;
    store.sessions.close().await.unwrap();
    std::fs::write(path, database.dump()).unwrap();
}
