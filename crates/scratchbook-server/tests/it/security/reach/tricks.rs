//! Unusual paths, queries, headers and bodies do not help a caller to reach others' data.

use axum::http::Method;

use super::routes::{OWNED, Owned};
use super::{ReachServer, TestToken, tells};

/// Returns ways to write a path so that it might be mistaken for another path.
fn variants(uri: &str) -> Vec<String> {
    let (path, query) = uri.split_once('?').map_or((uri, String::new()), |(path, query)| (path, format!("?{query}")));
    let user = |name: &str| path.replace("/users/u2", &format!("/users/{name}"));
    let paths = [
        user("%752"),
        user("%75%32"),
        user("%2575%2532"),
        user("U2"),
        user("u1/../u2"),
        user("u1%2f..%2fu2"),
        user("u1/%2e%2e/u2"),
        user("u1%5c..%5cu2"),
        user("./u2"),
        user("/u2"),
        user("u2%00"),
        user("u2%20"),
        user("%20u2"),
        user("u2."),
        user("u2;u1"),
        user("u1;u2"),
        user("u1,u2"),
        user("u1%00u2"),
        user("u2%ff"),
        user("*"),
        user("%25"),
        path.replace("/apps/demo/", "/apps/demo/users/u1/../../"),
        path.replace("/apps/", "//apps/"),
        path.replace("/apps/demo", "/apps//demo"),
        path.replace("/apps/", "/APPS/"),
        path.replace("/apps/", "/v1/../apps/"),
        path.replace("demo", "%64emo"),
        path.replace("demo", "DEMO"),
        format!("{path}/"),
        format!("{path}//"),
        format!("{path}/."),
        format!("{path}%2f"),
        format!("/.{path}"),
        format!("http://localhost{path}"),
        format!("http://u1@localhost{path}"),
    ];
    let with_query = paths.into_iter().map(|path| format!("{path}{query}"));
    let more = if query.is_empty() { "?" } else { "&" };
    let names = ["user=u1", "userId=u1", "user_id=u1", "app=demo&user=u1", "access_token=x"];
    with_query.chain(names.map(|name| format!("{uri}{more}{name}"))).collect()
}

/// Headers that some servers read as another path, method or caller.
const HEADERS: [(&str, &str); 10] = [
    ("x-http-method-override", "GET"),
    ("x-original-url", "/apps/demo/users/u1/sessions/s-1"),
    ("x-rewrite-url", "/apps/demo/users/u1/sessions/s-1"),
    ("x-forwarded-prefix", "/apps/demo/users/u1"),
    ("x-forwarded-user", "u2"),
    ("x-user-id", "u2"),
    ("x-goog-authenticated-user-id", "u2"),
    ("forwarded", "for=127.0.0.1"),
    ("x-forwarded-for", "127.0.0.1"),
    ("cookie", "user=u2"),
];

#[tokio::test]
async fn no_way_to_write_a_path_leads_to_another_user() {
    let world = ReachServer::new().await;
    let before = world.all_of("u2").await;
    for route in OWNED {
        let uri = route.uri("demo", "u2", "s-2");
        let method: Method = route.method.parse().unwrap();
        for variant in variants(&uri) {
            // Some variants are not valid addresses.
            if variant.parse::<axum::http::Uri>().is_err() {
                continue;
            }
            let answer = world.send(TestToken::U1, method.clone(), &variant, &route.body("u2", "s-2")).await;
            assert!((300..500).contains(&answer.status), "{route:?} {variant}: {answer:?}");
            assert!(!tells(&answer), "{route:?} {variant}: {answer:?}");
        }
        for header in HEADERS {
            let body = route.body("u2", "s-2");
            let answer = world.send_with(TestToken::U1, method.clone(), &uri, &[header], &body).await;
            assert_eq!(answer.status, 404, "{route:?} {header:?}: {answer:?}");
        }
    }
    assert_eq!(world.all_of("u2").await, before);
}

#[tokio::test]
async fn a_body_that_names_another_user_changes_nothing_for_them() {
    let world = ReachServer::new().await;
    let before = world.all_of("u2").await;
    let names = r#""userId":"u2","user_id":"u2","user":"u2","appName":"demo","app_name":"demo""#;
    // The route whose body is a state is left out, since these names are keys in it.
    let has_names = |route: &&Owned| !route.body.is_empty() && !route.route.ends_with("{new}");
    for route in OWNED.iter().filter(has_names).filter(|route| route.route.contains("{user}")) {
        let body = route.body("u1", "s-1").replacen('{', &format!("{{{names},"), 1).replace(",}", "}");
        let uri = route.uri("demo", "u1", "s-1");
        let answer = world.send(TestToken::U1, route.method.parse().unwrap(), &uri, &body).await;
        assert!(answer.status < 500 && !tells(&answer), "{route:?}: {answer:?}");
        assert!(!answer.text.contains(r#""userId":"u2""#), "{route:?}: {answer:?}");
    }
    // Two user ids, of which one is within reach, in both spellings.
    for ids in [r#""userId":"u1","user_id":"u2""#, r#""user_id":"u1","userId":"u2""#, r#""userId":"u1","userId":"u2""#]
    {
        let body = format!(r#"{{"appName":"demo",{ids},"sessionId":"s-2","newMessage":{{"parts":[{{"text":"x"}}]}}}}"#);
        for path in ["/run", "/run_sse"] {
            let answer = world.send(TestToken::U1, Method::POST, path, &body).await;
            assert!([404, 422].contains(&answer.status), "{path} {ids}: {answer:?}");
        }
    }
    assert_eq!(world.all_of("u2").await, before);
}
