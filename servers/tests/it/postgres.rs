//! A PostgreSQL server by itself.

use std::thread;

use scratchbook_servers::{Postgres, PostgresOptions, Proxy};

use crate::client::{ask, psql};

fn fast() -> Postgres {
    Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap()
}

#[test]
fn a_server_takes_clients_with_the_password_alone() {
    let server = fast();
    assert_eq!(ask(&server, "select current_user || ' ' || current_database()"), "scratchbook scratchbook");
    assert_eq!(ask(&server, "select usesuper from pg_user where usename = current_user"), "t");
    assert_eq!(ask(&server, "show fsync"), "off");
    assert!(ask(&server, "show max_connections").parse::<u32>().unwrap() >= 300);
    let refused = psql(&server.uri().replace(server.password(), "wrong"), "select 1").unwrap_err();
    assert!(refused.contains("password authentication failed"), "{refused}");
}

#[test]
fn what_is_acknowledged_outlives_a_crash_and_a_restart() {
    let server = Postgres::start(&PostgresOptions::default().with_setting("work_mem", "5MB")).unwrap();
    assert_eq!(ask(&server, "show fsync"), "on");
    assert_eq!(ask(&server, "show work_mem"), "5MB");
    ask(&server, "create table kept (n int)");
    ask(&server, "insert into kept values (1)");
    server.kill().unwrap();
    assert!(psql(&server.uri(), "select 1").is_err());
    server.restart().unwrap();
    ask(&server, "insert into kept values (2)");
    server.restart().unwrap();
    server.stop().unwrap();
    assert!(psql(&server.uri(), "select 1").is_err());
    server.restart().unwrap();
    assert_eq!(ask(&server, "select sum(n) from kept"), "3");
}

#[test]
fn the_strings_of_postgres_are_ordered_by_a_language_unless_one_says_otherwise() {
    let server = fast();
    let icu = ask(&server, "select count(*) from pg_collation where collname = 'en-x-icu'") != "0";
    if icu && ask(&server, "show server_version_num").parse::<u32>().unwrap() >= 150_000 {
        assert_eq!(ask(&server, "select 'a' < 'B', 'a' < 'B' collate \"C\""), "t|f");
    }
}

#[test]
fn all_of_a_process_share_one_postgres() {
    let uris = [0; 4].map(|_| thread::spawn(|| scratchbook_servers::postgres().unwrap())).map(|t| t.join().unwrap());
    assert!(uris.iter().all(|uri| *uri == uris[0]), "{uris:?}");
    assert_eq!(psql(&uris[0], "select 1").unwrap(), "1");
}

#[test]
fn postgres_is_reached_through_the_proxy() {
    let server = fast();
    let proxy = Proxy::start(server.port()).unwrap();
    let uri = format!("{}?sslmode=disable", proxy.uri(&server.uri()).unwrap());
    assert_eq!(psql(&uri, "select 1").unwrap(), "1");
    // Hello, two for the password, the query, and goodbye.
    assert_eq!((proxy.connections(), proxy.turns()), (1, 5));
    psql(&uri, "create table swallowed (n int)").unwrap();
    let before = proxy.turns();
    proxy.swallow(0);
    assert!(psql(&uri, "select 1").is_ok());
    assert_eq!(proxy.turns(), before + 5);
}
