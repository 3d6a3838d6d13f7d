//! Events: appended, read and listed.

use scratchbook::{CreateSessionConfig, Event};
use serde_json::{Value, json};

use super::{all, at, ids, make, refused, say};
use crate::v1::support::Api;

async fn listed(api: &Api, query: &str) -> Value {
    api.ok("GET", &at(&format!("/s1/events{query}")), None).await["sessionEvents"].clone()
}

#[tokio::test]
async fn a_whole_event_comes_back_and_its_fields_with_it() {
    for api in Api::all().await {
        make(&api, "u1", "s1", json!({})).await;
        let raw = json!({"id": "e1", "author": "somebody", "invocationId": "i0", "timestamp": 1.5, "turnComplete": true,
            "content": {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {"a": null}}}]},
            "usageMetadata": {"promptTokenCount": 1}, "customMetadata": {"k": "v"}, "modelVersion": "m", "new": {"er": 1},
            "nodeInfo": {"path": "n"}, "branch": "b", "longRunningToolIds": ["c"],
            "actions": {"stateDelta": {"n": 0, "user:theme": "dark"}, "artifactDelta": {"f": 2}, "transferToAgent": "x"}});
        let body = json!({"author": "agent", "invocation_id": "i1", "timestamp": "2026-11-20T17:10:23.0575119+00:00",
            "actions": {"state_delta": {"n": 1, "app:x": 1, "temp:t": 1}}, "eventMetadata": {"turn_complete": true},
            "raw_event": raw});
        api.ok("POST", &at("/s1:appendEvent"), Some(body)).await;
        let event = listed(&api, "").await[0].clone();
        assert_eq!(event["name"], json!("projects/p1/locations/l1/reasoningEngines/123/sessions/s1/events/e1"));
        // The author, the run, the changes and the time, to the microsecond, come from the outer fields.
        let (who, run, when) = (&event["author"], &event["invocationId"], &event["timestamp"]);
        assert_eq!((who, run, when), (&json!("agent"), &json!("i1"), &json!("2026-11-20T17:10:23.057511Z")));
        let back = &event["rawEvent"];
        assert_eq!((&back["author"], &back["invocationId"]), (who, run));
        for name in
            ["content", "usageMetadata", "customMetadata", "modelVersion", "new", "branch", "turnComplete", "id"]
        {
            assert_eq!(back[name], raw[name], "{name}");
        }
        let actions = json!({"stateDelta": {"n": 1, "app:x": 1}, "artifactDelta": {"f": 2}, "transferAgent": "x",
            "requestedAuthConfigs": {}});
        assert_eq!(event["actions"], actions);
        assert_eq!(back["actions"]["stateDelta"], actions["stateDelta"]);
        let metadata = json!({"turnComplete": true, "longRunningToolIds": ["c"], "branch": "b",
            "customMetadata": {"k": "v", "_usage_metadata": {"promptTokenCount": 1}}});
        assert_eq!((&event["eventMetadata"], &event["content"]), (&metadata, &raw["content"]));
        let session = api.ok("GET", &at("/s1"), None).await;
        assert_eq!(session["sessionState"], json!({"n": 1, "app:x": 1}));
        assert_eq!(session["updateTime"], json!("2026-11-20T17:10:23.057511Z"));
    }
}

#[tokio::test]
async fn an_event_without_a_whole_one_is_read_from_its_fields() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({})).await;
    let compaction =
        json!({"start_timestamp": 1.0, "end_timestamp": 2.0, "compacted_content": {"parts": [{"text": "s"}]}});
    say(&api, "s1", 0, json!({
        "content": {"parts": [{"function_response": {"name": "f", "response": {"x": 1}}}], "role": "user"},
        "actions": {"stateDelta": {"n": 1}, "transfer_agent": "x", "skip_summarization": true, "escalate": null},
        "error_code": "E", "errorMessage": "went wrong", "rawEvent": {},
        "eventMetadata": {"turn_complete": false, "interrupted": true, "branch": "a.b", "long_running_tool_ids": ["l"],
            "grounding_metadata": {"webSearchQueries": ["q"]}, "output_transcription": {"text": "t"},
            "customMetadata": {"k": 1, "_compaction": compaction, "_usage_metadata": {"prompt_token_count": 3}}},
    })).await;
    let raw = listed(&api, "").await[0]["rawEvent"].clone();
    let expected = json!({
        "content": {"parts": [{"functionResponse": {"name": "f", "response": {"x": 1}}}], "role": "user"},
        "groundingMetadata": {"webSearchQueries": ["q"]}, "turnComplete": false, "errorCode": "E",
        "errorMessage": "went wrong", "interrupted": true, "customMetadata": {"k": 1},
        "usageMetadata": {"prompt_token_count": 3}, "outputTranscription": {"text": "t"}, "branch": "a.b",
        "longRunningToolIds": ["l"],
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(raw[name], *value, "{name}");
    }
    assert_eq!(raw["actions"]["compaction"]["compactedContent"], json!({"parts": [{"text": "s"}]}));
    assert_eq!((&raw["actions"]["transferToAgent"], &raw["actions"]["skipSummarization"]), (&json!("x"), &json!(true)));
    assert_eq!(raw["actions"]["stateDelta"], json!({"n": 1}));
}

