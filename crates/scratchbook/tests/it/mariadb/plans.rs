//! The cost of a read depends on what it returns. The tests count the rows that the server reads, without fresh
//! statistics.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use scratchbook::session::{ChangeQuery, FeedStart, ListSessionsConfig, ListStateConfig, Prune, StateOwner};
use scratchbook::store::MySqlSessionService;
use scratchbook::{CreateSessionConfig, Event, GetSessionConfig, SessionKey, SessionService};
use scratchbook_test_servers::{MariaDb, MySqlOptions};
use serde_json::json;

use super::server::connection;

/// Counts the rows that the whole server has read since the last count.
struct Counter {
    connection: Conn,
    last: u64,
}

impl Counter {
    async fn rows(&mut self) -> u64 {
        let sql = "SELECT CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM information_schema.GLOBAL_STATUS
            WHERE VARIABLE_NAME IN ('HANDLER_READ_NEXT', 'HANDLER_READ_PREV', 'HANDLER_READ_KEY', 'HANDLER_READ_FIRST',
                'HANDLER_READ_LAST', 'HANDLER_READ_RND', 'HANDLER_READ_RND_NEXT', 'HANDLER_TMP_WRITE')";
        let now: u64 = self.connection.query_first(sql).await.unwrap().unwrap();
        let since = now.saturating_sub(self.last);
        // The cost of counting is included in the next count.
        self.last = self.connection.query_first::<u64, _>(sql).await.unwrap().unwrap();
        since
    }
}

