//! Parameters of paths, for the document; handlers take scopes, which check them.
#![expect(dead_code, reason = "the document alone reads these")]

use utoipa::IntoParams;

/// An app.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct AppPath {
    /// The app, percent-encoded.
    #[param(example = "demo", min_length = 1)]
    app: String,
}

/// A user of an app.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct UserPath {
    /// The app, percent-encoded.
    #[param(example = "demo", min_length = 1)]
    app: String,
    /// The user, percent-encoded.
    #[param(example = "alice", min_length = 1)]
    user: String,
}

/// A session of a user of an app.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SessionPath {
    /// The app, percent-encoded.
    #[param(example = "demo", min_length = 1)]
    app: String,
    /// The user, percent-encoded.
    #[param(example = "alice", min_length = 1)]
    user: String,
    /// The session's id, percent-encoded.
    #[param(example = "s1", min_length = 1)]
    session: String,
}

/// A key.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct KeyPath {
    /// The key, percent-encoded. For a session, the key has its prefix, as in `user:language`. For a user or an app, it
    /// has no prefix.
    #[param(example = "cart", min_length = 1)]
    key: String,
}

/// A run of a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RunPath {
    /// The app, percent-encoded.
    #[param(example = "demo", min_length = 1)]
    app: String,
    /// The user, percent-encoded.
    #[param(example = "alice", min_length = 1)]
    user: String,
    /// The session's id, percent-encoded.
    #[param(example = "s1", min_length = 1)]
    session: String,
    /// The run's id, percent-encoded.
    #[param(example = "i2", min_length = 1)]
    invocation: String,
}

/// An event, by its number.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct NumberPath {
    /// The event's number, from 1.
    #[param(example = 3, minimum = 1)]
    seq: u64,
}

/// An event, by its id.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct EventPath {
    /// The event's id, percent-encoded.
    #[param(example = "e3", min_length = 1)]
    event: String,
}

/// An artifact.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ArtifactPath {
    /// The artifact's name, percent-encoded, including its slashes. A name that begins with `user:` is an artifact of
    /// the user.
    #[param(example = "receipt.txt", min_length = 1)]
    artifact: String,
}