/// Google's client for Rust reads only bytes in the standard alphabet, and sends values of enums as numbers.
#[tokio::test]
async fn bytes_and_enums_are_those_of_proto_json_outside_and_of_adk_in_the_whole_event() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({})).await;
    let parts = |bytes: &str, outcome: Value| {
        json!({"parts": [
            {"inlineData": {"data": bytes, "mimeType": "image/png"}, "thoughtSignature": bytes},
            {"codeExecutionResult": {"outcome": outcome, "output": "1"}},
        ]})
    };
    let blob = |bytes: &str| json!({"searchEntryPoint": {"renderedContent": "<p>", "sdkBlob": bytes}});
    // Google's client for Python uses snake_case inside.
    let snake = json!({"content": {"parts": [{"function_response": {"name": "f",
            "parts": [{"inline_data": {"mime_type": "image/png", "data": "-_8="}}]}}]},
        "eventMetadata": {"grounding_metadata": {"search_entry_point": {"rendered_content": "<p>", "sdk_blob": "-_8"}}}});
    say(&api, "s1", 0, snake).await;
    let event = listed(&api, "").await[0].clone();
    let part = json!({"inlineData": {"mimeType": "image/png", "data": "+/8="}});
    assert_eq!(event["content"]["parts"][0]["functionResponse"]["parts"][0], part);
    assert_eq!(event["eventMetadata"]["groundingMetadata"], blob("+/8="));
    for (bytes, outcome) in [("-_8=", json!("OUTCOME_OK")), ("+/8=", json!(1)), ("+/8", json!("OUTCOME_OK"))] {
        let more = json!({"content": parts(bytes, outcome), "eventMetadata": {"groundingMetadata": blob("-_8=")}});
        say(&api, "s1", 0, more).await;
    }
    let events = listed(&api, "").await;
    assert_eq!(events.as_array().unwrap().len(), 4);
    for event in events.as_array().unwrap().iter().skip(1) {
        assert_eq!(event["content"]["parts"], parts("+/8=", json!("OUTCOME_OK"))["parts"]);
        assert_eq!(event["eventMetadata"]["groundingMetadata"], blob("+/8="));
        assert_eq!(event["rawEvent"]["content"]["parts"], parts("-_8=", json!("OUTCOME_OK"))["parts"]);
        assert_eq!(event["rawEvent"]["groundingMetadata"], blob("-_8="));
    }
}

#[tokio::test]
async fn a_piece_of_a_stream_is_taken_and_not_stored() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({})).await;
    say(&api, "s1", 0, json!({"eventMetadata": {"partial": true}, "actions": {"stateDelta": {"n": 1}}})).await;
    say(&api, "s1", 0, json!({"rawEvent": {"partial": true, "actions": {"stateDelta": {"n": 1}}}})).await;
    let both = json!({"eventMetadata": {"partial": true}, "rawEvent": {"actions": {"stateDelta": {"n": 1}}}});
    say(&api, "s1", 0, both).await;
    assert_eq!(listed(&api, "").await, Value::Null);
    assert_eq!(api.ok("GET", &at("/s1"), None).await["sessionState"], json!({}));
    let body = json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "eventMetadata": {"partial": true}});
    refused(&api, 404, "NOT_FOUND", "POST", &at("/nope:appendEvent"), Some(body)).await;
}

