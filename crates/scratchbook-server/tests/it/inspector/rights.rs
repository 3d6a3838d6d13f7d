//! On the pages a caller has the rights of its token.

use axum::Router;
use axum::http::Method;
use scratchbook::content::Part;
use scratchbook::session::StateOwner;
use scratchbook::state::StateDelta;
use scratchbook::{CreateSessionConfig, SessionKey, Store, connect};
use scratchbook_server::{Login, NewToken, Right, Server};

use crate::security::reach::routes::{OF_INSPECTOR, path};
use crate::support::Answer;

const HTML: (&str, &str) = ("accept", "text/html");

struct GuardedInspector {
    router: Router,
    _folder: tempfile::TempDir,
}

/// Returns a store with sessions of alice and bob in shop, and of alice in bank.
async fn store() -> Store {
    let store = connect("memory:").await.unwrap();
    for (app, user, id) in [("shop", "alice", "a-1"), ("shop", "bob", "b-1"), ("bank", "alice", "a-2")] {
        let config = CreateSessionConfig::default().with_session_id(id);
        store.sessions.create_session(app, user, config).await.unwrap();
    }
    store
}

/// Returns a server that accepts a single token, and the token.
async fn guarded(token: NewToken) -> (GuardedInspector, String) {
    guarded_on(store().await, token).await
}

async fn guarded_on(store: Store, token: NewToken) -> (GuardedInspector, String) {
    let folder = tempfile::tempdir().unwrap();
    let made = token.make().unwrap();
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, made.entry()).unwrap();
    let server = Server::builder(store).login(Login::new().with_tokens(&path)).host("127.0.0.1");
    (GuardedInspector { router: server.build().unwrap().router(), _folder: folder }, made.secret().to_owned())
}

impl GuardedInspector {
    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = axum::http::Request::builder().method(Method::GET).uri(path).header("host", "127.0.0.1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        crate::support::answer(&self.router, request.body(axum::body::Body::empty()).unwrap()).await
    }

    /// Sends a request to a route, with the fields that the route's forms have.
    async fn send(&self, method: &str, path: &str, token: &str) -> Answer {
        let request = axum::http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("origin", "http://127.0.0.1")
            .header("accept", "text/html")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/x-www-form-urlencoded");
        let form = "key=a&operation=set&value=1&seen=absent&before=1&run=r&message=m&title=t&at=0";
        let body = if method == "POST" { form } else { "" };
        crate::support::answer(&self.router, request.body(axum::body::Body::from(body)).unwrap()).await
    }

    async fn page(&self, path: &str, token: &str) -> Answer {
        self.get(path, &[HTML, ("authorization", &format!("Bearer {token}"))]).await
    }
}

#[tokio::test]
async fn a_person_without_a_login_is_led_to_it_and_back() {
    let (guarded, _) = guarded(NewToken::new("any").with_rights([Right::Read])).await;
    let path = "/inspector/apps/shop/users/alice/sessions/a-1?at=0&key=x";
    let answer = guarded.get(path, &[HTML, ("sec-fetch-site", "none")]).await;
    assert_eq!(answer.status, 303);
    assert!(answer.redirect(path).unwrap().starts_with("/login?next=%2Finspector%2Fapps%2Fshop"));
    assert_eq!(guarded.get(path, &[]).await.status, 401);
}

#[tokio::test]
async fn a_token_of_a_user_sees_nothing_of_others() {
    let (guarded, token) =
        guarded(NewToken::new("alice").with_rights([Right::Read]).with_app("shop").with_user("alice")).await;
    let apps = guarded.page("/inspector", &token).await;
    assert!(apps.text().contains("/inspector/apps/shop") && !apps.text().contains("bank"), "{}", apps.text());
    let sessions = guarded.page("/inspector/apps/shop", &token).await;
    assert!(sessions.text().contains("a-1") && !sessions.text().contains("b-1"), "{}", sessions.text());
    assert!(!sessions.text().contains("Users of this app"));
    for hidden in [
        "/inspector/apps/bank",
        "/inspector/apps/nope",
        "/inspector/apps/shop/users",
        "/inspector/apps/shop/users/bob",
        "/inspector/apps/shop/users/bob/sessions/b-1",
        "/inspector/apps/shop/users/bob/sessions/b-1/state",
        "/inspector/apps/shop/users/bob/sessions/b-1/live",
        "/inspector/apps/shop/users/bob/sessions/b-1/value?key=x",
        "/inspector/apps/bank/users/alice/sessions/a-2",
    ] {
        let answer = guarded.page(hidden, &token).await;
        assert_eq!(answer.status, 404, "{hidden}");
        assert!(!answer.text().contains("b-1") && !answer.text().contains("a-2"), "{hidden}");
    }
    let found = guarded.page("/inspector/apps/shop?find=b-1", &token).await;
    assert!(!found.text().contains("/users/bob"), "{}", found.text());
}

