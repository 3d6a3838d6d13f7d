//! Resource names of the API: engines and sessions, and values in filters.

use scratchbook_core::error::{Error, Result};
use scratchbook_core::session::SessionKey;

/// Builds the full names of engines and sessions.
#[derive(Clone, Debug)]
pub(super) struct ResourceNames {
    /// `projects/P/locations/L`
    location: String,
    /// The engine of all apps, if there is only one.
    engine: Option<String>,
}

impl ResourceNames {
    pub(super) fn new(project: &str, location: &str, engine: Option<&str>) -> Self {
        Self { location: format!("projects/{project}/locations/{location}"), engine: engine.map(str::to_owned) }
    }

    /// Returns the full name of an app's engine. The app's name is the engine's id or full name, unless there is one
    /// engine for all apps.
    pub(super) fn engine(&self, app_name: &str) -> Result<String> {
        if let Some(engine) = &self.engine {
            return Ok(format!("{}/reasoningEngines/{engine}", self.location));
        }
        match app_name.split('/').collect::<Vec<_>>()[..] {
            [engine] => {
                check_segment("app name", engine)?;
                Ok(format!("{}/reasoningEngines/{engine}", self.location))
            }
            ["projects", project, "locations", location, "reasoningEngines", engine] => {
                // A server belongs to one location. The project is not compared, because it has both an id and a
                // number.
                let own = self.location.rsplit('/').next().unwrap_or_default();
                if location != own {
                    return Err(Error::invalid(format!(
                        "the app name {app_name:?} is an engine in another location than {own:?}, which this service is for"
                    )));
                }
                check_segment("project", project)?;
                check_segment("reasoning engine", engine)?;
                Ok(app_name.to_owned())
            }
            _ => Err(Error::invalid(format!(
                "the app name {app_name:?} is no id of a reasoning engine, nor its full name, \
                 projects/P/locations/L/reasoningEngines/E"
            ))),
        }
    }

    pub(super) fn session(&self, key: &SessionKey) -> Result<String> {
        self.session_of(key.app_name(), key.session_id())
    }

    pub(super) fn session_of(&self, app_name: &str, session_id: &str) -> Result<String> {
        check_session_id(session_id)?;
        Ok(format!("{}/sessions/{session_id}", self.engine(app_name)?))
    }
}

/// Refuses a text that is not a single segment of a path.
pub(super) fn check_segment(what: &str, text: &str) -> Result<()> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    // Google's APIs interpret a single '-' as a wildcard.
    if text != "-"
        && !text.is_empty()
        && text.len() <= 512
        && text.bytes().all(is_plain)
        && text.bytes().any(|b| b != b'.')
    {
        return Ok(());
    }
    let shown: String = text.chars().take(60).collect();
    Err(Error::invalid(format!("the {what} {shown:?} is none for Vertex AI: it has letters, digits, '-', '_' and '.'")))
}

/// Checks an id as ADK does. The API documents fewer ids: up to 63 of the characters `[a-z0-9-]`, starting with a
/// letter. It refuses other ids itself.
pub(super) fn check_session_id(id: &str) -> Result<()> {
    if id != "-" && !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return Ok(());
    }
    let shown: String = id.chars().take(60).collect();
    Err(Error::invalid(format!("the session id {shown:?} is none for Vertex AI: it has letters, digits, '-' and '_'")))
}

/// Returns the last segment of a full name.
pub(super) fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// Quotes a value for a filter.
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_is_an_engine() {
        let place = ResourceNames::new("p", "l", None);
        assert_eq!(place.engine("42").unwrap(), "projects/p/locations/l/reasoningEngines/42");
        let full = "projects/9/locations/l/reasoningEngines/42";
        assert_eq!(place.engine(full).unwrap(), full);
        for bad in [
            "",
            "-",
            "a/b",
            "..",
            "a b",
            "é",
            "projects/-/locations/l/reasoningEngines/42",
            "projects/9/locations/other/reasoningEngines/42",
        ] {
            assert!(place.engine(bad).is_err(), "{bad}");
        }
        let one = ResourceNames::new("p", "l", Some("7"));
        assert_eq!(one.engine("any app").unwrap(), "projects/p/locations/l/reasoningEngines/7");
    }

    #[test]
    fn a_session_id_stays_in_its_segment() {
        let place = ResourceNames::new("p", "l", None);
        assert!(place.session_of("e", "S-1_a").unwrap().ends_with("/42".replace("42", "sessions/S-1_a").as_str()));
        for bad in ["", "-", "a/b", "..", "a:appendEvent", "a?b", "é", "a b"] {
            assert!(place.session_of("e", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_stays_in_its_quotes() {
        assert_eq!(quoted(r#"u" OR "\"#), r#""u\" OR \"\\""#);
    }
}
