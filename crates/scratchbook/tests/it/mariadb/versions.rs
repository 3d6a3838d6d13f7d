//! `tests/fixtures/mysql/v1.sql` is a dump, by MariaDB, of a database with the tables of version 1. Every later version
//! opens it.

use scratchbook::connect;
use scratchbook::store::{MigrationRun, migrate};

use super::server::TestDatabase;
use crate::fixtures;

#[tokio::test]
async fn a_database_of_version_1_is_read_and_written() {
    let database = TestDatabase::new().await;
    database.client(&fixtures::fixture("mysql/v1.sql"));
    fixtures::check(&connect(&database.uri()).await.unwrap()).await;
}

/// By default, `mysqldump` makes such a copy.
#[tokio::test]
async fn a_copy_of_version_1_gets_the_procedures_that_it_lost() {
    let (by_us, by_hand) = (TestDatabase::new().await, TestDatabase::new().await);
    for database in [&by_us, &by_hand] {
        database.client(&fixtures::fixture("mysql/v1.sql"));
        database.sql("DROP PROCEDURE scratchbook_write_1").await;
    }
    let lacking = migrate(&by_us.uri(), MigrationRun::Dry).await.unwrap();
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
