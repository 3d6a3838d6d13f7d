//! Compressed values: large values are small in the store, small values unchanged, and none is taken for another.

use std::sync::Arc;

use scratchbook::artifact::{ArtifactService, ListVersionsConfig};
use scratchbook::content::Part;
use scratchbook::layer::WithCompression;
use scratchbook::session::StateOwner;
use scratchbook::{CreateSessionConfig, ErrorKind, Event, GetSessionConfig, SessionService};
use serde_json::{Map, json};

use super::{append, delta, memory, read};

fn long() -> String {
    "a long story, told again and again; ".repeat(1000)
}

#[tokio::test]
async fn large_things_are_small_in_the_store() {
    let store = memory();
    let service = WithCompression::new(Arc::clone(&store));
    let config = CreateSessionConfig::default().with_state(json!({"large": long(), "small": "short"}));
    let session = service.create_session("app", "alice", config).await.unwrap();
    append(&service, session.key(), Event::new("agent").with_content(long())).await;
    append(&service, session.key(), Event::new("agent").with_content("short")).await;
    service.save_artifact(session.key(), "large", Part::text(long()), Map::new()).await.unwrap();
    service.save_artifact(session.key(), "small", Part::text("short"), Map::new()).await.unwrap();

    let stored = read(&store, session.key()).await;
    assert!(stored.state().get("large").unwrap().to_string().len() < 1000);
    assert_eq!(stored.state().get("small"), Some(&json!("short")));
    assert!(json!(stored.events()).to_string().len() < 2000);
    assert_eq!(stored.events().last().unwrap().content.as_ref().unwrap().text(), "short");
    let part = store.load_artifact(session.key(), "large", None).await.unwrap().unwrap();
    assert!(part.inline_data.unwrap().data.unwrap().len() < 1000);
    assert_eq!(store.load_artifact(session.key(), "small", None).await.unwrap(), Some(Part::text("short")));

    let read = read(&service, session.key()).await;
    assert_eq!(read.state().get("large"), Some(&json!(long())));
    assert_eq!(read.events().get(0).unwrap().content.as_ref().unwrap().text(), long());
    assert_eq!(service.load_artifact(session.key(), "large", None).await.unwrap(), Some(Part::text(long())));
    let versions =
        service.list_artifact_versions(session.key(), "large", &ListVersionsConfig::default()).await.unwrap();
    assert_eq!(versions[0].mime_type, None, "text has none, and not that of what is compressed");
}

#[tokio::test]
async fn what_looks_compressed_is_a_value_like_any_other() {
    let store = memory();
    let service = WithCompression::new(Arc::clone(&store));
    let app = StateOwner::app("app").unwrap();
    service.put_state(&app, delta(json!({"k": long()})), "me".into()).await.unwrap();
    let stored = store.get_state(&app).await.unwrap()["k"].clone();
    for trick in [stored, json!("scratchbook:zstd:1:AAAA"), json!("scratchbook:zstd:")] {
        service.put_state(&app, delta(json!({"trick": trick})), "me".into()).await.unwrap();
        assert_eq!(service.get_state(&app).await.unwrap()["trick"], trick);
    }
    let session = service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    let part = Part::bytes(*b"no zstd", "application/vnd.scratchbook.zstd");
    service.save_artifact(session.key(), "f", part.clone(), Map::new()).await.unwrap();
    assert_eq!(service.load_artifact(session.key(), "f", None).await.unwrap(), Some(part));
}

#[tokio::test]
async fn what_is_damaged_is_found() {
    let store = memory();
    let service = WithCompression::new(Arc::clone(&store));
    for damaged in
        ["scratchbook:zstd:1:AAAA", "scratchbook:zstd:1:__________8AAAAA", "scratchbook:zstd:", "scratchbook:zstd:1:!"]
    {
        let config = CreateSessionConfig::default().with_state(json!({"k": damaged}));
        let session = store.create_session("app", "alice", config).await.unwrap();
        let error = service.get_session(session.key(), &GetSessionConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{damaged}");
        assert!(error.to_string().contains("'k'"), "{error}");
    }
}
