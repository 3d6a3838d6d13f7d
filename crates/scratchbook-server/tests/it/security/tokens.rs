//! Tokens from a file.

use std::fs;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use futures_util::StreamExt;
use scratchbook::ErrorKind;
use scratchbook_server::{Login, NewToken, Right, Server};
use tower::ServiceExt;

use super::{At, LoginFiles, bearer, demo, get, send, session, shared, token_of_u1};

#[tokio::test]
async fn without_a_token_nothing_but_health_answers() {
    let files = LoginFiles::new();
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let router = server.login(token_of_u1(&files, &[Right::Read]).0).build().unwrap().router();
    assert_eq!(get(&router, "/health", &[]).await.status, 200);
    for path in ["/list-apps", "/apps/demo/users/u1/sessions/s-1", "/nowhere", "/health/", "//health", "/"] {
        let answer = get(&router, path, &[]).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        assert!(answer.json()["detail"].is_string(), "{path}");
    }
    let answer = get(&router, "/v1/apps/demo/users/u1/sessions/s-1", &[]).await;
    assert_eq!((answer.status, answer.json()["error"]["kind"].as_str()), (401, Some("unauthenticated")));
    let answer = send(&router, Method::OPTIONS, "/list-apps", &[], "").await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn a_token_opens_what_is_its_own() {
    let files = LoginFiles::new();
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    session(&store, "u2", "s-2").await;
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let router = server.login(login).build().unwrap().router();
    let token = [("authorization", token.as_str())];
    assert_eq!(get(&router, "/apps/demo/users/u1/sessions/s-1", &token).await.status, 200);
    assert_eq!(get(&router, "/apps/demo/users/u2/sessions/s-2", &token).await.status, 404);
    assert_eq!(get(&router, "/apps/other/users/u1/sessions/s-1", &token).await.status, 404);
}

#[tokio::test]
async fn what_is_no_token_is_refused() {
    let files = LoginFiles::new();
    let (_, server) = demo().await;
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let router = server.login(login).build().unwrap().router();
    let secret = token.strip_prefix("Bearer ").unwrap();
    let wrong = [
        format!("Bearer {}", &secret[1..]),
        format!("Bearer {secret}x"),
        format!("Basic {secret}"),
        secret.to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer a.b.c".to_owned(),
        format!("Bearer {secret}, Bearer {secret}"),
    ];
    for header in &wrong {
        let answer = get(&router, "/list-apps", &[("authorization", header)]).await;
        assert_eq!(answer.status, 401, "{header}");
        assert_eq!(answer.header("www-authenticate"), Some(r#"Bearer error="invalid_token""#), "{header}");
        assert!(!answer.text.contains(secret), "{header}");
    }
    let twice = [("authorization", token.as_str()), ("authorization", token.as_str())];
    assert_eq!(get(&router, "/list-apps", &twice).await.status, 401);
    assert_eq!(get(&router, &format!("/list-apps?access_token={secret}"), &[]).await.status, 401);
    for header in [format!("bearer {secret}"), format!("BEARER  {secret} ")] {
        assert_eq!(get(&router, "/list-apps", &[("authorization", &header)]).await.status, 200, "{header}");
    }
}

#[tokio::test]
async fn a_token_ends_when_it_expires() {
    let files = LoginFiles::new();
    let token = NewToken::new("short").with_expires("2027-01-31T12:00:00+01:00".parse().unwrap()).make().unwrap();
    let path = files.write("tokens.toml", token.entry());
    let at = "2027-01-31T11:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second() as f64;
    for (now, status) in [(at - 1.0, 200), (at, 401)] {
        let (_, server) = demo().await;
        let server = server.login(Login::new().with_tokens(&path)).environment(shared(At(now)));
        let router = server.build().unwrap().router();
        let header = bearer(token.secret());
        assert_eq!(get(&router, "/list-apps", &[("authorization", &header)]).await.status, status);
    }
}

#[tokio::test]
async fn a_token_taken_from_the_file_opens_nothing_any_more() {
    let files = LoginFiles::new();
    let (_, server) = demo().await;
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let server = server.login(login).build().unwrap();
    let (router, token) = (server.router(), [("authorization", token.as_str())]);
    assert_eq!(get(&router, "/list-apps", &token).await.status, 200);

    files.write("tokens.toml", "# nobody\n");
    server.reload().unwrap();
    assert_eq!(get(&router, "/list-apps", &token).await.status, 401);

    // The server also reads the file without such a call.
    let (_, token) = token_of_u1(&files, &[Right::Read]);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(get(&router, "/list-apps", &[("authorization", &token)]).await.status, 200);
}

#[cfg(unix)]
#[tokio::test]
async fn tokens_file_that_blocks_or_is_too_large_is_refused_and_the_old_tokens_stay() {
    let files = LoginFiles::new();
    let (_, server) = demo().await;
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let server = server.login(login).build().unwrap();
    let (router, token) = (server.router(), [("authorization", token.as_str())]);
    let path = files.write("other", "");
    let path = path.with_file_name("tokens.toml");

    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = server.reload().unwrap_err();
    assert!(error.to_string().contains("must be a regular file"), "{error}");
    // The server also looks without such a call, and must not wait for a writer of the FIFO.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(get(&router, "/list-apps", &token).await.status, 200);

    fs::remove_file(&path).unwrap();
    fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let error = server.reload().unwrap_err();
    assert!(error.to_string().contains("must have at most 1048576 bytes"), "{error}");
    assert_eq!(get(&router, "/list-apps", &token).await.status, 200);

    fs::write(&path, " ".repeat(1 << 20)).unwrap();
    server.reload().unwrap();
    assert_eq!(get(&router, "/list-apps", &token).await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_token_is_taken_back() {
    let files = LoginFiles::new();
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let server = server.login(login).build().unwrap();
    let request = Request::get("/v1/apps/demo/users/u1/sessions/s-1/watch").header("authorization", &token);
    let response = server.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let mut frames = response.into_body().into_data_stream();
    for _ in 0..5 {
        assert!(frames.next().await.is_some(), "it goes on as long as the token counts");
    }
    files.write("tokens.toml", "# nobody\n");
    server.reload().unwrap();
    let end = async { while frames.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), end).await.expect("it ends");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_leaves_what_was() {
    let files = LoginFiles::new();
    let (_, server) = demo().await;
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let server = server.login(login).build().unwrap();
    let path = files.write("tokens.toml", "[[token]\n");
    assert_eq!(server.reload().unwrap_err().kind(), ErrorKind::InvalidArgument);
    fs::remove_file(path).unwrap();
    assert_eq!(server.reload().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(get(&server.router(), "/list-apps", &[("authorization", &token)]).await.status, 200);
}

#[tokio::test]
async fn a_file_of_tokens_that_is_wrong_is_refused_with_the_reason() {
    let hash = "a".repeat(64);
    let cases = [
        ("[[token]\n".to_owned(), "line 1"),
        (format!("[[token]]\nname = \"a\"\nsha256 = \"{hash}\"\n"), "missing field `rights`"),
        (format!("[[token]]\nname = \"a\"\nsha256 = \"{hash}\"\nrights = [\"all\"]\n"), "there is no right 'all'"),
        (format!("[[token]]\nname = \"\"\nsha256 = \"{hash}\"\nrights = []\n"), "has no name"),
        ("[[token]]\nname = \"a\"\nsha256 = \"secret\"\nrights = []\n".to_owned(), "64 digits"),
        (format!("[[token]]\nname = \"a\"\nsha256 = \"{hash}\"\nrights = []\nscope = 1\n"), "unknown field `scope`"),
        (format!("[[token]]\nname = \"a\"\nsha256 = \"{hash}\"\nrights = []\nexpires = 2027-01-01\n"), "its offset"),
        (format!("{0}{0}", format!("[[token]]\nname = \"a\"\nsha256 = \"{hash}\"\nrights = []\n")), "two tokens 'a'"),
    ];
    for (text, reason) in cases {
        let files = LoginFiles::new();
        let (_, server) = demo().await;
        let error = server.login(Login::new().with_tokens(files.write("t.toml", &text))).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(reason), "{text}: {error}");
        assert!(!error.to_string().contains(&hash), "{error}");
    }
    let (_, server) = demo().await;
    assert_eq!(server.login(Login::new()).build().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_new_token_is_random_and_its_entry_is_read_back() {
    let (one, two) = (NewToken::new("a").make().unwrap(), NewToken::new("a").make().unwrap());
    assert_ne!(one.secret(), two.secret());
    assert!(one.secret().starts_with("scratchbook_") && one.secret().len() == 12 + 43, "{}", one.secret());
    assert!(!one.entry().contains(one.secret()) && !format!("{one:?}").contains(one.secret()));

    let odd = NewToken::new("it's \"odd\" \\ \u{1f600}").with_app("a\"b").with_user("\\").with_rights(Right::ALL);
    let odd = odd.make().unwrap();
    let files = LoginFiles::new();
    let (_, server) = demo().await;
    let login = Login::new().with_tokens(files.write("tokens.toml", odd.entry()));
    let router = server.login(login).build().unwrap().router();
    let answer = get(&router, "/apps/a%22b/users/%5C/sessions/x", &[("authorization", &bearer(odd.secret()))]).await;
    assert_eq!((answer.status, answer.json()["detail"].as_str()), (404, Some("Session not found")));
    assert_eq!(NewToken::new("a\nb").make().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn without_a_login_only_this_machine_is_served() {
    let files = LoginFiles::new();
    let (_, open) = demo().await;
    let (_, closed) = demo().await;
    let (open, closed) = (open.build().unwrap(), closed.login(token_of_u1(&files, &[]).0).build().unwrap());
    for address in ["0.0.0.0:1", "[::]:1", "192.168.0.7:1", "[2001:db8::1]:1", "[::ffff:10.0.0.1]:1"] {
        let error = open.check_address(address.parse().unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        assert!(error.to_string().contains("--tokens"), "{error}");
        closed.check_address(address.parse().unwrap()).unwrap();
    }
    for address in ["127.0.0.1:1", "127.3.4.5:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        open.check_address(address.parse().unwrap()).unwrap();
    }
    let everywhere = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let error = Server::run(open, everywhere, std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
}
