//! Lost answers to each kind of write. Retries wait longer each time, which makes this test a slow one, and are the
//! client's alone: one server is enough.

use scratchbook::session::{
    ChangeQuery, Expiry, FeedStart, ForkConfig, Outcome, Prune, SessionServiceExt, SessionUpdate, StateOwner,
};
use scratchbook::store::MySqlSessionService;
use scratchbook::{CreateSessionConfig, ErrorKind, GetSessionConfig, SessionService, StateDelta};
use scratchbook_test_servers::Proxy;

use super::server::TestDatabase;
use super::wire::{append, create, key};

#[tokio::test]
async fn the_answer_to_one_write_of_each_kind_may_be_lost() {
    let database = TestDatabase::emptied().await;
    let proxy = Proxy::before(&database.uri()).unwrap();
    let service = MySqlSessionService::connect(&proxy.uri(&database.uri()).unwrap()).await.unwrap();
    create(&service, "other").await;
    proxy.swallow(1);
    create(&service, "s").await;
    proxy.swallow(1);
    assert_eq!(append(&service, &key("s"), "e").await.unwrap(), (1, Outcome::Replayed));
    // A retry could apply this write twice, so it is not retried. The error reports that the write may have been applied.
    let owner = StateOwner::app("app").unwrap();
    let mut error = None;
    for n in 0..20 {
        // A connection that was just used is not pinged first.
        service.get_state(&owner).await.unwrap();
        proxy.swallow(1);
        let put = service.put_state(&owner, StateDelta::new().with("k", n).unwrap(), "me".into()).await;
        error = error.or(put.err());
    }
    assert_eq!(error.unwrap().kind(), ErrorKind::Unavailable);
    let log = service.list_state_changes(&owner, &ChangeQuery::After(0), 1000).await.unwrap();
    let puts = log.iter().filter(|change| change.origin.is_none()).count();
    // A fork, an expiry and a pruning are several statements: any of their answers may be lost.
    for n in 1..=12 {
        proxy.swallow(n);
        let fork = ForkConfig::default().with_session_id(format!("fork{n}"));
        assert_eq!(service.fork_session(&key("s"), fork).await.unwrap().seq(), 1);
        proxy.swallow(n);
        service.set_expiry(&key("s"), Some(Expiry::At(4e9))).await.unwrap();
        proxy.swallow(n);
        let title = format!("title {n}");
        service.update_session(&key("s"), SessionUpdate::default().with_title(&title)).await.unwrap();
        proxy.swallow(n);
        let config = CreateSessionConfig::default().with_session_id(format!("titled{n}")).with_title(&title);
        let made = service.create_session("app", "alice", config).await.unwrap();
        assert_eq!(made.title(), Some(title.as_str()));
        append(&service, &key("other"), &format!("o{n}")).await.unwrap();
        proxy.swallow(n);
        service.prune(Prune::events(&key("other"), n as u64 + 1), 100).await.unwrap();
        let initial = service.get_initial_state(&key("other")).await.unwrap().unwrap();
        assert_eq!((initial.seq, initial.state.len()), (n as u64, n), "pruned once");
        proxy.swallow(n);
        let (mut fed, mut start) = (0, FeedStart::Beginning);
        loop {
            let page = service.list_feed(&owner, &start, 1000).await.unwrap();
            if page.entries.is_empty() {
                break;
            }
            fed += page.entries.len();
            start = FeedStart::After(page.cursor);
        }
        // The feed has the puts, the event of the first session, the forks, and the pruning of the other session.
        assert_eq!(fed, puts + 1 + n + 1);
    }
    proxy.swallow(1);
    service.delete_session(&key("s")).await.unwrap();
    assert!(service.get_session(&key("s"), &GetSessionConfig::default()).await.unwrap().is_none());
    proxy.swallow(1);
    service.delete_user("app", "alice").await.unwrap();
    assert_eq!(service.list_sessions("app", &Default::default()).await.unwrap().sessions.len(), 0);
}
