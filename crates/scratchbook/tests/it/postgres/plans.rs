//! The cost of calls by the server's own counters: the rows that were read, and not time.

use std::collections::BTreeMap;
use std::time::Duration;

use scratchbook::artifact::ArtifactService;
use scratchbook::content::Part;
use scratchbook::session::{
    ChangeQuery, Expiry, FeedStart, ForkConfig, ListSessionsConfig, ListStateConfig, LogPositions, Prune, Seen,
    SessionServiceExt, SessionUpdate, StateOwner,
};
use scratchbook::store::PostgresSessionService;
use scratchbook::{AppendOptions, CreateSessionConfig, Event, GetSessionConfig, SessionService, StateDelta};
use scratchbook_test_servers::{Postgres, PostgresOptions};
use serde_json::json;

use super::server::TestSchema;
use crate::database::{append, create, key, setting};

/// The calls append some more events, but never reach a number at which a checkpoint is made.
const EVENTS: usize = 3100;

/// Returns the number of rows of tables and entries of indexes that were read so far.
async fn touched(schema: &TestSchema, service: &PostgresSessionService) -> i64 {
    // The server counts the work of a connection a second later, when the connection runs another statement.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    service.get_state(&StateOwner::app("nobody").unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let of = |column, view| {
        format!("SELECT coalesce(sum({column}), 0)::bigint FROM {view} WHERE schemaname = current_schema()")
    };
    schema.number(&of("seq_tup_read", "pg_stat_user_tables")).await
        + schema.number(&of("idx_tup_read", "pg_stat_user_indexes")).await
}

