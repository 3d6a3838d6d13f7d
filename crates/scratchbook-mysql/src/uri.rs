//! The URI of a MySQL database.

use percent_encoding::percent_decode_str;

use scratchbook_core::error::{Error, Result};
use scratchbook_database::{DatabaseOptions, DatabaseUri, check_name};

const PARAMETERS: &str = "'pool_size', 'connect_timeout', 'statement_timeout_ms', 'retry_timeout_ms', 'sslmode', \
    'sslrootcert', 'migrate', 'table_prefix', 'unix_socket' and 'charset=utf8mb4'";

/// With a prefix of this length, the names of our tables and procedures have at most 64 characters.
const MAX_PREFIX: usize = 32;

/// The parameter with the path of the server's socket. It belongs to the address, not to the options.
const SOCKET: &str = "unix_socket";

const FORM: &str = "mysql://USER:PASSWORD@HOST:PORT/DATABASE";

/// Parses a URI into its address and our options.
pub(super) fn read_uri(uri: &str) -> Result<(DatabaseUri, DatabaseOptions)> {
    let mut uri = DatabaseUri::parse(uri)?;
    if !matches!(uri.scheme.as_str(), "mysql" | "mariadb") {
        return Err(Error::invalid(format!("the scheme '{}' is not MySQL's; it is {FORM}", uri.scheme)));
    }
    let mut options = DatabaseOptions::from_uri(&mut uri)?;
    options.table_prefix = uri.take("table_prefix");
    if let Some(charset) = uri.take("charset")
        && !charset.eq_ignore_ascii_case("utf8mb4")
    {
        return Err(Error::invalid(format!("charset={charset}; only utf8mb4 holds every text")));
    }
    let socket = uri.take(SOCKET);
    uri.finish(PARAMETERS)?;
    uri.parameters.extend(socket.map(|path| (SOCKET.to_owned(), path)));
    Ok((uri, options))
}

/// The address of a database and the user.
pub(super) struct DatabaseAddress {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: String,
    /// A socket in the file system, in place of host and port.
    pub(super) socket: Option<String>,
    pub(super) prefix: String,
    /// The form for messages, without the password.
    pub(super) place: String,
}

impl DatabaseAddress {
    pub(super) fn new(mut uri: DatabaseUri, options: &DatabaseOptions) -> Result<Self> {
        let socket = uri.take(SOCKET).filter(|path| !path.is_empty());
        let mut place = uri.to_string();
        if let Some(path) = &socket {
            place += &format!("?{SOCKET}={path}");
        }
        let invalid = |what: &str| Error::invalid(format!("{place}: {what}; the form is {FORM}"));
        let (server, database) = uri.address.split_once('/').unwrap_or((&uri.address, ""));
        if database.is_empty() {
            return Err(invalid("no database is named"));
        }
        // A password may contain an '@', but a host cannot.
        let (who, server) = match server.rsplit_once('@') {
            Some((who, server)) => (Some(who), server),
            None => (None, server),
        };
        let (user, password) = match who.map(|who| who.split_once(':').map_or((who, None), |(u, p)| (u, Some(p)))) {
            Some((user, password)) => (Some(user), password),
            None => (None, None),
        };
        let (host, port) = split_port(server).ok_or_else(|| invalid("the port is no number from 1 to 65535"))?;
        let decode = |part: &str, what: &str| {
            let decoded = percent_decode_str(part).decode_utf8();
            decoded.map(String::from).map_err(|_| invalid(&format!("the {what} is not UTF-8")))
        };
        let prefix = options.table_prefix.clone().unwrap_or_default();
        if !prefix.is_empty() {
            check_name("table_prefix", &prefix, MAX_PREFIX)?;
        }
        Ok(Self {
            host: if host.is_empty() { "localhost".to_owned() } else { decode(host, "host")? },
            port,
            user: user.filter(|user| !user.is_empty()).map(|user| decode(user, "user")).transpose()?,
            password: password.map(|password| decode(password, "password")).transpose()?,
            database: decode(database, "database")?,
            socket,
            prefix,
            place,
        })
    }
}

/// Splits a host and a port, which is 3306 by default. An IPv6 address is in brackets.
fn split_port(server: &str) -> Option<(&str, u16)> {
    let (host, port) = match server.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => server.split_once(':').map_or((server, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(3306), |port| port.parse().ok().filter(|port| *port != 0));
    port.map(|port| (host, port))
}

#[cfg(test)]
mod tests {
    use super::{DatabaseAddress, read_uri};

    fn target(uri: &str) -> scratchbook_core::error::Result<DatabaseAddress> {
        let (uri, options) = read_uri(uri)?;
        DatabaseAddress::new(uri, &options)
    }

    #[test]
    fn a_uri_is_read_part_by_part() {
        let target =
            target("mariadb+pymysql://m%65:p%40:ss@[::1]:3307/my%20db?charset=utf8mb4&table_prefix=a_").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 3307));
        assert_eq!((target.user.as_deref(), target.password.as_deref()), (Some("me"), Some("p@:ss")));
        assert_eq!((target.database.as_str(), target.prefix.as_str()), ("my db", "a_"));
        assert!(!target.place.contains("p%40"), "{}", target.place);
    }

    #[test]
    fn what_a_uri_leaves_out_has_a_default() {
        let target = target("mysql:///db").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.user, target.password), ("localhost", 3306, None, None));
        assert_eq!(target.socket, None);
    }

    #[test]
    fn a_socket_belongs_to_the_address_and_is_shown_in_messages() {
        let target = target("mysql+pymysql://me:s3cret@/db?unix_socket=/run/mysqld/mysqld.sock").unwrap();
        assert_eq!(target.socket.as_deref(), Some("/run/mysqld/mysqld.sock"));
        assert_eq!(target.place, "mysql://me@/db?unix_socket=/run/mysqld/mysqld.sock");
    }

    #[test]
    fn bad_uris_say_what_is_wrong() {
        for (uri, part) in [
            ("mysql://me:s3cret@db", "no database"),
            ("mysql://me:s3cret@db/", "no database"),
            ("mysql://me:s3cret@db:0/x", "port"),
            ("mysql://me:s3cret@db:x/x", "port"),
            ("mysql://me:s3cret@db/x?charset=latin1", "latin1"),
            ("mysql://me:s3cret@db/x?table_prefix=a`b", "table_prefix"),
            ("mysql://me:s3cret@db/x?schema=a", "'schema'"),
            ("postgresql://me:s3cret@db/x", "scheme"),
        ] {
            let error = target(uri).err().unwrap();
            assert_eq!(error.kind(), scratchbook_core::error::ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(part) && !error.to_string().contains("s3cret"), "{uri}: {error}");
        }
    }
}
