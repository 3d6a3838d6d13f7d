//! What a token reaches, tried on every route.

mod credentials;
mod isolation;
mod pages;
mod rights;
pub(crate) mod routes;
mod timing;
mod tricks;

use std::fs;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use scratchbook::content::Part;
use scratchbook::model::ScriptedLlm;
use scratchbook::session::StateOwner;
use scratchbook::{CreateSessionConfig, Event, GetSessionConfig, LlmAgent, SessionKey, StateDelta, Store, connect};
use scratchbook_server::{Login, NewToken, Right, Server};
use serde_json::json;
use tower::ServiceExt;

use super::{LoginFiles, TextAnswer, bearer};

/// A text that only `u2` may see, wherever it is stored.
const SECRET: &str = "this-belongs-to-u2";

/// The tokens of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestToken {
    /// For the user `u1` of the app `demo`, with all rights.
    U1,
    /// For the user `u2` of the app `demo`, with all rights. The tests look for the data of this user.
    U2,
    /// For the app `demo`.
    Demo,
    /// For the app `other`.
    Other,
    /// For the user `u2` of the app `other`.
    U2OfOther,
    /// For all apps.
    All,
    /// For the user `u2` of the app `demo`, with the right to read only.
    Reader,
    /// As `Reader`, but with the right to write only.
    Writer,
    /// As `Reader`, but without any right.
    Nobody,
    /// For the app `demo`, without the rights `app` and `admin`.
    Plain,
}

const TOKENS: [TestToken; 10] = [
    TestToken::U1,
    TestToken::U2,
    TestToken::Demo,
    TestToken::Other,
    TestToken::U2OfOther,
    TestToken::All,
    TestToken::Reader,
    TestToken::Writer,
    TestToken::Nobody,
    TestToken::Plain,
];

impl TestToken {
    fn to_be_made(self) -> NewToken {
        let token = NewToken::new(format!("{self:?}")).with_rights(Right::ALL);
        let of_u2 = || NewToken::new(format!("{self:?}")).with_app("demo").with_user("u2");
        match self {
            Self::U1 => token.with_app("demo").with_user("u1"),
            Self::U2 => token.with_app("demo").with_user("u2"),
            Self::Demo => token.with_app("demo"),
            Self::Other => token.with_app("other"),
            Self::U2OfOther => token.with_app("other").with_user("u2"),
            Self::All => token,
            Self::Reader => of_u2().with_rights([Right::Read]),
            Self::Writer => of_u2().with_rights([Right::Write]),
            Self::Nobody => of_u2().with_rights([]),
            Self::Plain => token.with_app("demo").with_rights([Right::Read, Right::Write]),
        }
    }
}

/// A server with two apps and two users, each with a session `s-1` or `s-2`.
struct ReachServer {
    store: Store,
    router: Router,
    tokens: Vec<(TestToken, String)>,
}

impl ReachServer {
    async fn new() -> Self {
        Self::over(connect("memory:").await.unwrap()).await
    }

    async fn over(store: Store) -> Self {
        let made: Vec<_> = TOKENS.map(|token| (token, token.to_be_made().make().unwrap())).into();
        let files = LoginFiles::new();
        let entries: Vec<_> = made.iter().map(|(_, made)| made.entry()).collect();
        let login = Login::new().with_tokens(files.write("tokens.toml", entries.join("\n")));
        let tokens = made.iter().map(|(token, made)| (*token, bearer(made.secret()))).collect();
        let replies = ScriptedLlm::new(["Hello."; 10]);
        let agent = LlmAgent::builder("demo_agent").model(replies).build().unwrap();
        let hidden = LlmAgent::builder("agent_of_other").model(ScriptedLlm::new(["Hello."])).build().unwrap();
        let interface = LoginFiles::new();
        fs::write(interface.folder.path().join("index.html"), "<html></html>").unwrap();
        let server = Server::builder(store.clone()).app("demo", agent).app("other", hidden).login(login);
        let server = server.dev_ui(interface.folder.path()).metrics(String::new).build().unwrap();
        let world = Self { store, router: server.router(), tokens };
        world.fill().await;
        world
    }

