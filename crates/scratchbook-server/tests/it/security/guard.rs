//! Pages of other origins, and what browsers may do. A number in a test is the number of the recorded exchange with
//! google-adk 2.13.0.

use axum::Router;
use axum::http::Method;
use scratchbook::ErrorKind;
use scratchbook_server::Right;

use super::{LoginFiles, TextAnswer, demo, get, send, token_of_u1};

const OWN: &str = "127.0.0.1:8801";
const UI: &str = "http://ui.example:4200";

async fn router(origins: &[&str]) -> Router {
    let (_, server) = demo().await;
    server.host("127.0.0.1").allow_origins(origins.to_vec()).build().unwrap().router()
}

async fn list_apps(router: &Router, host: &str, more: &[(&str, &str)]) -> TextAnswer {
    get(router, "/list-apps", &[&[("host", host)], more].concat()).await
}

fn assert_forbidden(answer: &TextAnswer, text: &str) {
    assert_eq!((answer.status, answer.text.as_str()), (403, text));
    assert_eq!(answer.header("content-type"), Some("text/plain"));
}

#[tokio::test]
async fn an_allowed_origin_is_told_so() {
    let router = router(&[UI]).await;
    // 140
    let answer = list_apps(&router, OWN, &[("origin", UI)]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some(UI));
    assert_eq!(answer.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(answer.header("vary"), Some("Origin"));
    // 143: the server's own origin.
    let answer = list_apps(&router, OWN, &[("origin", "http://127.0.0.1:8801")]).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
    assert_eq!(answer.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(answer.header("vary"), Some("Origin"));
    // 146: no origin.
    let answer = list_apps(&router, "localhost:8801", &[]).await;
    assert_eq!((answer.status, answer.header("vary")), (200, Some("Origin")));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn a_browser_that_asks_is_answered() {
    let router = router(&[UI]).await;
    // 139
    let asked = [
        ("host", OWN),
        ("origin", UI),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    let answer = send(&router, Method::OPTIONS, "/list-apps", &asked, "").await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "OK"));
    for (name, value) in [
        ("access-control-allow-methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, QUERY"),
        ("access-control-max-age", "600"),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-origin", UI),
        ("access-control-allow-headers", "content-type"),
        ("content-type", "text/plain; charset=utf-8"),
        (
            "vary",
            "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, \
             Access-Control-Request-Private-Network",
        ),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let odd = [("host", OWN), ("origin", UI), ("access-control-request-method", "BREW")];
    let answer = send(&router, Method::OPTIONS, "/list-apps", &odd, "").await;
    assert_eq!((answer.status, answer.text.as_str()), (400, "Disallowed CORS method"));
}

#[tokio::test]
async fn a_foreign_origin_is_refused_for_reads_too() {
    for router in [router(&[UI]).await, router(&[]).await] {
        let evil = [("host", OWN), ("origin", "http://evil.example")];
        // 142, 144, 141
        assert_forbidden(&get(&router, "/list-apps", &evil).await, "Forbidden: origin not allowed");
        let posted = send(&router, Method::POST, "/apps/demo/users/u1/sessions", &evil, "{}").await;
        assert_forbidden(&posted, "Forbidden: origin not allowed");
        let asks = [&evil[..], &[("access-control-request-method", "POST")]].concat();
        let asked = send(&router, Method::OPTIONS, "/list-apps", &asks, "").await;
        assert_forbidden(&asked, "Forbidden: origin not allowed");
        for origin in ["null", "", "http://127.0.0.1:8801.evil.example", "https://127.0.0.1:8801", "file://"] {
            let answer = list_apps(&router, OWN, &[("origin", origin)]).await;
            assert_forbidden(&answer, "Forbidden: origin not allowed");
        }
    }
    let router = router(&[]).await;
    // 147: another port of this machine is another origin.
    let answer = list_apps(&router, "127.0.0.1:8802", &[("origin", "http://localhost:4200")]).await;
    assert_forbidden(&answer, "Forbidden: origin not allowed");
    // 148: if no origin is allowed, a preflight gets no CORS headers.
    let asks =
        [("host", "127.0.0.1:8802"), ("origin", "http://127.0.0.1:8802"), ("access-control-request-method", "POST")];
    let answer = send(&router, Method::OPTIONS, "/list-apps", &asks, "").await;
    assert_eq!((answer.status, answer.json()["detail"].as_str()), (405, Some("Method Not Allowed")));
}

/// google-adk serves exchange 149. We refuse it, because our documentation says that foreign pages may not even read.
#[tokio::test]
async fn a_foreign_page_is_refused_without_an_origin_too() {
    for (router, vary) in [(router(&[]).await, None), (router(&[UI]).await, Some("Origin"))] {
        for site in ["cross-site", "same-site"] {
            let picture = [("sec-fetch-site", site), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
            assert_forbidden(&list_apps(&router, OWN, &picture).await, "Forbidden: origin not allowed");
            assert_forbidden(&list_apps(&router, OWN, &picture[..1]).await, "Forbidden: origin not allowed");
            let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
            let followed = get(&router, "/docs", &[&[("host", OWN)], &link[..]].concat()).await;
            assert_eq!(followed.status, 200, "a link leads to a page");
            assert_forbidden(&list_apps(&router, OWN, &link).await, "Forbidden: origin not allowed");
            let frame = [("host", OWN), link[0], link[1], ("sec-fetch-dest", "iframe")];
            assert_forbidden(&get(&router, "/docs", &frame).await, "Forbidden: origin not allowed");
            let form = send(&router, Method::POST, "/docs", &[&[("host", OWN)], &link[..]].concat(), "").await;
            assert_forbidden(&form, "Forbidden: origin not allowed");
        }
        // Requests of the server's own page, of a person who types the address, and of a client that is no browser.
        for site in [&[("sec-fetch-site", "same-origin")][..], &[("sec-fetch-site", "none")], &[]] {
            let answer = list_apps(&router, OWN, site).await;
            assert_eq!((answer.status, answer.header("vary")), (200, vary));
        }
    }
    // Pages that are allowed send their origin.
    let page = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors"), ("origin", UI)];
    assert_eq!(list_apps(&router(&[UI]).await, OWN, &page).await.status, 200);
    let picture = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
    assert_eq!(list_apps(&router(&["*"]).await, OWN, &picture).await.status, 200, "all pages may call");
}

#[tokio::test]
async fn a_foreign_host_is_refused_on_loopback() {
    let router = router(&[UI]).await;
    // 145
    for host in ["evil.example", "127.0.0.1:80.evil.example", "127.0.0.1, evil.example", "10.0.0.1", ""] {
        assert_forbidden(&list_apps(&router, host, &[]).await, "Forbidden: host not allowed");
    }
    assert_forbidden(&list_apps(&router, OWN, &[("host", OWN)]).await, "Forbidden: host not allowed");
    // If the address names a host, that host counts.
    let answer = get(&router, "http://evil.example/list-apps", &[("host", OWN)]).await;
    assert_forbidden(&answer, "Forbidden: host not allowed");
    assert_eq!(get(&router, "http://127.0.0.1:8801/list-apps", &[("host", OWN)]).await.status, 200);
    // The host of an allowed origin is accepted, as it is needed behind a proxy on this machine.
    for host in ["localhost", "LOCALHOST:1", "[::1]:8801", "127.0.0.2", "ui.example"] {
        assert_eq!(list_apps(&router, host, &[]).await.status, 200, "{host}");
    }
    assert_eq!(get(&router, "/list-apps", &[]).await.status, 200, "no browser leaves it out");
    let (_, elsewhere) = demo().await;
    let elsewhere = elsewhere.host("10.0.0.1").build().unwrap().router();
    assert_eq!(list_apps(&elsewhere, "shop.example", &[]).await.status, 200);
}

#[tokio::test]
async fn origins_match_whole_expressions() {
    let router = router(&[r"regex:https://.*\.shop\.example"]).await;
    for (origin, status) in [
        ("https://a.shop.example", 200),
        ("https://a.shop.example.evil.example", 403),
        ("https://a.shopXexample", 403),
        ("http://a.shop.example", 403),
    ] {
        assert_eq!(list_apps(&router, OWN, &[("origin", origin)]).await.status, status, "{origin}");
    }
    let (_, server) = demo().await;
    assert_eq!(server.allow_origins(["regex:("]).build().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let (_, server) = demo().await;
    assert_eq!(server.allow_origins(["shop.example"]).build().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn every_origin_may_where_that_was_said() {
    let router = router(&["*"]).await;
    let answer = list_apps(&router, "any.example", &[("origin", "http://any.example")]).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("http://any.example")));
}

#[tokio::test]
async fn a_proxy_tells_what_was_asked_for() {
    let (_, server) = demo().await;
    let router = server.host("10.0.0.1").build().unwrap().router();
    let origin = ("origin", "https://shop.example");
    let proxy = [("x-forwarded-host", "shop.example"), ("x-forwarded-proto", "https"), origin];
    assert_eq!(list_apps(&router, "10.0.0.1:8000", &proxy).await.status, 200);
    let proxy = [("forwarded", r#"for=1.2.3.4;Proto=HTTPS;host="shop.example""#), origin];
    assert_eq!(list_apps(&router, "10.0.0.1:8000", &proxy).await.status, 200);
    assert_eq!(list_apps(&router, "10.0.0.1:8000", &[origin]).await.status, 403);
}

#[tokio::test]
async fn a_browser_asks_without_a_token() {
    let files = LoginFiles::new();
    let (_, server) = demo().await;
    let router = server.login(token_of_u1(&files, &[Right::Read]).0).allow_origins([UI]).build().unwrap().router();
    let asks =
        [("origin", UI), ("access-control-request-method", "GET"), ("access-control-request-headers", "authorization")];
    let answer = send(&router, Method::OPTIONS, "/list-apps", &asks, "").await;
    assert_eq!((answer.status, answer.header("access-control-allow-headers")), (200, Some("authorization")));
    // A page of an allowed origin can read why it was refused.
    let answer = get(&router, "/list-apps", &[("origin", UI)]).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (401, Some(UI)));
    let answer = get(&router, "/list-apps", &[("origin", "http://evil.example")]).await;
    assert_forbidden(&answer, "Forbidden: origin not allowed");
}

#[tokio::test]
async fn every_answer_says_that_it_is_what_it_says() {
    let router = router(&[]).await;
    for path in ["/health", "/nowhere", "/apps/demo/users/u1/sessions/x"] {
        let answer = get(&router, path, &[]).await;
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
    let answer = list_apps(&router, "evil.example", &[]).await;
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let page = get(&router, "/docs", &[]).await;
    assert_eq!(page.header("x-frame-options"), Some("SAMEORIGIN"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
}
