//! A service that can be read but not written to.

use scratchbook::artifact::ArtifactService;
use scratchbook::content::Part;
use scratchbook::layer::ReadOnly;
use scratchbook::session::{Capability, FeedStart, ForkConfig, Prune, SessionServiceExt, SessionUpdate};
use scratchbook::{AppendOptions, CreateSessionConfig, ErrorKind, Event, Result, SessionService};
use serde_json::{Map, json};

use super::{append, delta, memory, read};

#[tokio::test]
async fn every_write_is_denied_and_every_read_passes() {
    let store = memory();
    let config = CreateSessionConfig::default().with_state(json!({"user:n": 1}));
    let session = store.create_session("app", "alice", config).await.unwrap();
    let (key, viewer) = (session.key(), ReadOnly::new(store.clone()));
    append(&store, key, Event::new("agent").with_content("hello")).await;
    store.save_artifact(key, "f", Part::text("x"), Map::new()).await.unwrap();

    let hello = || Event::new("agent").with_content("again");
    let denied: [(&str, Result<()>); 12] = [
        ("create", viewer.create_session("app", "alice", CreateSessionConfig::default()).await.map(drop)),
        ("append", viewer.append(key, hello(), AppendOptions::default()).await.map(drop)),
        ("fork", viewer.fork_session(key, ForkConfig::default()).await.map(drop)),
        ("delete", viewer.delete_session(key).await),
        ("put", viewer.put_state(&key.user(), delta(json!({"n": 2})), "me".into()).await.map(drop)),
        ("expiry", viewer.set_expiry(key, None).await),
        ("update", viewer.update_session(key, SessionUpdate::default().with_title("new")).await),
        ("expired", viewer.prune(Prune::Expired, 1).await.map(drop)),
        ("prune", viewer.prune(Prune::events(key, 10), 10).await.map(drop)),
        ("prune log", viewer.prune(Prune::state_log(&key.user(), 10), 10).await.map(drop)),
        ("erase", viewer.delete_user("app", "alice").await),
        ("save", viewer.save_artifact(key, "f", Part::text("y"), Map::new()).await.map(drop)),
    ];
    for (what, result) in denied {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}");
        assert!(error.to_string().contains("read-only"), "{error}");
    }
    assert_eq!(viewer.delete_artifact(key, "f").await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let capabilities = viewer.capabilities();
    assert!(capabilities.has(Capability::History) && !capabilities.has(Capability::Conflicts), "{capabilities:?}");

    let seen = read(&viewer, key).await;
    assert_eq!((seen.events().len(), seen.state().get("user:n")), (1, Some(&json!(1))));
    assert_eq!(viewer.load_artifact(key, "f", None).await.unwrap(), Some(Part::text("x")));
    assert_eq!(viewer.list_feed(&key.app(), &FeedStart::Beginning, 10).await.unwrap().entries.len(), 2);
    let mut piece = hello();
    piece.partial = Some(true);
    viewer.append(key, piece, AppendOptions::default()).await.expect("a piece of a stream is no write");
}
