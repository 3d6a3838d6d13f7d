//! Setting up Google's client.

use std::error::Error as StdError;
use std::future::{Future, ready};
use std::time::Duration;

use google_cloud_aiplatform_v1::client::SessionService;
use google_cloud_auth::credentials::{
    Builder, CacheableResource, Credentials, CredentialsProvider, EntityTag, anonymous,
};
use google_cloud_auth::errors::CredentialsError;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap, HeaderValue};
use rustls::crypto::{CryptoProvider, ring};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::options::{VertexAiCredentials, VertexAiOptions};
use super::retry::Unthrottled;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Creates a client of the server. If Google's application-default credentials are used, they are looked up and asked
/// for a token; nothing is sent to the server.
pub(super) async fn build(options: &VertexAiOptions) -> Result<SessionService> {
    options.check()?;
    // Google's crates spawn tasks, and panic without a runtime.
    if Handle::try_current().is_err() {
        return Err(Error::precondition("the client of Vertex AI needs a Tokio runtime; open it within one"));
    }
    // Google's crate uses the process's default crypto provider and panics without one. A provider that is already
    // installed stays.
    if CryptoProvider::get_default().is_none() {
        let _ = ring::default_provider().install_default();
    }
    let credentials = credentials(options).await?;
    let client = SessionService::builder()
        .with_endpoint(options.endpoint())
        .with_credentials(credentials)
        .with_attempt_timeout(options.request_timeout)
        .with_retry_throttler(Unthrottled);
    client.build().await.map_err(|error| {
        let endpoint = options.endpoint();
        let message = format!("no client for {endpoint} can be made; look at its address and the credentials");
        Error::new(ErrorKind::FailedPrecondition, message).with_source(error)
    })
}

async fn credentials(options: &VertexAiOptions) -> Result<Credentials> {
    match options.chosen_credentials() {
        VertexAiCredentials::ApplicationDefault => {
            let found = Builder::default().build().map_err(no_credentials)?;
            let found = Credentials::from(Punctual { credentials: found, within: options.request_timeout });
            // If there are no credentials, Google's crate asks a server that only Google's own machines can reach, and
            // does so only when a token is needed.
            found.headers(Extensions::new()).await.map_err(no_credentials)?;
            Ok(found)
        }
        VertexAiCredentials::Anonymous => Ok(anonymous::Builder::new().build()),
        VertexAiCredentials::Token(token) => Ok(Credentials::from(Bearer::new(&token)?)),
        VertexAiCredentials::Google(credentials) => {
            Ok(Credentials::from(Punctual { credentials, within: options.request_timeout }))
        }
    }
}

fn no_credentials(error: impl StdError + Send + Sync + 'static) -> Error {
    let message = "no application-default credentials that give a token are there: log in with 'gcloud auth \
                   application-default login', or name a file with GOOGLE_APPLICATION_CREDENTIALS";
    Error::new(ErrorKind::Unauthenticated, message).with_source(error)
}

/// Credentials with a timeout for their token. Without the timeout, Google's crate would wait for a token without end.
#[derive(Debug)]
struct Punctual {
    credentials: Credentials,
    within: Duration,
}

impl CredentialsProvider for Punctual {
    async fn headers(&self, known: Extensions) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        let late = |_| CredentialsError::from_msg(true, "no token came in time");
        timeout(self.within, self.credentials.headers(known)).await.map_err(late)?
    }

    async fn universe_domain(&self) -> Option<String> {
        timeout(self.within, self.credentials.universe_domain()).await.ok().flatten()
    }
}

/// A fixed token.
#[derive(Debug)]
struct Bearer {
    /// Marked as sensitive, so that it is not displayed.
    header: HeaderValue,
    tag: EntityTag,
}

impl Bearer {
    fn new(token: &str) -> Result<Self> {
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut header = header
            .ok()
            .filter(|_| !token.is_empty())
            .ok_or_else(|| Error::invalid("the token is empty or has characters that no header can have"))?;
        header.set_sensitive(true);
        Ok(Self { header, tag: EntityTag::new() })
    }
}

impl CredentialsProvider for Bearer {
    fn headers(
        &self,
        known: Extensions,
    ) -> impl Future<Output = Result<CacheableResource<HeaderMap>, CredentialsError>> + Send {
        let is_known = known.get::<EntityTag>() == Some(&self.tag);
        let new = || {
            let data = HeaderMap::from_iter([(AUTHORIZATION, self.header.clone())]);
            CacheableResource::New { entity_tag: self.tag.clone(), data }
        };
        ready(Ok(if is_known { CacheableResource::NotModified } else { new() }))
    }

    fn universe_domain(&self) -> impl Future<Output = Option<String>> + Send {
        ready(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_nowhere() {
        let bearer = Bearer::new("s3cret").unwrap();
        assert!(!format!("{bearer:?}").contains("s3cret"), "{bearer:?}");
        for bad in ["", "s3cret\n"] {
            assert!(!Bearer::new(bad).unwrap_err().to_string().contains("s3cret"));
        }
    }
}
