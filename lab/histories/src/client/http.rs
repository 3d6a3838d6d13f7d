//! A client of a server's `/v1`.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode};
use scratchbook::SessionKey;
use scratchbook::session::StateOwner;
use serde_json::{Map, Value, json};

use super::{
    CallFailure, CommittedEvent, CursorForm, EventAppend, FeedEvent, FeedPart, HistoryClient, Lists, SeenVersion,
    StateView, lists_in,
};

use crate::faults::FaultError;

/// How long a call may take before its outcome counts as unknown.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a verification may take, which reads a whole log.
const VERIFICATION: Duration = Duration::from_secs(600);

/// Calls a server over HTTP.
#[derive(Clone, Debug)]
pub struct HttpClient {
    base: String,
    client: reqwest::Client,
}

impl HttpClient {
    /// Creates a client of the server at a base URL, such as `http://127.0.0.1:8000`. Each request carries the bearer
    /// token, if there is one.
    ///
    /// # Errors
    ///
    /// The token has a character that a header cannot have, or the system provides no sockets or random numbers.
    pub fn new(base: &str, token: Option<&str>) -> Result<Self, FaultError> {
        // reqwest needs a provider for TLS, even for URLs without TLS. An error means that there is a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let token = token.map(|token| HeaderValue::try_from(format!("Bearer {token}"))).transpose()?;
        let headers = token.into_iter().map(|token| (AUTHORIZATION, token)).collect();
        let client = reqwest::Client::builder().timeout(PATIENCE).no_proxy().default_headers(headers).build()?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), client })
    }

    fn at(&self, method: Method, session: &SessionKey, rest: &str) -> RequestBuilder {
        let (app, user, id) = (session.app_name(), session.user_id(), session.session_id());
        self.client.request(
            method,
            format!(
                "{}/v1/apps/{app}/users/{user}/sessions{}",
                self.base,
                match rest {
                    "" => String::new(),
                    "/" => format!("/{id}"),
                    rest => format!("/{id}/{rest}"),
                }
            ),
        )
    }
}

#[async_trait]
impl HistoryClient for HttpClient {
    fn cursor_form(&self) -> CursorForm {
        CursorForm::Http
    }

    async fn create(&self, session: &SessionKey) -> Result<(), CallFailure> {
        let request = self.at(Method::POST, session, "").json(&json!({"id": session.session_id()}));
        match request.send().await {
            Ok(answer) if answer.status() == StatusCode::CONFLICT => Ok(()),
            answer => body_of(answer).await.map(drop),
        }
    }

    async fn append(&self, session: &SessionKey, append: &EventAppend) -> Result<CommittedEvent, CallFailure> {
        let steps = append.elements.iter().map(|(key, element)| (key.clone(), json!([{"append": element}])));
        let mut body = json!({
            "event": {"id": append.event_id, "author": "histories"},
            "operations": steps.collect::<Map<_, _>>(),
        });
        match &append.seen {
            Some(SeenVersion::Json(seen)) => {
                body["conflict"] = json!("by_key");
                body["seen"] = seen.clone();
            }
            Some(SeenVersion::Library(_)) => {
                return Err(CallFailure::Refused("the version is another client's".to_owned()));
            }
            None => {}
        }
        let answer = body_of(self.at(Method::POST, session, "events").json(&body).send().await).await?;
        let event = &answer["event"];
        Ok(CommittedEvent { seq: event["seq"].as_u64().unwrap_or_default(), lists: changes_of(event) })
    }

    async fn read(&self, session: &SessionKey, keys: &[String]) -> Result<StateView, CallFailure> {
        let mut query = vec![("numRecentEvents", "0")];
        query.extend(keys.iter().map(|key| ("key", key.as_str())));
        let mut answer = body_of(self.at(Method::GET, session, "/").query(&query).send().await).await?;
        Ok(StateView { lists: lists_of(&answer["state"]), seen: SeenVersion::Json(answer["seen"].take()) })
    }

    async fn read_at(&self, session: &SessionKey, seq: u64) -> Result<Lists, CallFailure> {
        let query = [("at", seq.to_string())];
        let answer = body_of(self.at(Method::GET, session, "state").query(&query).send().await).await?;
        Ok(lists_of(&answer["state"]))
    }

    async fn feed(&self, app: &str, cursor: Option<&str>) -> Result<FeedPart, CallFailure> {
        let start = cursor.map_or(("from", "beginning"), |cursor| ("cursor", cursor));
        let request = self.client.get(format!("{}/v1/apps/{app}/feed", self.base)).query(&[start]);
        let answer = body_of(request.send().await).await?;
        let entries = answer["entries"].as_array().cloned().unwrap_or_default();
        let next = answer_cursor(&answer);
        let events = entries.iter().filter(|entry| entry["type"] == "event").map(|entry| FeedEvent {
            session: entry["sessionId"].as_str().unwrap_or_default().to_owned(),
            seq: entry["seq"].as_u64().unwrap_or_default(),
            event_id: entry["event"]["id"].as_str().unwrap_or_default().to_owned(),
            lists: changes_of(&entry["event"]),
        });
        Ok(FeedPart {
            events: events.collect(),
            cursor: next.to_owned(),
            is_end: entries.is_empty() && cursor == Some(next),
        })
    }

    async fn verify(&self, session: &SessionKey) -> Result<(), CallFailure> {
        let request = self.at(Method::GET, session, "verify").timeout(VERIFICATION);
        body_of(request.send().await).await.map(drop)
    }

    async fn verify_state(&self, owner: &StateOwner) -> Result<(), CallFailure> {
        let user = owner.user_id().map(|user| format!("/users/{user}")).unwrap_or_default();
        let request = self.client.get(format!("{}/v1/apps/{}{user}/verify", self.base, owner.app_name()));
        body_of(request.timeout(VERIFICATION).send().await).await.map(drop)
    }
}

fn answer_cursor(answer: &Value) -> &str {
    answer["cursor"].as_str().unwrap_or_default()
}

fn changes_of(event: &Value) -> Lists {
    lists_of(&event["actions"]["stateDelta"])
}

fn lists_of(values: &Value) -> Lists {
    values.as_object().map(lists_in).unwrap_or_default()
}

/// Returns the body of an answer that says that the request was carried out.
async fn body_of(answer: reqwest::Result<reqwest::Response>) -> Result<Value, CallFailure> {
    let answer = answer.map_err(|error| match error.is_connect() {
        true => CallFailure::NotDone(error.to_string()),
        false => CallFailure::Unknown(error.to_string()),
    })?;
    let status = answer.status();
    let body: Value = answer.json().await.map_err(|error| CallFailure::Unknown(error.to_string()))?;
    if status.is_success() {
        return Ok(body);
    }
    let said = body["error"]["message"].as_str().unwrap_or_default();
    Err(match status {
        StatusCode::CONFLICT if body["error"]["kind"] == "conflict" => CallFailure::Conflict,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            CallFailure::NotDone(format!("{status}: {said}"))
        }
        _ if ["internal", "data_corrupted"].iter().any(|kind| body["error"]["kind"] == *kind) => {
            CallFailure::Broken(format!("{status}: {said}"))
        }
        _ if status.is_client_error() => CallFailure::Refused(format!("{status}: {said}")),
        _ => CallFailure::Unknown(format!("{status}: {said}")),
    })
}