#[tokio::test]
async fn an_app_without_sessions_is_listed_for_those_whose_data_it_has() {
    let store = store().await;
    let key = || StateDelta::new().with("theme", "dark").unwrap();
    for owner in [
        StateOwner::app("motd").unwrap(),
        StateOwner::user("alices-key", "alice").unwrap(),
        StateOwner::user("bobs-key", "bob").unwrap(),
    ] {
        store.sessions.put_state(&owner, key(), "till".into()).await.unwrap();
    }
    for (app, user) in [("alices-file", "alice"), ("bobs-file", "bob")] {
        let session = SessionKey::new(app, user, "-").unwrap();
        store.artifacts.save_artifact(&session, "user:a.txt", Part::text("a"), Default::default()).await.unwrap();
    }
    let all = ["alices-file", "alices-key", "bank", "bobs-file", "bobs-key", "motd", "shop"];
    for (token, listed) in [
        (NewToken::new("any").with_rights([Right::Read]), &all[..]),
        (
            NewToken::new("alice").with_rights([Right::Read]).with_user("alice"),
            &["alices-file", "alices-key", "bank", "shop"],
        ),
        (NewToken::new("bob").with_rights([Right::Read]).with_user("bob"), &["bobs-file", "bobs-key", "shop"]),
    ] {
        let (guarded, token) = guarded_on(store.clone(), token).await;
        let apps = guarded.page("/inspector", &token).await;
        let cards = apps.text().split("href=\"./inspector/apps/").skip(1).map(|rest| rest.split('"').next().unwrap());
        assert_eq!(cards.collect::<Vec<_>>(), listed, "{}", apps.text());
        assert!(apps.text().contains("no sessions yet"), "{}", apps.text());
    }
}

