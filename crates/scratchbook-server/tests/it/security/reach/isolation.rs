//! On no route does a caller reach the data of others.

use axum::http::Method;

use super::routes::{COMMON, Common, OWNED, path};
use super::{ReachServer, SECRET, TestToken, tells};
use crate::security::get;

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

#[tokio::test]
async fn what_is_another_users_is_not_there() {
    for route in OWNED {
        let world = ReachServer::new().await;
        let before = world.all_of("u2").await;
        assert!(before.contains(SECRET));
        let uri = route.uri("demo", "u2", "s-2");
        // Another user of the app, a token for another app, and a user of the same name in another app.
        for token in [TestToken::U1, TestToken::Other, TestToken::U2OfOther] {
            let answer = world.send(token, method(route.method), &uri, &route.body("u2", "s-2")).await;
            assert_eq!(answer.status, 404, "{token:?} {route:?}: {answer:?}");
            // The answer is the same as for a user and a session that do not exist.
            let nobody = route.uri("demo", "n0", "s-2");
            let nothing = world.send(token, method(route.method), &nobody, &route.body("n0", "s-2")).await;
            assert_eq!((answer.status, &answer.text), (nothing.status, &nothing.text.replace("n0", "u2")), "{route:?}");
            assert_eq!(answer.headers.len(), nothing.headers.len(), "{route:?}");
        }
        assert_eq!(world.all_of("u2").await, before, "{route:?}");
        // A caller that may access the data is served by the same request.
        for token in [TestToken::U2, TestToken::Demo, TestToken::All] {
            let world = ReachServer::new().await;
            let answer = world.send(token, method(route.method), &uri, &route.body("u2", "s-2")).await;
            assert!(route.is_done(&answer), "{token:?} {route:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_session_of_another_user_is_not_found_under_a_name_of_ones_own() {
    for route in OWNED {
        let world = ReachServer::new().await;
        let before = world.all_of("u2").await;
        for session in ["s-2", "u2/s-2", "../u2/s-2", "..%2f..%2fu2%2fsessions%2fs-2"] {
            let uri = route.uri("demo", "u1", session);
            let answer = world.send(TestToken::U1, method(route.method), &uri, &route.body("u1", session)).await;
            assert!(!tells(&answer), "{route:?} {session}: {answer:?}");
            assert!(answer.status < 500, "{route:?} {session}: {answer:?}");
        }
        assert_eq!(world.all_of("u2").await, before, "{route:?}");
    }
}

#[tokio::test]
async fn what_is_of_the_whole_app_is_for_who_reaches_it() {
    for (name, route, body, common) in COMMON {
        let world = ReachServer::new().await;
        let before = world.all_of("u2").await;
        let uri = path(route, "demo", "u2", "s-2");
        let (name, unreached) = (method(name), world.send(TestToken::Other, method(name), &uri, body).await);
        let of_user = world.send(TestToken::U1, name.clone(), &uri, body).await;
        assert_eq!(world.all_of("u2").await, before, "{route}");
        let of_app = world.send(TestToken::Demo, name.clone(), &uri, body).await;
        let of_all = world.send(TestToken::All, name.clone(), &uri, body).await;
        let without = match (&name, common) {
            (&Method::GET, _) => get(&world.router, &uri, &[]).await.status,
            (_, Common::Form) => 403,
            _ => 401,
        };
        assert_eq!(without == 401, !matches!(common, Common::Open | Common::Form), "{route}");
        let statuses = (unreached.status, of_user.status, of_app.status, of_all.status);
        let well = of_all.status;
        match common {
            Common::Open => assert_eq!(statuses, (200, 200, 200, 200), "{route}"),
            Common::Form => assert_eq!(statuses, (403, 403, 403, 403), "{route}"),
            Common::Same => {
                assert_eq!(statuses, (well, well, well, well), "{route}");
                assert_eq!(of_user.text, of_app.text, "{route}");
            }
            Common::Reached => {
                assert_eq!(statuses, (well, well, well, well), "{route}");
                assert!(tells(&of_app), "{route}");
            }
            Common::App => {
                assert_eq!(statuses, (404, well, well, well), "{route}");
                assert_eq!(of_user.text, of_app.text, "{route}");
            }
            Common::PartOfApp => {
                assert_eq!(statuses, (404, well, well, well), "{route}");
                assert!(tells(&of_app) && of_user.text.contains("of u1"), "{route}");
            }
            Common::WholeApp => assert_eq!(statuses, (404, 404, well, well), "{route}"),
            Common::All => assert_eq!(statuses, (403, 403, 403, well), "{route}"),
        }
        // Routes without data answer with an error to callers with access too.
        let ends = ["/config/telemetry", "trace/{event}", "metrics-info", "{result}", "{test}", "/run_live"];
        let nothing = ends.iter().any(|end| route.ends_with(end))
            || *common == Common::Form
            || (route.starts_with("/dev/") && name != Method::GET);
        assert!(well < 400 || nothing, "{route}: {of_all:?}");
        assert!(![&unreached, &of_user].into_iter().any(tells), "{route}");
    }
}

#[tokio::test]
async fn apps_out_of_reach_are_not_told_of() {
    let world = ReachServer::new().await;
    for token in [TestToken::U1, TestToken::Demo] {
        for path in ["/list-apps", "/list-apps?detailed=true", "/apps/other/app-info", "/dev/apps/other/build_graph"] {
            let answer = world.send(token, Method::GET, path, "").await;
            assert!(!answer.text.contains("agent_of_other"), "{path}: {answer:?}");
            assert!(path.contains("other") || !answer.text.contains("other"), "{path}: {answer:?}");
            // The answer is the same as for an app that is not hosted.
            let nothing = world.send(token, Method::GET, &path.replace("other", "nope5"), "").await;
            assert_eq!(answer.text, nothing.text.replace("nope5", "other"), "{path}");
        }
    }
    assert!(world.send(TestToken::All, Method::GET, "/list-apps", "").await.text.contains("other"));
}

#[tokio::test]
async fn who_wrote_a_key_of_the_app_is_told_to_those_who_reach_them() {
    let world = ReachServer::new().await;
    for path in ["blame", "history?key=app:shared"] {
        let path = format!("/v1/apps/demo/users/u1/sessions/s-1/{path}");
        let answer = world.send(TestToken::U1, Method::GET, &path, "").await;
        assert_eq!(answer.status, 200);
        for of_u2 in ["s-2", "i-u2", "ev-u2"] {
            assert!(!answer.text.contains(of_u2), "{path}: {answer:?}");
        }
        let answer = world.send(TestToken::Demo, Method::GET, &path, "").await;
        assert!(answer.text.contains("s-2"), "{path}: {answer:?}");
    }
}