/// Returns these numbers by table and index.
async fn by_part(schema: &TestSchema) -> BTreeMap<String, i64> {
    let sql = "SELECT relname::text, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = current_schema()
         UNION ALL SELECT indexrelname::text, idx_tup_read FROM pg_stat_user_indexes
         WHERE schemaname = current_schema()";
    schema.client().await.query(sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// The numbers so far. They are read once per group of calls, because reading them takes more than a second.
struct Meter<'a> {
    schema: &'a TestSchema,
    service: &'a PostgresSessionService,
    touched: i64,
    by_part: BTreeMap<String, i64>,
}

impl<'a> Meter<'a> {
    async fn new(schema: &'a TestSchema, service: &'a PostgresSessionService) -> Self {
        let (touched, by_part) = (touched(schema, service).await, by_part(schema).await);
        Self { schema, service, touched, by_part }
    }

    /// Ignores what was read since the last group of calls.
    async fn leave_out(&mut self) {
        *self = Self::new(self.schema, self.service).await;
    }
}

/// Checks that the average number of rows that a call reads is below a bound.
async fn costs<F: Future>(meter: &mut Meter<'_>, most: i64, what: &str, call: impl Fn(usize) -> F) {
    const CALLS: usize = 50;
    for n in 0..CALLS {
        call(n).await;
    }
    let before = std::mem::replace(&mut meter.touched, touched(meter.schema, meter.service).await);
    let parts = std::mem::replace(&mut meter.by_part, by_part(meter.schema).await);
    let each = (meter.touched - before) / CALLS as i64;
    println!("{what}: {each} rows and entries");
    if each > most {
        let mut read = meter.by_part.clone();
        for (name, count) in &mut read {
            *count -= parts.get(name).copied().unwrap_or_default();
        }
        read.retain(|_, count| *count > CALLS as i64);
        panic!("{what}: {each} rows and entries, {most} allowed; of all {CALLS} calls {read:?}");
    }
}

async fn every_call(schema: &TestSchema, service: &PostgresSessionService) {
    let meter = &mut Meter::new(schema, service).await;
    let long = &key("long");
    costs(meter, 20, "append", |n| async move {
        let delta = StateDelta::new().with("a", n).unwrap().with("user:u", n).unwrap().with("app:a", n).unwrap();
        append(service, long, crate::database::event(delta).with_timestamp(EVENTS as f64)).await.unwrap()
    })
    .await;
    costs(meter, 30, "append with operations", |_| async move {
        append(service, long, counting().with_timestamp(EVENTS as f64)).await.unwrap();
    })
    .await;
    costs(meter, 30, "append by key that is refused", |n| async move {
        let seen = Seen::new(1, LogPositions::new(1, 1));
        let late = crate::database::event(StateDelta::new().with("a", n).unwrap().with("app:a", n).unwrap());
        service.append(long, late, AppendOptions::by_key(seen)).await.unwrap_err();
    })
    .await;
    let user = &StateOwner::user("app", "alice").unwrap();
    let app = &StateOwner::app("app").unwrap();
    let at = EVENTS as u64 / 2;
    service.get_state_at(long, at).await.unwrap();
    // By then, the checkpoints on the way to this event are stored.
    tokio::time::sleep(Duration::from_millis(300)).await;
    meter.leave_out().await;
    costs(meter, 700, "state at an event in the middle", |_| async move {
        service.get_state_at(long, at).await.unwrap();
    })
    .await;
    costs(meter, 60, "blame, pages of state, a key's past", |_| async move {
        service.blame(long).await.unwrap();
        service.list_state(user, &ListStateConfig::default()).await.unwrap();
        service.list_state_changes(user, &ChangeQuery::of_key("u", u64::MAX), 5).await.unwrap();
    })
    .await;
    costs(meter, 60, "a key's past up to an event", |_| async move {
        let query = ChangeQuery::of_key_at("u", u64::MAX, long, at);
        service.list_state_changes(user, &query, 5).await.unwrap();
    })
    .await;
    costs(meter, 60, "the first page of a feed", |_| async move {
        service.list_feed(app, &FeedStart::Beginning, 5).await.unwrap();
    })
    .await;
    let late = &StateOwner::user("app", "late").unwrap();
    costs(meter, 60, "the first page of the feed of a user who comes after many events of others", |_| async move {
        assert_eq!(service.list_feed(late, &FeedStart::Beginning, 5).await.unwrap().entries.len(), 5);
    })
    .await;
    costs(meter, 60, "the next page of it", |_| async move {
        let first = service.list_feed(late, &FeedStart::Beginning, 1).await.unwrap().cursor;
        assert_eq!(service.list_feed(late, &FeedStart::After(first), 1).await.unwrap().entries.len(), 1);
    })
    .await;
    let now = &FeedStart::After(service.list_feed(app, &FeedStart::Now, 5).await.unwrap().cursor);
    append(service, long, setting("fed", 1)).await.unwrap();
    meter.leave_out().await;
    costs(meter, 60, "what is new in a feed", |_| async move {
        assert_eq!(service.list_feed(app, now, 5).await.unwrap().entries.len(), 1);
    })
    .await;
    costs(meter, 160, "a fork of a short session, expired and removed", |_| async move {
        let fork = service.fork_session(&key("first"), ForkConfig::at(1)).await.unwrap();
        service.set_expiry(fork.key(), Some(Expiry::At(1.0))).await.unwrap();
        assert_eq!(service.prune(Prune::Expired, 1).await.unwrap(), 1);
    })
    .await;
    costs(meter, 40, "a key written and what was overwritten pruned", |_| async move {
        let (other, delta) = (&StateOwner::app("other").unwrap(), StateDelta::new().with("put", 1).unwrap());
        let position = service.put_state(other, delta, "me".into()).await.unwrap();
        service.prune(Prune::state_log(other, position + 1), 10).await.unwrap();
    })
    .await;
    let all = GetSessionConfig::default;
    for _ in 0..10 {
        append(service, long, crate::database::event(StateDelta::new()).with_timestamp(EVENTS as f64 + 1.0))
            .await
            .unwrap();
    }
    meter.leave_out().await;
    let late = all().with_after_timestamp(EVENTS as f64 + 1.0);
    let early = all().with_after_timestamp(3.0);
    let shapes = &[
        GetSessionConfig::state_only(),
        GetSessionConfig::state_only().with_state_keys(["a", "user:u"]),
        all().with_num_recent_events(10),
        all().with_events_after(1000, 10),
        all().with_events_before(1000, 10),
        late.clone(),
        late.with_num_recent_events(5),
    ];
    costs(meter, 150, "seven ways to get some events of many", |_| async move {
        for shape in shapes {
            service.get_session(long, shape).await.unwrap().unwrap();
        }
    })
    .await;
    let early = &early.with_num_recent_events(5);
    costs(meter, 80, "the last few of many since a time", |_| async move {
        service.get_session(long, early).await.unwrap().unwrap()
    })
    .await;
    let (page, owner) = (ListSessionsConfig::default().with_page_size(5), &StateOwner::user("app", "alice").unwrap());
    let found = page.clone().with_label("a", "b");
    let lists = &[found.clone(), found.with_user_id("alice").newest_first()];
    costs(meter, 2500, "a page of those that have a label, with one title changed", |n| async move {
        let update = SessionUpdate::default().with_title(format!("{n}")).with_label("a", "b");
        service.update_session(&key("first"), update).await.unwrap();
        for list in lists {
            assert_eq!(service.list_sessions("app", list).await.unwrap().sessions.len(), 1);
        }
    })
    .await;
    let pages = &[page.clone(), page.clone().newest_first(), page.with_user_id("alice")];
    costs(meter, 90, "pages of lists and of a log, a session made and deleted", |n| async move {
        for page in pages {
            service.list_sessions("app", page).await.unwrap();
        }
        service.list_state_changes(owner, &ChangeQuery::After(0), 5).await.unwrap();
        create(service, &format!("short{n}"), json!({})).await;
        service.delete_session(&key(&format!("short{n}"))).await.unwrap();
    })
    .await;
    costs(meter, 20, "a session found by its id", |n| async move {
        let found = service.locate_session("many", &format!("s{n}")).await.unwrap();
        assert_eq!(found.map(|key| key.user_id().to_owned()), (n > 0).then(|| format!("user{}", n % 100)));
        service.locate_session("many", "same").await.unwrap_err();
    })
    .await;
    costs(meter, 60, "a session whose id is to be unique, refused and made and deleted", |n| async move {
        let unique = |id: String| CreateSessionConfig::default().with_session_id(id).with_id_unique_in_app();
        service.create_session("many", "somebody", unique("same".to_owned())).await.unwrap_err();
        let made = service.create_session("many", "somebody", unique(format!("new{n}"))).await.unwrap();
        service.delete_session(made.key()).await.unwrap();
    })
    .await;
    costs(meter, 20, "names of artifacts", |_| async move {
        assert_eq!(service.list_artifacts(&key("first")).await.unwrap(), ["of the session", "user:of the user"]);
    })
    .await;
    costs(meter, 60, "a user made and deleted among many", |n| async move {
        let user = format!("user{n}");
        service.create_session("app", &user, CreateSessionConfig::default()).await.unwrap();
        service.delete_user("app", &user).await.unwrap();
    })
    .await;
}

/// Moments in a young database at which the server may collect a table's statistics, which its plans use.
#[derive(Clone, Copy, Debug, PartialEq)]
enum StatisticsTime {
    /// Every statement has been planned, and a session has two events.
    Begun,
    /// A session has many events, all of one user.
    Long,
    /// There are many apps, users and sessions.
    Many,
}

/// Plans are made once per connection, and again after the server has collected a table's statistics. Plans for small
/// tables must also be good for large ones.
async fn calls_cost_what_they_touch(looks: &[(StatisticsTime, &str)]) {
    // On a shared server, another test's open transaction would keep old versions of rows alive. The server's
    // autovacuum would do the same, and would collect statistics at any moment.
    let server = Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap();
    let schema = TestSchema::on(&server.uri());
    schema.sql("ALTER SYSTEM SET autovacuum = off").await;
    schema.sql("SELECT pg_reload_conf()").await;
    let look = async |now: StatisticsTime| {
        for (_, sql) in looks.iter().filter(|(moment, _)| *moment == now) {
            schema.sql(sql).await;
        }
    };
    let service = PostgresSessionService::connect(&schema.uri("&pool_size=1")).await.unwrap();
    create(&service, "first", json!({"a": 1, "user:u": 1, "app:a": 1})).await;
    append(&service, &key("first"), setting("app:a", 1)).await.unwrap();
    warm(&service).await;
    look(StatisticsTime::Begun).await;
    let events = (1..=EVENTS).map(|n| Event::new("agent").with_timestamp(n as f64).with_id(format!("e{n}")));
    let config = CreateSessionConfig::default().with_session_id("long").with_events(events.collect());
    service.create_session("app", "alice", config).await.unwrap();
    look(StatisticsTime::Long).await;
    for n in 0..300 {
        create(&service, &format!("other{n}"), json!({})).await;
        save(&service, &format!("other{n}"), "a").await;
    }
    let events = (1..=10).map(|n| Event::new("agent").with_timestamp(f64::from(n))).collect();
    let config = CreateSessionConfig::default().with_state(json!({"a": 1, "user:b": 1})).with_events(events);
    service.create_session("app", "late", config).await.unwrap();
    fill_many(&schema).await;
    look(StatisticsTime::Many).await;
    every_call(&schema, &service).await;
}

#[tokio::test]
async fn calls_cost_what_they_touch_also_when_tables_have_grown() {
    calls_cost_what_they_touch(&[]).await;
}

#[tokio::test]
#[ignore = "long: a server of its own for a minute"]
async fn calls_cost_what_they_touch_when_the_server_has_looked_at_all_tables() {
    calls_cost_what_they_touch(&[(StatisticsTime::Many, "ANALYZE")]).await;
}

#[tokio::test]
#[ignore = "long: a server of its own for a minute"]
async fn calls_cost_what_they_touch_when_the_server_has_looked_at_all_tables_too_early() {
    calls_cost_what_they_touch(&[(StatisticsTime::Long, "ANALYZE")]).await;
}

#[tokio::test]
#[ignore = "long: a server of its own for a minute"]
async fn calls_cost_what_they_touch_when_the_server_has_looked_at_some_tables() {
    calls_cost_what_they_touch(&[
        (StatisticsTime::Begun, "ANALYZE events"),
        (StatisticsTime::Many, "ANALYZE sessions"),
    ])
    .await;
}

#[tokio::test]
#[ignore = "long: a server of its own for a minute"]
async fn calls_cost_what_they_touch_when_tables_were_vacuumed_early() {
    calls_cost_what_they_touch(&[(StatisticsTime::Long, "VACUUM ANALYZE events"), (StatisticsTime::Many, "VACUUM")])
        .await;
}

/// Creates many sessions in one app, and one id that a thousand users have.
async fn fill_many(schema: &TestSchema) {
    let session = "INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, token, position)";
    let of = "SELECT 'many', 'user' || n";
    schema
        .sql(&format!(
            "{session} {of} % 100, 's' || n, 0, 0, n, '', 0 FROM generate_series(1, 100000) AS n;
             {session} {of}, 'same', 0, 0, n, '', 0 FROM generate_series(1, 1000) AS n"
        ))
        .await;
}

fn counting() -> Event {
    let delta = StateDelta::new().with_increment("n", 1).unwrap().with_increment("user:n", 1).unwrap();
    crate::database::event(delta.with_increment("app:n", 1).unwrap())
}

async fn save(service: &PostgresSessionService, session: &str, name: &str) {
    service.save_artifact(&key(session), name, Part::text("x"), Default::default()).await.unwrap();
}

/// Makes the server plan every statement.
async fn warm(service: &PostgresSessionService) {
    let all = GetSessionConfig::default;
    for shape in [
        GetSessionConfig::state_only(),
        GetSessionConfig::state_only().with_state_keys(["a"]),
        all(),
        all().with_num_recent_events(10),
        all().with_after_timestamp(1.0),
        all().with_after_timestamp(1.0).with_num_recent_events(5),
    ] {
        service.get_session(&key("first"), &shape).await.unwrap();
    }
    append(service, &key("first"), counting()).await.unwrap();
    let late = AppendOptions::by_key(Seen::default());
    service.append(&key("first"), setting("app:a", 1), late.clone()).await.unwrap_err();
    service.append(&key("first"), setting("a", 1), late).await.unwrap();
    let (user, app) = (StateOwner::user("app", "alice").unwrap(), StateOwner::app("app").unwrap());
    service.get_state_at(&key("first"), 1).await.unwrap();
    service.blame(&key("first")).await.unwrap();
    service.list_state(&user, &ListStateConfig::default()).await.unwrap();
    service.list_state_changes(&user, &ChangeQuery::of_key("u", u64::MAX), 5).await.unwrap();
    let at_event = ChangeQuery::of_key_at("u", u64::MAX, &key("first"), 1);
    service.list_state_changes(&user, &at_event, 5).await.unwrap();
    let start = service.list_feed(&app, &FeedStart::Beginning, 5).await.unwrap().cursor;
    service.list_feed(&app, &FeedStart::After(start), 100).await.unwrap();
    let now = service.list_feed(&app, &FeedStart::Now, 5).await.unwrap().cursor;
    service.list_feed(&app, &FeedStart::After(now), 100).await.unwrap();
    let start = service.list_feed(&user, &FeedStart::Beginning, 1).await.unwrap().cursor;
    service.list_feed(&user, &FeedStart::After(start), 100).await.unwrap();
    let fork = service.fork_session(&key("first"), ForkConfig::at(1)).await.unwrap();
    service.set_expiry(fork.key(), Some(Expiry::At(1.0))).await.unwrap();
    service.prune(Prune::Expired, 1).await.unwrap();
    service.prune(Prune::state_log(&app, 1), 1).await.unwrap();
    let page = ListSessionsConfig::default();
    for page in [page.clone(), page.clone().newest_first(), page.clone().with_user_id("alice")] {
        service.list_sessions("app", &page).await.unwrap();
        service.list_sessions("app", &page.newest_first().with_label("a", "b")).await.unwrap();
    }
    let update = SessionUpdate::default().with_label("a", "b");
    service.update_session(&key("first"), update).await.unwrap();
    service.list_state_changes(&StateOwner::user("app", "alice").unwrap(), &ChangeQuery::After(0), 5).await.unwrap();
    service.locate_session("app", "first").await.unwrap();
    let unique = CreateSessionConfig::default().with_session_id("once").with_id_unique_in_app();
    service.delete_session(service.create_session("app", "alice", unique).await.unwrap().key()).await.unwrap();
    create(service, "gone", json!({})).await;
    service.delete_session(&key("gone")).await.unwrap();
    for name in ["of the session", "user:of the user"] {
        save(service, "first", name).await;
    }
    service.list_artifacts(&key("first")).await.unwrap();
    service.create_session("app", "bob", CreateSessionConfig::default()).await.unwrap();
    service.delete_user("app", "bob").await.unwrap();
}
