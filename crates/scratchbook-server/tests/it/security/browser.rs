//! People log in with a browser, through a form and a cookie. The server uses the cookie only on requests of its own
//! pages.

use std::num::NonZeroU32;

use axum::Router;
use axum::http::Method;
use scratchbook_server::{Login, NewToken, RateLimit, Right, ServerLimits};
use tracing::Level;

use super::{At, LoginFiles, demo, get, send, session, shared, token_of_u1};
use crate::log::LogLines;

const HOST: (&str, &str) = ("host", "127.0.0.1:8801");
const OWN: (&str, &str) = ("origin", "http://127.0.0.1:8801");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const SESSION: &str = "/apps/demo/users/u1/sessions/s-1";

/// Returns a server that accepts a token of `u1`, and that token.
async fn guarded() -> (Router, String, LoginFiles) {
    let files = LoginFiles::new();
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    session(&store, "u2", "s-2").await;
    let (login, token) = token_of_u1(&files, &[Right::Read, Right::Write]);
    let interface = files.folder.path().join("browser");
    std::fs::create_dir(&interface).unwrap();
    std::fs::write(interface.join("index.html"), "<html></html>").unwrap();
    let router = server.login(login).dev_ui(interface).host("127.0.0.1").build().unwrap().router();
    (router, token.strip_prefix("Bearer ").unwrap().to_owned(), files)
}

