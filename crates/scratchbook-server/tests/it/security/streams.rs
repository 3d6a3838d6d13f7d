//! Streams: how many a caller may follow, and when they end.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use futures_util::{StreamExt, stream};
use scratchbook::agent::{FunctionAgent, InvocationContext};
use scratchbook::session::AppendOptions;
use scratchbook::{Event, SessionKey, connect};
use scratchbook_server::{Login, NewToken, Right, Server, ServerLimits};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use super::{LoginFiles, bearer, demo, session, token_of_u1};

/// Sends a request, and returns the status and the stream of the answer.
async fn follow(router: &Router, request: Request<Body>) -> (u16, BodyDataStream) {
    let response = router.clone().oneshot(request).await.unwrap();
    (response.status().as_u16(), response.into_body().into_data_stream())
}

fn get(path: &str, token: &str) -> Request<Body> {
    Request::get(path).header("authorization", token).body(Body::empty()).unwrap()
}

fn post(path: &str, token: &str, body: &'static str) -> Request<Body> {
    let request = Request::post(path).header("authorization", token).header("content-type", "application/json");
    request.body(Body::from(body)).unwrap()
}

/// Returns a server with an agent that says something every second, without end.
async fn talking(login: Login) -> Server {
    let store = connect("memory:").await.unwrap();
    session(&store, "u1", "s-1").await;
    let talker = FunctionAgent::new("talker", |context: InvocationContext| {
        stream::unfold((), move |()| {
            let id = context.invocation_id().to_owned();
            async move {
                sleep(Duration::from_secs(1)).await;
                Some((Ok(Event::new("talker").with_invocation_id(id).with_content("And so on.")), ()))
            }
        })
    });
    Server::builder(store).app("demo", talker).login(login).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_stream_ends_when_its_token_is_taken_back() {
    const SESSION: &str = "/v1/apps/demo/users/u1/sessions/s-1";
    const RUN: &str = r#"{"appName":"demo","userId":"u1","sessionId":"s-1","newMessage":{"parts":[{"text":"x"}]}}"#;
    let requests = |token: &str| {
        [
            get(&format!("{SESSION}/watch"), token),
            post("/run_sse", token, RUN),
            post(&format!("{SESSION}/runs"), token, r#"{"message":"x"}"#),
        ]
    };
    for n in 0..3 {
        let files = LoginFiles::new();
        let (login, token) = token_of_u1(&files, &[Right::Read, Right::Write]);
        let server = talking(login).await;
        let request = requests(&token).into_iter().nth(n).unwrap();
        let (status, mut frames) = follow(&server.router(), request).await;
        assert_eq!(status, 200);
        for _ in 0..10 {
            assert!(frames.next().await.is_some(), "stream {n} goes on as long as the token counts");
        }
        files.write("tokens.toml", "# nobody\n");
        server.reload().unwrap();
        let end = async { while frames.next().await.is_some() {} };
        timeout(Duration::from_secs(5), end).await.unwrap_or_else(|_| panic!("stream {n} goes on"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_download_breaks_off_when_its_token_is_taken_back() {
    let files = LoginFiles::new();
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let key = SessionKey::new("demo", "u1", "s-1").unwrap();
    for _ in 0..500 {
        store.sessions.append(&key, Event::new("u1").with_content("x"), AppendOptions::default()).await.unwrap();
    }
    let (login, token) = token_of_u1(&files, &[Right::Read]);
    let server = server.login(login).build().unwrap();
    let path = "/inspector/apps/demo/users/u1/sessions/s-1/export";
    let (status, mut lines) = follow(&server.router(), get(path, &token)).await;
    assert_eq!(status, 200);
    for _ in 0..10 {
        lines.next().await.unwrap().unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    files.write("tokens.toml", "# nobody\n");
    server.reload().unwrap();
    sleep(Duration::from_secs(5)).await;
    let said = lines.next().await.unwrap().unwrap_err();
    assert!(said.to_string().contains("does not count any more"), "{said}");
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn a_login_follows_as_many_streams_as_it_may_for_each_user() {
    let files = LoginFiles::new();
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let backend = NewToken::new("backend").with_app("demo").with_rights([Right::Read]).make().unwrap();
    let login = Login::new().with_tokens(files.write("tokens.toml", backend.entry()));
    let limits = ServerLimits::default().with_streams(2);
    let router = server.login(login).limits(limits).build().unwrap().router();
    let token = bearer(backend.secret());
    let watch = |user: &str| get(&format!("/v1/apps/demo/users/{user}/watch"), &token);
    let (first, first_frames) = follow(&router, watch("u1")).await;
    let (second, _second_frames) = follow(&router, watch("u1")).await;
    let (third, mut refusal) = follow(&router, watch("u1")).await;
    assert_eq!((first, second, third), (200, 200, 429));
    let said = refusal.next().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&said).contains("2 streams are open for this token and user"), "{said:?}");
    assert_eq!(follow(&router, watch("u2")).await.0, 200, "another user's are counted for themselves");
    let (page, _) = follow(&router, get("/v1/apps/demo/users/u1/feed", &token)).await;
    assert_eq!(page, 200, "what is no stream is not counted");
    drop(first_frames);
    assert_eq!(follow(&router, watch("u1")).await.0, 200);
}

#[tokio::test]
async fn the_login_with_the_most_streams_gives_one_up_for_another() {
    let files = LoginFiles::new();
    let (_, server) = demo().await;
    let tokens = ["one", "other"].map(|name| NewToken::new(name).with_rights([Right::Read]).make().unwrap());
    let entries = tokens.each_ref().map(|token| token.entry()).join("\n");
    let login = Login::new().with_tokens(files.write("tokens.toml", entries));
    // Three quarters of the connections are for streams.
    let limits = ServerLimits::default().with_connections(4);
    let router = server.login(login).limits(limits).build().unwrap().router();
    let [one, other] = tokens.map(|token| bearer(token.secret()));
    let watch = |user: usize, token: &str| get(&format!("/v1/apps/demo/users/u{user}/watch"), token);
    let mut all = Vec::new();
    for user in 0..3 {
        let (status, frames) = follow(&router, watch(user, &one)).await;
        assert_eq!(status, 200);
        all.push(frames);
    }
    assert_eq!(follow(&router, watch(3, &one)).await.0, 429, "no login takes its own");
    let (status, _frames) = follow(&router, watch(0, &other)).await;
    assert_eq!(status, 200);
    let oldest = async { while all[0].next().await.is_some() {} };
    timeout(Duration::from_secs(10), oldest).await.expect("the oldest has ended");
    assert_eq!(follow(&router, watch(1, &other)).await.0, 429, "both have their share");
}
