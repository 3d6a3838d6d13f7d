//! A URI among the settings, as it may be printed.

use scratchbook::without_password;

/// Parts of the names of parameters that hold a secret: `password`, `sslpassword`, `passwd`, `access_token`.
const SECRET: [&str; 4] = ["pass", "pwd", "secret", "token"];

/// All of a URI but its passwords: the one of the user, and those among its parameters.
pub(super) fn uri(uri: &str) -> String {
    let short = without_password(uri);
    let (Some((scheme, _)), Some((_, address))) = (uri.split_once("://"), short.split_once("://")) else {
        return short;
    };
    if short == uri {
        return short;
    }
    // An '@' behind a '?' ends a password with a '?' in it: what is between them is no parameter.
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    let parameters = query.split('&').filter(|parameter| !query.contains('@') && is_open(parameter));
    let parameters: Vec<_> = parameters.collect();
    let mark = if parameters.is_empty() { "" } else { "?" };
    format!("{scheme}://{address}{mark}{}", parameters.join("&"))
}

/// Whether a parameter may be seen: by a plain name, for what has none may be a part of a password.
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
