//! Limits that the writer checks with remembered counts.

use scratchbook::session::ForkConfig;
use scratchbook::store::{Limits, SqliteOptions};
use scratchbook::{CreateSessionConfig, ErrorKind, SessionService};
use serde_json::json;

use crate::database::{APP, DatabaseFile, USER, append, create, key, setting};

/// A deleted session was smaller than the session that now has its id.
#[tokio::test]
async fn what_is_remembered_of_a_session_is_not_held_to_be_of_the_next() {
    let database = DatabaseFile::new();
    let limits = Limits::default().with_keys_per_scope(3);
    let service = database.open_with(SqliteOptions::default().with_limits(limits)).await;
    let full = json!({"a": 1, "b": 1, "c": 1});
    for made in ["created", "forked"] {
        create(&service, "s1", json!({})).await;
        append(&service, &key("s1"), setting("first", 1)).await.unwrap();
        service.delete_session(&key("s1")).await.unwrap();
        if made == "created" {
            let config = CreateSessionConfig::default().with_session_id("s1").with_state(full.clone());
            service.create_session(APP, USER, config).await.unwrap();
        } else {
            create(&service, "full", full.clone()).await;
            let fork = ForkConfig::default().with_session_id("s1");
            service.fork_session(&key("full"), fork).await.unwrap();
        }
        let refused = append(&service, &key("s1"), setting("fourth", 1)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ResourceExhausted, "{made}: {refused}");
        service.delete_session(&key("s1")).await.unwrap();
    }
}
