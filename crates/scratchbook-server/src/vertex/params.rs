//! Extractors of Vertex AI's surface: query parameters and JSON bodies.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use percent_encoding::percent_decode_str;
use scratchbook::{Error, Result, json};
use serde_json::Value;
use std::collections::BTreeMap;

use super::GoogleError;
use crate::app_state::AppState;
use crate::bodies::{SESSION_EVENT, Unread};
use crate::wire_names::{is_json, snake_case};

/// Parameters that every method of a Google API has. They do not change the answers of this server.
const OF_THE_SYSTEM: [&str; 12] = [
    "access_token",
    "alt",
    "callback",
    "fields",
    "key",
    "oauth_token",
    "pp",
    "prettyPrint",
    "quotaUser",
    "uploadType",
    "upload_protocol",
    "userIp",
];

/// The page size if none is given.
const USUAL: usize = 100;
/// The largest page size.
const MOST: usize = 1000;

/// The query parameters of a method, by their names in camelCase. Empty parameters count as absent.
#[derive(Debug)]
pub(super) struct Params(BTreeMap<&'static str, String>);

impl Params {
    /// Reads a query of a method that has these parameters.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for any other parameter, and for one that is given twice.
    pub(super) fn new(query: Option<&str>, known: &[&'static str]) -> Result<Self> {
        let query = query.unwrap_or_default();
        if percent_decode_str(query).decode_utf8().is_err() {
            return Err(Error::invalid("the query is not UTF-8"));
        }
        let mut params = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name.starts_with('$') || OF_THE_SYSTEM.contains(&&*name) {
                continue;
            }
            let found =
                known.iter().find(|known| **known == name || snake_case(known).is_some_and(|snake| snake == name));
            let Some(known) = found else {
                let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Error::invalid(format!("unknown name {name:?} in the query; there are {there}")));
            };
            if !value.is_empty() && params.insert(*known, value.into_owned()).is_some() {
                return Err(Error::invalid(format!("the query has '{known}' twice; send it once")));
            }
        }
        Ok(Self(params))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the page size. A size above the largest one counts as the largest one.
    pub(super) fn page_size(&self) -> Result<usize> {
        let Some(text) = self.text("pageSize") else { return Ok(USUAL) };
        let wrong = || Error::invalid(format!("pageSize is {text:?}; it is a number from 1 to {MOST}"));
        match text.parse::<i32>().map(usize::try_from) {
            Ok(Ok(0)) => Ok(USUAL),
            Ok(Ok(size)) => Ok(size.min(MOST)),
            _ => Err(wrong()),
        }
    }
}

/// A body that is a JSON object.
#[derive(Debug)]
pub(super) struct ObjectBody(pub(super) Value);

impl FromRequest<AppState> for ObjectBody {
    type Rejection = GoogleError;

    async fn from_request(request: Request, app_state: &AppState) -> Result<Self, GoogleError> {
        Self::read(unread(request, app_state).await?).await
    }
}

/// Returns the body of a request without parsing it.
///
/// # Errors
///
/// The error for a content type that is not JSON, for a body that broke off, and for one that is not plain UTF-8.
pub(super) async fn unread(request: Request, app_state: &AppState) -> Result<Unread, GoogleError> {
    check_content_type(request.headers())?;
    let unread = Unread::from_request(request, app_state).await.map_err(|rejection| {
        let code = rejection.status();
        GoogleError::with_code(code, &Error::invalid("the body ended before it was whole"))
    })?;
    Ok(unread.into_json()?)
}

impl ObjectBody {
    /// # Errors
    ///
    /// `InvalidArgument` if the body is no JSON object; `PayloadTooLarge` if it has too many items of one kind.
    pub(super) async fn read(unread: Unread) -> Result<Self, GoogleError> {
        if unread.bytes().iter().all(u8::is_ascii_whitespace) {
            return Err(Error::invalid("the body is empty; send a JSON object").into());
        }
        let read = |bytes: Bytes| json::from_slice::<Value>(&bytes).map_err(|error| error.context("the body"));
        // Every body is counted like an event. For a session this counts nothing, since it has no content and no
        // actions.
        let value = unread.read(&SESSION_EVENT, read).await??;
        if value.is_object() {
            Ok(Self(value))
        } else {
            Err(Error::invalid("the body is no JSON object; send one").into())
        }
    }
}

/// Refuses content types other than JSON, because any web page may send a form without a preflight request.
fn check_content_type(headers: &HeaderMap) -> Result<(), GoogleError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let text = value.to_str().unwrap_or("not of text");
    if is_json(text) {
        return Ok(());
    }
    let error = Error::invalid(format!("the body's content type is '{text}'; send 'application/json'"));
    Err(GoogleError::with_code(StatusCode::BAD_REQUEST, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_in_both_spellings_and_those_of_the_system_are_left_out() {
        let read = |query| Params::new(Some(query), &["pageSize", "filter"]);
        let params = read("page_size=7&filter=&$alt=json;enum-encoding=int&key=k&prettyPrint=false").unwrap();
        assert_eq!((params.page_size().unwrap(), params.text("filter")), (7, None));
        for (query, size) in [("", 100), ("pageSize=0", 100), ("pageSize=", 100), ("pageSize=5000", 1000)] {
            assert_eq!(read(query).unwrap().page_size().unwrap(), size, "{query}");
        }
        for bad in ["pageSize=-1", "pageSize=x", "pageSize=99999999999", "pageSize=1.5"] {
            assert!(read(bad).unwrap().page_size().is_err(), "{bad}");
        }
        for bad in [
            "bogus=1",
            "PageSize=1",
            "pagesize=1",
            "pages_ize=1",
            "filter=a&filter=b",
            "pageSize=1&page_size=2",
            "filter=%ff",
            "=1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