#[tokio::test]
async fn an_event_that_is_sent_twice_is_there_once() {
    for api in Api::all().await {
        make(&api, "u1", "s1", json!({})).await;
        for _ in 0..2 {
            say(&api, "s1", 0, json!({"rawEvent": {"id": "e1", "actions": {"stateDelta": {"n": 1}}}})).await;
        }
        say(&api, "s1", 0, json!({})).await;
        say(&api, "s1", 0, json!({})).await;
        let found = ids(&api.ok("GET", &at("/s1/events"), None).await, "sessionEvents");
        assert!(found.len() == 3 && found[0] == "e1", "{found:?}");
        let other = json!({"author": "user", "timestamp": "2026-01-01T00:00:00Z", "rawEvent": {"id": "e1"}});
        refused(&api, 409, "ALREADY_EXISTS", "POST", &at("/s1:appendEvent"), Some(other)).await;
    }
}

#[tokio::test]
async fn events_are_listed_either_way_page_by_page_and_by_their_time() {
    for api in Api::all().await {
        make(&api, "u1", "s1", json!({})).await;
        let every: Vec<_> = (0..25).map(|n| format!("e{n}")).collect();
        for (n, id) in (0..).zip(&every) {
            say(&api, "s1", n, json!({"rawEvent": {"id": id}})).await;
        }
        let backward: Vec<_> = every.iter().rev().cloned().collect();
        let find = async |query: &str| all(&api, &at(&format!("/s1/events?{query}")), "sessionEvents").await;
        for size in [0, 1, 5, 24, 25, 26, 5000] {
            assert_eq!(find(&format!("pageSize={size}")).await, every, "{size}");
            assert_eq!(find(&format!("page_size={size}&orderBy=timestamp%20desc")).await, backward, "{size}");
            let filter = "filter=timestamp%3E%222026-01-01T00:00:04Z%22+AND+timestamp%3C=%222026-01-01T00:00:19Z%22";
            assert_eq!(find(&format!("pageSize={size}&{filter}")).await, every[5..20], "{size}");
            assert_eq!(
                find(&format!("pageSize={size}&{filter}&order_by=timestamp+desc")).await,
                backward[5..20],
                "{size}"
            );
            let before = "filter=timestamp+%3C+%222026-01-01T00:00:19Z%22";
            assert_eq!(find(&format!("pageSize={size}&{before}")).await, every[..19], "{size}");
        }
        assert_eq!(find("filter=timestamp=%222026-01-01T01:00:07%2B01:00%22").await, ["e7"]);
        assert!(find("filter=timestamp%3E%222030-01-01T00:00:00Z%22").await.is_empty());
        assert!(find("filter=timestamp%3C%221960-01-01T00:00:00Z%22").await.is_empty());
        let first = api.ok("GET", &at("/s1/events?pageSize=1"), None).await;
        let token = first["nextPageToken"].as_str().unwrap();
        let path = at(&format!("/s1/events?orderBy=timestamp%20desc&pageToken={token}"));
        refused(&api, 400, "INVALID_ARGUMENT", "GET", &path, None).await;
    }
}

#[tokio::test]
async fn a_time_is_found_among_thousands_of_events_and_as_exactly_as_it_is_shown() {
    let api = Api::memory().await;
    // Events of other surfaces have more exact times than this surface shows.
    let event =
        |n: u32| Event::new("user").with_id(format!("e{n}")).with_timestamp(1000.0 + f64::from(n) + 0.917_538_6);
    let events = (0..3500).map(event).collect();
    let config = CreateSessionConfig::default().with_session_id("s1").with_events(events);
    api.store.sessions.create_session("123", "u1", config).await.unwrap();
    let find = async |query: &str| all(&api, &at(&format!("/s1/events?{query}")), "sessionEvents").await;
    for (from, count) in [(20, 3480), (2501, 999), (2500, 1000), (2499, 1001), (3499, 1), (3500, 0)] {
        let shown = scratchbook::vertex::timestamp_from_seconds(1000.0 + f64::from(from) + 0.917_539);
        for size in [7, 1000] {
            let found = find(&format!("pageSize={size}&filter=timestamp%3E=%22{shown}%22")).await;
            let expected: Vec<_> = (from..3500).map(|n| format!("e{n}")).collect();
            assert_eq!((found.len(), &found), (count, &expected), "{from} {size}");
        }
    }
    let late = "filter=timestamp%3C%221970-01-01T00:16:50Z%22+AND+timestamp%3E%221970-01-01T00:16:48Z%22";
    assert_eq!(find(late).await, ["e8", "e9"]);
}

