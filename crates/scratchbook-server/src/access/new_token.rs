//! A new token: the secret, which is shown once, and its entry in the file of tokens.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use scratchbook::{Error, Result};
use serde_json::json;
use zeroize::Zeroizing;

use super::caller::Right;
use super::tokens::sha256;

/// The beginning of each token, by which people and secret scanners recognize it.
const PREFIX: &str = "scratchbook_";

/// A token to be made: its name, its reach and its rights.
///
/// ```
/// use scratchbook_server::{NewToken, Right};
///
/// # fn main() -> scratchbook::Result<()> {
/// let token = NewToken::new("shop").with_app("shop").with_rights([Right::Read, Right::Write]).make()?;
/// println!("the token, shown once: {}", token.secret());
/// println!("for the file of tokens:\n\n{}", token.entry());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct NewToken {
    name: String,
    app: Option<String>,
    user: Option<String>,
    rights: Vec<Right>,
    expires: Option<Timestamp>,
}

/// A token that was made. `Debug` does not show its secret.
pub struct MadeToken {
    secret: Zeroizing<String>,
    entry: String,
}

impl NewToken {
    /// Returns a token of this name that may read and write everywhere.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let rights = vec![Right::Read, Right::Write];
        Self { name: name.into(), app: None, user: None, rights, expires: None }
    }

    /// Restricts the token to one app.
    #[must_use]
    pub fn with_app(self, app_name: impl Into<String>) -> Self {
        Self { app: Some(app_name.into()), ..self }
    }

    /// Restricts the token to one user.
    #[must_use]
    pub fn with_user(self, user_id: impl Into<String>) -> Self {
        Self { user: Some(user_id.into()), ..self }
    }

    /// Gives the token these rights instead of read and write.
    #[must_use]
    pub fn with_rights(self, rights: impl IntoIterator<Item = Right>) -> Self {
        Self { rights: rights.into_iter().collect(), ..self }
    }

    /// Lets the token expire at this time.
    #[must_use]
    pub fn with_expires(self, expires: Timestamp) -> Self {
        Self { expires: Some(expires), ..self }
    }

    /// Makes the token, of 256 random bits.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is empty or a name has a control character; `Internal` if the system has
    /// no randomness.
    pub fn make(self) -> Result<MadeToken> {
        if self.name.is_empty() {
            return Err(Error::invalid("the token has no name; give it one, logs tell of it by that"));
        }
        let names = [Some(&self.name), self.app.as_ref(), self.user.as_ref()];
        if let Some(name) = names.into_iter().flatten().find(|name| name.contains(char::is_control)) {
            return Err(Error::invalid(format!("the name {name:?} has a control character; leave it out")));
        }
        let mut bytes = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(bytes.as_mut()).map_err(|_| Error::internal("the system has no random numbers"))?;
        // Reserves the whole length: a reallocation would leave a copy of the secret in memory.
        let mut secret = Zeroizing::new(String::with_capacity(64));
        secret.push_str(PREFIX);
        URL_SAFE_NO_PAD.encode_string(bytes.as_ref(), &mut secret);
        let entry = self.entry(&secret);
        Ok(MadeToken { secret, entry })
    }

    /// Returns the entry as TOML. TOML writes strings and lists of strings as JSON does.
    fn entry(&self, secret: &str) -> String {
        let hash: String = sha256(secret).iter().map(|byte| format!("{byte:02x}")).collect();
        let rights: Vec<_> = self.rights.iter().map(|right| right.as_str()).collect();
        let mut lines = vec![
            "[[token]]".to_owned(),
            format!("name = {}", json!(self.name)),
            format!("sha256 = {}", json!(hash)),
            format!("rights = {}", json!(rights)),
        ];
        lines.extend(self.app.iter().map(|app| format!("app = {}", json!(app))));
        lines.extend(self.user.iter().map(|user| format!("user = {}", json!(user))));
        lines.extend(self.expires.iter().map(|expires| format!("expires = {expires}")));
        lines.join("\n") + "\n"
    }
}

impl MadeToken {
    /// Returns the token itself, as clients send it: `Authorization: Bearer SECRET`. The server does not store it, so
    /// show it once.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the lines for the file of tokens (TOML), with the token's hash.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
    }
}

impl fmt::Debug for MadeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeToken").field("entry", &self.entry).finish_non_exhaustive()
    }
}
