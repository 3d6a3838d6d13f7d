//! A database's URI: `SCHEME[+DRIVER]://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE&...`.

use std::fmt;

use percent_encoding::percent_decode_str;

use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::redact::without_password;

/// A parsed URI. It is displayed without its password.
#[derive(Clone)]
pub struct DatabaseUri {
    /// The scheme, without a `+driver` that names a Python driver.
    #[doc(hidden)]
    pub scheme: String,
    /// The text between `://` and `?`, not decoded.
    #[doc(hidden)]
    pub address: String,
    /// The parameters, decoded.
    #[doc(hidden)]
    pub parameters: Vec<(String, String)>,
}

impl DatabaseUri {
    #[doc(hidden)]
    pub fn parse(uri: &str) -> Result<Self> {
        let (scheme, rest) = uri.split_once("://").ok_or_else(|| {
            Error::invalid("a database's URI begins with its scheme, as in postgresql://USER@HOST/DATABASE")
        })?;
        let scheme = scheme.split('+').next().unwrap_or_default().to_ascii_lowercase();
        let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        if parameters.contains('@') {
            let message =
                "an '@' after a '?': write %3F for a '?' and %40 for an '@' in a user, a password or a parameter";
            return Err(Error::invalid(message));
        }
        let parameters = parameters.split('&').filter(|parameter| !parameter.is_empty());
        let parameters = parameters.map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            Ok((decoded(name)?, decoded(value)?))
        });
        Ok(Self { scheme, address: address.to_owned(), parameters: parameters.collect::<Result<_>>()? })
    }

    /// Removes a parameter and returns its value; if it occurs several times, the last value.
    #[doc(hidden)]
    pub fn take(&mut self, name: &str) -> Option<String> {
        let mut taken = None;
        self.parameters.retain_mut(|(known, value)| {
            let this = known == name;
            if this {
                taken = Some(std::mem::take(value));
            }
            !this
        });
        taken
    }

    /// Refuses the parameters that are left.
    #[doc(hidden)]
    pub fn finish(&self, known: &str) -> Result<()> {
        match self.parameters.first() {
            None => Ok(()),
            // A text that does not look like a name may be part of a password.
            Some((name, _)) => {
                let name = if is_name(name) { format!("'{name}'") } else { "with an odd name".to_owned() };
                let message = format!("unknown parameter {name} in a {}:// URI; it takes {known}", self.scheme);
                Err(Error::invalid(message))
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() < 40 && text.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '-')
}

fn decoded(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|e| Error::invalid("a parameter of the URI is not UTF-8").with_source(e))
}

/// The form for messages: the server and the user.
impl fmt::Display for DatabaseUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_password(&format!("{}://{}", self.scheme, self.address)))
    }
}

impl fmt::Debug for DatabaseUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::DatabaseUri;

    #[test]
    fn a_uri_is_shown_without_password_driver_and_parameters() {
        let uri = DatabaseUri::parse("postgresql+asyncpg://me:s3cret@db:5432/agents?password=s3cret").unwrap();
        for shown in [uri.to_string(), format!("{uri:?}")] {
            assert_eq!(shown, "postgresql://me@db:5432/agents");
        }
    }

    #[test]
    fn parameters_are_decoded_taken_and_the_rest_is_refused() {
        let mut uri = DatabaseUri::parse("postgresql://db/x?schema=a%20b&pool_size=1&pool_size=2&odd").unwrap();
        assert_eq!(uri.take("schema").as_deref(), Some("a b"));
        assert_eq!(uri.take("pool_size").as_deref(), Some("2"));
        assert_eq!(uri.take("none"), None);
        let error = uri.finish("'schema'").unwrap_err();
        assert!(error.to_string().contains("'odd'"), "{error}");
    }

    #[test]
    fn what_is_no_uri_is_refused() {
        assert!(DatabaseUri::parse("agents.db").is_err());
        assert!(DatabaseUri::parse("mysql://db/x?a=%ff").is_err());
        let error = DatabaseUri::parse("mysql://me:p?s3cret@db/x").unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