/// A client other than google-adk can put only an id into the whole event, so that a retried event is stored once.
#[tokio::test]
async fn what_a_whole_event_does_not_have_is_that_of_the_fields_beside_it() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({})).await;
    let sent = json!({"content": {"parts": [{"text": "important"}]}, "errorCode": "E", "eventMetadata": {"branch": "b"},
        "actions": {"transferAgent": "x", "artifactDelta": {"f": 1}}, "rawEvent": {"id": "r1"}});
    say(&api, "s1", 0, sent.clone()).await;
    say(&api, "s1", 0, sent.clone()).await;
    let events = listed(&api, "").await;
    assert_eq!(ids(&json!({"sessionEvents": events}), "sessionEvents"), ["r1"]);
    for name in ["content", "errorCode", "eventMetadata"] {
        assert_eq!(events[0][name], sent[name], "{name}");
    }
    let raw = &events[0]["rawEvent"];
    assert_eq!((&raw["branch"], &raw["actions"]["transferToAgent"]), (&json!("b"), &json!("x")));
    let delta = json!({"actions": {"stateDelta": {}}, "rawEvent": {"actions": {"stateDelta": {"kept": 1}}}});
    say(&api, "s1", 0, delta).await;
    assert_eq!(api.ok("GET", &at("/s1"), None).await["sessionState"], json!({"kept": 1}));
}

#[tokio::test]
async fn a_page_of_large_events_ends_early() {
    for api in Api::all().await {
        make(&api, "u1", "s1", json!({})).await;
        let every: Vec<_> = (0..12).map(|n| format!("e{n}")).collect();
        for (n, id) in (0..).zip(&every) {
            let text = if n == 5 { "x".repeat(6_000_000) } else { "x".repeat(900_000) };
            say(&api, "s1", n, json!({"rawEvent": {"id": id, "content": {"parts": [{"text": text}]}}})).await;
        }
        for (query, expected) in
            [("", [4, 1, 1, 4, 2].to_vec()), ("&filter=timestamp%3E%222026-01-01T00:00:05Z%22", vec![4, 2])]
        {
            let (mut token, mut pages, mut found) = (String::new(), Vec::new(), Vec::new());
            while pages.len() < 20 {
                let page = api.ok("GET", &at(&format!("/s1/events?pageToken={token}{query}")), None).await;
                let here = ids(&page, "sessionEvents");
                pages.push(here.len());
                found.extend(here);
                match page["nextPageToken"].as_str() {
                    Some(next) => token = next.to_owned(),
                    None => break,
                }
            }
            assert_eq!((&found[..], pages), (&every[if query.is_empty() { 0 } else { 6 }..], expected), "{query}");
        }
    }
}

#[tokio::test]
async fn a_token_is_taken_by_the_list_that_gave_it_alone() {
    let api = Api::memory().await;
    for session in ["s1", "s2"] {
        make(&api, "u1", session, json!({})).await;
        for n in 0..3 {
            say(&api, session, n, json!({})).await;
        }
    }
    let lists = [
        "?",
        "?orderBy=update_time%20desc",
        "?orderBy=create_time",
        "?orderBy=create_time%20desc",
        "?filter=user_id=u1",
        "?filter=display_name=%22%22",
        "/s1/events?",
        "/s2/events?",
        "/s1/events?orderBy=timestamp%20desc",
        "/s1/events?filter=timestamp%3E%222025-01-01T00:00:00Z%22",
    ];
    for giver in lists {
        let page = api.ok("GET", &at(&format!("{giver}&pageSize=1")), None).await;
        let token = page["nextPageToken"].as_str().unwrap_or_else(|| panic!("{giver}: {page}"));
        for taker in lists {
            let path = at(&format!("{taker}&pageToken={token}"));
            if giver == taker {
                api.ok("GET", &path, None).await;
            } else {
                refused(&api, 400, "INVALID_ARGUMENT", "GET", &path, None).await;
            }
        }
    }
}

#[tokio::test]
async fn a_token_of_a_session_is_not_taken_by_the_next_session_of_that_id() {
    let api = Api::memory().await;
    let create = async || {
        make(&api, "u1", "s1", json!({})).await;
        for n in 0..3 {
            say(&api, "s1", n, json!({})).await;
        }
    };
    create().await;
    let page = api.ok("GET", &at("/s1/events?pageSize=1"), None).await;
    let path = at(&format!("/s1/events?pageToken={}", page["nextPageToken"].as_str().unwrap()));
    assert_eq!(ids(&api.ok("GET", &path, None).await, "sessionEvents").len(), 2);
    api.ok("DELETE", &at("/s1"), None).await;
    create().await;
    refused(&api, 400, "INVALID_ARGUMENT", "GET", &path, None).await;
}
