//! A single server is stopped or killed under load, and started again. It flushes each commit to the disk.

use scratchbook_test_servers::{MariaDb, MySql, MySqlOptions, Postgres, PostgresOptions, Result};

use super::load::{AppKeyLoad, WriterProcesses};
use super::{a_while, check};

/// A server that can be ended and started.
trait RestartableServer {
    fn uri(&self) -> String;
    fn kill(&self) -> Result<()>;
    fn stop(&self) -> Result<()>;
    fn restart(&self) -> Result<()>;
}

macro_rules! server {
    ($name:ident) => {
        impl RestartableServer for $name {
            fn uri(&self) -> String {
                $name::uri(self)
            }
            fn kill(&self) -> Result<()> {
                $name::kill(self)
            }
            fn stop(&self) -> Result<()> {
                $name::stop(self)
            }
            fn restart(&self) -> Result<()> {
                $name::restart(self)
            }
        }
    };
}

server!(Postgres);
server!(MariaDb);
server!(MySql);

mod own_postgres {
    use super::*;

    #[ignore = "long: a server is stopped and killed under load"]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_is_restarted_under_load() {
        restart("PostgreSQL restarted", &Postgres::start(&PostgresOptions::default()).unwrap()).await;
    }
}

mod own_mariadb {
    use super::*;

    #[ignore = "long: a server is stopped and killed under load"]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_is_restarted_under_load() {
        restart("MariaDB restarted", &MariaDb::start(&MySqlOptions::default()).unwrap()).await;
    }
}

mod own_mysql {
    use super::*;

    #[ignore = "long: a server is stopped and killed under load"]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_is_restarted_under_load() {
        restart("MySQL restarted", &MySql::start(&MySqlOptions::default()).unwrap()).await;
    }
}

async fn restart(what: &str, server: &impl RestartableServer) {
    let uri = server.uri();
    // One process gives up soon each time, so its callers retry themselves.
    let load = WriterProcesses::start(&[uri.clone(), format!("{uri}?retry_timeout_ms=100")], AppKeyLoad::Some).await;
    for end in [RestartableServer::stop, RestartableServer::kill, RestartableServer::stop, RestartableServer::kill] {
        load.wait_for(100);
        std::thread::sleep(a_while() / 2);
        end(server).unwrap();
        std::thread::sleep(a_while() / 4);
        server.restart().unwrap();
    }
    load.wait_for(100);
    let told = load.stop();
    let stored = check::stored(&uri, &told).await;
    check::report(what, &told, stored);
}
