//! What differs between MariaDB and MySQL: where their programs are, and how a server is set up.

use std::path::{Path, PathBuf};

use crate::account::ServerAccount;
use crate::folder::Folder;
use crate::{Error, Result, programs};

/// MariaDB or MySQL.
#[derive(Clone, Copy, Debug)]
pub enum Product {
    /// MariaDB, as packages install it.
    MariaDb,
    /// MySQL, which the step `servers` of `cargo xtask gate` unpacks in the target folder with all its libraries.
    MySql,
}

/// A type that stands for a product.
pub trait OfProduct: std::fmt::Debug {
    /// The product.
    const PRODUCT: Product;
}

/// Stands for MariaDB.
#[derive(Debug)]
pub struct OfMariaDb;

/// Stands for MySQL.
#[derive(Debug)]
pub struct OfMySql;

impl OfProduct for OfMariaDb {
    const PRODUCT: Product = Product::MariaDb;
}

impl OfProduct for OfMySql {
    const PRODUCT: Product = Product::MySql;
}

/// The programs of a product, and the lines of configuration that they need.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) server: Program,
    pub(crate) client: Program,
    pub(crate) lines: Vec<String>,
}

/// A program with its first arguments.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl Program {
    fn plain(path: PathBuf) -> Self {
        Self { path, arguments: Vec::new() }
    }

    /// Returns the path, and the first arguments followed by these.
    pub(crate) fn with(&self, arguments: &[String]) -> (&Path, Vec<String>) {
        (&self.path, [&self.arguments, arguments].concat())
    }
}

impl Product {
    /// Finds the programs.
    pub(crate) fn find(self) -> Result<Installation> {
        match self {
            Self::MariaDb => find_mariadb(),
            Self::MySql => find_mysql(),
        }
    }

    /// Returns the user that the server runs as.
    pub(crate) fn account(self) -> Result<ServerAccount> {
        match self {
            Self::MariaDb => ServerAccount::unprivileged(&["mysql", "nobody"]),
            // An unprivileged user may not reach a checkout in the home folder of root.
            Self::MySql => Ok(ServerAccount::own_user()),
        }
    }

    /// Makes the tables that every server has.
    pub(crate) fn initialize(self, installation: &Installation, folder: &Folder, data: &Path) -> Result<()> {
        match self {
            Self::MariaDb => initialize_mariadb(folder, data),
            Self::MySql => initialize_mysql(installation, folder, data),
        }
    }

    /// Returns the statements that create a user and a database with this name, and delete the users of a new
    /// installation, who need no password.
    pub(crate) fn first_statements(self, name: &str, password: &str) -> String {
        let create = format!(
            "CREATE DATABASE {name};\nCREATE USER '{name}'@'%' IDENTIFIED BY '{password}';\n\
             GRANT ALL ON *.* TO '{name}'@'%' WITH GRANT OPTION;\n"
        );
        match self {
            Self::MariaDb => format!(
                "{create}DELETE FROM mysql.global_priv WHERE User NOT IN ('{name}', 'mariadb.sys');\nFLUSH PRIVILEGES;\n"
            ),
            // In the binary log, these would be transactions that the other members of a group lack, and a group lets no
            // such server join.
            Self::MySql => format!("SET SQL_LOG_BIN = 0;\n{create}DROP USER 'root'@'localhost';\n"),
        }
    }
}

fn find_mariadb() -> Result<Installation> {
    let missing = || Error::new("no MariaDB server (mariadb-install-db, mariadbd) found; Debian: mariadb-server");
    let find = |program| programs::find(program).ok_or_else(missing).map(Program::plain);
    Ok(Installation { server: find("mariadbd")?, client: find("mariadb")?, lines: Vec::new() })
}

fn initialize_mariadb(folder: &Folder, data: &Path) -> Result<()> {
    let missing = || Error::new("no mariadb-install-db found; Debian: mariadb-server");
    let install = programs::find("mariadb-install-db").ok_or_else(missing)?;
    let arguments = [
        "--no-defaults".to_owned(),
        format!("--datadir={}", data.display()),
        format!("--tmpdir={}", folder.path().display()),
        "--auth-root-authentication-method=normal".to_owned(),
        "--skip-test-db".to_owned(),
        "--skip-name-resolve".to_owned(),
        "--innodb-flush-log-at-trx-commit=0".to_owned(),
    ];
    folder.run(&install, &arguments)
}

fn find_mysql() -> Result<Installation> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/mysql");
    let missing = || Error::new("no MySQL server in target/mysql; cargo xtask gate --step servers unpacks one");
    let root = root.canonicalize().map_err(|_| missing())?;
    let (libraries, loader) = programs::loader_in(&root.join("usr/lib")).ok_or_else(missing)?;
    // The programs need a newer C library than the system may have, and are started by the loader beside it.
    let program = |path: &str| Program {
        path: loader.clone(),
        arguments: vec![
            "--library-path".to_owned(),
            libraries.display().to_string(),
            root.join(path).display().to_string(),
        ],
    };
    let usr = root.join("usr");
    let mut lines = vec![
        format!("basedir = {}", usr.display()),
        format!("lc_messages_dir = {}", usr.join("share/mysql").display()),
        format!("plugin_dir = {}", usr.join("lib/mysql/plugin").display()),
        "secure_file_priv = NULL".to_owned(),
        "mysqlx = OFF".to_owned(),
        // Files of this size are made faster than those of the default size, 100 MB.
        "innodb_redo_log_capacity = 32M".to_owned(),
    ];
    lines.extend(ServerAccount::we_are_root()?.then(|| "user = root".to_owned()));
    Ok(Installation { server: program("usr/sbin/mysqld"), client: program("usr/bin/mysql"), lines })
}

fn initialize_mysql(installation: &Installation, folder: &Folder, data: &Path) -> Result<()> {
    let lines = format!("[mysqld]\ndatadir = {}\n{}\n", data.display(), installation.lines.join("\n"));
    let configuration = folder.write("initialize.cnf", &lines)?;
    let defaults = format!("--defaults-file={}", configuration.display());
    let fast = "--innodb-doublewrite=0".to_owned();
    let (program, arguments) = installation.server.with(&[defaults, "--initialize-insecure".to_owned(), fast]);
    folder.run(program, &arguments)
}
