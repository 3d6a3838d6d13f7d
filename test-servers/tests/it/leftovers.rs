//! Nothing of a server is left after an orderly end, or after its process was killed.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use scratchbook_test_servers::{MariaDb, MySqlOptions, Postgres, PostgresOptions};

const CHILD: &str = "SCRATCHBOOK_SERVERS_CHILD";

/// What exists of a server while it runs.
#[derive(Debug)]
struct ServerTraces {
    port: u16,
    folder: PathBuf,
}

impl ServerTraces {
    fn are_there(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok() && self.folder.is_dir() && !self.processes().is_empty()
    }

    fn are_gone(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_err() && !self.folder.exists() && self.processes().is_empty()
    }

    /// Returns the processes of the server. Every process, including the watchdog, works in the folder or below it.
    fn processes(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let works_here = |path: &PathBuf| {
            let place = std::fs::read_link(path.join("cwd")).unwrap_or_default();
            place.to_string_lossy().starts_with(&*self.folder.to_string_lossy())
        };
        all.map(|entry| entry.path()).filter(works_here).collect()
    }

    fn wait_until_gone(&self) {
        let start = Instant::now();
        while !self.are_gone() {
            assert!(start.elapsed() < Duration::from_secs(30), "left behind: {self:?} {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn of_postgres(server: &Postgres) -> ServerTraces {
    ServerTraces { port: server.port(), folder: server.folder().to_path_buf() }
}

fn of_mariadb(server: &MariaDb) -> ServerTraces {
    ServerTraces { port: server.port(), folder: server.folder().to_path_buf() }
}

#[test]
fn a_dropped_own_postgres_leaves_nothing() {
    let server = Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap();
    let traces = of_postgres(&server);
    assert!(traces.are_there());
    drop(server);
    assert!(traces.are_gone(), "{:?}", traces.processes());
}

#[test]
fn a_dropped_own_mariadb_leaves_nothing() {
    let server = MariaDb::start(&MySqlOptions::default().with_fast_disk()).unwrap();
    let traces = of_mariadb(&server);
    assert!(traces.are_there());
    drop(server);
    assert!(traces.are_gone(), "{:?}", traces.processes());
}

#[test]
fn a_killed_process_leaves_no_own_postgres() {
    kill_a_child("leftovers::a_child_starts_own_postgres");
}

#[test]
fn a_killed_process_leaves_no_own_mariadb() {
    kill_a_child("leftovers::a_child_starts_own_mariadb");
}

#[test]
fn a_child_starts_own_postgres() {
    if std::env::var_os(CHILD).is_some() {
        let server = Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap();
        show(&of_postgres(&server));
    }
}

#[test]
fn a_child_starts_own_mariadb() {
    if std::env::var_os(CHILD).is_some() {
        let server = MariaDb::start(&MySqlOptions::default().with_fast_disk()).unwrap();
        show(&of_mariadb(&server));
    }
}

/// Prints the traces, and does not return: the process is to be killed.
fn show(traces: &ServerTraces) {
    println!("\nserver {} {}", traces.port, traces.folder.display());
    loop {
        std::thread::park();
    }
}

/// Runs a test of this file in a process of its own, and kills the process when its server runs.
fn kill_a_child(test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, "1").stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.starts_with("server ")).expect("the child starts a server");
    let (port, folder) = line.trim_start_matches("server ").split_once(' ').unwrap();
    let traces = ServerTraces { port: port.parse().unwrap(), folder: Path::new(folder).to_path_buf() };
    assert!(traces.are_there());
    child.kill().unwrap();
    child.wait().unwrap();
    traces.wait_until_gone();
}
