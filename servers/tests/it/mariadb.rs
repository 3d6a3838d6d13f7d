//! A MariaDB server by itself.

use std::thread;

use scratchbook_servers::{MariaDb, MariaDbOptions, Proxy};

use crate::client::{mariadb, mariadb_with};

fn fast() -> MariaDb {
    MariaDb::start(&MariaDbOptions::default().with_fast_disk()).unwrap()
}

#[test]
fn a_server_takes_clients_with_the_password_alone() {
    let server = fast();
    let ask = |sql: &str| mariadb(&server, sql).unwrap();
    assert_eq!(ask("select current_user(), database()"), "scratchbook@%\tscratchbook");
    assert_eq!(ask("select @@innodb_flush_log_at_trx_commit"), "2");
    assert_eq!(ask("select @@character_set_server"), "utf8mb4");
    assert!(ask("select @@max_connections").parse::<u32>().unwrap() >= 300);
    // Nobody comes in without it, whatever the name.
    for user in ["scratchbook", "root", "nobody"] {
        let refused = mariadb_with(&server, &["-u", user, "-pwrong"], "select 1").unwrap_err();
        assert!(refused.contains("Access denied"), "{refused}");
        let refused = mariadb_with(&server, &["-u", user, "--password="], "select 1").unwrap_err();
        assert!(refused.contains("Access denied"), "{refused}");
    }
}

#[test]
fn what_is_acknowledged_outlives_a_crash_and_a_restart() {
    let server = MariaDb::start(&MariaDbOptions::default().with_line("sort_buffer_size = 1M")).unwrap();
    let ask = |sql: &str| mariadb(&server, sql).unwrap();
    assert_eq!(ask("select @@innodb_flush_log_at_trx_commit, @@sort_buffer_size"), "1\t1048576");
    ask("create table kept (n int)");
    ask("insert into kept values (1)");
    server.kill().unwrap();
    assert!(mariadb(&server, "select 1").is_err());
    server.restart().unwrap();
    ask("insert into kept values (2)");
    server.restart().unwrap();
    server.stop().unwrap();
    assert!(mariadb(&server, "select 1").is_err());
    server.restart().unwrap();
    assert_eq!(ask("select sum(n) from kept"), "3");
}

#[test]
fn all_of_a_process_share_one_mariadb() {
    let uris = [0; 4].map(|_| thread::spawn(|| scratchbook_servers::mysql().unwrap())).map(|t| t.join().unwrap());
    assert!(uris.iter().all(|uri| *uri == uris[0]), "{uris:?}");
    assert!(uris[0].starts_with("mysql://scratchbook:"));
}

#[test]
fn mariadb_is_reached_through_the_proxy() {
    let server = fast();
    let proxy = Proxy::start(server.port()).unwrap();
    let (before, port) = (proxy.turns(), proxy.port().to_string());
    assert_eq!(mariadb_with(&server, &["-P", &port, "--skip-ssl"], "select 1").unwrap(), "1");
    assert_eq!(proxy.connections(), 1);
    assert!(proxy.turns() > before);
}
