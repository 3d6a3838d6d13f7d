//! A PostgreSQL server by itself.

use std::thread;
use std::time::{Duration, Instant};

use scratchbook_test_servers::{Postgres, PostgresOptions, Proxy};

use crate::client::psql;

fn fast() -> Postgres {
    Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap()
}

#[test]
fn a_server_takes_clients_with_the_password_alone() {
    let server = fast();
    assert_eq!(server.ask("select current_user || ' ' || current_database()").unwrap(), "scratchbook scratchbook");
    assert_eq!(server.ask("select usesuper from pg_user where usename = current_user").unwrap(), "t");
    assert_eq!(server.ask("show fsync").unwrap(), "off");
    assert!(server.ask("show max_connections").unwrap().parse::<u32>().unwrap() >= 300);
    let refused = psql(&server.uri().replace(server.password(), "wrong"), "select 1").unwrap_err();
    assert!(refused.contains("password authentication failed"), "{refused}");
}

#[test]
fn what_is_acknowledged_outlives_a_crash_and_a_restart() {
    let server = Postgres::start(&PostgresOptions::default().with_setting("work_mem", "5MB")).unwrap();
    assert_eq!(server.ask("show fsync").unwrap(), "on");
    assert_eq!(server.ask("show work_mem").unwrap(), "5MB");
    server.ask("create table kept (n int)").unwrap();
    server.ask("insert into kept values (1)").unwrap();
    server.kill().unwrap();
    assert!(server.ask("select 1").is_err());
    server.restart().unwrap();
    server.ask("insert into kept values (2)").unwrap();
    server.restart().unwrap();
    server.stop().unwrap();
    assert!(server.ask("select 1").is_err());
    server.restart().unwrap();
    assert_eq!(server.ask("select sum(n) from kept").unwrap(), "3");
}

#[test]
fn the_strings_of_postgres_are_ordered_by_a_language_unless_one_says_otherwise() {
    let server = fast();
    let icu = server.ask("select count(*) from pg_collation where collname = 'en-x-icu'").unwrap() != "0";
    if icu && server.ask("show server_version_num").unwrap().parse::<u32>().unwrap() >= 150_000 {
        assert_eq!(server.ask("select 'a' < 'B', 'a' < 'B' collate \"C\"").unwrap(), "t|f");
    }
}

#[test]
fn tls_is_offered_or_required_or_refused() {
    let (without, ca) = (fast(), |server: &Postgres| server.authority().unwrap().display().to_string());
    let refused = psql(&format!("{}?sslmode=require", without.uri()), "select 1").unwrap_err();
    assert!(refused.contains("does not support SSL"), "{refused}");
    let encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    let offering = Postgres::start(&PostgresOptions::default().with_fast_disk().with_tls()).unwrap();
    let verified = format!("{}?sslmode=verify-full&sslrootcert={}", offering.uri(), ca(&offering));
    assert_eq!(psql(&verified, encrypted).unwrap(), "t");
    assert_eq!(psql(&format!("{}?sslmode=disable", offering.uri()), encrypted).unwrap(), "f");
    let requiring = Postgres::start(&PostgresOptions::default().with_fast_disk().with_tls_only()).unwrap();
    assert_eq!(psql(&format!("{}?sslmode=require", requiring.uri()), encrypted).unwrap(), "t");
    let refused = psql(&format!("{}?sslmode=disable", requiring.uri()), encrypted).unwrap_err();
    assert!(refused.contains("no encryption"), "{refused}");
    // Each server has an authority of its own.
    let stranger = format!("{}?sslmode=verify-full&sslrootcert={}", requiring.uri(), ca(&offering));
    let refused = psql(&stranger, encrypted).unwrap_err();
    assert!(refused.contains("certificate verify failed"), "{refused}");
}

#[test]
fn postgres_is_reached_through_the_proxy() {
    let server = fast();
    let proxy = Proxy::start(server.port()).unwrap();
    let uri = format!("{}?sslmode=disable", proxy.uri(&server.uri()).unwrap());
    assert_eq!(psql(&uri, "select 1").unwrap(), "1");
    // The turns are hello, two for the password, the query, and goodbye. The client does not wait for an answer to its
    // goodbye, so the proxy may read it after the client has ended.
    let begun = Instant::now();
    while proxy.turns() < 5 && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((proxy.connections(), proxy.turns()), (1, 5));
}