#[tokio::test]
async fn a_token_without_the_right_to_read_sees_no_page() {
    let (guarded, token) = guarded(NewToken::new("writer").with_rights([Right::Write])).await;
    for path in ["/inspector", "/inspector/apps/shop", "/inspector/apps/shop/users/alice/sessions/a-1"] {
        assert_eq!(guarded.page(path, &token).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn users_are_listed_for_those_who_administer() {
    let (guarded, token) = guarded(NewToken::new("reader").with_rights([Right::Read])).await;
    assert_eq!(guarded.page("/inspector/apps/shop/users", &token).await.status, 403);
    assert!(!guarded.page("/inspector/apps/shop", &token).await.text().contains("Users of this app"));
}

#[tokio::test]
async fn a_reader_sees_no_button_that_would_fail() {
    let (guarded, token) = guarded(NewToken::new("reader").with_rights([Right::Read])).await;
    let session = "/inspector/apps/shop/users/alice/sessions/a-1";
    for view in ["", "?key=step"] {
        let page = guarded.page(&format!("{session}{view}"), &token).await;
        assert_eq!(page.status, 200);
        // The search and the slider only read, so they stay, as does the button to log out.
        for part in ["delete", "prune", "rewind", "fork", "details", "change", "runs\"", "stop"] {
            assert!(!page.text().contains(&format!("{session}/{part}")), "{part}: {}", page.text());
        }
        let posts: Vec<_> = page.text().split("method=\"post\" action=\"").skip(1).collect();
        assert!(posts.iter().all(|form| form.starts_with("../../../../../../logout\"")), "{posts:?}");
    }
    for asked in ["delete", "rewind?run=x", "prune?before=1", "details"] {
        assert_eq!(guarded.page(&format!("{session}/{asked}"), &token).await.status, 403);
    }
}

#[tokio::test]
async fn a_reader_can_send_no_form() {
    let (guarded, token) = guarded(NewToken::new("reader").with_rights([Right::Read])).await;
    assert!(!guarded.page("/inspector/apps/shop/users/alice", &token).await.text().contains("/erase"));
    let forms: Vec<_> = OF_INSPECTOR.iter().filter(|(method, _)| *method == "POST").collect();
    assert!(forms.len() > 8, "{forms:?}");
    for (method, route) in forms {
        let answer = guarded.send(method, &path(route, "shop", "alice", "a-1"), &token).await;
        assert_eq!(answer.status, 403, "{route}: {}", answer.text());
    }
    let session = guarded.page("/inspector/apps/shop/users/alice/sessions/a-1", &token).await;
    assert!(session.status == 200 && !session.text().contains("id=\"e1\""), "{}", session.text());
}

#[tokio::test]
async fn an_app_out_of_reach_is_as_one_that_does_not_exist_on_every_route() {
    let token = NewToken::new("clerk").with_rights([Right::Read, Right::Write, Right::App, Right::Admin]);
    let (guarded, token) = guarded(token.with_app("shop")).await;
    for (method, route) in OF_INSPECTOR.iter().filter(|(_, route)| route.contains("{app}")) {
        let mut answers = Vec::new();
        for app in ["bank", "nope"] {
            let uri = format!("{}?at=0&before=1&run=r&key=k", path(route, app, "alice", "a-2"));
            let answer = guarded.send(method, &uri, &token).await;
            answers.push((answer.status, answer.text().replace(app, "APP")));
        }
        assert_eq!(answers[0].0, 404, "{method} {route}: {}", answers[0].1);
        assert_eq!(answers[0], answers[1], "{method} {route}");
    }
    for page in ["/inspector", "/inspector/overview"] {
        let answer = guarded.page(page, &token).await;
        assert!(answer.status == 200 && !answer.text().contains("bank"), "{page}: {}", answer.text());
    }
    let [hidden, missing] = ["bank", "nope"].map(|app| format!("/inspector/overview?app={app}"));
    let (hidden, missing) = (guarded.page(&hidden, &token).await, guarded.page(&missing, &token).await);
    assert_eq!(hidden.status, missing.status);
    assert_eq!(hidden.text().matches("bank").count(), missing.text().matches("nope").count(), "{}", hidden.text());
    assert_eq!(hidden.text().matches("<tr").count(), missing.text().matches("<tr").count(), "{}", hidden.text());
}

#[tokio::test]
async fn no_link_names_an_app_out_of_reach() {
    let store = store().await;
    for n in 0..60 {
        store.sessions.create_session(&format!("app-{n:02}"), "bob", CreateSessionConfig::default()).await.unwrap();
    }
    for token in [
        NewToken::new("clerk").with_rights([Right::Read]).with_app("shop"),
        NewToken::new("alice").with_rights([Right::Read]).with_user("alice"),
    ] {
        let (guarded, token) = guarded_on(store.clone(), token).await;
        for after in ["", "?after=app-10", "?after=b"] {
            let apps = guarded.page(&format!("/inspector{after}"), &token).await;
            assert!(apps.text().contains("/inspector/apps/shop"), "{}", apps.text());
            assert!(!apps.text().contains("app-"), "{}", apps.text());
        }
    }
    // A token for all apps finds each app once, page by page.
    let (guarded, token) = guarded_on(store, NewToken::new("all").with_rights([Right::Read])).await;
    let (mut found, mut path) = (0, "/inspector".to_owned());
    for _ in 0..5 {
        let page = guarded.page(&path, &token).await.text().to_owned();
        found += page.matches("class=\"card\"").count();
        let Some((_, rest)) = page.split_once("/inspector?after=") else { break };
        path = format!("/inspector?after={}", rest.split('"').next().unwrap());
    }
    assert_eq!(found, 62);
}