    async fn fill(&self) {
        let sessions = &self.store.sessions;
        for (user, id, secret) in [("u1", "s-1", "of u1"), ("u2", "s-2", SECRET)] {
            let event = Event::new("user")
                .with_id(format!("ev-{user}"))
                .with_invocation_id(format!("i-{user}"))
                .with_timestamp(1_700_000_000.0)
                .with_content(secret)
                .with_state_delta(
                    StateDelta::new().with("secret", secret).unwrap().with("user:secret", secret).unwrap(),
                );
            let config = CreateSessionConfig::default().with_session_id(id).with_title(secret).with_events(vec![event]);
            sessions.create_session("demo", user, config).await.unwrap();
            let delta = StateDelta::new().with("app:shared", user).unwrap();
            let event = Event::new("user").with_invocation_id(format!("i-{user}-2")).with_state_delta(delta);
            sessions.append(&key(user, id), event, Default::default()).await.unwrap();
            let artifacts = &self.store.artifacts;
            artifacts
                .save_artifact(&key(user, id), "secret.txt", Part::text(secret), Default::default())
                .await
                .unwrap();
        }
        // The server remembers this run.
        let run = json!({"message": "Hello", "invocationId": "i-run"}).to_string();
        let path = "/v1/apps/demo/users/u2/sessions/s-2/runs";
        assert_eq!(self.send(TestToken::U2, Method::POST, path, &run).await.status, 200);
    }

    /// Sends a request with a token. If the answer is a stream that does not end, only its first frames are read.
    async fn send(&self, token: TestToken, method: Method, path: &str, body: &str) -> TextAnswer {
        self.send_with(token, method, path, &[], body).await
    }

    async fn send_with(
        &self,
        token: TestToken,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TextAnswer {
        let (_, header) = self.tokens.iter().find(|(other, _)| *other == token).unwrap();
        let mut request = Request::builder().method(method).uri(path).header("authorization", header);
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut stream = response.into_body().into_data_stream();
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = tokio::time::timeout(Duration::from_millis(200), stream.next()).await {
            bytes.extend_from_slice(&chunk.unwrap());
        }
        TextAnswer { status, headers, text: String::from_utf8(bytes).unwrap() }
    }

    /// Returns everything that is stored of a user.
    async fn all_of(&self, user: &str) -> String {
        let mut out = String::new();
        let sessions = &self.store.sessions;
        let list = scratchbook::session::ListSessionsConfig::default().with_user_id(user).with_page_size(1000);
        for listed in sessions.list_sessions("demo", &list).await.unwrap().sessions {
            let session = sessions.get_session(listed.key(), &GetSessionConfig::default()).await.unwrap().unwrap();
            out += &format!(
                "{} {:?} {:?} {:?}\n",
                json!(session),
                session.title(),
                session.labels(),
                session.expire_time()
            );
            for name in self.store.artifacts.list_artifacts(listed.key()).await.unwrap() {
                let part = self.store.artifacts.load_artifact(listed.key(), &name, None).await.unwrap();
                out += &format!("{name} {}\n", json!(part));
            }
        }
        let owner = StateOwner::user("demo", user).unwrap();
        out + &json!(sessions.get_state(&owner).await.unwrap()).to_string()
    }
}

fn key(user: &str, id: &str) -> SessionKey {
    SessionKey::new("demo", user, id).unwrap()
}

/// Returns whether an answer has the text that only `u2` may see, in plain text or in base64.
fn tells(answer: &TextAnswer) -> bool {
    let encoded = STANDARD.encode(SECRET);
    // In base64 only data that begins with the secret is recognized.
    answer.text.contains(SECRET) || answer.text.contains(&encoded[..16])
}
