//! Titles and labels of sessions, and lists filtered by them.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use serde_json::json;

use super::support::{NAMES, TestApp, assert_refused, ids, saying, state};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{
    CreateSessionConfig, Expiry, FeedStart, ForkConfig, GetSessionConfig, ListSessionsConfig, ListSessionsResponse,
    Prune, Session, SessionKey, SessionUpdate,
};
use scratchbook_core::store::Store;

fn named(id: &str) -> CreateSessionConfig {
    CreateSessionConfig::default().with_session_id(id)
}

fn titled(id: &str, title: &str) -> CreateSessionConfig {
    named(id).with_title(title)
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn update() -> SessionUpdate {
    SessionUpdate::default()
}

async fn change(test: &TestApp, key: &SessionKey, update: SessionUpdate) {
    test.sessions().update_session(key, update).await.expect("update_session");
}

/// Returns all sessions that a list returns, page by page.
async fn find(test: &TestApp, config: ListSessionsConfig) -> Vec<Session> {
    let (mut config, mut found) = (config, Vec::new());
    for _ in 0..10_000 {
        let page = test.sessions().list_sessions(&test.app, &config).await.expect("list_sessions");
        let ListSessionsResponse { sessions, next_page_token, .. } = page;
        assert!(sessions.len() <= config.page_size, "{} sessions in a page", sessions.len());
        found.extend(sessions);
        let Some(token) = next_page_token else { return found };
        config = config.with_page_token(token);
    }
    panic!("pages come to no end");
}

fn all() -> ListSessionsConfig {
    ListSessionsConfig::default()
}

/// A title and labels are kept exactly, and every read of the session and every list shows them; a session created
/// without them has none.
pub async fn titles_and_labels_come_back_as_they_were_given(store: &Store) {
    let test = TestApp::new(store);
    for (n, name) in NAMES.iter().copied().enumerate() {
        let config = titled(&format!("s{n}"), name).with_label(name, "").with_label("name", name);
        let made = test.create_as("alice", config.with_state(json!({"n": n}))).await;
        for session in [made.clone(), test.get(made.key()).await] {
            assert_eq!(session.title(), Some(name));
            assert_eq!(*session.labels(), labels(&[(name, ""), ("name", name)]));
            assert_eq!(state(&session), json!({"n": n}));
        }
    }
    let listed = find(&test, all()).await;
    assert_eq!(listed.len(), NAMES.len());
    for session in listed {
        assert_eq!(session.title(), session.labels().get("name").map(String::as_str));
    }
    for config in [named("plain"), titled("empty", "")] {
        let plain = test.create_as("alice", config).await;
        for session in [plain.clone(), test.get(plain.key()).await] {
            assert_eq!((session.title(), session.labels().len()), (None, 0));
        }
    }
}

/// A session can be created with a title, labels, state in every scope and events in one commit; with a taken id it is
/// `AlreadyExists`, and the existing session stays unchanged.
pub async fn a_session_is_made_with_all_of_it_or_not_at_all(store: &Store) {
    let test = TestApp::new(store);
    let config = titled("s", "first").with_label("a", "1").with_state(json!({"own": 1, "user:u": 2, "app:a": 3}));
    let expires = config.with_events(vec![saying("hello"), saying("bye")]).with_expire_time(4_000_000_000.0);
    let made = test.create_as("alice", expires).await;
    assert_eq!((made.seq(), made.events().len(), made.expire_time()), (2, 2, Some(4_000_000_000.0)));
    assert_eq!((made.title(), made.labels()), (Some("first"), &labels(&[("a", "1")])));
    assert_eq!(state(&made), json!({"own": 1, "user:u": 2, "app:a": 3}));
    let second = titled("s", "second").with_label("b", "2").with_state(json!({"user:u": 4}));
    assert_refused(test.try_create("alice", second).await, ErrorKind::AlreadyExists, "a taken id");
    let kept = test.get(made.key()).await;
    assert_eq!((kept.title(), kept.labels()), (Some("first"), &labels(&[("a", "1")])));
    assert_eq!(state(&kept), json!({"own": 1, "user:u": 2, "app:a": 3}));

    change(&test, made.key(), update().with_expiry(Expiry::At(1.0))).await;
    let again = test.create_as("alice", titled("s", "third")).await;
    assert_eq!((again.title(), again.labels().len(), again.seq()), (Some("third"), 0, 0));
}

/// An update changes only what it names: it sets and removes the title and single labels, or replaces all labels.
pub async fn an_update_changes_what_it_names(store: &Store) {
    let test = TestApp::new(store);
    let config = titled("s", "one").with_label("a", "1").with_label("b", "2").with_label("c", "3");
    let key = test.create_as("alice", config).await.key().clone();
    let steps = [
        (update(), Some("one"), labels(&[("a", "1"), ("b", "2"), ("c", "3")])),
        (update().with_title("two \u{1f4da}"), Some("two \u{1f4da}"), labels(&[("a", "1"), ("b", "2"), ("c", "3")])),
        (update().with_label("a", "9").with_label("d", ""), Some("two \u{1f4da}"), {
            labels(&[("a", "9"), ("b", "2"), ("c", "3"), ("d", "")])
        }),
        (update().without_label("b").without_label("none").without_title(), None, {
            labels(&[("a", "9"), ("c", "3"), ("d", "")])
        }),
        (update().without_other_labels().with_label("c", "4"), None, labels(&[("c", "4")])),
        (update().without_other_labels().with_title("three"), Some("three"), labels(&[])),
        (update().with_title(""), None, labels(&[])),
    ];
    for (number, (update, title, labels)) in steps.into_iter().enumerate() {
        for _ in 0..2 {
            change(&test, &key, update.clone()).await;
            let session = test.get(&key).await;
            assert_eq!((session.title(), session.labels()), (title, &labels), "after step {number}");
        }
    }
}

/// An update is not an event: number, update time, state and expiry stay unchanged, no feed shows it, and it does not
/// conflict with appends.
pub async fn an_update_is_no_event(store: &Store) {
    let test = TestApp::new(store);
    let config = titled("s", "t").with_state(json!({"a": 1, "user:u": 1})).with_expire_time(4_000_000_000.0);
    let key = test.create_as("alice", config).await.key().clone();
    test.append(&key, saying("hello").with_timestamp(1_700_000_000.5)).await;
    let before = test.get(&key).await;
    let feed = test.sessions().list_feed(&test.app(), &FeedStart::Now, 9).await.unwrap();
    change(&test, &key, update().with_title("new").with_label("a", "b")).await;
    let after = test.get(&key).await;
    assert_eq!(after.title(), Some("new"));
    let facts = |s: &Session| (s.seq(), s.last_update_time(), s.expire_time(), state(s), s.events().len());
    assert_eq!(facts(&after), facts(&before));
    let feed = test.sessions().list_feed(&test.app(), &FeedStart::After(feed.cursor), 9).await.unwrap();
    assert!(feed.entries.is_empty(), "an update is told in a feed");
    let options = scratchbook_core::session::AppendOptions::by_session(before.seen().clone());
    test.sessions().append(&key, saying("more"), options).await.expect("an append after an update");
    let now = test.get(&key).await;
    assert_eq!((now.title(), now.labels(), now.seq()), (Some("new"), &labels(&[("a", "b")]), 2));
}

/// Concurrent updates are all applied: each changes its own label, and appends continue meanwhile.
pub async fn updates_side_by_side_are_all_done(store: &Store) {
    let test = TestApp::new(store);
    let key = &test.create_as("alice", named("s")).await.key().clone();
    let work = (0..24).map(|n| {
        let test = &test;
        async move {
            change(test, key, update().with_label(format!("l{n}"), format!("{n}"))).await;
            test.append(key, saying("hello")).await;
        }
    });
    stream::iter(work).buffer_unordered(8).collect::<Vec<()>>().await;
    let session = test.get(key).await;
    let expected: BTreeMap<_, _> = (0..24).map(|n| (format!("l{n}"), format!("{n}"))).collect();
    assert_eq!((session.labels(), session.seq()), (&expected, 24));
}

/// An update of a session that does not exist, was deleted, has expired or belongs to another user is `NotFound`.
pub async fn an_update_of_a_missing_session_is_not_found(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create_as("alice", titled("s", "mine")).await.key().clone();
    let other = test.key("bob", "s");
    assert_refused(
        test.sessions().update_session(&other, update().with_title("x")).await,
        ErrorKind::NotFound,
        "other",
    );
    assert_refused(test.sessions().update_session(&other, update()).await, ErrorKind::NotFound, "nothing of it");
    assert_eq!(test.get(&key).await.title(), Some("mine"));
    change(&test, &key, update().with_expiry(Expiry::At(1.0))).await;
    assert_refused(test.sessions().update_session(&key, update()).await, ErrorKind::NotFound, "an expired session");
    test.sessions().delete_session(&key).await.unwrap();
    assert_refused(test.sessions().update_session(&key, update()).await, ErrorKind::NotFound, "a deleted session");
    let again = test.create_as("alice", named("s")).await;
    assert_eq!(again.title(), None, "a session made anew has the title of the one before");
}

/// A fork copies the session's current title and labels; afterwards both change independently.
pub async fn a_fork_takes_title_and_labels_over(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create_as("alice", titled("s", "before").with_label("a", "1")).await.key().clone();
    test.append(&key, saying("hello")).await;
    change(&test, &key, update().with_title("now")).await;
    let fork = test.sessions().fork_session(&key, ForkConfig::at(0)).await.unwrap();
    for session in [fork.clone(), test.get(fork.key()).await] {
        assert_eq!((session.title(), session.labels()), (Some("now"), &labels(&[("a", "1")])));
    }
    change(&test, fork.key(), update().with_title("fork").without_label("a")).await;
    let (kept, fork) = (test.get(&key).await, test.get(fork.key()).await);
    assert_eq!((kept.title(), kept.labels().len()), (Some("now"), 1));
    assert_eq!((fork.title(), fork.labels().len()), (Some("fork"), 0));
}

/// Pruning events does not change title and labels.
pub async fn pruning_leaves_title_and_labels(store: &Store) {
    let test = TestApp::new(store);
    let config = titled("s", "kept").with_label("a", "1").with_events(vec![saying("1"), saying("2")]);
    let key = test.create_as("alice", config).await.key().clone();
    test.sessions().prune(Prune::events(&key, 2), 10).await.unwrap();
    let session = test.read(&key, GetSessionConfig::state_only()).await;
    assert_eq!((session.title(), session.labels()), (Some("kept"), &labels(&[("a", "1")])));
}

/// A title has at most 2,048 bytes; there are at most 64 labels, with names of 1 to 256 bytes, values of at most 512
/// bytes, and 16 KiB in total; none of them contains control characters. A refused update changes nothing.
pub async fn titles_and_labels_have_limits(store: &Store) {
    let test = TestApp::new(store);
    let most = (0..64).fold(titled("most", &"\u{e9}".repeat(512)), |config, n| config.with_label(format!("l{n}"), "v"));
    let most = most.with_label("l0", "v".repeat(256)).with_label("l1", "\u{1f4da}".repeat(64));
    let key = test.create_as("alice", most).await.key().clone();
    let long = named("long").with_label("n".repeat(256), "v");
    test.create_as("alice", long).await;
    let large = (0..64).fold(update(), |update, n| update.with_label(format!("l{n}"), "v".repeat(255)));
    let bad = [
        (update().with_title("t".repeat(2049)), "2049"),
        (update().with_title("nul \0"), "control character"),
        (update().with_title("two\nlines"), "control character"),
        (update().with_label("", "v"), "without a name"),
        (update().with_label("n".repeat(257), "v"), "257"),
        (update().with_label("n\0", "v"), "control character"),
        (update().with_label("n", "v".repeat(513)), "513"),
        (update().with_label("n", "\0"), "control character"),
        (update().without_label("n".repeat(257)), "257"),
        (update().with_label("more", "v"), "65"),
        (large, "16384"),
    ];
    for (update, word) in bad {
        let what = format!("an update with {word}");
        let error = assert_refused(
            test.sessions().update_session(&key, update.clone()).await,
            ErrorKind::InvalidArgument,
            &what,
        );
        assert!(error.to_string().contains(word), "{error}");
        let mut config = named("never");
        config.title = update.title;
        config.labels = update.labels.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        if word != "65" && !config.labels.is_empty() | config.title.is_some() {
            assert_refused(test.try_create("alice", config.clone()).await, ErrorKind::InvalidArgument, &what);
        }
    }
    for bad in [
        all().with_title_containing("\0"),
        all().with_title("\0"),
        all().with_label("", "v"),
        all().with_label("a", "\0"),
    ] {
        let refused = test.sessions().list_sessions(&test.app, &bad).await;
        assert_refused(refused, ErrorKind::InvalidArgument, "a list");
    }
    let session = test.get(&key).await;
    assert_eq!((session.title().map(str::len), session.labels().len()), (Some(1024), 64));
    assert_eq!(session.labels()["l1"], "\u{1f4da}".repeat(64));
    assert_eq!(find(&test, all()).await.len(), 2, "something of a refused session is there");
}

/// Sessions are found by a part of their title, ignoring case, whatever characters it has; nothing in the text is a
/// pattern.
pub async fn sessions_are_found_by_a_part_of_their_title(store: &Store) {
    let test = TestApp::new(store);
    let titles = [
        ("parcel", "Where is my Parcel?"),
        ("percent", "100% of all_parcels"),
        ("slash", "a\\b 'it''s' \"quoted\" [a-z] *"),
        ("street", "Hauptstra\u{df}e \u{1f4da} \u{c9}t\u{c9}"),
        ("greek", "\u{39f}\u{394}\u{39f}\u{3a3}"),
        ("spaces", "two  spaces "),
    ];
    for (number, (id, title)) in titles.into_iter().enumerate() {
        test.create_as("alice", titled(id, title).with_create_time(number as f64)).await;
    }
    test.create_as("alice", named("untitled").with_create_time(99.0).with_state(json!({"title": "parcel"}))).await;
    let found: &[(&str, &[&str])] = &[
        ("parcel", &["parcel", "percent"]),
        ("PARCEL", &["parcel", "percent"]),
        ("100%", &["percent"]),
        ("%", &["percent"]),
        ("_", &["percent"]),
        ("all_p", &["percent"]),
        ("allxp", &[]),
        ("\\", &["slash"]),
        ("it''s", &["slash"]),
        ("\"quoted\"", &["slash"]),
        ("[a-z]", &["slash"]),
        ("*", &["slash"]),
        ("STRASSE", &["street"]),
        ("\u{1f4da}", &["street"]),
        ("\u{e9}t\u{e9}", &["street"]),
        ("ete", &[]),
        ("e\u{301}", &[]),
        ("\u{3bf}\u{3b4}\u{3bf}\u{3c2}", &["greek"]),
        ("  ", &["spaces"]),
        ("spaces ", &["spaces"]),
        ("where is my parcel? no", &[]),
        ("", &["parcel", "percent", "slash", "street", "greek", "spaces", "untitled"]),
    ];
    for (text, expected) in found {
        assert_eq!(ids(&find(&test, all().with_title_containing(*text)).await), *expected, "{text:?}");
    }
    assert_eq!(ids(&find(&test, all().with_title("100% of all_parcels")).await), ["percent"]);
    assert_eq!(ids(&find(&test, all().with_title("100% OF all_parcels")).await), [""; 0]);
    assert_eq!(ids(&find(&test, all().with_title("")).await), ["untitled"]);
}

/// Sessions are found by all requested labels; names and values are compared byte by byte.
pub async fn sessions_are_found_by_their_labels(store: &Store) {
    let test = TestApp::new(store);
    for (n, name) in NAMES.iter().copied().enumerate() {
        let config = named(&format!("s{n}")).with_create_time(n as f64);
        test.create_as("alice", config.with_label(name, "x").with_label("name", name).with_label("all", "")).await;
    }
    for (n, name) in NAMES.iter().copied().enumerate() {
        let id = format!("s{n}");
        assert_eq!(ids(&find(&test, all().with_label("name", name)).await), [&id], "the value {name:?}");
        assert_eq!(ids(&find(&test, all().with_label(name, "x")).await), [&id], "the name {name:?}");
        assert_eq!(find(&test, all().with_label(name, "X")).await.len(), 0, "{name:?}");
        let both = all().with_label("name", name).with_label("all", "");
        assert_eq!(ids(&find(&test, both.clone()).await), [&id]);
        assert_eq!(find(&test, both.with_label("none", "")).await.len(), 0);
    }
    assert_eq!(find(&test, all().with_label("all", "")).await.len(), NAMES.len());
    let key = test.key("alice", "s0");
    change(&test, &key, update().with_label("all", "but one").with_title("odd")).await;
    assert_eq!(find(&test, all().with_label("all", "")).await.len(), NAMES.len() - 1);
    assert_eq!(ids(&find(&test, all().with_label("all", "but one").with_title_containing("ODD")).await), ["s0"]);
    assert_eq!(find(&test, all().with_label("all", "").with_title_containing("ODD")).await.len(), 0);
}

/// A found session has its state, its labels and no events. Sessions of other users, expired sessions and deleted
/// sessions are never found.
pub async fn what_is_found_is_live_and_ones_own(store: &Store) {
    let (test, elsewhere) = (TestApp::new(store), TestApp::new(store));
    for (test, user, id) in [(&test, "alice", "1"), (&test, "bob", "2"), (&elsewhere, "alice", "3")] {
        let config = titled(id, "the same").with_label("a", "1").with_create_time(1.0).with_state(json!({"id": id}));
        test.create_as(user, config.with_events(vec![saying("hello").with_timestamp(2.0)])).await;
    }
    for id in ["gone", "expired"] {
        test.create_as("alice", titled(id, "the same").with_label("a", "1")).await;
    }
    test.sessions().delete_session(&test.key("alice", "gone")).await.unwrap();
    change(&test, &test.key("alice", "expired"), update().with_expiry(Expiry::At(1.0))).await;
    for config in [all().with_title_containing("SAME"), all().with_title("the same"), all().with_label("a", "1")] {
        assert_eq!(ids(&find(&test, config.clone()).await), ["1", "2"]);
        assert_eq!(ids(&find(&test, config.clone().with_user_id("bob")).await), ["2"]);
        assert_eq!(ids(&find(&test, config.clone().with_user_id("carol")).await), [""; 0]);
        let found = find(&test, config.with_user_id("alice")).await;
        assert_eq!((state(&found[0]), found[0].events().len(), found[0].seq()), (json!({"id": "1"}), 0, 1));
        assert_eq!((found[0].labels(), found[0].last_update_time()), (&labels(&[("a", "1")]), 2.0));
    }
    test.sessions().delete_user(&test.app, "bob").await.unwrap();
    assert_eq!(ids(&find(&test, all().with_label("a", "1")).await), ["1"]);
}

/// Pages of any size, in both orders, together have every matching session once, however few match.
pub async fn pages_hold_every_wanted_session_once(store: &Store) {
    let test = TestApp::new(store);
    for n in 0..17 {
        // Three sessions have the same time, so that pages end among equals.
        let config = titled(&format!("s{n:02}"), ["red", "green"][n % 2]).with_create_time((n / 3) as f64);
        test.create_as(["alice", "bob"][n / 2 % 2], config.with_label("rare", (n % 7).to_string())).await;
    }
    let rare = all().with_label("rare", "3");
    for config in [all(), all().with_title_containing("E"), all().with_title("green"), rare] {
        for user in [None, Some("alice"), Some("bob")] {
            let mut config = config.clone();
            config.user_id = user.map(str::to_owned);
            let whole = find(&test, config.clone().with_page_size(1000)).await;
            assert!(user.is_some() || whole.len() > 1, "nothing was to be found");
            assert!(whole.iter().all(|s| user.is_none_or(|user| s.user_id() == user)));
            let reversed: Vec<_> = whole.iter().rev().cloned().collect();
            for page_size in 1..=18 {
                let config = config.clone().with_page_size(page_size);
                assert_eq!(ids(&find(&test, config.clone()).await), ids(&whole), "pages of {page_size}");
                let newest = find(&test, config.newest_first()).await;
                assert_eq!(ids(&newest), ids(&reversed), "pages of {page_size}, the newest first");
            }
        }
    }
    let token = all().with_page_size(4).newest_first();
    let page = test.sessions().list_sessions(&test.app, &token).await.unwrap();
    let of_user = token.with_user_id("bob").with_page_token(page.next_page_token.unwrap());
    let rest = find(&test, of_user).await;
    let of_bob = find(&test, all().with_user_id("bob").newest_first()).await;
    let seen = page.sessions.iter().filter(|session| session.user_id() == "bob").count();
    assert_eq!(ids(&rest), ids(&of_bob[seen..]), "a token of the app's list in that of a user");
}

/// A page of a filtered list examines no more than 1,000 sessions, and the following pages find the rest.
pub async fn a_page_looks_at_a_thousand_sessions(store: &Store) {
    let test = TestApp::new(store);
    let make = |n: usize| {
        let config = named(&format!("s{n:04}")).with_create_time(n as f64);
        let config = if n % 1050 == 1049 { config.with_title("Needle").with_label("needle", "1") } else { config };
        let test = &test;
        async move { drop(test.create_as("alice", config).await) }
    };
    stream::iter((0..2100).map(make)).buffer_unordered(32).collect::<Vec<()>>().await;
    for config in [all().with_title_containing("NEEDLE"), all().with_label("needle", "1").with_user_id("alice")] {
        let first = test.sessions().list_sessions(&test.app, &config).await.unwrap();
        assert!(first.sessions.is_empty() && first.next_page_token.is_some(), "the first page has looked further");
        assert_eq!(ids(&find(&test, config.clone()).await), ["s1049", "s2099"]);
        assert_eq!(ids(&find(&test, config.with_page_size(1).newest_first()).await), ["s2099", "s1049"]);
    }
    let none = find(&test, all().with_title_containing("no such title"));
    assert_eq!(none.await.len(), 0);
}

/// On request, the newest sessions come first, in exactly the reverse order.
pub async fn the_newest_may_come_first(store: &Store) {
    let test = TestApp::new(store);
    for (id, user, time) in [("b", "alice", 2.0), ("a", "bob", 2.0), ("c", "alice", 1.0), ("d", "alice", 3.0)] {
        test.create_as(user, named(id).with_create_time(time)).await;
    }
    assert_eq!(ids(&find(&test, all().newest_first()).await), ["d", "a", "b", "c"]);
    test.append(&test.key("alice", "c"), saying("later").with_timestamp(4.0)).await;
    change(&test, &test.key("alice", "b"), update().with_title("no update of this kind")).await;
    assert_eq!(ids(&find(&test, all().newest_first()).await), ["c", "d", "a", "b"]);
    assert_eq!(ids(&find(&test, all().newest_first().with_user_id("alice")).await), ["c", "d", "b"]);
}

/// A snapshot shows the metadata as of its read, and the current metadata after a refresh.
pub async fn a_refresh_shows_the_title(store: &Store) {
    use scratchbook_core::session::SessionServiceExt;
    let test = TestApp::new(store);
    let mut copy = test.create_as("alice", titled("s", "old")).await;
    change(&test, copy.key(), update().with_title("new").with_label("a", "1")).await;
    assert_eq!(copy.title(), Some("old"));
    test.sessions().refresh(&mut copy).await.unwrap();
    assert_eq!((copy.title(), copy.labels()), (Some("new"), &labels(&[("a", "1")])));
}