/// Inserts many rows at once, from the server's own tables of numbers.
async fn fill(connection: &mut Conn, events: u64) {
    connection
        .query_drop(format!(
            "INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, token)
             VALUES ('app', 'u', 'long', {events}, 0, {events}000000, '');
             INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, token)
             SELECT 'app', CONCAT('user', seq % 100), CONCAT('s', seq), 0, 0, seq, '' FROM seq_1_to_20000;
             INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, token)
             SELECT 'many', CONCAT('user', seq % 100), CONCAT('s', seq), 0, 0, seq, '' FROM seq_1_to_100000;
             INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, token)
             SELECT 'many', CONCAT('user', seq), 'same', 0, 0, seq, '' FROM seq_1_to_1000;
             INSERT INTO users (app_name, user_id, position) VALUES ('app', 'u', {events});
             INSERT INTO apps (app_name, position) VALUES ('app', 0);
             INSERT INTO session_states (app_name, user_id, session_id, `key`, value, seq)
             SELECT 'app', 'u', 'long', CONCAT('k', seq), '1', 0 FROM seq_1_to_1000;
             INSERT INTO events (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event,
                 user_position, app_position)
             SELECT 'app', 'u', 'long', seq, CONCAT('e', seq), REPEAT('h', 32), '', 'a', seq,
                 CONCAT('{{\"author\":\"a\",\"id\":\"e', seq, '\",\"invocationId\":\"\",\"timestamp\":', seq,
                     ',\"actions\":{{\"stateDelta\":{{}},\"artifactDelta\":{{}},\"requestedAuthConfigs\":{{}}}}}}'), 0, 0
             FROM seq_1_to_{events};
             INSERT INTO state_log (app_name, scope, user_id, position, `key`, version, value, event_id, author, time)
             SELECT 'app', 'user', 'u', seq, 'k', seq, '1', '', 'a', 1 FROM seq_1_to_{events};
             INSERT INTO user_states (app_name, user_id, `key`, value, version, position)
             VALUES ('app', 'u', 'k', '1', {events}, {events});
             INSERT INTO app_states (app_name, `key`, value, version, position)
             SELECT 'listed', CONCAT('k', seq), '1', 1, 0 FROM seq_1_to_1000;
             INSERT INTO checkpoints (app_name, user_id, session_id, seq, state) VALUES ('app', 'u', 'long', {events}, '{{}}')"
        ))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_costs_what_it_returns() {
    const EVENTS: u64 = 100_000;
    // Statistics are never taken, as right after a large import.
    let options = MySqlOptions::default().with_fast_disk().with_line("innodb_stats_auto_recalc = 0");
    let server = MariaDb::start(&options).unwrap();
    let service = MySqlSessionService::connect(&server.uri()).await.unwrap();
    let mut connection = connection(&server.uri()).await;
    fill(&mut connection, EVENTS).await;
    let mut counter = Counter { connection, last: 0 };
    let key = SessionKey::new("app", "u", "long").unwrap();
    let some = || GetSessionConfig::default().with_state_keys(["k1", "user:k", "none"]);
    let last = EVENTS as f64;
    let reads = [
        ("state alone", GetSessionConfig::default().with_num_recent_events(0), 0, 1100),
        ("some keys alone", some().with_num_recent_events(0), 0, 30),
        ("the last 10", some().with_num_recent_events(10), 10, 60),
        ("after a number", some().with_events_after(50_000, 10), 10, 60),
        ("before a number", some().with_events_before(50_000, 10), 10, 60),
        ("since late", some().with_after_timestamp(last - 9.0), 10, 60),
        ("the last 10 since late", some().with_after_timestamp(last - 9.0).with_num_recent_events(10), 10, 300),
        ("the last 10 since later", some().with_after_timestamp(last - 4.0).with_num_recent_events(10), 5, 300),
        ("the last 10 since early", some().with_after_timestamp(1.0).with_num_recent_events(10), 10, 400),
        ("the last 10 since the middle", some().with_after_timestamp(50_000.0).with_num_recent_events(10), 10, 400),
        ("the last 10 since ever", some().with_after_timestamp(0.0).with_num_recent_events(10), 10, 400),
    ];
    service.get_session(&key, &some()).await.unwrap();
    for (what, config, events, most) in reads {
        counter.rows().await;
        let session = service.get_session(&key, &config).await.unwrap().unwrap();
        let rows = counter.rows().await;
        assert_eq!(session.events().len(), events, "{what}");
        println!("{what}: {rows} rows");
        assert!(rows <= most, "{what}: {rows} rows");
    }
    for (seq, most) in [(0, 60), (10, 60), (EVENTS, 60)] {
        counter.rows().await;
        let state = service.get_state_at(&key, seq).await.unwrap();
        let rows = counter.rows().await;
        println!("state at event {seq}: {rows} rows for {} keys", state.iter().count());
        assert!(rows <= most, "the state at event {seq}: {rows} rows");
    }
    let owner = StateOwner::user("app", "u").unwrap();
    for before in [10, EVENTS / 2, u64::MAX] {
        counter.rows().await;
        let changes = service.list_state_changes(&owner, &ChangeQuery::of_key("k", before), 5).await.unwrap();
        let rows = counter.rows().await;
        println!("changes of a key before {before}: {rows} rows");
        assert_eq!(changes.len(), 5);
        assert!(rows <= 30, "changes of a key before {before}: {rows} rows");
    }
    let app = StateOwner::app("app").unwrap();
    for feed in [&app, &owner] {
        service.list_feed(feed, &FeedStart::Beginning, 10).await.unwrap();
        let mut start = FeedStart::Beginning;
        for _ in 0..3 {
            counter.rows().await;
            let page = service.list_feed(feed, &start, 10).await.unwrap();
            let rows = counter.rows().await;
            println!("a page of a feed: {rows} rows");
            assert_eq!(page.entries.len(), 10);
            assert!(rows <= 200, "a page of a feed: {rows} rows");
            start = FeedStart::After(page.cursor);
        }
    }
    // The events of this user come after all events of another user.
    let late = StateOwner::user("app", "late").unwrap();
    let events = (0..20).map(|n| Event::new("agent").with_timestamp(f64::from(n))).collect();
    let config = CreateSessionConfig::default().with_state(json!({"a": 1, "user:b": 1})).with_events(events);
    service.create_session("app", "late", config).await.unwrap();
    service.list_feed(&late, &FeedStart::Beginning, 10).await.unwrap();
    counter.rows().await;
    let page = service.list_feed(&late, &FeedStart::Beginning, 10).await.unwrap();
    let rows = counter.rows().await;
    println!("a page of a late user's feed: {rows} rows");
    assert_eq!(page.entries.len(), 10);
    assert!(rows <= 200, "a page of the feed of a user among many: {rows} rows");
    counter.rows().await;
    let of_app = StateOwner::app("listed").unwrap();
    let page =
        service.list_state(&of_app, &ListStateConfig::default().with_after("k500").with_page_size(10)).await.unwrap();
    let rows = counter.rows().await;
    println!("a page of state: {rows} rows");
    assert_eq!(page.values.len(), 10);
    assert!(rows <= 40, "a page of state: {rows} rows");
    counter.rows().await;
    assert_eq!(service.prune(Prune::Expired, 10).await.unwrap(), 0);
    let rows = counter.rows().await;
    assert!(rows <= 30, "looking for expired sessions: {rows} rows");
    for (id, most) in [("s1", 20), ("s77777", 20), ("none", 20), ("same", 20)] {
        counter.rows().await;
        let found = service.locate_session("many", id).await;
        let rows = counter.rows().await;
        println!("whose session '{id}' is: {rows} rows");
        assert_eq!(found.ok().map(|key| key.is_some()), [Some(id != "none"), None][usize::from(id == "same")], "{id}");
        assert!(rows <= most, "whose session '{id}' is: {rows} rows");
    }
    for (id, most) in [("s1", 60), ("same", 60), ("once", 150)] {
        counter.rows().await;
        let unique = CreateSessionConfig::default().with_session_id(id).with_id_unique_in_app();
        let made = service.create_session("many", "somebody", unique).await;
        let rows = counter.rows().await;
        println!("a session made with the id '{id}', to be unique: {rows} rows");
        assert_eq!(made.is_ok(), id == "once", "{id}");
        assert!(rows <= most, "a session made with the id '{id}', to be unique: {rows} rows");
    }
    for after in [0, EVENTS / 2, EVENTS - 5] {
        counter.rows().await;
        let changes = service.list_state_changes(&owner, &ChangeQuery::After(after), 10).await.unwrap();
        let rows = counter.rows().await;
        println!("log after {after}: {rows} rows");
        assert!(rows <= 100, "the log after {after}: {rows} rows for {} changes", changes.len());
    }
    let ten = ListSessionsConfig::default().with_page_size(10);
    let of_user = ten.clone().with_user_id("user7");
    for config in [ten.clone(), of_user.clone(), of_user.newest_first()] {
        let mut token = None;
        for page in 0..3 {
            let mut config = config.clone();
            config.page_token = token;
            counter.rows().await;
            let listed = service.list_sessions("app", &config).await.unwrap();
            let rows = counter.rows().await;
            println!("list page {page}: {rows} rows");
            assert_eq!(listed.sessions.len(), 10);
            assert!(rows <= 400, "page {page}: {rows} rows");
            token = listed.next_page_token;
        }
    }
    // Three of 20,000 sessions have a title. They are on three of many pages.
    let titled = "UPDATE sessions SET title = 'Needle', labels = '{\"a\":\"b\"}' WHERE id IN ('s7', 's2500', 's2501')";
    counter.connection.query_drop(titled).await.unwrap();
    for (config, pages) in [(ten.clone().with_label("a", "b"), 21), (ten.with_title("Needle").with_user_id("user7"), 1)]
    {
        let (mut token, mut found) = (None, 0);
        for page in 0..pages {
            let mut config = config.clone();
            config.page_token = token;
            counter.rows().await;
            let listed = service.list_sessions("app", &config).await.unwrap();
            let rows = counter.rows().await;
            println!("page {page} of a search: {rows} rows");
            assert!(rows <= 5000, "page {page} of a search: {rows} rows");
            (token, found) = (listed.next_page_token, found + listed.sessions.len());
            assert_eq!(token.is_none(), page == pages - 1, "page {page}");
        }
        assert_eq!(found, if pages == 1 { 1 } else { 3 });
    }
    // The log of the app's keys is long, and few entries are the user's.
    let mut other = super::server::connection(&server.uri()).await;
    other
        .query_drop(
            "INSERT INTO state_log (app_name, scope, user_id, position, `key`, version, value, event_id, author, time)
             SELECT 'app', 'app', '', seq, 'k', seq, '1', '', IF(seq % 10000 = 0, 'user7', 'agent'), 1
             FROM seq_1_to_50000;
             UPDATE state_log SET author = 'user7 ' WHERE app_name = 'app' AND scope = 'app' AND position = 50000",
        )
        .await
        .unwrap();
    counter.rows().await;
    service.delete_user("app", "user7").await.unwrap();
    let rows = counter.rows().await;
    println!("delete a user: {rows} rows");
    assert!(rows <= 5000, "{rows} rows");
    let sql = "SELECT COUNT(*) FROM state_log WHERE scope = 'app' AND CAST(author AS BINARY) = ?";
    for (author, count) in [("user7", 0), ("", 4), ("user7 ", 1)] {
        assert_eq!(other.exec_first::<u64, _, _>(sql, (author,)).await.unwrap(), Some(count), "'{author}'");
    }
    // There are far more rows than one statement removes.
    service.delete_user("app", "u").await.unwrap();
    for table in ["events", "sessions", "session_states", "user_states", "users", "state_log"] {
        let sql = format!("SELECT COUNT(*) FROM {table} WHERE app_name = 'app' AND user_id = 'u'");
        assert_eq!(other.query_first::<u64, _>(sql).await.unwrap(), Some(0), "{table}");
    }
    service.close().await.unwrap();
}