/// Logs in with this token, and returns the cookie as a browser sends it.
async fn cookie(router: &Router, token: &str) -> String {
    let answer = send(router, Method::POST, "/login", &[HOST, OWN, FORM], &format!("token={token}")).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_logs_in_by_a_form_and_out_again() {
    let (router, token, _files) = guarded().await;
    // A person who wants to see a page is sent to the form, and back afterwards.
    let html = [HOST, ("accept", "text/html,*/*"), ("sec-fetch-site", "none")];
    let sent = get(&router, "/dev-ui/?app=demo", &html).await;
    assert_eq!(sent.status, 303);
    assert_eq!(sent.header("location"), Some("../login?next=%2Fdev%2Dui%2F%3Fapp%3Ddemo"));
    let page = get(&router, "/login?next=%2Fdev%2Dui%2F%3Fapp%3Ddemo", &html).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text.contains(r#"<input name="next" type="hidden" value="/dev-ui/?app=demo">"#), "{page:?}");
    assert!(page.text.contains(r#"method="post""#) && !page.text.contains("<script"), "{page:?}");

    let body = format!("token={token}&next=%2Fdev-ui%2F%3Fapp%3Ddemo");
    let done = send(&router, Method::POST, "/login", &[HOST, OWN, FORM], &body).await;
    assert_eq!((done.status, done.header("location")), (303, Some("./dev-ui/?app=demo")));
    let set = done.header("set-cookie").unwrap();
    assert_eq!(set, format!("scratchbook-login-8801={token}; Path=/; HttpOnly; SameSite=Strict"));
    assert!(!done.text.contains(&token) && !done.header("location").unwrap().contains(&token));

    let cookie = set.split(';').next().unwrap();
    let own = [HOST, ("cookie", cookie), ("sec-fetch-site", "same-origin")];
    assert_eq!(get(&router, "/dev-ui/", &own).await.status, 200);
    assert_eq!(get(&router, SESSION, &own).await.status, 200);
    assert_eq!(
        get(&router, "/apps/demo/users/u2/sessions/s-2", &own).await.status,
        404,
        "the token's reach is the cookie's"
    );
    assert_eq!(get(&router, "/v1/apps/demo/users/u1/sessions/s-1", &own).await.status, 200);
    let page = get(&router, "/login", &own).await;
    assert!(page.text.contains("<b>u1</b>") && page.text.contains(r#"action="./logout""#), "{page:?}");

    let out = send(&router, Method::POST, "/logout", &[HOST, OWN, ("cookie", cookie)], "").await;
    assert_eq!((out.status, out.header("location")), (303, Some("./login")));
    let forgotten: Vec<_> = out.headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap()).collect();
    assert!(forgotten.len() == 2 && forgotten.iter().all(|cookie| cookie.ends_with("Max-Age=0")), "{forgotten:?}");
    assert!(forgotten[0].starts_with("scratchbook-login-8801=;"), "{forgotten:?}");
}

#[tokio::test]
async fn the_form_loads_nothing_and_is_shown_in_no_other_page() {
    let (router, ..) = guarded().await;
    for (method, path) in [(Method::GET, "/login"), (Method::POST, "/login")] {
        let page = send(&router, method, path, &[HOST, OWN, FORM], "token=nope").await;
        let policy = page.header("content-security-policy").unwrap();
        let (style, rest) = policy.split_once("; form-action").unwrap();
        assert!(style.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(rest, " 'self'; frame-ancestors 'none'; base-uri 'none'");
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("referrer-policy"), Some("same-origin"));
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    }
}

#[tokio::test]
async fn what_is_no_token_sets_no_cookie() {
    let (router, token, _files) = guarded().await;
    for wrong in ["", "nope", "a%0d%0ab", "a%3bb", &token[1..], &"x".repeat(5000)] {
        let answer = send(&router, Method::POST, "/login", &[HOST, OWN, FORM], &format!("token={wrong}")).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None), "{wrong}");
        assert!(answer.text.contains("role=\"alert\"") && answer.header("www-authenticate").is_some(), "{answer:?}");
        assert!(wrong.len() < 10 || !answer.text.contains(wrong), "{answer:?}");
    }
    let answer = send(&router, Method::POST, "/login", &[HOST, OWN, FORM], &"x".repeat(20_000)).await;
    assert_eq!(answer.status, 413);
    for cookie in ["scratchbook-login-8801=nope", "scratchbook-login-8801=", "scratchbook-login-8801"] {
        let own = [HOST, ("cookie", cookie), ("sec-fetch-site", "same-origin")];
        assert_eq!(get(&router, SESSION, &own).await.status, 401, "{cookie}");
    }
}

#[tokio::test]
async fn no_foreign_page_can_use_the_cookie_or_log_somebody_in() {
    let (router, token, _files) = guarded().await;
    let cookie = cookie(&router, &token).await;
    let cookie = ("cookie", cookie.as_str());
    // The cookie is ignored even if the browser sends it, since pages on another port belong to the same site.
    for foreign in [
        &[("sec-fetch-site", "same-site")][..],
        &[("sec-fetch-site", "cross-site")],
        &[("origin", "http://127.0.0.1:9000")],
        &[("origin", "null")],
    ] {
        let headers = [&[HOST, cookie][..], foreign].concat();
        let read = get(&router, SESSION, &headers).await;
        assert!([401, 403].contains(&read.status) && !read.text.contains("s-1"), "{foreign:?}: {read:?}");
        for (path, body) in [(SESSION, "{}"), ("/login", "token=x"), ("/logout", "")] {
            let answer = send(&router, Method::POST, path, &headers, body).await;
            assert_eq!(answer.status, 403, "{foreign:?} {path}: {answer:?}");
            assert_eq!(answer.header("set-cookie"), None);
        }
    }
    // A write has to come from a page of this server.
    let answer = send(&router, Method::DELETE, SESSION, &[HOST, cookie], "").await;
    assert_eq!(answer.status, 401);
    assert_eq!(send(&router, Method::POST, "/login", &[HOST, FORM], &format!("token={token}")).await.status, 403);
    let own = [HOST, OWN, cookie];
    assert_eq!(send(&router, Method::DELETE, SESSION, &own, "").await.status, 200);
}

#[tokio::test]
async fn origins_that_may_call_have_to_bring_a_token_of_their_own() {
    let (files, (store, server)) = (LoginFiles::new(), demo().await);
    session(&store, "u1", "s-1").await;
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let router = server.login(login).allow_origins(["*"]).build().unwrap().router();
    let cookie = cookie(&router, token.strip_prefix("Bearer ").unwrap()).await;
    let page = [HOST, ("origin", "https://other.example")];
    let with_cookie = [&page[..], &[("cookie", cookie.as_str())]].concat();
    assert_eq!(get(&router, SESSION, &with_cookie).await.status, 401);
    assert_eq!(get(&router, SESSION, &[&page[..], &[("authorization", token.as_str())]].concat()).await.status, 200);
    let answer = send(&router, Method::POST, "/login", &[&page[..], &[FORM]].concat(), "token=x").await;
    assert_eq!((answer.status, answer.header("set-cookie")), (403, None));
    // A script can set any header, including those of proxies.
    let forged = [("forwarded", "host=other.example;proto=https"), ("x-forwarded-host", "other.example")];
    let proto = ("x-forwarded-proto", "https");
    for site in [&[][..], &[("sec-fetch-site", "same-site")], &[("sec-fetch-site", "cross-site")]] {
        for forged in [&forged[..1], &[forged[1], proto], &[forged[0], forged[1], proto]] {
            let headers = [&with_cookie[..], site, forged].concat();
            assert_eq!(get(&router, SESSION, &headers).await.status, 401, "{headers:?}");
            let headers = [&headers[..], &[FORM]].concat();
            for path in ["/login", "/logout"] {
                let answer = send(&router, Method::POST, path, &headers, "token=x").await;
                assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{path} {headers:?}");
            }
        }
    }
}

#[tokio::test]
async fn servers_on_two_ports_of_a_host_have_logins_of_their_own() {
    let (router, token, _files) = guarded().await;
    let cookie = cookie(&router, &token).await;
    for (host, status) in [("127.0.0.1:8801", 200), ("127.0.0.1:8802", 401), ("127.0.0.1", 401)] {
        let own = [("host", host), ("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
        assert_eq!(get(&router, SESSION, &own).await.status, status, "{host}");
    }
}

#[tokio::test]
async fn who_asks_whether_a_cookie_lets_in_is_counted() {
    let (files, (_, server)) = (LoginFiles::new(), demo().await);
    let (login, _) = token_of_u1(&files, &[Right::Read]);
    let limits = ServerLimits::default().with_rate(RateLimit::per_second(NonZeroU32::MIN));
    let router = server.login(login).limits(limits).build().unwrap().router();
    let page = [HOST, ("cookie", "scratchbook-login-8801=guess"), ("sec-fetch-site", "none")];
    let mut refused = 0;
    for _ in 0..20 {
        refused += u32::from(get(&router, "/login", &page).await.status == 429);
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn by_tls_the_cookie_is_this_hosts_alone() {
    let (files, (_, server)) = (LoginFiles::new(), demo().await);
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let router = server.login(login).build().unwrap().router();
    let proxied = [("x-forwarded-host", "agents.example"), ("x-forwarded-proto", "https")];
    let page =
        [&proxied[..], &[("origin", "https://agents.example"), ("sec-fetch-site", "same-origin"), FORM]].concat();
    let body = format!("token={}", token.strip_prefix("Bearer ").unwrap());
    let answer = send(&router, Method::POST, "/login", &page, &body).await;
    let set = answer.header("set-cookie").unwrap();
    assert!(set.starts_with("__Host-scratchbook-login=") && set.ends_with("; SameSite=Strict; Secure"), "{set}");
    let cookie = set.split(';').next().unwrap();
    let own = [&proxied[..], &[("cookie", cookie), ("sec-fetch-site", "same-origin")]].concat();
    assert_eq!(get(&router, "/list-apps", &own).await.status, 200);
    let plain = cookie.replace("__Host-", "");
    let own = [&proxied[..], &[("cookie", plain.as_str()), ("sec-fetch-site", "same-origin")]].concat();
    assert_eq!(get(&router, "/list-apps", &own).await.status, 401);
}

#[tokio::test]
async fn a_cookie_ends_with_its_token() {
    let (files, (_, server)) = (LoginFiles::new(), demo().await);
    let until = "1970-01-01T00:16:40Z".parse().unwrap();
    let token = NewToken::new("u1").with_rights([Right::Read]).with_expires(until).make().unwrap();
    let login = Login::new().with_tokens(files.write("tokens.toml", token.entry()));
    let (early, late) = (server.login(login.clone()).environment(shared(At(999.0))), demo().await.1.login(login));
    let cookie = cookie(&early.build().unwrap().router(), token.secret()).await;
    let own = [HOST, ("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
    let late = late.environment(shared(At(1001.0))).build().unwrap().router();
    let answer = get(&late, "/list-apps", &own).await;
    assert!(answer.status == 401 && answer.text.contains("expired"), "{answer:?}");
    let html = [&own[..], &[("accept", "text/html")]].concat();
    assert_eq!(get(&late, "/docs", &html).await.header("location"), Some("./login?next=%2Fdocs"));
}

#[tokio::test]
async fn the_root_leads_a_browser_to_the_inspector_and_no_other_client() {
    let html = [HOST, ("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let open = demo().await.1.build().unwrap().router();
    let answer = get(&open, "/", &html).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("./inspector")));
    for headers in [&[][..], &[("accept", "*/*")]] {
        let answer = get(&open, "/", headers).await;
        let expected = r#"{"detail":"Not Found","docs":"/docs","inspector":"/inspector"}"#;
        assert_eq!((answer.status, answer.text.as_str()), (404, expected));
    }
    assert_eq!(send(&open, Method::POST, "/", &html, "").await.status, 404);
    let (guarded, _, _files) = guarded().await;
    assert_eq!(get(&guarded, "/", &html).await.header("location"), Some("./login?next=%2F"));
}

#[tokio::test]
async fn where_nobody_logs_in_there_is_no_form() {
    let router = demo().await.1.build().unwrap().router();
    assert_eq!(get(&router, "/login", &[]).await.status, 404);
    assert_eq!(send(&router, Method::POST, "/logout", &[OWN, HOST], "").await.status, 404);
}

#[tokio::test]
async fn no_log_has_a_token_in_it() {
    let log = LogLines::default();
    let _listening = log.listen(Level::TRACE);
    let (router, token, _files) = guarded().await;
    let cookie = cookie(&router, &token).await;
    get(&router, SESSION, &[HOST, ("cookie", &cookie), ("sec-fetch-site", "same-origin")]).await;
    get(&router, SESSION, &[HOST, ("cookie", &cookie), ("sec-fetch-site", "same-site")]).await;
    send(&router, Method::POST, "/login", &[HOST, OWN, FORM], &format!("token={token}x")).await;
    let said = log.take();
    assert!(said.contains("/login") && !said.contains(&token), "{said}");
}
