//! Functions that others create on the server do not run with our rights, and data that we send is not logged.

use std::sync::Mutex;

use futures_util::future::join_all;
use scratchbook::session::{ListSessionsConfig, StateOwner};
use scratchbook::{GetSessionConfig, SessionKey, SessionService, StateDelta, connect};
use serde_json::json;

use super::pooler::{PGBOUNCER, by_way_of, place, start};
use super::server::{TestSchema, client};
use crate::database::{append, create, get, key, setting};
use crate::fixtures::{check, fill};

/// Functions that match our arguments better than the server's own functions, which accept any type.
const PLANTED: &str = "
    CREATE FUNCTION public.planted() RETURNS bigint LANGUAGE plpgsql
        AS $$BEGIN RAISE EXCEPTION 'a planted function was run'; END$$;
    CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT public.planted()::text';
    CREATE FUNCTION public.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT public.planted()';
    CREATE FUNCTION public.added(bigint[], bigint) RETURNS bigint[] LANGUAGE sql AS 'SELECT ARRAY[public.planted()]';
    CREATE AGGREGATE public.array_agg(bigint) (SFUNC = public.added, STYPE = bigint[], INITCOND = '{}');
    CREATE FUNCTION public.nextval(text) RETURNS bigint LANGUAGE sql AS 'SELECT public.planted()';
    CREATE FUNCTION public.generate_series(int, int) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT public.planted()';
    CREATE FUNCTION public.pg_current_xact_id() RETURNS xid8 LANGUAGE sql AS 'SELECT public.planted()::text::xid8';
    CREATE FUNCTION public.octet_length(text) RETURNS int LANGUAGE sql AS 'SELECT public.planted()::int';
    CREATE FUNCTION public.to_char(timestamp, text) RETURNS text LANGUAGE sql AS 'SELECT public.planted()::text';
    CREATE FUNCTION public.hashtextextended(text, integer) RETURNS bigint LANGUAGE sql IMMUTABLE
        AS 'SELECT public.planted()';
    CREATE FUNCTION public.row_number() RETURNS bigint LANGUAGE sql AS 'SELECT public.planted()';";

#[tokio::test]
async fn planted_functions_are_not_run() {
    let schema = TestSchema::new();
    let admin = client(schema.server()).await;
    let (port, _) = start(place(schema.server()), PGBOUNCER).await;
    // The first way sets a search path in which nobody else can create functions. The second is a pooler that does not
    // let us set one. The database's own path finds these functions before the server's.
    for (way, server) in [schema.server().to_owned(), by_way_of(schema.server(), port)].iter().enumerate() {
        let name = format!("{}_{way}", schema.name());
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let path = format!("ALTER DATABASE {name} SET search_path = public, pg_catalog");
        admin.batch_execute(&path).await.unwrap();
        let in_it = |server: &str| format!("{}/{name}", &server[..server.rfind('/').unwrap()]);
        client(&in_it(schema.server())).await.batch_execute(PLANTED).await.unwrap();
        let store = connect(&format!("{}?sslmode=disable", in_it(server))).await.unwrap();
        fill(&store).await;
        check(&store).await;
        let (sessions, alices) = (&store.sessions, SessionKey::new("shop", "alice", "s1").unwrap());
        let some = GetSessionConfig::default().with_state_keys(["nul", "user:theme", "app:limit"]);
        let some = some.with_after_timestamp(1.0).with_num_recent_events(1);
        sessions.get_session(&alices, &some).await.unwrap().unwrap();
        let listed = sessions.list_sessions("shop", &ListSessionsConfig::default()).await.unwrap();
        assert_eq!(listed.sessions.len(), 1);
        let overview = "SELECT update_time FROM public.session_overview";
        client(&in_it(schema.server())).await.query(overview, &[]).await.unwrap();
        sessions.delete_session(&alices).await.unwrap();
        sessions.delete_user("shop", "alice").await.unwrap();
        sessions.close().await.unwrap();
        drop(store);
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
    }
}

/// Keeps all that is logged.
struct LogMessages(Mutex<Vec<String>>);

impl log::Log for LogMessages {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push(format!("{} {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}

#[tokio::test]
async fn no_value_is_logged() {
    static LOG: LogMessages = LogMessages(Mutex::new(Vec::new()));
    log::set_logger(&LOG).unwrap();
    log::set_max_level(log::LevelFilter::Debug);
    let schema = TestSchema::new();
    let service = schema.open().await;
    let name = format!("s3cret{}", std::process::id());
    create(&service, &name, json!({"user:u": name, "app:a": name})).await;
    append(&service, &key(&name), setting("n", &*name)).await.unwrap();
    get(&service, &key(&name)).await.unwrap();
    let delta = StateDelta::new().with(&*name, &*name).unwrap();
    service.put_state(&StateOwner::app(&name).unwrap(), delta, "me".into()).await.unwrap();
    service.delete_session(&key(&name)).await.unwrap();
    join_all((0..2).map(|_| service.delete_user("app", "alice"))).await;
    log::set_max_level(log::LevelFilter::Off);
    let lines = LOG.0.lock().unwrap();
    assert!(lines.iter().any(|line| line.contains("with parameters")), "the driver's lines are seen: {lines:?}");
    assert_eq!(lines.iter().find(|line| line.contains(&name)), None);
}
