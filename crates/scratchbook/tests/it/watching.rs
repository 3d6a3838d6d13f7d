//! The cost of watchers for writers. Counts reads, on every store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use scratchbook::layer::WithMetrics;
use scratchbook::session::{CommitNotices, FeedStart, StateOwner, Watched, Watches};
use scratchbook::{SessionKey, SessionService, StateDelta, Store};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::database::{append, setting};
use crate::layers::metrics::facade::RecordedCounters;

const COMMITS: usize = 40;

async fn create(sessions: &dyn SessionService, app: &str, user: &str) -> SessionKey {
    sessions.create_session(app, user, Default::default()).await.unwrap().key().clone()
}

/// Follows until it is stopped, and counts the entries that it gets.
async fn follow(watches: Arc<Watches<Arc<dyn SessionService>>>, what: Watched, got: Arc<AtomicUsize>) {
    let mut watch = watches.start(what, FeedStart::Now).await.unwrap();
    while watch.next().await.is_ok() {
        got.fetch_add(1, Ordering::Relaxed);
    }
}

async fn many_follow_one_session(store: Store, counts: &RecordedCounters) {
    const MANY: usize = 1000;
    const WAIT_AFTER: usize = 20;
    let sessions: Arc<dyn SessionService> = Arc::new(WithMetrics::new(store.sessions));
    let (busy, idle) = (create(&*sessions, "busy", "alice").await, create(&*sessions, "idle", "bob").await);
    let watches = Arc::new(Watches::new(Arc::clone(&sessions)));
    let (got, nothing, mut tasks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for _ in 0..MANY {
        tasks.spawn(follow(Arc::clone(&watches), Watched::session(busy.clone()), Arc::clone(&got)));
    }
    for n in 0..50 {
        let user = format!("user{n}");
        let key = SessionKey::new("idle", &user, "s").unwrap();
        create(&*sessions, "idle", &user).await;
        for what in [Watched::session(idle.clone()), Watched::user("idle", key.user_id()).unwrap()] {
            tasks.spawn(follow(Arc::clone(&watches), what, Arc::clone(&nothing)));
        }
    }
    tasks.spawn(follow(Arc::clone(&watches), Watched::app("idle").unwrap(), Arc::clone(&nothing)));
    // Waits until all watchers have begun and wait.
    let reads = || {
        counts.calls("get_session", "busy") + counts.calls("get_session", "idle") + counts.calls("list_feed", "idle")
    };
    let mut before = -1.0;
    while before < reads() {
        before = reads();
        sleep(Duration::from_millis(1500)).await;
    }
    let of = |operation, app| counts.calls(operation, app);
    let (of_busy, of_idle) = (of("get_session", "busy"), of("get_session", "idle") + of("list_feed", "idle"));
    let deadline = Instant::now() + Duration::from_secs(60);
    for n in 1..=COMMITS {
        append(&*sessions, &busy, setting("n", n as u64)).await.unwrap();
        // A watch that is more than 32 commits behind reads for itself. On a busy machine this could happen.
        while n.is_multiple_of(WAIT_AFTER) && got.load(Ordering::Relaxed) < MANY * n {
            assert!(Instant::now() < deadline, "{got:?} of {}", MANY * n);
            sleep(Duration::from_millis(20)).await;
        }
    }
    sleep(Duration::from_millis(200)).await;
    let read = of("get_session", "busy") - of_busy;
    let read_of_idle = of("get_session", "idle") + of("list_feed", "idle") - of_idle;
    println!("{COMMITS} commits, {MANY} watchers: {read} reads of the session, {read_of_idle} of others");
    assert_eq!((got.load(Ordering::Relaxed), nothing.load(Ordering::Relaxed)), (MANY * COMMITS, 0));
    assert!(read <= COMMITS as f64 + 10.0, "{read} reads for {COMMITS} commits");
    // All watchers may be woken once in the meantime, in case they missed something.
    assert!(read_of_idle <= 120.0, "{read_of_idle} reads by those who follow others");
}

async fn woken(notices: &mut CommitNotices, times: &mut usize) {
    *times += usize::from(timeout(Duration::from_millis(5), notices.next()).await.is_ok());
    notices.forget();
}

async fn only_those_wake_whose_commit_it_was(store: Store) {
    let sessions = store.sessions;
    let busy = create(&*sessions, "busy", "alice").await;
    let other = create(&*sessions, "busy", "bob").await;
    let commits = || sessions.commits().unwrap();
    let mut of_user = commits().of_owner(&busy.user());
    let mut others = [
        commits().of_session(&other),
        commits().of_owner(&other.user()),
        commits().of_owner(&StateOwner::app("idle").unwrap()),
    ];
    // Notices of earlier commits may arrive late.
    sleep(Duration::from_millis(1500)).await;
    others.iter_mut().for_each(CommitNotices::forget);
    let (mut of_own, mut of_others) = (0, [0; 3]);
    for n in 0..COMMITS {
        append(&*sessions, &busy, setting("n", n as u64)).await.unwrap();
        let delta = StateDelta::new().with("n", n as u64).unwrap();
        sessions.put_state(&busy.user(), delta, "admin".into()).await.unwrap();
        woken(&mut of_user, &mut of_own).await;
        for (notices, times) in others.iter_mut().zip(&mut of_others) {
            woken(notices, times).await;
        }
    }
    assert_eq!(of_own, COMMITS);
    assert!(of_others.iter().all(|times| *times <= 1), "{of_others:?}");
    sessions.delete_user("busy", "bob").await.unwrap();
    for notices in &mut others[..2] {
        timeout(Duration::from_secs(1), notices.next()).await.expect("it is about them").unwrap();
    }
}

/// Returns the duration of an append in seconds.
async fn append_time(sessions: &dyn SessionService, key: &SessionKey) -> f64 {
    let begun = Instant::now();
    for n in 0..3 * COMMITS {
        append(sessions, key, setting("n", n as u64)).await.unwrap();
    }
    begun.elapsed().as_secs_f64() / (3 * COMMITS) as f64
}

async fn idle_watchers_cost_a_writer_next_to_nothing(store: Store) {
    let sessions = store.sessions;
    let busy = create(&*sessions, "busy", "alice").await;
    let idle = create(&*sessions, "idle", "bob").await;
    let watches = Arc::new(Watches::new(Arc::clone(&sessions)));
    let mut ratios = Vec::new();
    let (mut with, mut without) = (0.0, 0.0);
    for _ in 0..5 {
        let (mut watchers, begun) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for n in 0..1000 {
            let what = [idle.app().into(), idle.user().into(), Watched::session(idle.clone())][n % 3].clone();
            let (watches, begun) = (Arc::clone(&watches), Arc::clone(&begun));
            watchers.spawn(async move {
                let mut watch = watches.start(what, FeedStart::Now).await.unwrap();
                begun.fetch_add(1, Ordering::Relaxed);
                while watch.next().await.is_ok() {}
            });
        }
        while begun.load(Ordering::Relaxed) < 1000 {
            if let Some(ended) = watchers.try_join_next() {
                panic!("a watcher ended before all had begun: {ended:?}");
            }
            sleep(Duration::from_millis(20)).await;
        }
        // Waits until the watchers have subscribed and sleep.
        sleep(Duration::from_millis(1500)).await;
        with = append_time(&*sessions, &busy).await;
        watchers.shutdown().await;
        without = append_time(&*sessions, &busy).await;
        ratios.push(with / without);
    }
    ratios.sort_by(f64::total_cmp);
    println!("an append with 1,000 idle watchers {with:.6} s, without {without:.6} s, ratios {ratios:.2?}");
    // The benches measure this exactly. While other tests run, this only shows that the time is not a multiple.
    assert!(ratios[0] < 1.5, "{ratios:?}");
}

macro_rules! watching_tests {
    ($name:ident, $open:path) => {
        mod $name {
            mod timing {
                #[test]
                fn many_who_follow_one_session_read_each_commit_once() {
                    let counts = super::super::RecordedCounters::default();
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    metrics::with_local_recorder(&counts, || {
                        runtime.block_on(async {
                            let (store, _guard) = $open().await;
                            super::super::many_follow_one_session(store, &counts).await;
                        });
                    });
                }
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn idle_watchers_cost_a_writer_next_to_nothing() {
                let (store, _guard) = $open().await;
                super::idle_watchers_cost_a_writer_next_to_nothing(store).await;
            }

            #[tokio::test]
            async fn only_those_wake_whose_commit_it_was() {
                let (store, _guard) = $open().await;
                super::only_those_wake_whose_commit_it_was(store).await;
            }
        }
    };
}

for_each_store!(watching_tests);
