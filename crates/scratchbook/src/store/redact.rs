//! URIs as they may be shown.

/// A store's URI for people and logs: without password and parameters, which may hold one.
///
/// ```
/// use scratchbook::without_password;
///
/// let uri = "postgresql+asyncpg://me:s3cret@db:5432/agents?sslpassword=s3cret";
/// assert_eq!(without_password(uri), "postgresql://me@db:5432/agents");
/// assert_eq!(without_password("sqlite://agents.db?synchronous=full"), "sqlite://agents.db?synchronous=full");
/// ```
#[must_use]
pub fn without_password(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else {
        // No URI: what stands before an `@` may be a password, what stands before a `:` says what was meant.
        return match uri.rsplit_once('@') {
            Some((secret, place)) => format!("{}:...@{place}", secret.split(':').next().unwrap_or_default()),
            None => uri.to_owned(),
        };
    };
    if scheme == "sqlite" {
        return uri.to_owned();
    }
    let scheme = scheme.split('+').next().unwrap_or_default();
    // A `?` may also stand in a password that was not encoded.
    let (user, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let place = place.split('?').next().unwrap_or_default();
    let user = user.split(':').next().unwrap_or_default();
    let at = if user.is_empty() { "" } else { "@" };
    format!("{scheme}://{user}{at}{place}")
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
            ("postgresql:me:s3cret@db/agents", "postgresql:...@db/agents"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(without_password(uri), shown);
        }
    }
}
