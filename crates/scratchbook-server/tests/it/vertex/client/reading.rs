//! How our client reads the answers of a server.

use scratchbook::{ErrorKind, GetSessionConfig, SessionKey, SessionService};
use serde_json::{Value, json};

use super::scripted::{MethodScript, NAME, event, key, ok, session, text};

#[tokio::test]
async fn recent_events_are_not_looked_for_further_back() {
    let newest = ok(json!({"sessionEvents": [event(9), event(8)], "nextPageToken": "more"}));
    let (script, client) = MethodScript::client(&[("get", &[ok(session())]), ("events", &[newest])]).await;
    let config = GetSessionConfig::default().with_num_recent_events(2).with_after_timestamp(1_767_225_601.5);
    let read = client.get_session(&key(), &config).await.unwrap().unwrap();
    assert_eq!(read.events().iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["e8", "e9"]);
    assert!(read.events().iter().all(|event| event.seq.is_none()), "nobody knows their numbers");
    let [asked] = &script.asked("events")[..] else { panic!("one page") };
    for part in ["pageSize=2&", "orderBy=timestamp+desc", "timestamp%3E%3D%222026-01-01T00%3A00%3A01.499999Z%22"] {
        assert!(asked.path.contains(part), "{part} in {}", asked.path);
    }
}

