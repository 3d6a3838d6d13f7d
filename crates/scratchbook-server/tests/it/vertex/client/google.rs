//! Google's own client in Rust against the endpoint, as their documents show it.

use std::collections::BTreeSet;

use google_cloud_aiplatform_v1::client::SessionService;
use google_cloud_aiplatform_v1::model::{EventActions, Session, SessionEvent};
use google_cloud_auth::credentials::anonymous;
use google_cloud_gax::error::rpc::Code;
use google_cloud_gax::paginator::ItemPaginator as _;
use google_cloud_lro::Poller as _;
use google_cloud_wkt::{Duration, FieldMask, Struct, Timestamp};
use serde_json::json;

use super::serve;

const ENGINE: &str = "projects/p1/locations/l1/reasoningEngines/123";

async fn client() -> SessionService {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let credentials = anonymous::Builder::new().build();
    SessionService::builder().with_endpoint(serve().await).with_credentials(credentials).build().await.unwrap()
}

fn state(state: serde_json::Value) -> Struct {
    state.as_object().unwrap().clone()
}

async fn make(client: &SessionService, id: &str, session: Session) -> Session {
    let request = client.create_session().set_parent(ENGINE).set_session_id(id).set_session(session);
    request.poller().until_done().await.unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, google_cloud_gax::error::Error>) -> Code {
    result.unwrap_err().status().map(|status| status.code).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_made_read_changed_and_deleted() {
    let client = client().await;
    let sent = Session::new().set_user_id("alice").set_session_state(state(json!({"a": 1.5, "user:u": [null]})));
    let sent = sent.set_ttl(Duration::clamp(7200, 0)).set_display_name("one").set_labels([("env", "test")]);
    let made = make(&client, "s1", sent.clone()).await;
    assert_eq!(made.name, format!("{ENGINE}/sessions/s1"));
    let (until, since) = (made.expire_time().unwrap().seconds(), made.create_time.unwrap().seconds());
    assert_eq!(until - since, 7200);

    let read = client.get_session().set_name(&made.name).send().await.unwrap();
    assert_eq!(read, made);
    let change = Session::new().set_name(&made.name).set_display_name("two").set_session_state(state(json!({"b": 1})));
    let mask = FieldMask::default().set_paths(["display_name", "session_state"]);
    let changed = client.update_session().set_session(change).set_update_mask(mask).send().await.unwrap();
    assert_eq!((changed.display_name.as_str(), changed.labels.len()), ("two", 1));
    assert_eq!(changed.session_state, Some(state(json!({"b": 1, "user:u": [null]}))));

    let twice = client.create_session().set_parent(ENGINE).set_session_id("s1").set_session(sent).send().await;
    assert_eq!(code(twice), Code::AlreadyExists);
    client.delete_session().set_name(&made.name).poller().until_done().await.unwrap();
    assert_eq!(code(client.get_session().set_name(&made.name).send().await), Code::NotFound);
    assert_eq!(code(client.delete_session().set_name(&made.name).send().await), Code::NotFound);
    let numbered = make(&client, "", Session::new().set_user_id("alice")).await;
    assert!(numbered.name.rsplit('/').next().unwrap().bytes().all(|b| b.is_ascii_digit()), "{}", numbered.name);
    let nobody = client.create_session().set_parent(ENGINE).set_session(Session::new()).send().await;
    assert_eq!(code(nobody), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_and_fifty_sessions_are_listed() {
    let client = client().await;
    for n in 0..250 {
        let session =
            Session::new().set_user_id(["alice", "bo\"b"][n % 2]).set_labels([("third", (n % 3).to_string())]);
        make(&client, &format!("s{n}"), session).await;
    }
    for (filter, order, size, count) in [
        ("", "", 0, 250),
        ("", "create_time desc", 100, 250),
        ("user_id=\"bo\\\"b\"", "update_time desc", 7, 125),
        ("labels.third=\"0\" AND user_id=\"alice\"", "", 10, 42),
        ("user_id=\"carol\"", "", 0, 0),
    ] {
        let list = client.list_sessions().set_parent(ENGINE).set_filter(filter).set_order_by(order).set_page_size(size);
        let (mut items, mut found) = (list.by_item(), BTreeSet::new());
        while let Some(session) = items.next().await {
            assert!(found.insert(session.unwrap().name), "one comes twice");
        }
        assert_eq!(found.len(), count, "{filter}");
    }
    let refused = client.list_sessions().set_parent(ENGINE).set_filter("user_id=").send().await;
    assert_eq!(code(refused), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_and_fifty_events_are_appended_and_listed() {
    let client = client().await;
    let session = make(&client, "s", Session::new().set_user_id("alice")).await;
    for n in 0..250 {
        let actions = EventActions::new().set_state_delta(state(json!({"n": n, "temp:t": 1, "app:n": n})));
        let event = SessionEvent::new().set_author("agent").set_invocation_id("i").set_actions(actions);
        let event = event.set_timestamp(Timestamp::clamp(1_767_225_600 + i64::from(n), 0));
        client.append_event().set_name(&session.name).set_event(event).send().await.unwrap();
    }
    for (filter, order, count, first) in [
        ("", "", 250, 0),
        ("timestamp>=\"2026-01-01T00:03:20Z\"", "", 50, 200),
        ("timestamp<\"2026-01-01T00:00:10Z\"", "timestamp desc", 10, 9),
    ] {
        let list = client.list_events().set_parent(&session.name).set_filter(filter).set_order_by(order);
        let (mut items, mut found) = (list.by_item(), Vec::new());
        while let Some(event) = items.next().await {
            found.push(event.unwrap());
        }
        assert_eq!(found.len(), count, "{filter}");
        let delta = found[0].actions.as_ref().and_then(|actions| actions.state_delta.clone()).unwrap();
        assert_eq!(delta, state(json!({"n": first, "app:n": first})));
        assert_eq!(found[0].author, "agent");
    }
    let read = client.get_session().set_name(&session.name).send().await.unwrap();
    assert_eq!(read.session_state, Some(state(json!({"n": 249, "app:n": 249}))));
    let missing = client.append_event().set_name(format!("{ENGINE}/sessions/none"));
    let event = SessionEvent::new().set_author("a").set_invocation_id("i").set_timestamp(Timestamp::clamp(1, 0));
    assert_eq!(code(missing.set_event(event).send().await), Code::NotFound);
    let nobody = client.append_event().set_name(&session.name).set_event(SessionEvent::new().set_author("a"));
    assert_eq!(code(nobody.send().await), Code::InvalidArgument);
}
