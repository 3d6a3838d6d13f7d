//! Parses the source: a path, or a URL in google-adk's form.

use std::path::PathBuf;

use scratchbook::store::without_password;
use scratchbook::{Error, ErrorKind};

use super::layout::Layout;

/// The location of a database.
#[derive(Debug, PartialEq)]
pub(super) enum DatabaseLocation {
    /// A SQLite file.
    File(PathBuf),
    /// The URL of a PostgreSQL database, `postgresql://...`.
    Postgres(String),
}

impl DatabaseLocation {
    pub(super) fn read(source: &str, layout: Layout) -> Result<Self, Error> {
        let Some((scheme, rest)) = source.split_once("://") else {
            if source.is_empty() {
                return Err(Error::invalid("the source is empty; name a file, or a URL"));
            }
            return Ok(Self::File(source.into()));
        };
        // SQLAlchemy's URLs can name a Python driver, as in `postgresql+asyncpg`.
        match (scheme.split('+').next().unwrap_or_default(), layout) {
            ("sqlite", _) => file(source, rest),
            ("postgresql" | "postgres", Layout::Database) => Ok(Self::Postgres(format!("postgresql://{rest}"))),
            ("postgresql" | "postgres", Layout::Sqlite) => {
                Err(Error::invalid("SqliteSessionService keeps files alone; write --from adk-database for PostgreSQL"))
            }
            (other, _) => {
                let message = format!(
                    "the command reads databases of google-adk's in SQLite and PostgreSQL, not in '{other}'; import \
                     this one with the Python package, which reads whatever google-adk reads: \
                     scratchbook.ScratchbookSessionService(URI).import_adk(SOURCE)"
                );
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

/// Parses SQLAlchemy's `sqlite:///relative` and `sqlite:////absolute`.
fn file(source: &str, rest: &str) -> Result<DatabaseLocation, Error> {
    let path = rest.split('?').next().unwrap_or_default();
    match path.strip_prefix('/') {
        Some(path) if !path.is_empty() => Ok(DatabaseLocation::File(path.into())),
        _ => {
            let shown = without_password(source);
            Err(Error::invalid(format!(
                "'{shown}' names no file in the way of google-adk; write the path alone, or sqlite:///PATH with three \
                 slashes before it"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_google_adks_form() {
        let read = |source| DatabaseLocation::read(source, Layout::Database);
        let file = |path: &str| DatabaseLocation::File(path.into());
        assert_eq!(read("a b/agents.db").unwrap(), file("a b/agents.db"));
        assert_eq!(read("sqlite:///agents.db?mode=ro").unwrap(), file("agents.db"));
        assert_eq!(read("sqlite+aiosqlite:////var/agents.db").unwrap(), file("/var/agents.db"));
        let postgres = "postgresql://me:s3cret@db/agents?sslmode=require";
        let with_driver = postgres.replace("ql:", "ql+asyncpg:");
        assert_eq!(read(&with_driver).unwrap(), DatabaseLocation::Postgres(postgres.to_owned()));
        for bad in ["", "sqlite://agents.db", "sqlite:///"] {
            assert_eq!(read(bad).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad}");
        }
        let error = read("mysql+aiomysql://me:s3cret@db/agents").unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && !error.to_string().contains("s3cret"), "{error}");
        assert!(error.to_string().contains("import_adk"), "{error}");
        assert!(DatabaseLocation::read(postgres, Layout::Sqlite).unwrap_err().to_string().contains("adk-database"));
    }
}
