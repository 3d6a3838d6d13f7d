//! Removes passwords from URIs before they are printed.

use scratchbook::store::without_password;

/// Parts of the names of secret parameters: `password`, `sslpassword`, `passwd`, `access_token`.
const SECRET: [&str; 4] = ["pass", "pwd", "secret", "token"];

/// Returns a URI without the user's password and without secret parameters.
pub(super) fn uri(uri: &str) -> String {
    let short = without_password(uri);
    let (Some((scheme, _)), Some((_, address))) = (uri.split_once("://"), short.split_once("://")) else {
        return short;
    };
    if short == uri {
        return short;
    }
    // An '@' after a '?' means that the '?' is part of the password, so the rest is not a list of parameters.
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    let parameters = query.split('&').filter(|parameter| !query.contains('@') && is_open(parameter));
    let parameters: Vec<_> = parameters.collect();
    let mark = if parameters.is_empty() { "" } else { "?" };
    format!("{scheme}://{address}{mark}{}", parameters.join("&"))
}

/// Returns whether a parameter can be shown. A parameter without a plain name may be part of a password.
fn is_open(parameter: &str) -> bool {
    let Some((name, _)) = parameter.split_once('=') else { return false };
    let name = name.to_ascii_lowercase();
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    is_plain && !SECRET.iter().any(|secret| name.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn a_uri_is_whole_but_for_its_passwords() {
        for (given, shown) in [
            (
                "postgresql+asyncpg://me:s3cret@db:5432/agents?schema=a&sslmode=require",
                "postgresql+asyncpg://me@db:5432/agents?schema=a&sslmode=require",
            ),
            ("mysql://me:s3cret@db/agents?password=s3cret&pool_size=5", "mysql://me@db/agents?pool_size=5"),
            ("postgresql://db/agents?sslpassword=s3cret", "postgresql://db/agents"),
            ("postgresql://db/agents?PassWord=s3cret&p%61ssword=s3cret&s3cret", "postgresql://db/agents"),
            ("postgresql://me:p?s3cret@db/agents", "postgresql://me@db/agents"),
            ("postgresql://db/agents?user=me&password=p@s3cret", "postgresql://db/agents"),
            ("postgresql:me:s3cret@db/agents", "postgresql:..."),
            ("sqlite://agents.db?synchronous=full", "sqlite://agents.db?synchronous=full"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(uri(given), shown);
        }
    }
}
