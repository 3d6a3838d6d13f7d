//! Options: the location of the sessions, the credentials, and timeouts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use google_cloud_auth::credentials::Credentials;

use super::names::check_segment;
use super::uri;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, Result};

/// Options of a [`VertexAiSessionService`](super::VertexAiSessionService).
///
/// ```
/// use scratchbook::store::{VertexAiCredentials, VertexAiOptions};
///
/// let options = VertexAiOptions::new("my-project", "us-central1").with_reasoning_engine("1234567890");
/// assert_eq!(options.endpoint(), "https://us-central1-aiplatform.googleapis.com");
///
/// // Your own server with the same API.
/// let options = VertexAiOptions::new("p", "l").with_endpoint("https://sessions.example.com");
/// let options = options.with_credentials(VertexAiCredentials::token("s3cret"));
/// assert!(!format!("{options:?}").contains("s3cret"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VertexAiOptions {
    /// The project's id or number.
    pub project: String,
    /// The location, such as `us-central1`, or `global`.
    pub location: String,
    /// The id of the reasoning engine of all sessions. If it is absent, an app's name is the id of its engine.
    pub reasoning_engine: Option<String>,
    /// A server other than Google's: `http://` or `https://`, a host, a port.
    pub endpoint: Option<String>,
    /// The credentials. If absent: the application default for Google's servers, and none for others.
    pub credentials: Option<VertexAiCredentials>,
    /// The timeout of a request. Default: 30 s.
    pub request_timeout: Duration,
    /// How long a call is retried while the server is busy or cannot be reached. Default: 30 s.
    pub retry_timeout: Duration,
    /// The timeout of the operation that creates a session. Default: 60 s.
    pub create_timeout: Duration,
    /// The source of times and event ids.
    pub environment: Arc<dyn Environment>,
}

/// The credentials of a client.
#[derive(Clone)]
#[non_exhaustive]
pub enum VertexAiCredentials {
    /// Application-default credentials, which all of Google's clients find in the same way: a file that
    /// `GOOGLE_APPLICATION_CREDENTIALS` names, the login of `gcloud auth application-default login`, or the machine's
    /// service account.
    ApplicationDefault,
    /// No credentials, for a server without authentication.
    Anonymous,
    /// A token, sent as `Authorization: Bearer TOKEN`.
    Token(String),
    /// Credentials created with Google's crate.
    Google(Credentials),
}

impl VertexAiCredentials {
    /// Creates credentials from a token, sent as `Authorization: Bearer TOKEN`.
    #[must_use]
    pub fn token(token: impl Into<String>) -> Self {
        Self::Token(token.into())
    }
}

impl From<Credentials> for VertexAiCredentials {
    fn from(credentials: Credentials) -> Self {
        Self::Google(credentials)
    }
}

impl fmt::Debug for VertexAiCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApplicationDefault => "ApplicationDefault",
            Self::Anonymous => "Anonymous",
            Self::Token(_) => "Token",
            Self::Google(_) => "Google",
        })
    }
}

impl VertexAiOptions {
    /// Creates options for the sessions of a project in a location.
    #[must_use]
    pub fn new(project: impl Into<String>, location: impl Into<String>) -> Self {
        Self {
            project: project.into(),
            location: location.into(),
            reasoning_engine: None,
            endpoint: None,
            credentials: None,
            request_timeout: Duration::from_secs(30),
            retry_timeout: Duration::from_secs(30),
            create_timeout: Duration::from_secs(60),
            environment: Arc::new(SystemEnvironment),
        }
    }

    /// Parses a URI, `vertexai://projects/P/locations/L[/reasoningEngines/E]` with these parameters:
    ///
    /// | parameter | |
    /// |---|---|
    /// | `endpoint` | another server, `https://HOST:PORT` or `http://HOST:PORT` |
    /// | `token_env` | the environment variable that contains the token, because a URI contains no secrets |
    /// | `request_timeout_ms` | the timeout of a request |
    /// | `retry_timeout_ms` | how long a call is retried |
    /// | `create_timeout_ms` | the timeout for creating a session |
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the URI has another form, a parameter is unknown, or an environment variable is not set.
    pub fn from_uri(uri: &str) -> Result<Self> {
        uri::read(uri)
    }

    /// Sets the engine of all sessions, by its id. The names of apps are then ignored.
    #[must_use]
    pub fn with_reasoning_engine(mut self, id: impl Into<String>) -> Self {
        self.reasoning_engine = Some(id.into());
        self
    }

