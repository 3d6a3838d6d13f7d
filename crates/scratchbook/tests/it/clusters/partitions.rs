//! Every promise on PostgreSQL tables that were partitioned by user, with the statements that docs/scale.md gives.

use scratchbook::conformance::all;
use scratchbook::{CreateSessionConfig, SessionKey, connect};

use crate::fixtures;
use crate::postgres::server::TestSchema;

const PARTITION: &str = include_str!("../../../../../docs/partitions.sql");

#[ignore = "long: every promise on tables that are partitioned"]
#[tokio::test(flavor = "multi_thread")]
async fn postgres_tables_partitioned_by_user_keep_every_promise() {
    let schema = TestSchema::new();
    connect(&schema.uri("")).await.unwrap().sessions.close().await.unwrap();
    schema.sql(PARTITION).await;
    // An installation whose role may not change tables connects in this way.
    all(&connect(&schema.uri("&pool_size=4&migrate=check")).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_tables_are_partitioned_with_what_is_in_them() {
    let schema = TestSchema::new();
    let store = connect(&schema.uri("")).await.unwrap();
    fixtures::fill(&store).await;
    schema.sql(PARTITION).await;
    fixtures::check(&store).await;
    let partitions = "SELECT count(*) FROM pg_inherits JOIN pg_class ON inhparent = oid WHERE relname = 'events'
        AND relnamespace = current_schema()::regnamespace";
    assert_eq!(schema.number(partitions).await, 16);
    for user in 0..32 {
        let config = CreateSessionConfig::default().with_session_id("s");
        store.sessions.create_session("places", &user.to_string(), config).await.unwrap();
    }
    // Rows of different partitions have the same ctids.
    store.sessions.delete_session(&SessionKey::new("places", "0", "s").unwrap()).await.unwrap();
    let left = store.sessions.list_sessions("places", &Default::default()).await.unwrap().sessions;
    assert_eq!(left.len(), 31);
    // A repeated partitioning changes nothing and reports an error.
    let error = schema.client().await.batch_execute(PARTITION).await.unwrap_err();
    assert!(error.as_db_error().is_some_and(|error| error.message().contains("partitioned already")), "{error:?}");
}
