//! Finds and removes the secrets of credentials in ADK's JSON. Spans of runs never contain these secrets. A server
//! removes them from all answers on ADK's API. On its other APIs, it removes them from answers to callers that are
//! restricted to a user.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::{Map, Value};

/// The fields that are removed from a credential.
const SECRETS: &[&str] = &[
    "password",
    "token",
    "additionalHeaders",
    "additional_headers",
    "clientSecret",
    "client_secret",
    "authResponseUri",
    "auth_response_uri",
    "authCode",
    "auth_code",
    "accessToken",
    "access_token",
    "refreshToken",
    "refresh_token",
    "idToken",
    "id_token",
    "codeVerifier",
    "code_verifier",
    "privateKeyId",
    "private_key_id",
    "privateKey",
    "private_key",
    "apiKey",
    "api_key",
];

/// The types of objects that are credentials.
const TYPES: &[&str] = &[
    "apiKey",
    "API_KEY",
    "api_key",
    "http",
    "HTTP",
    "oauth2",
    "OAUTH2",
    "openIdConnect",
    "OPEN_ID_CONNECT",
    "open_id_connect",
    "serviceAccount",
    "SERVICE_ACCOUNT",
    "service_account",
];

/// The call by which ADK asks its client for a credential.
const REQUEST: &str = "adk_request_credential";

const CONFIGS: [&str; 2] = ["requestedAuthConfigs", "requested_auth_configs"];
const CREDENTIALS: [&str; 4] =
    ["rawAuthCredential", "raw_auth_credential", "exchangedAuthCredential", "exchanged_auth_credential"];

/// Removes the secrets from JSON text that we wrote. Returns `None` if the text has no marks of a credential, as is the
/// case for nearly all texts.
///
/// Such texts are not parsed.
///
/// # Errors
///
/// If it is not JSON.
pub fn without_secrets(text: &[u8]) -> serde_json::Result<Option<Vec<u8>>> {
    if !has_marks(text) {
        return Ok(None);
    }
    let mut value = serde_json::from_slice(text)?;
    redact(&mut value);
    serde_json::to_vec(&value).map(Some)
}

/// Removes the secrets from JSON text that we wrote. Also handles keys whose name and value are separate fields, as on
/// `/v1`.
///
/// # Errors
///
/// If it is not JSON.
pub fn without_secrets_or_named(text: &[u8]) -> serde_json::Result<Vec<u8>> {
    let mut value = serde_json::from_slice(text)?;
    redact_named(&mut value);
    redact(&mut value);
    serde_json::to_vec(&value)
}

/// Returns the value of a key without the secrets in it. A value without the marks of a credential is not copied.
#[must_use]
pub fn value_without_secrets<'v>(key: &str, value: &'v Value) -> Cow<'v, Value> {
    if !is_mark(key) && !is_marked(value) {
        return Cow::Borrowed(value);
    }
    let mut holder = Value::Object(Map::from_iter([(key.to_owned(), value.clone())]));
    redact(&mut holder);
    Cow::Owned(holder.as_object_mut().and_then(|map| map.remove(key)).unwrap_or_default())
}

/// Returns whether a tool is ADK's request for a credential. The arguments and the response of such a call contain a
/// credential.
#[must_use]
pub fn is_credential_call(name: &str) -> bool {
    name == REQUEST
}

fn is_mark(name: &str) -> bool {
    matches!(name, "authType" | "auth_type") || CONFIGS.contains(&name) || CREDENTIALS.contains(&name)
}

fn is_marked(value: &Value) -> bool {
    match value {
        Value::Object(map) => map
            .iter()
            .any(|(name, value)| is_mark(name) || value.as_str().is_some_and(is_credential_call) || is_marked(value)),
        Value::Array(items) => items.iter().any(is_marked),
        _ => false,
    }
}

/// Returns whether a text may have a credential in it.
#[must_use]
pub fn has_marks(text: &[u8]) -> bool {
    /// The searchers are prepared once, since every answer is searched.
    static MARKS: LazyLock<[Finder<'static>; 6]> = LazyLock::new(|| {
        ["authType", "auth_type", REQUEST, CONFIGS[1], "AuthCredential", "auth_credential"].map(Finder::new)
    });
    static CONFIG: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(CONFIGS[0]));
    // Every event has this field, so only a field that is not empty counts: it requests a credential.
    let mut configs = CONFIG.find_iter(text).map(|at| text.get(at + CONFIGS[0].len()..).unwrap_or_default());
    MARKS.iter().any(|mark| mark.find(text).is_some()) || configs.any(|rest| !rest.starts_with(b"\":{}"))
}

