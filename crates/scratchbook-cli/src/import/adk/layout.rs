//! Detects the layout of google-adk's tables by their columns.

use scratchbook::{Error, ErrorKind};

use crate::shell::quoted;

/// A layout of google-adk's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) enum Layout {
    /// The layout of `SqliteSessionService`.
    Sqlite,
    /// The layout of `DatabaseSessionService`, schema version 1.
    Database,
}

/// The tables in a database.
#[derive(Debug, Default)]
pub(super) struct DetectedTables {
    /// The names of its tables.
    pub(super) tables: Vec<String>,
    /// The columns of the table `events`.
    pub(super) event_columns: Vec<String>,
    /// The schema version in `adk_internal_metadata`.
    pub(super) version: Option<String>,
}

impl DetectedTables {
    /// Refuses a database with another layout. `source` is its URL for google-adk.
    pub(super) fn check(&self, layout: Layout, name: &str, source: &str) -> Result<(), Error> {
        let has = |table: &str| self.tables.iter().any(|name| name == table);
        let has_column = |column: &str| self.event_columns.iter().any(|name| name == column);
        if has("scratchbook_migrations") {
            let message =
                format!("{name} is a database of scratchbook's own; use: scratchbook export, and --from jsonl");
            return Err(wrong(message));
        }
        if !(has("sessions") && has("events")) {
            // The tables of a database server may be in another schema than the first of the search path.
            let is_server = source.starts_with("postgresql://");
            let elsewhere = if is_server { "; if they are in another schema, add ?schema=NAME to the URL" } else { "" };
            return Err(wrong(format!(
                "{name} holds no sessions of google-adk's: it has no tables sessions and events{elsewhere}"
            )));
        }
        if self.version.as_deref() == Some("0") || (has_column("actions") && !has_column("event_data")) {
            return Err(wrong(format!(
                "{name} has schema version 0, whose events are pickled Python objects, and whose times do not say their \
                 time zone; have google-adk upgrade it into a new file, with TZ set to the time zone of the machine that \
                 wrote the events, or to UTC if google-adk 2.13 or later wrote them, and import that file with --from \
                 adk-database: {}",
                upgrade(source)
            )));
        }
        let found = match (&self.version, has("adk_internal_metadata")) {
            (Some(version), _) if version != "1" => {
                let message = format!("{name} has schema version {version}; versions up to 1 are known here");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            (Some(_), _) => Layout::Database,
            (None, true) => {
                return Err(wrong(format!("{name} does not say its schema version; open it with google-adk once")));
            }
            (None, false) => Layout::Sqlite,
        };
        if !has_column("event_data") {
            return Err(wrong(format!("{name} has a table events without event_data; it is not google-adk's")));
        }
        match (layout, found) {
            (Layout::Sqlite, Layout::Database) => {
                Err(wrong(format!("{name} was made by DatabaseSessionService; write --from adk-database")))
            }
            (Layout::Database, Layout::Sqlite) => {
                Err(wrong(format!("{name} was made by SqliteSessionService; write --from adk-sqlite")))
            }
            _ => Ok(()),
        }
    }
}

/// Returns google-adk's command that upgrades schema version 0 to version 1, in a new file in the current folder.
fn upgrade(source: &str) -> String {
    // google-adk's drivers do not know our parameter.
    let source =
        source.replace("?schema=", "?options=-csearch_path%3D").replace("&schema=", "&options=-csearch_path%3D");
    let path = source.split('?').next().unwrap_or_default();
    let stem = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = stem.strip_suffix(".db").unwrap_or(stem);
    let (source, destination) = (format!("--source_db_url={source}"), format!("--dest_db_url=sqlite:///{stem}-v1.db"));
    format!("adk migrate session {} {}", quoted(&source), quoted(&destination))
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::FailedPrecondition, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tables: &[&str], columns: &[&str], version: Option<&str>) -> DetectedTables {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        DetectedTables { tables: owned(tables), event_columns: owned(columns), version: version.map(str::to_owned) }
    }

    #[test]
    fn the_error_for_a_wrong_layout_says_what_to_do() {
        let (tables, metadata) = (["sessions", "events"], ["sessions", "events", "adk_internal_metadata"]);
        let sqlite = found(&tables, &["event_data"], None);
        let database = found(&metadata, &["event_data"], Some("1"));
        assert!(sqlite.check(Layout::Sqlite, "f", "f").is_ok() && database.check(Layout::Database, "f", "f").is_ok());
        let cases = [
            (&sqlite, Layout::Database, "--from adk-sqlite"),
            (&database, Layout::Sqlite, "--from adk-database"),
            (&found(&["other"], &[], None), Layout::Sqlite, "no sessions of google-adk's"),
            (
                &found(&["scratchbook_migrations", "sessions", "events"], &[], None),
                Layout::Sqlite,
                "scratchbook export",
            ),
            (&found(&metadata, &["event_data"], Some("2")), Layout::Database, "version 2"),
            (&found(&metadata, &["event_data"], None), Layout::Database, "does not say"),
            (&found(&tables, &["text"], None), Layout::Sqlite, "event_data"),
        ];
        for (found, layout, said) in cases {
            let error = found.check(layout, "f", "f").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let error = found(&tables, &["actions"], None).check(Layout::Database, "f", "sqlite:///it's/agents.db");
        let command =
            r"adk migrate session '--source_db_url=sqlite:///it'\''s/agents.db' --dest_db_url=sqlite:///agents-v1.db";
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with(command) && error.contains("TZ"), "{error}");
        let postgres = "postgresql://me@db/agents?sslmode=require&schema=a";
        let error = found(&tables, &["actions"], None).check(Layout::Database, postgres, postgres).unwrap_err();
        let command = "'--source_db_url=postgresql://me@db/agents?sslmode=require&options=-csearch_path%3Da' \
                       --dest_db_url=sqlite:///agents-v1.db";
        assert!(error.to_string().ends_with(command), "{error}");
        let error = found(&["other"], &[], None).check(Layout::Database, postgres, postgres).unwrap_err();
        assert!(error.to_string().contains("?schema=NAME"), "{error}");
    }
}
