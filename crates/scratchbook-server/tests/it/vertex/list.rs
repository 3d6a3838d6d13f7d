//! Sessions: found and listed.

use scratchbook::{CreateSessionConfig, Event};
use serde_json::json;

use super::{all, at, ids, make, refused, say};
use crate::v1::support::Api;

#[tokio::test]
async fn sessions_are_found_by_user_title_and_labels() {
    for api in Api::all().await {
        make(&api, "u1", "a", json!({"displayName": "Hi", "labels": {"env": "test", "a.b": "x"}})).await;
        make(&api, "u\"1\\", "b", json!({"displayName": "Hi", "labels": {"env": "live"}})).await;
        make(&api, "u1", "c", json!({"sessionState": {"user:k": 1}})).await;
        let find = async |filter: &str| {
            let filter: String = form_urlencoded::byte_serialize(filter.as_bytes()).collect();
            all(&api, &at(&format!("?filter={filter}")), "sessions").await
        };
        for (filter, found) in [
            ("", &["a", "b", "c"][..]),
            (r#"user_id="u1""#, &["a", "c"]),
            (r#"userId = 'u1'"#, &["a", "c"]),
            ("user_id=u1", &["a", "c"]),
            (r#"user_id="u\"1\\""#, &["b"]),
            (r#"display_name="Hi""#, &["a", "b"]),
            (r#"displayName="hi""#, &[]),
            (r#"display_name="""#, &["c"]),
            (r#"labels.env="test""#, &["a"]),
            (r#"labels."a.b"="x" AND user_id="u1" display_name="Hi""#, &["a"]),
            (r#"labels.env="test" AND labels.env="live""#, &[]),
            (r#"user_id="u1" AND user_id="u2""#, &[]),
            (r#"user_id="u1" AND user_id="u1""#, &["a", "c"]),
            (r#"user_id="nobody""#, &[]),
            (r#"user_id="u1\" OR user_id=\"u2""#, &[]),
        ] {
            assert_eq!(find(filter).await, found, "{filter}");
        }
        // Each session shows the state of its user.
        let listed = api.ok("GET", &at("?filter=user_id=u1"), None).await;
        assert!(
            listed["sessions"].as_array().unwrap().iter().all(|one| one["sessionState"]["user:k"] == 1),
            "{listed}"
        );
        assert_eq!(api.ok("GET", &at("?filter=user_id=nobody"), None).await, json!({}));
    }
}

#[tokio::test]
async fn the_order_is_that_of_the_last_events() {
    for api in Api::all().await {
        for id in ["a", "b", "c"] {
            make(&api, "u1", id, json!({})).await;
        }
        for (second, id) in [(3, "b"), (1, "c"), (2, "a")] {
            say(&api, id, second, json!({})).await;
        }
        for order in ["", "orderBy=", "orderBy=update_time", "order_by=updateTime%20asc"] {
            assert_eq!(all(&api, &at(&format!("?pageSize=1&{order}")), "sessions").await, ["c", "a", "b"], "{order}");
        }
        for size in [1, 2, 3] {
            let path = at(&format!("?orderBy=update_time%20desc&pageSize={size}"));
            assert_eq!(all(&api, &path, "sessions").await, ["b", "a", "c"]);
        }
    }
}

#[tokio::test]
async fn the_order_may_be_that_in_which_they_were_made() {
    for api in Api::all().await {
        let mut times = Vec::new();
        for id in ["a", "b", "c"] {
            times.push(make(&api, "u1", id, json!({})).await["createTime"].clone());
        }
        for (second, id) in [(3, "b"), (1, "c"), (2, "a")] {
            say(&api, id, second, json!({})).await;
        }
        assert_eq!(api.ok("GET", &at("/a"), None).await["createTime"], times[0]);
        assert_eq!(api.ok("GET", &at("?orderBy=create_time"), None).await["sessions"][2]["createTime"], times[2]);
        for size in [1, 2, 3] {
            for (order, found) in [("create_time", ["a", "b", "c"]), ("createTime%20desc", ["c", "b", "a"])] {
                let path = at(&format!("?orderBy={order}&pageSize={size}&filter=user_id=u1"));
                assert_eq!(all(&api, &path, "sessions").await, found, "{order} {size}");
            }
        }
        // The sessions that were created first have the latest last events.
        let mut made = Vec::new();
        for n in 0..1500 {
            let event = Event::new("user").with_timestamp(f64::from(5000 - n));
            let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_events(vec![event]);
            api.store.sessions.create_session("123", "u2", config.with_create_time(f64::from(n))).await.unwrap();
            made.push(format!("s{n}"));
        }
        let find = async |order: &str| {
            all(&api, &at(&format!("?orderBy={order}&filter=user_id=u2&pageSize=700")), "sessions").await
        };
        assert_eq!(find("create_time").await, made);
        made.reverse();
        assert_eq!(find("create_time%20desc").await, made);
        assert_eq!(find("update_time").await, made);
    }
}

/// No store lists sessions in this order, so all sessions are read for each page.
#[tokio::test]
async fn only_so_many_sessions_are_put_into_the_order_in_which_they_were_made() {
    let api = Api::memory().await;
    make(&api, "u1", "a", json!({})).await;
    for n in 0..10_000 {
        let config = CreateSessionConfig::default().with_session_id(format!("s{n}"));
        api.store.sessions.create_session("123", "u2", config).await.unwrap();
    }
    for filter in ["", "&filter=user_id=u2", "&filter=user_id=u1"] {
        let path = at(&format!("?orderBy=create_time%20desc&pageSize=1{filter}"));
        if filter.is_empty() {
            let message = refused(&api, 400, "FAILED_PRECONDITION", "GET", &path, None).await;
            assert!(message.contains("at most 10000 are"), "{message}");
        } else {
            let found = api.ok("GET", &path, None).await;
            assert_eq!(ids(&found, "sessions"), [if filter.ends_with("u1") { "a" } else { "s9999" }]);
            assert_eq!(found["nextPageToken"].is_string(), filter.ends_with("u2"));
        }
    }
}

#[tokio::test]
async fn a_page_is_whole_however_few_sessions_are_wanted() {
    let api = Api::memory().await;
    let mut wanted = Vec::new();
    for n in 0..3500 {
        let mut config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_create_time(f64::from(n));
        if [3, 999, 1000, 2300, 2301].contains(&n) {
            config = config.with_label("rare", "yes");
            wanted.push(format!("s{n}"));
        }
        api.store.sessions.create_session("123", "u1", config).await.unwrap();
    }
    for size in 1..=6 {
        let path = at(&format!("?filter=labels.rare=yes&pageSize={size}"));
        let first = api.ok("GET", &path, None).await;
        assert_eq!(first["sessions"].as_array().unwrap().len(), size.min(5), "{size}");
        assert_eq!(first["nextPageToken"].is_string(), size < 5, "{size}");
        assert_eq!(all(&api, &path, "sessions").await, wanted, "{size}");
    }
    assert_eq!(all(&api, &at("?pageSize=3500"), "sessions").await.len(), 3500);
    assert_eq!(api.ok("GET", &at("?filter=labels.rare=no"), None).await, json!({}));
    refused(&api, 400, "INVALID_ARGUMENT", "GET", &at("?pageToken=x&filter=user_id=a+user_id=b"), None).await;
}
