//! Bodies: the caller is checked before a body is parsed, the items of a body are counted, and the memory for all
//! bodies is limited.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use scratchbook::{GetSessionConfig, SessionKey, connect};
use scratchbook_server::{Login, NewToken, Right, Server, ServerLimits};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::{LoginFiles, LoopbackServer, TextAnswer, bearer, demo, send, session};
use crate::support::answer;

const JSON: (&str, &str) = ("content-type", "application/json");
const USER: &str = "/v1/apps/demo/users/u1";
const ENGINE: &str = "/v1beta1/reasoningEngines/demo/sessions";

/// Returns a server with the session `s-1` of `u1`, and an authorization header for each of these users of `demo` with
/// these rights.
async fn world<const N: usize>(tokens: [(&str, &[Right]); N]) -> (LoginFiles, Router, [String; N]) {
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let mut n = 0;
    let made = tokens.map(|(user, rights)| {
        n += 1;
        let token = NewToken::new(format!("t{n}")).with_app("demo").with_user(user);
        token.with_rights(rights.to_vec()).make().unwrap()
    });
    let files = LoginFiles::new();
    let path = files.write("tokens.toml", made.each_ref().map(|made| made.entry().to_owned()).join("\n"));
    let server = server.login(Login::new().with_tokens(path)).build().unwrap();
    (files, server.router(), made.each_ref().map(|made| bearer(made.secret())))
}

async fn post(router: &Router, path: &str, token: &str, body: &str) -> TextAnswer {
    send(router, Method::POST, path, &[JSON, ("authorization", token)], body).await
}