    /// Sets a server other than Google's.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// Sets the credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: impl Into<VertexAiCredentials>) -> Self {
        self.credentials = Some(credentials.into());
        self
    }

    /// Sets the timeout of a request.
    #[must_use]
    pub fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets how long a call is retried while the server is busy or cannot be reached; zero means never. If the server
    /// asks for a pause, the client waits that long; if the pause exceeds the remaining time, the call fails at once.
    #[must_use]
    pub fn with_retry_timeout(mut self, timeout: Duration) -> Self {
        self.retry_timeout = timeout;
        self
    }

    /// Sets the timeout of the operation that creates a session.
    #[must_use]
    pub fn with_create_timeout(mut self, timeout: Duration) -> Self {
        self.create_timeout = timeout;
        self
    }

    /// Sets the source of times and event ids.
    #[must_use]
    pub fn with_environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// Returns the server's address.
    #[must_use]
    pub fn endpoint(&self) -> String {
        match (&self.endpoint, self.location.as_str()) {
            (Some(endpoint), _) => endpoint.trim_end_matches('/').to_owned(),
            (None, "global") => "https://aiplatform.googleapis.com".to_owned(),
            (None, region @ ("us" | "eu")) => format!("https://aiplatform.{region}.rep.googleapis.com"),
            (None, location) => format!("https://{location}-aiplatform.googleapis.com"),
        }
    }

    /// Returns the credentials to use. Google's credentials are sent to other servers only if the options say so.
    pub(super) fn chosen_credentials(&self) -> VertexAiCredentials {
        let is_googles = Endpoint::new(&self.endpoint()).is_ok_and(|endpoint| endpoint.is_googles());
        let usual = if is_googles { VertexAiCredentials::ApplicationDefault } else { VertexAiCredentials::Anonymous };
        self.credentials.clone().unwrap_or(usual)
    }

    /// Refuses options with which no request could be made.
    pub(super) fn check(&self) -> Result<()> {
        check_segment("project", &self.project)?;
        check_segment("location", &self.location)?;
        self.reasoning_engine.iter().try_for_each(|id| check_segment("reasoning engine", id))?;
        let endpoint = self.endpoint();
        let parts = Endpoint::new(&endpoint)?;
        let is_open = !parts.is_encrypted && !parts.is_loopback();
        if is_open && !matches!(self.chosen_credentials(), VertexAiCredentials::Anonymous) {
            let message = format!("credentials would go to {endpoint} for all to read; use https://");
            return Err(Error::invalid(message));
        }
        if self.request_timeout.is_zero() || self.create_timeout.is_zero() {
            return Err(Error::invalid("a request that may take no time cannot be made; give it some"));
        }
        Ok(())
    }
}

/// A parsed server address.
struct Endpoint<'a> {
    is_encrypted: bool,
    host: &'a str,
}

impl<'a> Endpoint<'a> {
    fn new(text: &'a str) -> Result<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let is_encrypted = scheme.eq_ignore_ascii_case("https");
        let is_address = is_encrypted || scheme.eq_ignore_ascii_case("http");
        if !is_address || rest.is_empty() || rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
            return Err(Error::invalid("an endpoint is a scheme, a host and a port alone, as in https://HOST:PORT"));
        }
        let host = match rest.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => rest.split(':').next().unwrap_or_default(),
        };
        Ok(Self { is_encrypted, host })
    }

    fn is_googles(&self) -> bool {
        let host = self.host.to_ascii_lowercase();
        self.is_encrypted && (host == "googleapis.com" || host.ends_with(".googleapis.com"))
    }

    fn is_loopback(&self) -> bool {
        let is_address = self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        is_address || self.host.eq_ignore_ascii_case("localhost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_follows_the_location() {
        assert_eq!(
            VertexAiOptions::new("p", "europe-west4").endpoint(),
            "https://europe-west4-aiplatform.googleapis.com"
        );
        assert_eq!(VertexAiOptions::new("p", "global").endpoint(), "https://aiplatform.googleapis.com");
        assert_eq!(VertexAiOptions::new("p", "eu").endpoint(), "https://aiplatform.eu.rep.googleapis.com");
        let own = VertexAiOptions::new("p", "l").with_endpoint("http://127.0.0.1:8000/");
        assert_eq!(own.endpoint(), "http://127.0.0.1:8000");
    }

    #[test]
    fn googles_credentials_go_to_google_alone() {
        let chosen = |endpoint: &str| VertexAiOptions::new("p", "l").with_endpoint(endpoint).chosen_credentials();
        for own in ["http://127.0.0.1:8", "https://sessions.example.com", "https://googleapis.com.example.com"] {
            assert!(matches!(chosen(own), VertexAiCredentials::Anonymous), "{own}");
        }
        for google in ["https://l-aiplatform.googleapis.com", "https://psc.p.googleapis.com:443"] {
            assert!(matches!(chosen(google), VertexAiCredentials::ApplicationDefault), "{google}");
        }
        let usual = VertexAiOptions::new("p", "l").chosen_credentials();
        assert!(matches!(usual, VertexAiCredentials::ApplicationDefault));
    }

    #[test]
    fn no_token_goes_over_the_net_in_the_clear() {
        let token = || VertexAiCredentials::token("s3cret");
        let options = |endpoint: &str| VertexAiOptions::new("p", "l").with_endpoint(endpoint).with_credentials(token());
        for fine in ["http://127.0.0.1:8", "http://[::1]:8", "http://localhost", "https://sessions.example.com"] {
            assert!(options(fine).check().is_ok(), "{fine}");
        }
        let error = options("http://sessions.example.com").check().unwrap_err().to_string();
        assert!(error.contains("sessions.example.com") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn what_no_request_could_be_made_with_is_refused() {
        let options = |p: &str, l: &str| VertexAiOptions::new(p, l);
        for bad in [options("", "l"), options("a/b", "l"), options("p", ".."), options("p", "l?x")] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        for bad in ["", "example.com", "ftp://h", "https://", "https://h/path", "https://me@h", "https://h?x"] {
            assert!(options("p", "l").with_endpoint(bad).check().is_err(), "{bad}");
        }
        assert!(options("p", "l").with_reasoning_engine("a/b").check().is_err());
        assert!(options("p", "l").with_request_timeout(Duration::ZERO).check().is_err());
    }
}
