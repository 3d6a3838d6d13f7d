//! A MariaDB server by itself.

use scratchbook_test_servers::{MariaDb, MySqlOptions, Proxy};

use crate::client::mariadb_with;

fn fast() -> MariaDb {
    MariaDb::start(&MySqlOptions::default().with_fast_disk()).unwrap()
}

#[test]
fn a_server_takes_clients_with_the_password_alone() {
    let server = fast();
    let ask = |sql: &str| server.ask(sql).unwrap();
    assert_eq!(ask("select current_user(), database()"), "scratchbook@%\tscratchbook");
    assert_eq!(ask("select @@innodb_flush_log_at_trx_commit"), "2");
    assert_eq!(ask("select @@character_set_server"), "utf8mb4");
    assert!(ask("select @@max_connections").parse::<u32>().unwrap() >= 300);
    // No user can log in without the password.
    for user in ["scratchbook", "root", "nobody"] {
        for password in ["--password=wrong", "--skip-password"] {
            let refused = mariadb_with(&server, &["-u", user, password], "select 1").unwrap_err();
            assert!(refused.contains("Access denied"), "{refused}");
        }
    }
}

#[test]
fn what_is_acknowledged_outlives_a_crash_and_a_restart() {
    let server = MariaDb::start(&MySqlOptions::default().with_line("sort_buffer_size = 1M")).unwrap();
    let ask = |sql: &str| server.ask(sql).unwrap();
    assert_eq!(ask("select @@innodb_flush_log_at_trx_commit, @@sort_buffer_size"), "1\t1048576");
    ask("create table kept (n int)");
    ask("insert into kept values (1)");
    server.kill().unwrap();
    assert!(server.ask("select 1").is_err());
    server.restart().unwrap();
    ask("insert into kept values (2)");
    server.restart().unwrap();
    server.stop().unwrap();
    assert!(server.ask("select 1").is_err());
    server.restart().unwrap();
    assert_eq!(ask("select sum(n) from kept"), "3");
}

#[test]
fn tls_is_offered_or_required_or_refused() {
    let start = |options: MySqlOptions| MariaDb::start(&options.with_fast_disk()).unwrap();
    let ask = |server: &MariaDb, option: &str, ca: &str| {
        let password = format!("--password={}", server.password());
        mariadb_with(server, &[&password, option, ca], "show status like 'Ssl_version'")
    };
    let refused = ask(&start(MySqlOptions::default()), "--ssl", "--ssl-verify-server-cert").unwrap_err();
    assert!(refused.contains("SSL is required"), "{refused}");
    let ca = |server: &MariaDb| format!("--ssl-ca={}", server.authority().unwrap().display());
    let offering = start(MySqlOptions::default().with_tls());
    let version = ask(&offering, "--ssl-verify-server-cert", &ca(&offering)).unwrap();
    assert!(version.contains("TLSv1"), "{version}");
    assert_eq!(ask(&offering, "--skip-ssl", "--silent").unwrap(), "Ssl_version");
    let requiring = start(MySqlOptions::default().with_tls_only());
    assert!(ask(&requiring, "--ssl-verify-server-cert", &ca(&requiring)).unwrap().contains("TLSv1"));
    let refused = ask(&requiring, "--skip-ssl", "--silent").unwrap_err();
    assert!(refused.contains("Access denied") || refused.contains("insecure transport"), "{refused}");
    // Each server has an authority of its own.
    let refused = ask(&requiring, "--ssl-verify-server-cert", &ca(&offering)).unwrap_err();
    assert!(refused.contains("TLS/SSL error"), "{refused}");
}

#[test]
fn mariadb_is_reached_through_the_proxy() {
    let server = fast();
    let proxy = Proxy::start(server.port()).unwrap();
    let (port, password) = (proxy.port().to_string(), format!("--password={}", server.password()));
    assert_eq!(mariadb_with(&server, &["-P", &port, "--skip-ssl", &password], "select 1").unwrap(), "1");
    assert_eq!(proxy.connections(), 1);
    assert!(proxy.turns() > 1);
}
