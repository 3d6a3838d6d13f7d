//! Paths below `/artifacts/`, which name an artifact, its versions, a single version, or metadata.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, MatchedPath, OriginalUri};
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

/// The decoded part of a path after `/artifacts/`. Names may contain `/`, so the end of the path says what is
/// requested.
#[derive(Debug)]
pub(super) struct ArtifactPathTail(pub(super) String);

/// The target of a request. The names and versions are taken from the path and need not exist.
#[derive(Debug, PartialEq)]
pub(super) enum ArtifactTarget<'a> {
    Artifact { name: &'a str },
    Versions { name: &'a str },
    Version { name: &'a str, version: &'a str },
    VersionMetadata { name: &'a str, version: &'a str },
    VersionsMetadata { name: &'a str },
}

impl ArtifactPathTail {
    /// Reads the path as ADK's routes do, in the same order: the longest matching ending wins.
    pub(super) fn asked(&self) -> ArtifactTarget<'_> {
        let path = self.0.as_str();
        let without_metadata = path.strip_suffix("/metadata");
        if let Some((name, version)) = without_metadata.and_then(split_version) {
            return ArtifactTarget::VersionMetadata { name, version };
        }
        if let Some(name) = without_metadata.and_then(|path| path.strip_suffix("/versions")) {
            return ArtifactTarget::VersionsMetadata { name };
        }
        if let Some((name, version)) = split_version(path) {
            return ArtifactTarget::Version { name, version };
        }
        match path.strip_suffix("/versions") {
            Some(name) => ArtifactTarget::Versions { name },
            None => ArtifactTarget::Artifact { name: path },
        }
    }
}

/// Splits `NAME/versions/VERSION`.
fn split_version(path: &str) -> Option<(&str, &str)> {
    let (name, version) = path.rsplit_once('/')?;
    let name = name.strip_suffix("/versions")?;
    (!version.is_empty()).then_some((name, version))
}

impl<S: Send + Sync> FromRequestParts<S> for ArtifactPathTail {
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
            ("a/b.txt", ArtifactTarget::Artifact { name }),
            ("a/b.txt/versions", ArtifactTarget::Versions { name }),
            ("a/b.txt/versions/0", ArtifactTarget::Version { name, version }),
            ("a/b.txt/versions/latest", ArtifactTarget::Version { name, version: "latest" }),
            ("a/b.txt/versions/0/metadata", ArtifactTarget::VersionMetadata { name, version }),
            ("a/b.txt/versions/metadata", ArtifactTarget::VersionsMetadata { name }),
            ("user:x/versions", ArtifactTarget::Versions { name: "user:x" }),
        ] {
            assert_eq!(ArtifactPathTail(path.into()).asked(), asked, "{path}");
        }
    }

    #[test]
    fn words_of_the_routes_elsewhere_in_a_name_are_part_of_it() {
        for name in ["", "/", "versions", "versions/0", "metadata", "a/metadata", "a/versions/", "a/versions/0/b", "a/"]
        {
            assert_eq!(ArtifactPathTail(name.into()).asked(), ArtifactTarget::Artifact { name }, "{name}");
        }
        let path = ArtifactPathTail("a/versions/0/versions/metadata/metadata".into());
        assert_eq!(path.asked(), ArtifactTarget::VersionMetadata { name: "a/versions/0", version: "metadata" });
    }
}
