//! URIs without secrets.

/// Returns a store's URI for display and logs, without the password and without parameters, which may contain a
/// password.
///
/// ```
/// use scratchbook::store::without_password;
///
/// let uri = "postgresql+asyncpg://me:s3cret@db:5432/agents?sslpassword=s3cret";
/// assert_eq!(without_password(uri), "postgresql://me@db:5432/agents");
/// assert_eq!(without_password("sqlite://agents.db?synchronous=full"), "sqlite://agents.db?synchronous=full");
/// ```
#[must_use]
pub fn without_password(uri: &str) -> String {
    let scheme = uri.split([':', '+']).next().unwrap_or_default();
    if scheme == "sqlite" || scheme == "memory" {
        return uri.to_owned();
    }
    if !is_scheme(scheme) {
        // Not a URI: any part of text like libpq's `host=db password=s3cret` may be a password. A plain path contains
        // no password.
        return if uri.contains(':') || begins_with_setting(uri) { "...".to_owned() } else { uri.to_owned() };
    }
    if !uri.contains(':') {
        return uri.to_owned();
    }
    let Some((_, rest)) = uri.split_once("://") else {
        // Not a URI: any part of it may be a password.
        return format!("{scheme}:...");
    };
    // A `?` starts the parameters if an address precedes it; otherwise it is a part of a password.
    let address = match rest.split_once('?') {
        Some((address, _)) if address.contains(['@', '/']) || !rest.contains('@') => address,
        _ => rest,
    };
    let (user, place) = address.rsplit_once('@').unwrap_or(("", address));
    let place = place.split('?').next().unwrap_or_default();
    let user = user.split(':').next().unwrap_or_default();
    let at = if user.is_empty() { "" } else { "@" };
    format!("{scheme}://{user}{at}{place}")
}

/// Whether a text has the form of a URI scheme, so that it is not a part of an address or a password.
pub fn is_scheme(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_part)
}

/// Whether a text starts like libpq's connection strings, with a word and `=`.
fn begins_with_setting(text: &str) -> bool {
    let word = text.split_once('=').map(|(word, _)| word.trim());
    word.is_some_and(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn no_password_is_shown_however_it_is_written() {
        for (uri, shown) in [
            ("mysql://me:p@ss:w@rd@db/agents", "mysql://me@db/agents"),
            ("postgres://db/agents", "postgres://db/agents"),
            ("postgresql://me@a:1,b:2/agents", "postgresql://me@a:1,b:2/agents"),
            ("postgresql://me:p?ss@db/agents", "postgresql://me@db/agents"),
            ("postgresql:me:s3cret@db/agents", "postgresql:..."),
            ("postgresql:db/agents?password=s3cret", "postgresql:..."),
            ("postgresql://db:5/agents?user=me&password=p@s3cret", "postgresql://db:5/agents"),
            ("agents.db", "agents.db"),
            ("data/my agents.db", "data/my agents.db"),
            ("/data/a=1/agents.db", "/data/a=1/agents.db"),
            ("password = s3cret host=db", "..."),
            ("host=db user=me password=s3cret", "..."),
            ("host=db password=a:s3cret", "..."),
            ("password=s3cret://db", "..."),
            ("user=me+password=s3cret", "..."),
            ("memory:", "memory:"),
        ] {
            assert_eq!(without_password(uri), shown);
        }
    }
}