/// Removes the secrets from objects whose field `key` is one of the names under which credentials are stored.
fn redact_named(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let key = map.get("key").and_then(Value::as_str);
            let is_named = key.is_some_and(|key| CONFIGS.contains(&key) || CREDENTIALS.contains(&key));
            map.values_mut().for_each(if is_named { strip } else { redact_named });
        }
        Value::Array(items) => items.iter_mut().for_each(redact_named),
        _ => {}
    }
}

fn redact(value: &mut Value) {
    let map = match value {
        Value::Object(map) => map,
        Value::Array(items) => return items.iter_mut().for_each(redact),
        _ => return,
    };
    let is_typed = |name| map.get(name).and_then(Value::as_str).is_some_and(|kind| TYPES.contains(&kind));
    if is_typed("authType") || is_typed("auth_type") {
        return strip_map(map);
    }
    if map.get("name").and_then(Value::as_str) == Some(REQUEST) {
        return redact_request(map);
    }
    // If an object has names of both lists, ADK reads only those of the first list.
    let carriers = if CONFIGS.iter().any(|name| map.contains_key(*name)) { &CONFIGS[..] } else { &CREDENTIALS[..] };
    for (name, value) in map.iter_mut() {
        if carriers.contains(&name.as_str()) { strip(value) } else { redact(value) }
    }
}

/// Removes the secrets from a call that asks for a credential, or from its response.
fn redact_request(map: &mut Map<String, Value>) {
    for (name, value) in map.iter_mut() {
        match (name.as_str(), value) {
            ("args", Value::Object(args)) => {
                args.iter_mut()
                    .filter(|(name, _)| matches!(name.as_str(), "authConfig" | "auth_config"))
                    .for_each(|(_, config)| strip(config));
            }
            ("response", response) => strip(response),
            (_, value) => redact(value),
        }
    }
}

/// Removes the secrets of a credential, at any depth.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => strip_map(map),
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn strip_map(map: &mut Map<String, Value>) {
    map.retain(|name, _| !SECRETS.contains(&name.as_str()));
    map.values_mut().for_each(strip);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_shown_to_no_one() {
        let shown =
            |value: Value| String::from_utf8(without_secrets(value.to_string().as_bytes()).unwrap().unwrap()).unwrap();
        for credential in [
            json!({"c": {"authType": "oauth2", "oauth2": {"accessToken": "hunter2", "client_secret": "hunter2"}}}),
            json!([{"auth_type": "API_KEY", "apiKey": "hunter2"}]),
            json!({"a": {"rawAuthCredential": {"http": {"credentials": {"token": "hunter2"}}}}}),
            json!({"requestedAuthConfigs": {"call": {"x": {"apiKey": "hunter2"}}}}),
            json!({"name": "adk_request_credential", "args": {"authConfig": {"idToken": "hunter2"}}}),
            json!({"name": "adk_request_credential", "response": {"privateKey": "hunter2"}}),
        ] {
            assert!(!shown(credential.clone()).contains("hunter2"), "{credential}");
        }
    }

    #[test]
    fn a_key_that_is_told_of_by_name_is_as_one_that_is_there() {
        for told in [
            json!({"key": "rawAuthCredential", "value": {"oauth2": {"clientSecret": "hunter2"}}}),
            json!({"key": "requestedAuthConfigs", "writes": [{"value": {"c": {"token": "hunter2"}}}]}),
        ] {
            let text = told.to_string().into_bytes();
            assert!(has_marks(&text), "{told}");
            let shown = String::from_utf8(without_secrets_or_named(&text).unwrap()).unwrap();
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn a_value_is_shown_without_its_secrets_and_any_other_as_it_is() {
        let credential = json!({"a": [{"authType": "oauth2", "oauth2": {"accessToken": "hunter2"}}]});
        for (key, value) in [
            ("login", &credential),
            ("exchangedAuthCredential", &json!({"apiKey": "hunter2"})),
            ("call", &json!({"name": "adk_request_credential", "response": {"token": "hunter2"}})),
        ] {
            assert!(!value_without_secrets(key, value).to_string().contains("hunter2"), "{key}");
        }
        let plain = json!({"token": "a", "text": ["authType"]});
        assert!(matches!(value_without_secrets("apiKey", &plain), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_no_credential_is_left_alone() {
        for value in [
            json!({"authType": "unheard of", "apiKey": "a"}),
            json!({"apiKey": "a", "requestedAuthConfigs": {}}),
            json!({"name": "adk_request_credential", "args": {"other": {"token": "a"}}, "f": 1.0}),
            json!({"text": "authType: oauth2", "token": "a"}),
        ] {
            let text = value.to_string().into_bytes();
            assert_eq!(without_secrets(&text).unwrap().unwrap_or(text.clone()), text);
        }
    }
}