fn run(user: &str, message: &str) -> String {
    format!(r#"{{"user_id":"nobody","appName":"demo","userId":"{user}","sessionId":"s-1","newMessage":{message}}}"#)
}

#[tokio::test]
async fn of_a_run_that_its_caller_may_not_begin_nothing_but_the_names_is_read() {
    let tokens = [("u1", &[Right::Read][..]), ("u2", &Right::ALL), ("u1", &Right::ALL)];
    let (_files, router, [reader, other, own]) = world(tokens).await;
    // ADK would refuse this message with many errors.
    let wrong = run("u1", r#"{"parts":[{"bogus":1}]}"#);
    for path in ["/run", "/run_sse"] {
        for (token, status, said) in [
            (&reader, 403, "the right 'write'"),
            (&other, 404, "Session not found: s-1"),
            (&own, 422, "Extra inputs are not permitted"),
        ] {
            let answer = post(&router, path, token, &wrong).await;
            assert_eq!(answer.status, status, "{path}: {}", answer.text);
            assert!(answer.text.contains(said), "{path}: {}", answer.text);
        }
        // If no name can be read, only the caller's rights are checked.
        for body in ["", "{", "[]", r#"{"appName":"demo","userId":1}"#, r#"{"appName":"","userId":"u1"}"#] {
            assert_eq!(post(&router, path, &reader, body).await.status, 403, "{path} {body}");
            assert!([400, 422].contains(&post(&router, path, &own, body).await.status), "{path} {body}");
        }
        // As in ADK, camelCase wins, and of two equal names the last one counts.
        let twice = r#"{"appName":"demo","userId":"u2","user_id":"u2","userId":"u1","sessionId":"s-1","newMessage":1}"#;
        assert_eq!(post(&router, path, &other, twice).await.status, 404);
        assert_eq!(post(&router, path, &own, twice).await.status, 422);
    }
    // The same is true for a session of Agent Engine, whose user is named by the body.
    let create = r#"{"userId":"u1","bogus":1}"#;
    assert_eq!(post(&router, ENGINE, &other, create).await.status, 404);
    assert_eq!(post(&router, ENGINE, &own, create).await.status, 400);
}

#[tokio::test]
async fn rights_are_found_out_before_the_body_is_looked_at() {
    let writes = [("u1", &[Right::Read, Right::Write][..]), ("u1", &[Right::Read])];
    let (_files, router, [writer, reader]) = world(writes).await;
    for path in ["/prune", "/sessions/s-1/prune"] {
        assert_eq!(post(&router, &format!("{USER}{path}"), &writer, "").await.status, 403, "{path}");
    }
    assert_eq!(post(&router, "/v1/prune-expired", &writer, "").await.status, 403);
    let of_reader =
        ["/sessions", "/sessions/s-1/events", "/sessions/s-1/fork", "/sessions/s-1/rewind", "/sessions/s-1/runs"];
    let paths = of_reader.map(|path| format!("{USER}{path}")).into_iter().chain([
        "/apps/demo/users/u1/sessions".to_owned(),
        "/apps/demo/users/u1/sessions/s-2".to_owned(),
        "/apps/demo/users/u1/sessions/s-1/artifacts".to_owned(),
        ENGINE.to_owned(),
        format!("{ENGINE}/s-1:appendEvent"),
    ]);
    for path in paths {
        assert_eq!(post(&router, &path, &reader, "{").await.status, 403, "{path}");
    }
    for path in [format!("{USER}/state"), format!("{USER}/sessions/s-1/state"), format!("{USER}/sessions/s-1")] {
        let answer = send(&router, Method::PATCH, &path, &[JSON, ("authorization", &reader)], "{").await;
        assert_eq!(answer.status, 403, "{path}");
    }

    // A token for a whole app needs the right to write the app's keys, whatever the body says.
    let token = NewToken::new("all").with_app("demo").with_rights([Right::Read, Right::Write]).make().unwrap();
    let files = LoginFiles::new();
    let login = Login::new().with_tokens(files.write("tokens.toml", token.entry()));
    let router = demo().await.1.login(login).build().unwrap().router();
    let token = bearer(token.secret());
    assert_eq!(post(&router, "/v1/apps/demo/prune", &token, "").await.status, 403);
    let answer = send(&router, Method::PATCH, "/v1/apps/demo/state", &[JSON, ("authorization", &token)], "").await;
    assert_eq!(answer.status, 403, "{}", answer.text);
}

#[tokio::test]
async fn too_much_of_something_is_refused_on_every_surface() {
    let limits = ServerLimits::default().with_body_events(3).with_body_parts(3).with_body_operations(3);
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let router = server.limits(limits).build().unwrap().router();
    let many = |count| vec![json!({}); count];
    let content = |count| json!({"role": "user", "parts": vec![json!({"text": "x"}); count]});
    let event = |count| json!({"author": "user", "invocationId": "i", "timestamp": "2026-01-01T00:00:00Z", "content": content(count)});
    type BodyCase<'a> = (&'a str, Box<dyn Fn(usize) -> Value + 'a>, &'a str);
    let cases: [BodyCase<'_>; 8] = [
        ("/apps/demo/users/u1/sessions", Box::new(|n| json!({"events": many(n)})), "body_events is 3"),
        ("/apps/demo/users/u1/sessions", Box::new(|n| json!({"events": [{"content": content(n)}]})), "body_parts is 3"),
        (
            "/run",
            Box::new(|n| json!({"appName": "demo", "userId": "u1", "sessionId": "s-1", "newMessage": content(n)})),
            "body_parts is 3",
        ),
        ("/v1/apps/demo/users/u1/sessions", Box::new(|n| json!({"events": many(n)})), "body_events is 3"),
        (
            "/v1/apps/demo/users/u1/sessions/s-1/events",
            Box::new(|n| json!({"event": {"author": "a", "content": content(n)}})),
            "body_parts is 3",
        ),
        (
            "/v1/apps/demo/users/u1/sessions/s-1/events",
            Box::new(|n| json!({"event": {"author": "a"}, "operations": {"n": vec![json!({"increment": 1}); n]}})),
            "body_operations is 3",
        ),
        ("/v1/apps/demo/users/u1/sessions/s-1/runs", Box::new(|n| json!({"message": content(n)})), "body_parts is 3"),
        ("/v1beta1/reasoningEngines/demo/sessions/s-1:appendEvent", Box::new(event), "body_parts is 3"),
    ];
    for (path, body, said) in cases {
        let fits = send(&router, Method::POST, path, &[JSON], &body(3).to_string()).await;
        assert!([200, 201].contains(&fits.status), "{path}: {}", fits.text);
        let refused = send(&router, Method::POST, path, &[JSON], &body(4).to_string()).await;
        assert_eq!(refused.status, 413, "{path}: {}", refused.text);
        assert!(refused.text.contains(said), "{path}: {}", refused.text);
    }
}

#[tokio::test]
async fn what_would_take_too_much_memory_is_too_large() {
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let router = server.limits(ServerLimits::default().with_body_memory(20 << 20)).build().unwrap().router();
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let many = vec![deep; 2000].join(",");
    for (path, body) in [
        ("/apps/demo/users/u1/sessions", format!(r#"{{"state":{{"a":[{many}]}}}}"#)),
        ("/run", format!(r#"{{"appName":"demo","userId":"u1","sessionId":"s-1","stateDelta":{{"a":[{many}]}}}}"#)),
        ("/v1/apps/demo/users/u1/sessions", format!(r#"{{"state":{{"a":[{many}]}}}}"#)),
        (ENGINE, format!(r#"{{"userId":"u1","sessionState":{{"a":[{many}]}}}}"#)),
    ] {
        assert!(body.len() < 1 << 20);
        let refused = send(&router, Method::POST, path, &[JSON], &body).await;
        assert_eq!(refused.status, 413, "{path}: {}", refused.text);
        assert!(refused.text.contains("body_memory is 20971520"), "{path}: {}", refused.text);
    }
}

#[tokio::test]
async fn bodies_for_which_there_is_no_room_are_sent_again_in_a_moment() {
    let limits = ServerLimits::default().with_body_memory(5 << 20).with_body_wait(Duration::from_millis(100));
    let server = LoopbackServer::start(demo().await.1.limits(limits).build().unwrap()).await;
    // One body that does not end takes all of the room for bytes.
    let mut slow = server.connect().await;
    let head = "POST /v1/apps/demo/users/u1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    slow.write_all(format!("{head}content-length: 2000000\r\n\r\n{{").as_bytes()).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let title = "x".repeat(200 << 10);
    let body = format!(r#"{{"state":{{"a":"{title}"}}}}"#);
    let large = format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let answer = server.exchange(large.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 1\r\n") && answer.contains("no room for the body"), "{answer}");
    // Small bodies are still served, and the others are served once there is room again.
    let small = format!("{head}connection: close\r\ncontent-length: 2\r\n\r\n{{}}");
    assert!(server.exchange(small.as_bytes()).await.starts_with("HTTP/1.1 201 "));
    drop(slow);
    let begun = Instant::now();
    loop {
        let answer = server.exchange(large.as_bytes()).await;
        if answer.starts_with("HTTP/1.1 201 ") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{answer}");
    }
}

/// An event of 16 MiB may be stored, and so may an artifact.
#[tokio::test]
async fn what_a_store_takes_fits_through_every_surface() {
    let store = connect("memory:").await.unwrap();
    let router = Server::builder(store.clone()).build().unwrap().router();
    for id in ["s-1", "s-2"] {
        session(&store, "u1", id).await;
    }
    let text = "x".repeat((16 << 20) - 1000);
    let content = format!(r#"{{"role":"user","parts":[{{"text":"{text}"}}]}}"#);
    let raw = format!(r#"{{"author":"user","invocationId":"i","timestamp":1767225600,"content":{content}}}"#);
    let data = "A".repeat(text.len());
    for (path, body) in [
        ("/apps/demo/users/u1/sessions", format!(r#"{{"events":[{{"author":"user","content":{content}}}]}}"#)),
        (
            "/v1/apps/demo/users/u1/sessions/s-1/events",
            format!(r#"{{"event":{{"author":"user","content":{content}}}}}"#),
        ),
        (
            "/v1beta1/reasoningEngines/demo/sessions/s-2:appendEvent",
            format!(
                r#"{{"author":"user","invocationId":"i","timestamp":"2026-01-01T00:00:00Z","content":{content},"rawEvent":{raw}}}"#
            ),
        ),
        (
            "/apps/demo/users/u1/sessions/s-1/artifacts",
            format!(r#"{{"filename":"a","artifact":{{"inlineData":{{"data":"{data}","mimeType":"a/b"}}}}}}"#),
        ),
    ] {
        let answer = send(&router, Method::POST, path, &[JSON], &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text.get(..300).unwrap_or(&answer.text));
    }
}

/// A time limit from outside ends a request only where it waits, so the work itself has to look at it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_past_its_time_limit_is_not_carried_out_any_further() {
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let limits = ServerLimits::default().with_answer_time(Duration::from_millis(1));
    let router = server.limits(limits).build().unwrap().router();
    let body = json!({"author": "x", "operations": {"n": vec![json!({"increment": 1}); 99_000]}}).to_string();
    let path = "/v1/apps/demo/users/u1/sessions/s-1/state";
    let answer = send(&router, Method::PATCH, path, &[JSON], &body).await;
    assert_eq!(answer.status, 503, "{}", answer.text);
    sleep(Duration::from_secs(3)).await;
    let key = SessionKey::new("demo", "u1", "s-1").unwrap();
    let now = store.sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!((now.events().len(), now.state().get("n")), (0, None));
}

#[tokio::test]
async fn a_name_that_is_empty_is_no_path() {
    let (_, server) = demo().await;
    let router = server.build().unwrap().router();
    for path in ["/apps/a/users//sessions", "/apps//users/u/sessions", "/apps/a/users//sessions/s"] {
        for method in [Method::GET, Method::POST] {
            let answer = send(&router, method.clone(), path, &[JSON], "{}").await;
            assert_eq!((answer.status, answer.text.as_str()), (404, r#"{"detail":"Not Found"}"#), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn mark_at_the_start_of_a_body_is_skipped_and_other_encodings_are_refused_by_name() {
    let (_files, router, [token]) = world([("u1", &Right::ALL)]).await;
    let json = r#"{"stateDelta":{"k":1},"appName":"demo","userId":"u1","sessionId":"s-1"}"#;
    let routes = [
        (Method::PATCH, "/apps/demo/users/u1/sessions/s-1", r#"{"stateDelta":{"k":1}}"#),
        (Method::POST, "/run", json),
        (Method::POST, "/v1/apps/demo/users/u1/sessions", r#"{"state":{"k":1}}"#),
        (Method::POST, ENGINE, r#"{"userId":"u1"}"#),
    ];
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (method, path, body) in routes {
        let ask = async |bytes: Vec<u8>, more: &[(&str, &str)]| {
            let mut request = Request::builder().method(&method).uri(path).header("authorization", &token);
            for (name, value) in [JSON].iter().chain(more) {
                request = request.header(*name, *value);
            }
            let answer = answer(&router, request.body(Body::from(bytes)).unwrap()).await;
            (answer.status, answer.text().to_owned())
        };
        let marked = ask([b"\xef\xbb\xbf", body.as_bytes()].concat(), &[]).await;
        assert!(marked.0 < 300, "{path}: {marked:?}");
        for (bytes, headers, name) in [
            (utf16(body), &[][..], "got UTF-16"),
            ([b"\xff\xfe".to_vec(), utf16(body)].concat(), &[], "got UTF-16"),
            (vec![0x1f, 0x8b, 8, 0], &[], "got 'gzip'"),
            (body.into(), &[("content-encoding", "br")], "got 'br'"),
        ] {
            let refused = ask(bytes, headers).await;
            assert!(refused.0 == 400 && refused.1.contains(name), "{path} {name}: {refused:?}");
        }
        assert_ne!(ask(body.into(), &[("content-encoding", "identity")]).await.0, 400, "{path}");
    }
    // The bytes of an artifact are kept as they are.
    let path = "/v1/apps/demo/users/u1/sessions/s-1/artifacts/a.json";
    let marked = b"\xef\xbb\xbf{}";
    let put = Request::put(path).header("authorization", &token).header(JSON.0, JSON.1);
    assert!(answer(&router, put.body(Body::from(marked.to_vec())).unwrap()).await.status < 300);
    let stored = Request::get(path).header("authorization", &token).body(Body::empty()).unwrap();
    assert_eq!(*answer(&router, stored).await.body, *marked);
}
