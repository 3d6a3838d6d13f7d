//! Paths below `/artifacts/`, which name an artifact, its versions, a single version, or metadata.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, MatchedPath, OriginalUri};
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

/// The decoded part of a path after `/artifacts/`. Names may contain `/`, so the end of the path says what is
/// requested.
#[derive(Debug)]
pub(super) struct ArtifactPath(pub(super) String);

/// The target of a request. The names and versions are taken from the path and need not exist.
#[derive(Debug, PartialEq)]
pub(super) enum Asked<'a> {
    Artifact { name: &'a str },
    Versions { name: &'a str },
    Version { name: &'a str, version: &'a str },
    VersionMetadata { name: &'a str, version: &'a str },
    VersionsMetadata { name: &'a str },
}

impl ArtifactPath {
    /// Reads the path as ADK's routes do, in the same order: the longest matching ending wins.
    pub(super) fn asked(&self) -> Asked<'_> {
        let path = self.0.as_str();
        let without_metadata = path.strip_suffix("/metadata");
        if let Some((name, version)) = without_metadata.and_then(split_version) {
            return Asked::VersionMetadata { name, version };
        }
        if let Some(name) = without_metadata.and_then(|path| path.strip_suffix("/versions")) {
            return Asked::VersionsMetadata { name };
        }
        if let Some((name, version)) = split_version(path) {
            return Asked::Version { name, version };
        }
        match path.strip_suffix("/versions") {
            Some(name) => Asked::Versions { name },
            None => Asked::Artifact { name: path },
        }
    }
}

/// Splits `NAME/versions/VERSION`.
fn split_version(path: &str) -> Option<(&str, &str)> {
    let (name, version) = path.rsplit_once('/')?;
    let name = name.strip_suffix("/versions")?;
    (!version.is_empty()).then_some((name, version))
}

impl<S: Send + Sync> FromRequestParts<S> for ArtifactPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        let place = route.split('/').position(|segment| segment.starts_with("{*"));
        let raw = place.and_then(|place| uri.path().splitn(place + 1, '/').nth(place)).unwrap_or_default();
        // A name that is not UTF-8 matches nothing.
        Ok(Self(percent_decode_str(raw).decode_utf8_lossy().into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_path_says_what_is_asked_for() {
        let (name, version) = ("a/b.txt", "0");
        for (path, asked) in [
            ("a/b.txt", Asked::Artifact { name }),
            ("a/b.txt/versions", Asked::Versions { name }),
            ("a/b.txt/versions/0", Asked::Version { name, version }),
            ("a/b.txt/versions/latest", Asked::Version { name, version: "latest" }),
            ("a/b.txt/versions/0/metadata", Asked::VersionMetadata { name, version }),
            ("a/b.txt/versions/metadata", Asked::VersionsMetadata { name }),
            ("user:x/versions", Asked::Versions { name: "user:x" }),
        ] {
            assert_eq!(ArtifactPath(path.into()).asked(), asked, "{path}");
        }
    }

    #[test]
    fn words_of_the_routes_elsewhere_in_a_name_are_part_of_it() {
        for name in ["", "/", "versions", "versions/0", "metadata", "a/metadata", "a/versions/", "a/versions/0/b", "a/"]
        {
            assert_eq!(ArtifactPath(name.into()).asked(), Asked::Artifact { name }, "{name}");
        }
        let path = ArtifactPath("a/versions/0/versions/metadata/metadata".into());
        assert_eq!(path.asked(), Asked::VersionMetadata { name: "a/versions/0", version: "metadata" });
    }
}
