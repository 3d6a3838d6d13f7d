//! The login: tokens from a file, and JWTs.

use std::path::PathBuf;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use scratchbook::{Error, Result};

use super::caller::Caller;
use super::jwt::{Invalid, Jwts};
use super::tokens::{TokenMatch, Tokens};
use crate::reload::Reloaded;

/// How callers log in: with tokens from a file, JWTs, or both. Both are sent as `Authorization: Bearer TOKEN`.
///
/// A file that has changed is read again within a second, or at once by [`Server::reload`](crate::Server::reload).
#[derive(Clone, Debug, Default)]
pub struct Login {
    tokens: Option<PathBuf>,
    jwt_secret: Option<PathBuf>,
    jwks: Option<PathBuf>,
    jwt_issuer: Option<String>,
    jwt_audience: Option<String>,
}

/// A [`Login`] whose files have been read.
#[derive(Debug)]
pub(crate) struct LoginGate {
    tokens: Option<Reloaded<Tokens>>,
    jwts: Jwts,
}

/// Why the login of a request fails.
#[derive(Clone, Debug)]
pub(crate) enum LoginError {
    /// The request has no token.
    Missing,
    /// The request has a token that is invalid.
    Invalid(Invalid),
}

impl LoginError {
    /// Returns the reason as a sentence for a person.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Missing => "There is no token.".to_owned(),
            Self::Invalid(message) => format!("Nobody is let in by this: {message}."),
        }
    }
}

impl Login {
    /// Returns a login that accepts nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts the tokens of a TOML file. Each token is a table `[[token]]` with `name`, `sha256`, `rights`, and
    /// optionally `app`, `user` and `expires`. [`NewToken`](crate::NewToken) makes such tables.
    #[must_use]
    pub fn with_tokens(self, path: impl Into<PathBuf>) -> Self {
        Self { tokens: Some(path.into()), ..self }
    }

    /// Accepts JWTs that are signed with HS256 and the secret in a file. The secret has at least 32 bytes.
    #[must_use]
    pub fn with_jwt_secret(self, path: impl Into<PathBuf>) -> Self {
        Self { jwt_secret: Some(path.into()), ..self }
    }

    /// Accepts JWTs that are signed with EdDSA (Ed25519) or RS256 and a key of a JWKS file.
    #[must_use]
    pub fn with_jwks(self, path: impl Into<PathBuf>) -> Self {
        Self { jwks: Some(path.into()), ..self }
    }

    /// Sets the issuer (`iss`) that JWTs must be from.
    #[must_use]
    pub fn with_jwt_issuer(self, issuer: impl Into<String>) -> Self {
        Self { jwt_issuer: Some(issuer.into()), ..self }
    }

    /// Sets the audience (`aud`) that JWTs must have. If no audience is set, a JWT that names an audience is refused.
    #[must_use]
    pub fn with_jwt_audience(self, audience: impl Into<String>) -> Self {
        Self { jwt_audience: Some(audience.into()), ..self }
    }

    /// # Errors
    ///
    /// The error of a file that cannot be read or is invalid; `InvalidArgument` if the login accepts neither tokens nor
    /// JWTs.
    pub(crate) fn open(self) -> Result<LoginGate> {
        let Self { tokens, jwt_secret, jwks, jwt_issuer, jwt_audience } = self;
        let jwt = jwt_secret.is_some() || jwks.is_some();
        if tokens.is_none() && !jwt {
            return Err(Error::invalid("nobody can log in: give a file of tokens, a JWKS file or a secret of JWTs"));
        }
        if !jwt && (jwt_issuer.is_some() || jwt_audience.is_some()) {
            let message = "an issuer or an audience of JWTs is given, but no key: give a JWKS file or a secret";
            return Err(Error::invalid(message));
        }
        let tokens = tokens.map(|path| Reloaded::new(vec![path.clone()], move || Tokens::read(&path))).transpose()?;
        Ok(LoginGate { tokens, jwts: Jwts::open(jwt_secret, jwks, jwt_issuer, jwt_audience)? })
    }
}

impl LoginGate {
    /// Returns the caller that sent these headers.
    ///
    /// # Errors
    ///
    /// The reason why the login with these headers fails.
    pub(super) fn caller(&self, headers: &HeaderMap, now: f64) -> Result<Caller, LoginError> {
        let token = bearer(headers)?;
        match self.tokens.as_ref().map(|tokens| tokens.get().find(token, now)) {
            Some(TokenMatch::Caller(caller)) => Ok(caller),
            Some(TokenMatch::Expired) => Err(LoginError::Invalid("the token has expired".to_owned())),
            Some(TokenMatch::Nothing) | None => self.jwts.caller(token, now).map_err(LoginError::Invalid),
        }
    }

    /// Reads all files again.
    ///
    /// # Errors
    ///
    /// The first error. Files that could be read take effect; for the others, the previous contents stay in effect.
    pub(crate) fn reload(&self) -> Result<()> {
        let tokens = self.tokens.as_ref().map_or(Ok(()), Reloaded::reload);
        self.jwts.reload().and(tokens)
    }
}

/// Returns the token of `Authorization: Bearer TOKEN`.
fn bearer(headers: &HeaderMap) -> Result<&str, LoginError> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let Some(first) = all.next() else {
        return Err(LoginError::Missing);
    };
    let wrong = || LoginError::Invalid("the header 'Authorization' is not 'Bearer TOKEN', once".to_owned());
    if all.next().is_some() {
        return Err(wrong());
    }
    let (scheme, token) = first.to_str().ok().and_then(|value| value.split_once(' ')).ok_or_else(wrong)?;
    let token = token.trim_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() { Ok(token) } else { Err(wrong()) }
}
