//! A MySQL server by itself.

use scratchbook_test_servers::{MySql, MySqlOptions};

#[test]
fn a_mysql_server_keeps_what_is_acknowledged_over_a_crash_and_takes_clients_with_the_password_alone() {
    let server = MySql::start(&MySqlOptions::default()).unwrap();
    let ask = |sql: &str| server.ask(sql).unwrap();
    assert_eq!(ask("select current_user(), database()"), "scratchbook@%\tscratchbook");
    assert!(ask("select version()").starts_with("9."), "{}", ask("select version()"));
    assert_eq!(ask("select user from mysql.user where user not like 'mysql.%'"), "scratchbook");
    ask("create table kept (n int)");
    ask("insert into kept values (1)");
    server.kill().unwrap();
    assert!(server.ask("select 1").is_err());
    server.restart().unwrap();
    server.stop().unwrap();
    server.restart().unwrap();
    assert_eq!(ask("select n from kept"), "1");
}
