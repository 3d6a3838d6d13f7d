//! Installs the database servers that the tests start, and names the modules whose tests a missing server skips.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::command::{cargo, root, run};
use crate::mysql;
use crate::packages;
use crate::python;
use crate::step::Stop;

/// A server.
struct DatabaseServer {
    /// The modules whose tests need it. Tests of the last one start their own, even if the user names a server.
    modules: [&'static str; 2],
    package: &'static str,
    programs: &'static [&'static str],
    /// The environment variable with the address of a server that the user provides.
    variable: &'static str,
}

const SERVERS: [DatabaseServer; 2] = [
    DatabaseServer {
        modules: ["postgres", "own_postgres"],
        package: "postgresql",
        programs: &["initdb", "psql"],
        variable: "SCRATCHBOOK_TEST_POSTGRES",
    },
    DatabaseServer {
        modules: ["mariadb", "own_mariadb"],
        package: "mariadb-server",
        programs: &["mariadb-install-db", "mariadbd", "mariadb"],
        variable: "SCRATCHBOOK_TEST_MYSQL",
    },
];

impl DatabaseServer {
    fn is_installed(&self) -> bool {
        self.programs.iter().all(|program| is_there(program))
    }

    /// Returns the modules whose tests are skipped. If the server is not installed but the user names one, only tests
    /// that start and kill their own server are skipped.
    fn skipped(&self, installed: bool, named: bool) -> &[&'static str] {
        match (installed, named) {
            (true, _) => &[],
            (false, true) => &self.modules[1..],
            (false, false) => &self.modules,
        }
    }
}

/// Runs the step `postgres`: installs what `cargo xtask test` needs.
pub(crate) fn install_postgres() -> Result<(), Stop> {
    ensure(&SERVERS[..1])
}

/// Runs the step `servers`.
pub(crate) fn install() -> Result<(), Stop> {
    mysql::ensure();
    ensure(&SERVERS)
}

fn ensure(servers: &[DatabaseServer]) -> Result<(), Stop> {
    let missing = || servers.iter().filter(|server| !server.is_installed()).map(|server| server.package).collect();
    packages::ensure(missing).map_err(|stop| match stop {
        Stop::LeftOut(why) => {
            let modules = self::missing().join(", ");
            Stop::LeftOut(format!("{why}. Until then the tests in modules named {modules} are not run"))
        }
        failed => failed,
    })
}

/// Returns the modules whose tests are not run because their server is missing.
pub(crate) fn missing() -> Vec<&'static str> {
    let named = |server: &DatabaseServer| std::env::var(server.variable).is_ok_and(|uri| !uri.is_empty());
    let servers = SERVERS.iter().flat_map(|server| server.skipped(server.is_installed(), named(server)));
    servers.copied().chain(mysql::missing()).collect()
}

/// Runs the step `clusters`: runs every test that is marked as long, one at a time.
pub(crate) fn clusters() -> Result<(), Stop> {
    let path = install_clusters()?;
    let mut command = cargo(&["test", "--workspace", "--all-features", "--no-fail-fast", "--tests"]);
    command.env("PATH", path);
    // `--show-output` prints what the tests measure.
    command.args(["--", "--ignored", "--test-threads=1", "--show-output"]);
    run(command.args(mysql::missing().iter().flat_map(|module| ["--skip".to_owned(), format!("{module}::")])))
}

/// Patroni and what it needs. Debian 12 has version 3.0.2, under which acknowledged commits may be lost (docs/safety.md).
const PATRONI: &str = "patroni[etcd3]==4.1.5\npsycopg2-binary==2.9.13\n";

/// Installs what the tests of several servers need, and returns the `PATH` for these tests.
pub(crate) fn install_clusters() -> Result<OsString, Stop> {
    install()?;
    packages::ensure(|| {
        let needed = [
            ("galera-4", is_one_there(&GALERA)),
            ("rsync", is_there("rsync")),
            ("lsof", is_there("lsof")),
            ("etcd-server", is_there("etcd")),
            ("libfaketime", is_one_there(&FAKETIME)),
        ];
        needed.into_iter().filter(|(_, there)| !there).map(|(package, _)| package).collect()
    })?;
    let folder = root().join("target/python-patroni");
    python::with_requirements(&folder, PATRONI)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.join("bin")).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).map_err(|error| Stop::Failed(format!("{}: {error}", folder.display())))
}

/// The paths at which packages install Galera.
const GALERA: [&str; 3] =
    ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib/libgalera_smm.so"];

/// The paths at which packages install libfaketime, which sets the clock of a process.
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

fn is_one_there(paths: &[&str]) -> bool {
    paths.iter().any(|path| Path::new(path).is_file())
}

/// Returns whether a program is in `PATH`, or in a folder where packages install servers.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let of_postgres = versions.map(|version| version.path().join("bin"));
    std::env::split_paths(&path).chain(usual).chain(of_postgres).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_without_a_server_are_skipped_and_no_others() {
        let [postgres, mariadb] = SERVERS;
        assert!(postgres.skipped(true, false).is_empty() && postgres.skipped(true, true).is_empty());
        assert_eq!(postgres.skipped(false, true), ["own_postgres"]);
        assert_eq!(mariadb.skipped(false, false), ["mariadb", "own_mariadb"]);
    }

    #[test]
    fn programs_are_found() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program"));
    }
}
