//! Parses `vertexai://projects/P/locations/L[/reasoningEngines/E]?NAME=VALUE&...`.

use std::env;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::options::{VertexAiCredentials, VertexAiOptions};
use scratchbook_core::error::{Error, Result};

const SCHEME: &str = "vertexai";
const PARAMETERS: &str = "endpoint, token_env, request_timeout_ms, retry_timeout_ms and create_timeout_ms";

pub(super) fn read(uri: &str) -> Result<VertexAiOptions> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let (scheme, path) = path.split_once("://").unwrap_or(("", path));
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Err(Error::invalid("a URI of Vertex AI begins with vertexai://"));
    }
    let segments: Vec<_> = path.split('/').collect();
    let mut options = match segments[..] {
        ["projects", project, "locations", location] => VertexAiOptions::new(project, location),
        ["projects", project, "locations", location, "reasoningEngines", engine] => {
            VertexAiOptions::new(project, location).with_reasoning_engine(engine)
        }
        _ => {
            return Err(Error::invalid(
                "sessions of Vertex AI are written as vertexai://projects/P/locations/L/reasoningEngines/E, without \
                 the engine where each app's name is its engine's id",
            ));
        }
    };
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = percent_decode_str(value).decode_utf8();
        let value = value.map_err(|_| Error::invalid(format!("the parameter '{name}' is not UTF-8")))?;
        match name {
            "endpoint" => options.endpoint = Some(value.into_owned()),
            "token_env" => options.credentials = Some(token(&value)?),
            "request_timeout_ms" => options.request_timeout = span(name, &value)?,
            "retry_timeout_ms" => options.retry_timeout = span(name, &value)?,
            "create_timeout_ms" => options.create_timeout = span(name, &value)?,
            // A text that does not look like a name may be a secret.
            _ => {
                let shown = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') && name.len() < 40;
                let name = if shown { format!("'{name}'") } else { "with an odd name".to_owned() };
                return Err(Error::invalid(format!(
                    "unknown parameter {name} in a vertexai:// URI; it takes {PARAMETERS}"
                )));
            }
        }
    }
    options.check()?;
    Ok(options)
}

fn token(name: &str) -> Result<VertexAiCredentials> {
    match env::var(name) {
        Ok(token) if !token.is_empty() => Ok(VertexAiCredentials::Token(token)),
        _ => Err(Error::invalid(format!(
            "token_env names the environment variable {name:?}, which holds no token; set it, or leave the parameter out"
        ))),
    }
}

fn span(name: &str, value: &str) -> Result<Duration> {
    let span = value.parse().map(Duration::from_millis);
    span.map_err(|_| Error::invalid(format!("{name} is {value:?}; it is a number of milliseconds")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_project_location_and_engine() {
        let options = read("vertexai://projects/p-1/locations/us-central1/reasoningEngines/42").unwrap();
        assert_eq!((options.project.as_str(), options.location.as_str()), ("p-1", "us-central1"));
        assert_eq!(options.reasoning_engine.as_deref(), Some("42"));
        let uri = "VertexAI://projects/p/locations/l?endpoint=http%3A%2F%2F127.0.0.1:8000&create_timeout_ms=1500";
        let options = read(uri).unwrap();
        assert_eq!(options.reasoning_engine, None);
        assert_eq!(options.endpoint(), "http://127.0.0.1:8000");
        assert_eq!(options.create_timeout, Duration::from_millis(1500));
    }

    #[test]
    fn what_is_no_such_uri_is_refused() {
        for bad in [
            "vertexai:",
            "vertexai://",
            "vertexai://p/l/e",
            "projects/p/locations/l",
            "://projects/p/locations/l",
            "postgres://projects/p/locations/l",
            "vertexai://projects/p/locations/-",
            "vertexai://projects/p/locations/l/",
            "vertexai://projects//locations/l",
            "vertexai://projects/p/locations/l/reasoningEngines/",
            "vertexai://projects/p/locations/l/reasoningEngines/e/sessions/s",
            "vertexai://projects/p/locations/l?retry_timeout_ms=soon",
            "vertexai://projects/p/locations/l?endpoint=nowhere",
            "vertexai://projects/p/locations/l?endpoint=%ff",
            "vertexai://projects/p/locations/l?token_env=SCRATCHBOOK_NO_SUCH_VARIABLE",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let error = read("vertexai://projects/p/locations/l?Token=s3cret").unwrap_err().to_string();
        assert!(error.contains("token_env") && !error.contains("s3cret"), "{error}");
    }
}