#[tokio::test]
async fn an_empty_page_may_be_followed_by_another() {
    let page = |events: &[Value], token: &str| ok(json!({"sessionEvents": events, "nextPageToken": token}));
    let pages = [page(&[], "1"), page(&[event(1)], "2"), page(&[], "3"), ok(json!({"sessionEvents": [event(2)]}))];
    let (script, client) = MethodScript::client(&[("get", &[ok(session())]), ("events", &pages)]).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(read.events().iter().map(|event| event.seq).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!((read.seq(), script.asked("events").len()), (2, 4));
    let (ones, two) = ([page(&[], "1")], [page(&[], "1"), page(&[], "2"), page(&[], "1")]);
    for endless in [&ones[..], &two[..]] {
        let (_, client) = MethodScript::client(&[("get", &[ok(session())]), ("events", endless)]).await;
        let error = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
    }
}

#[tokio::test]
async fn who_reads_by_number_is_told_the_last_number() {
    let page = |events: &[Value], token: &str| ok(json!({"sessionEvents": events, "nextPageToken": token}));
    let pages = [page(&[event(1), event(2)], "1"), page(&[event(3)], "2"), page(&[event(4), event(5)], "")];
    let config = GetSessionConfig::default();
    for (config, numbers, last) in [
        (config.clone().with_events_after(0, 2), &[1, 2][..], Some(5)),
        (config.clone().with_events_after(4, 2), &[5], Some(5)),
        (config.clone().with_events_after(7, 2), &[], Some(5)),
        (config.clone().with_events_after(0, 0), &[], Some(5)),
        (config.clone().with_events_before(4, 2), &[2, 3], Some(5)),
        (config.clone().with_events_before(1, 2), &[], Some(5)),
        (config.clone().with_events_before(u64::MAX, 2), &[4, 5], Some(5)),
        (config.clone(), &[1, 2, 3, 4, 5], Some(5)),
        (GetSessionConfig::state_only(), &[], None),
        (config.clone().with_after_timestamp(1.0).with_num_recent_events(0), &[], None),
    ] {
        let (_, client) = MethodScript::client(&[("get", &[ok(session())]), ("events", &pages)]).await;
        let read = client.get_session(&key(), &config).await.unwrap().unwrap();
        let found: Vec<_> = read.events().iter().map(|event| event.seq.unwrap()).collect();
        assert_eq!((&found[..], read.known_seq()), (numbers, last), "{config:?}");
        assert!(read.events().iter().all(|event| event.id == format!("e{}", event.seq.unwrap())), "{config:?}");
    }
}

#[tokio::test]
async fn an_event_that_is_there_twice_is_one() {
    let mut other = event(3);
    other["rawEvent"]["id"] = json!("e1");
    let list = json!({"sessionEvents": [event(1), event(1), event(2), event(1), other]});
    let (_, client) = MethodScript::client(&[("get", &[ok(session())]), ("events", &[ok(list)])]).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    let found: Vec<_> = read.events().iter().map(|event| (event.seq.unwrap(), event.id.as_str())).collect();
    // The last event has another time, so it is not the same event.
    assert_eq!((found, read.seq()), (vec![(1, "e1"), (2, "e2"), (3, "e1")], 3));
    let newest = ok(json!({"sessionEvents": [event(2), event(2)], "nextPageToken": "1"}));
    let older = ok(json!({"sessionEvents": [event(1)], "nextPageToken": "2"}));
    let (_, client) = MethodScript::client(&[("get", &[ok(session())]), ("events", &[newest, older])]).await;
    let config = GetSessionConfig::default().with_num_recent_events(2);
    let read = client.get_session(&key(), &config).await.unwrap().unwrap();
    assert_eq!(read.events().iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["e1", "e2"]);
}

#[tokio::test]
async fn what_is_wrong_with_anothers_events_is_not_told() {
    let odd = json!({"name": format!("{NAME}/events/1"), "author": "agent"});
    let answers: [(_, &[_]); 2] = [("get", &[ok(session())]), ("events", &[ok(json!({"sessionEvents": [odd]}))])];
    let (_, client) = MethodScript::client(&answers).await;
    let bobs = SessionKey::new("7", "bob", "s").unwrap();
    assert!(client.get_session(&bobs, &GetSessionConfig::default()).await.unwrap().is_none());
    assert!(client.get_session(&key(), &GetSessionConfig::default()).await.is_err());
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_not_quoted() {
    let mut odd = event(1);
    odd["rawEvent"] = json!({"id": "e1", "actions": {"stateDelta": "S3CRET"}});
    let mut timeless = event(1);
    timeless.as_object_mut().unwrap().remove("timestamp");
    for (answer, named) in [
        (ok(json!({"sessionEvents": [odd]})), "events/1"),
        (ok(json!({"sessionEvents": [timeless]})), "events/1"),
        (ok(json!({"sessionEvents": "S3CRET"})), "list the events"),
        (text(200, "{\"sessionEvents\": [\"S3CRET"), "list the events"),
    ] {
        let (_, client) = MethodScript::client(&[("get", &[ok(session())]), ("events", &[answer])]).await;
        let error = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
        assert!(error.to_string().contains(named) && !format!("{error:?}").contains("S3CRET"), "{error:?}");
    }
}

#[tokio::test]
async fn an_event_without_a_whole_one_is_read_from_its_fields() {
    let said = json!({"name": format!("{NAME}/events/77"), "author": "agent", "invocationId": "i",
        "timestamp": "2026-01-01T00:00:01Z", "content": {"role": "model", "parts": [{"text": "hi"}]},
        "actions": {"stateDelta": {"n": 1}, "transferAgent": "other"}, "eventMetadata": {"turnComplete": true}});
    let answers: [(_, &[_]); 2] = [("get", &[ok(session())]), ("events", &[ok(json!({"sessionEvents": [said]}))])];
    let (_, client) = MethodScript::client(&answers).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    let event = read.events().get(0).unwrap();
    assert_eq!((event.id.as_str(), event.turn_complete), ("77", Some(true)));
    assert_eq!(event.actions.transfer_to_agent.as_deref(), Some("other"));
    assert_eq!(event.content.as_ref().map(|content| content.text()).as_deref(), Some("hi"));
}

#[tokio::test]
async fn what_a_newer_server_says_is_no_hindrance() {
    let place = |value: &mut Value, at: &str| {
        value.pointer_mut(at).unwrap()["futureField"] = json!({"x": [1]});
    };
    let said = json!({"name": format!("{NAME}/events/77"), "author": "agent", "invocationId": "i",
        "timestamp": "2026-01-01T00:00:01Z", "actions": {"stateDelta": {"n": 1}}, "eventMetadata": {"turnComplete": true},
        "content": {"role": "model", "parts": [{"text": "hi"}, {"functionCall": {"name": "f", "args": {}}}]}});
    let whole = json!({"name": format!("{NAME}/events/77"), "author": "agent", "invocationId": "i",
        "timestamp": "2026-01-01T00:00:01Z", "actions": {"stateDelta": {"n": 1}}, "rawEvent": {"id": "77",
            "turnComplete": true, "actions": {"stateDelta": {"n": 1}, "artifactDelta": {"f": 1.0}},
            "content": {"role": "model", "parts": [{"text": "hi"}, {"functionCall": {"name": "f", "args": {}}}]}}});
    let of_content = ["", "/parts/0", "/parts/1", "/parts/1/functionCall"];
    let of_whole = of_content.map(|of| format!("/rawEvent/content{of}"));
    let of_said = of_content.map(|of| format!("/content{of}"));
    let more = ["", "/actions", "/eventMetadata"].map(str::to_owned);
    let whole_too = ["", "/actions", "/rawEvent", "/rawEvent/actions"].map(str::to_owned);
    for (event, places) in [(said, [&of_said[..], &more].concat()), (whole, [&of_whole[..], &whole_too].concat())] {
        for at in places {
            let (mut newer, mut of) = (event.clone(), session());
            place(&mut newer, &at);
            place(&mut of, "");
            let list = ok(json!({"sessionEvents": [newer], "futureField": 1}));
            let (_, client) = MethodScript::client(&[("get", &[ok(of)]), ("events", &[list])]).await;
            let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
            let event = read.events().get(0).unwrap();
            assert_eq!((event.id.as_str(), event.turn_complete), ("77", Some(true)), "{at}");
            assert_eq!(event.content.as_ref().map(|content| content.text()).as_deref(), Some("hi"), "{at}");
            assert_eq!(event.function_calls().count(), 1, "{at}");
        }
    }
}

#[tokio::test]
async fn whole_floats_are_integers_where_those_are_meant() {
    let (mut of, mut said) = (session(), event(1));
    of["sessionState"] = json!({"user:high_score": 7.0, "list": [1.0, 2.5]});
    said["rawEvent"]["actions"] = json!({"artifactDelta": {"f": 2.0}});
    let answers: [(_, &[_]); 2] = [("get", &[ok(of)]), ("events", &[ok(json!({"sessionEvents": [said]}))])];
    let (_, client) = MethodScript::client(&answers).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(read.state().get_as::<u64>("user:high_score").unwrap(), Some(7));
    assert_eq!(read.state().get_as::<(u8, f64)>("list").unwrap(), Some((1, 2.5)));
    assert_eq!(read.events().get(0).unwrap().actions.artifact_delta["f"], 2);
}

#[tokio::test]
async fn removed_and_temporary_keys_are_not_shown() {
    let mut shown = session();
    shown["sessionState"] = json!({"a": 1, "gone": "__ADK_SENTINEL_REMOVED__", "temp:t": 1});
    let mut event = event(1);
    event["actions"] = json!({"stateDelta": {"a": 1, "temp:t": 1}});
    event["rawEvent"]["actions"] = event["actions"].clone();
    let answers: [(_, &[_]); 2] = [("get", &[ok(shown)]), ("events", &[ok(json!({"sessionEvents": [event]}))])];
    let (_, client) = MethodScript::client(&answers).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(read.state().to_map(), *json!({"a": 1}).as_object().unwrap());
    assert_eq!(json!(read.events().get(0).unwrap().actions.state_delta), json!({"a": 1}));
}
