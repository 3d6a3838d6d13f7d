//! JSON Web Tokens (RFC 7519), which are signed with a secret or with keys of a JWKS file, and the meaning of their
//! claims for this server.
//!
//! A token is checked in this order: form, signature, claims. The claims are not read before the signature has been
//! verified.

mod keys;

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use scratchbook::{Error, Result};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::account::LoginName;
use super::caller::{Caller, Right};
use crate::reload::Reloaded;

use keys::JwtKeys;

/// How many seconds the clocks of issuer and server may differ.
const LEEWAY: f64 = 30.0;

/// The latest `exp`. Beyond it a float no longer tells one second from the next.
const MOST_SECONDS: f64 = (1_u64 << 53) as f64;

/// The value of the claim `user` that means all users.
const ALL_USERS: &str = "*";

/// The JWTs that are accepted.
#[derive(Debug)]
pub(super) struct Jwts {
    keys: Vec<Reloaded<JwtKeys>>,
    issuer: Option<String>,
    audience: Option<String>,
}

/// Why a token is invalid, in words for its sender.
pub(super) type Invalid = String;

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    crit: Option<IgnoredAny>,
}

/// Reads a member that is there, even if it is null.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<IgnoredAny>, D::Error> {
    IgnoredAny::deserialize(value).map(Some)
}

#[derive(Deserialize)]
struct Claims {
    exp: Option<f64>,
    nbf: Option<f64>,
    iss: Option<String>,
    aud: Option<NameList>,
    sub: Option<String>,
    app: Option<String>,
    user: Option<String>,
    rights: Option<NameList>,
    scope: Option<NameList>,
}

/// Names in a list, or in a text that separates them by spaces.
#[derive(Deserialize)]
#[serde(untagged)]
enum NameList {
    Text(String),
    List(Vec<String>),
}

impl Jwts {
    /// # Errors
    ///
    /// An error if a file cannot be read or contains no key.
    pub(super) fn open(
        secret: Option<PathBuf>,
        jwks: Option<PathBuf>,
        issuer: Option<String>,
        audience: Option<String>,
    ) -> Result<Self> {
        let mut keys = Vec::new();
        if let Some(path) = secret {
            keys.push(Reloaded::new(vec![path.clone()], move || JwtKeys::secret(&path))?);
        }
        if let Some(path) = jwks {
            let file = Reloaded::new(vec![path.clone()], {
                let path = path.clone();
                move || JwtKeys::jwks(&path)
            })?;
            // Later, a file without keys revokes all tokens. At the start it is a mistake.
            if file.get().is_empty() {
                let path = path.display();
                let message = format!("the JWKS '{path}': it has no key for signatures by EdDSA (Ed25519) or RS256");
                return Err(Error::invalid(message));
            }
            keys.push(file);
        }
        Ok(Self { keys, issuer, audience })
    }

    /// # Errors
    ///
    /// The error of the first file that cannot be read again. All other files are still read.
    pub(super) fn reload(&self) -> Result<()> {
        let results: Vec<_> = self.keys.iter().map(Reloaded::reload).collect();
        results.into_iter().collect()
    }

    /// Returns the caller that has this token.
    ///
    /// # Errors
    ///
    /// The reason why the token is refused.
    pub(super) fn caller(&self, token: &str, now: f64) -> Result<Caller, Invalid> {
        let claims: Claims = serde_json::from_slice(&self.signed(token)?)
            .map_err(|error| format!("the token's claims cannot be read: {error}"))?;
        claims.check_time(now)?;
        claims.check_parties(self.issuer.as_deref(), self.audience.as_deref())?;
        claims.caller()
    }

    /// Verifies the signature and returns the claims.
    fn signed(&self, token: &str) -> Result<Vec<u8>, Invalid> {
        let unknown = || "the token is not known here".to_owned();
        let (message, signature) = token.rsplit_once('.').ok_or_else(unknown)?;
        let (header, claims) = message.split_once('.').ok_or_else(unknown)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| unknown());
        let (header, claims, signature) = (decode(header)?, decode(claims)?, decode(signature)?);
        let header: Header = serde_json::from_slice(&header).map_err(|_| unknown())?;
        if header.crit.is_some() {
            return Err("the token has extensions that must be understood ('crit'), and they are not".to_owned());
        }
        let signed = |keys: &Reloaded<JwtKeys>| {
            keys.get().have_signed(&header.alg, header.kid.as_deref(), message.as_bytes(), &signature)
        };
        if self.keys.iter().any(signed) {
            return Ok(claims);
        }
        Err("the token's signature is of no key that is known here".to_owned())
    }
}

impl Claims {
    fn check_time(&self, now: f64) -> Result<(), Invalid> {
        match self.exp {
            None => return Err("the token has no 'exp', and has to expire".to_owned()),
            Some(exp) if exp + LEEWAY <= now => return Err("the token has expired".to_owned()),
            Some(exp) if exp > MOST_SECONDS => {
                return Err(format!("'exp' must be at most {MOST_SECONDS} seconds, got {exp}"));
            }
            Some(_) => {}
        }
        match self.nbf {
            Some(nbf) if nbf - LEEWAY > now => Err("the token is not valid yet ('nbf')".to_owned()),
            _ => Ok(()),
        }
    }

    fn check_parties(&self, issuer: Option<&str>, audience: Option<&str>) -> Result<(), Invalid> {
        if issuer.is_some() && self.iss.as_deref() != issuer {
            return Err("the token is from another issuer ('iss')".to_owned());
        }
        // A token with an audience is accepted only if this server is configured as that audience (RFC 7519, 4.1.3).
        let meant = match (&self.aud, audience) {
            (None, None) => true,
            (Some(NameList::Text(name)), Some(audience)) => name == audience,
            (Some(NameList::List(names)), Some(audience)) => names.iter().any(|name| name == audience),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if meant { Ok(()) } else { Err("the token is for another audience ('aud')".to_owned()) }
    }

    fn caller(self) -> Result<Caller, Invalid> {
        let user = match self.user.as_deref() {
            Some(ALL_USERS) => None,
            Some(user) => Some(user),
            // Without the claim `user`, the subject is the user.
            None => Some(self.sub.as_deref().ok_or("the token names no user; it takes the claim 'user' or 'sub'")?),
        };
        let rights = self.rights.as_ref().or(self.scope.as_ref()).map(NameList::rights).unwrap_or_default();
        let name = self.sub.as_deref().or(user).unwrap_or(ALL_USERS);
        Ok(Caller::new(LoginName::Subject(name.into()), rights).held_to(self.app.as_deref(), user))
    }
}

impl NameList {
    /// Returns the rights among the scopes. An issuer's other scopes are ignored.
    fn rights(&self) -> Vec<Right> {
        let parse = |name: &str| name.parse().ok();
        match self {
            Self::Text(text) => text.split(' ').filter_map(parse).collect(),
            Self::List(names) => names.iter().filter_map(|name| parse(name)).collect(),
        }
    }
}
