//! Tokens from a file, which contains only their hashes. So nobody who can read the file can log in with it.
//!
//! A token is 256 random bits, which nobody can guess, so a fast hash is as safe as a slow one.

use std::path::Path;

use jiff::Timestamp;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use scratchbook::{Error, Result};
use serde::Deserialize;
use subtle::ConstantTimeEq;
use toml::value::Datetime;

use super::account::LoginName;
use super::caller::{Caller, Right};
use crate::reload;

/// The tokens of a file.
#[derive(Debug)]
pub(crate) struct Tokens {
    tokens: Vec<KnownToken>,
}

#[derive(Debug)]
struct KnownToken {
    hash: [u8; SHA256_OUTPUT_LEN],
    caller: Caller,
    /// The time at which the token expires, in seconds since 1970.
    expires: Option<f64>,
}

/// The result of looking a token up.
#[derive(Debug)]
pub(super) enum TokenMatch {
    Caller(Caller),
    Expired,
    Nothing,
}

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    #[serde(default)]
    token: Vec<TokenEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    sha256: String,
    app: Option<String>,
    user: Option<String>,
    rights: Vec<String>,
    expires: Option<Datetime>,
}

impl Tokens {
    /// # Errors
    ///
    /// The errors of reading the file; `InvalidArgument` names the invalid token and the problem.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = reload::read("the tokens", path)?;
        let wrong = |message: String| Error::invalid(format!("the tokens '{}': {message}", path.display()));
        let text = std::str::from_utf8(&bytes).map_err(|e| wrong(format!("the file is not UTF-8: {e}")))?;
        let file: TokenFile = toml::from_str(text).map_err(|e| {
            let line = e.span().map(|span| text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1);
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            wrong(format!("{place}{}", e.message()))
        })?;
        let mut tokens: Vec<KnownToken> = Vec::new();
        for entry in file.token {
            let name = entry.name.clone();
            let token = KnownToken::new(entry).map_err(|e| wrong(format!("the token '{name}': {e}")))?;
            if tokens.iter().any(|other| other.caller.name() == token.caller.name() || other.hash == token.hash) {
                return Err(wrong(format!("there are two tokens '{name}', or two with its hash; keep one")));
            }
            tokens.push(token);
        }
        if tokens.is_empty() {
            tracing::warn!(file = %path.display(), "the file has no token: nobody can log in by one");
        }
        Ok(Self { tokens })
    }

    /// Looks a token up. All tokens are compared, so that the time of the search reveals nothing.
    pub(super) fn find(&self, token: &str, now: f64) -> TokenMatch {
        let hash = sha256(token);
        let mut found = TokenMatch::Nothing;
        for token in &self.tokens {
            if bool::from(token.hash.ct_eq(&hash)) {
                let expired = token.expires.is_some_and(|expires| expires <= now);
                found = if expired { TokenMatch::Expired } else { TokenMatch::Caller(token.caller.clone()) };
            }
        }
        found
    }
}

impl KnownToken {
    fn new(entry: TokenEntry) -> Result<Self> {
        if entry.name.is_empty() {
            return Err(Error::invalid("it has no name; give it one, logs tell of it by that"));
        }
        let hash = unhex(&entry.sha256)
            .ok_or_else(|| Error::invalid("'sha256' is no hash; it has 64 digits of 0-9 and a-f"))?;
        let rights = entry.rights.iter().map(|right| right.parse()).collect::<Result<Vec<Right>>>()?;
        let expires = entry.expires.map(|expires| {
            let moment: Timestamp = expires.to_string().parse().map_err(|_| {
                Error::invalid(format!(
                    "'expires' is {expires}; write it with its offset, such as 2027-01-31T12:00:00Z"
                ))
            })?;
            Ok::<_, Error>(moment.as_millisecond() as f64 / 1e3)
        });
        let caller = Caller::new(LoginName::Token(entry.name.as_str().into()), rights)
            .held_to(entry.app.as_deref(), entry.user.as_deref());
        Ok(Self { hash, caller, expires: expires.transpose()? })
    }
}

/// Returns the hash of a token, as it is in the file.
pub(super) fn sha256(token: &str) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

fn unhex(text: &str) -> Option<[u8; SHA256_OUTPUT_LEN]> {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    if text.len() != 2 * bytes.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}
