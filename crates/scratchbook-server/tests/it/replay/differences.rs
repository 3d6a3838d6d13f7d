//! The answers that intentionally differ from those of `adk api_server`. docs/adk-compatibility.md describes the same
//! differences for users.

use serde_json::{Value, json};

use AnswerChange::{Add, Insert, Order, Remove, Set};

/// A recorded exchange that we answer differently.
pub(super) struct ExchangeDifference {
    pub(super) exchange: u16,
    pub(super) why: &'static str,
    pub(super) change: AnswerChange,
}

/// The change that turns the recorded answer into ours.
pub(super) enum AnswerChange {
    /// Sets this value, in JSON, at a place. `<id>`, `<time>` and `<text>` match any id, time and text.
    Set(&'static str, &'static str),
    /// Adds a text to an object.
    Add(&'static str, &'static str, &'static str),
    /// Removes the value at a place.
    Remove(&'static str),
    /// Takes the items of a list in another order, or only some of them.
    Order(&'static str, &'static [usize]),
    /// Inserts an item into a list.
    Insert(&'static str, usize, &'static str),
}

impl AnswerChange {
    pub(super) fn apply(&self, answer: &mut Value) {
        match self {
            Self::Set(at, value) => *answer.pointer_mut(at).unwrap() = serde_json::from_str(value).unwrap(),
            Self::Add(at, name, text) => {
                let before =
                    answer.pointer_mut(at).unwrap().as_object_mut().unwrap().insert((*name).to_owned(), json!(text));
                assert!(before.is_none(), "{name} was there");
            }
            Self::Remove(at) => {
                let (parent, name) = at.rsplit_once('/').unwrap();
                answer.pointer_mut(parent).unwrap().as_object_mut().unwrap().shift_remove(name).unwrap();
            }
            Self::Order(at, order) => {
                let list = answer.pointer_mut(at).unwrap();
                *list = order.iter().map(|at| list[*at].clone()).collect();
            }
            Self::Insert(at, index, value) => {
                let value = serde_json::from_str(value).unwrap();
                answer.pointer_mut(at).unwrap().as_array_mut().unwrap().insert(*index, value);
            }
        }
    }
}

const OURSELVES: &str = "it says what it is itself";
const FOREIGN: &str = "a foreign page may not read either, be it by a request without an origin";
const NO_PATHS: &str = "a message names no folder of the server";
const ORDER: &str = "events are read in the order in which they were appended, whatever their times";
const IMPORTED: &str = "what was exported can be imported: events may have actions and long-running calls";
const FAILURE: &str = "a failure is told by our kinds of errors, not by classes of Python, and names the model";
const RELATIVE: &str = "a relative address is right behind a proxy that changes scheme, host or path";
const NO_FILE: &str = "an artifact is in the database, so its address is none of a file";
const NOTHING_LEFT: &str = "a refused artifact leaves nothing behind";
const VARY: &str = "whether a failure is shown to a page depends on its origin as well";
const ALLOW: &str = "whatever OPTIONS is answered with, it names the methods of the path";
const MEMORY: &str = "there is no long-term memory, and the answer says so";
const ROOT: &str = "a client at the server's address learns where the API is described";
const DOTS: &str = "'..' leads elsewhere in every URL, and such a session could never be asked for";
const TEMP: &str = "temp: keys are shown to no one";

const DOC_0: &str = r#""scratchbook://apps/demo/users/u1/sessions/s-2/artifacts/doc.txt/versions/0""#;
const DOC_1: &str = r#""scratchbook://apps/demo/users/u1/sessions/s-2/artifacts/doc.txt/versions/1""#;
const NESTED: &str = r#""scratchbook://apps/demo/users/u1/sessions/s-2/artifacts/dir/sub.txt/versions/0""#;
const PHOTO: &str = r#""scratchbook://apps/demo/users/u1/artifacts/prof.png/versions/0""#;
const NO_APP: &str = r#""Agent not found: 'nope'. GET /list-apps names those that are hosted.""#;
const FAILURE_KIND: &str = r#""UNAVAILABLE""#;
const FAILURE_TEXT: &str = r#""the model 'scripted': scripted model failure""#;

pub(super) const DIFFERENCES: &[ExchangeDifference] = &[
    ExchangeDifference {
        exchange: 3,
        why: OURSELVES,
        change: Set("/body", r#"{"version": "<text>", "language": "rust", "language_version": "<text>"}"#),
    },
    ExchangeDifference { exchange: 5, why: RELATIVE, change: Set("/headers/location", r#""../list-apps""#) },
    ExchangeDifference { exchange: 10, why: NO_PATHS, change: Set("/body/detail", NO_APP) },
    ExchangeDifference { exchange: 12, why: ROOT, change: Add("/body", "docs", "/docs") },
    ExchangeDifference { exchange: 12, why: ROOT, change: Add("/body", "inspector", "/inspector") },
    ExchangeDifference { exchange: 38, why: DOTS, change: Set("/status", "400") },
    ExchangeDifference {
        exchange: 38,
        why: DOTS,
        change: Set(
            "/body",
            r#"{"detail": "the session id must not be '.' or '..', which no URL can name, got '..'"}"#,
        ),
    },
    ExchangeDifference { exchange: 44, why: ORDER, change: Order("/body/events", &[1, 0]) },
    ExchangeDifference {
        exchange: 45,
        why: IMPORTED,
        change: Set(
            "",
            r#"{"status": 200, "headers": {"content-type": "application/json", "vary": "Origin"}, "body": {"id": "s-ev2", "appName": "demo",
                "userId": "u1", "state": {"x": 1, "app:x": 7, "user:lang": "en", "user:theme": "light"}, "events": [
                    {"invocationId": "", "author": "user", "actions": {"stateDelta": {"x": 1}, "artifactDelta": {},
                     "requestedAuthConfigs": {}, "requestedToolConfirmations": {}}, "nodeInfo": {"path": ""},
                     "id": "<id>", "timestamp": "<time>"}],
                "lastUpdateTime": "<time>"}}"#,
        ),
    },
    ExchangeDifference {
        exchange: 47,
        why: IMPORTED,
        change: Set(
            "",
            r#"{"status": 200, "headers": {"content-type": "application/json", "vary": "Origin"}, "body": {"id": "s-ev4", "appName": "demo",
                "userId": "u1", "state": {"app:x": 7, "user:lang": "en", "user:theme": "light"}, "events": [
                    {"invocationId": "", "author": "demo_agent", "actions": {"stateDelta": {}, "artifactDelta": {},
                     "requestedAuthConfigs": {}, "requestedToolConfirmations": {}}, "nodeInfo": {"path": ""},
                     "longRunningToolIds": ["a"], "id": "<id>", "timestamp": "<time>"}],
                "lastUpdateTime": "<time>"}}"#,
        ),
    },
    ExchangeDifference { exchange: 54, why: ORDER, change: Order("/body/events", &[1, 0]) },
    ExchangeDifference {
        exchange: 55,
        why: DOTS,
        change: Order("/body", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18]),
    },
    ExchangeDifference {
        exchange: 55,
        why: IMPORTED,
        change: Insert(
            "/body",
            16,
            r#"{"id": "s-ev2", "appName": "demo", "userId": "u1", "events": [], "lastUpdateTime": "<time>",
                "state": {"x": 1, "app:x": 7, "user:lang": "en", "user:theme": "light"}}"#,
        ),
    },
    ExchangeDifference {
        exchange: 55,
        why: IMPORTED,
        change: Insert(
            "/body",
            17,
            r#"{"id": "s-ev4", "appName": "demo", "userId": "u1", "events": [], "lastUpdateTime": "<time>",
                "state": {"app:x": 7, "user:lang": "en", "user:theme": "light"}}"#,
        ),
    },
    ExchangeDifference { exchange: 56, why: TEMP, change: Remove("/body/state/temp:y") },
    ExchangeDifference { exchange: 76, why: NO_PATHS, change: Set("/body/detail", NO_APP) },
    ExchangeDifference { exchange: 80, why: VARY, change: Add("/headers", "vary", "Origin") },
    ExchangeDifference { exchange: 94, why: NO_PATHS, change: Set("/body/detail", NO_APP) },
    ExchangeDifference { exchange: 95, why: FAILURE, change: Set("/body/0/data/errorCode", FAILURE_KIND) },
    ExchangeDifference { exchange: 95, why: FAILURE, change: Set("/body/0/data/errorMessage", FAILURE_TEXT) },
    ExchangeDifference {
        exchange: 95,
        why: FAILURE,
        change: Set("/body/1/data/error", r#""UNAVAILABLE: the model 'scripted': scripted model failure""#),
    },
    ExchangeDifference {
        exchange: 95,
        why: FAILURE,
        change: Set("/body/1/data/error_details/error_type", FAILURE_KIND),
    },
    ExchangeDifference {
        exchange: 95,
        why: FAILURE,
        change: Set("/body/1/data/error_details/error_message", FAILURE_TEXT),
    },
    ExchangeDifference { exchange: 98, why: FAILURE, change: Set("/body/events/1/errorCode", FAILURE_KIND) },
    ExchangeDifference { exchange: 98, why: FAILURE, change: Set("/body/events/1/errorMessage", FAILURE_TEXT) },
    ExchangeDifference { exchange: 98, why: FAILURE, change: Set("/body/events/19/errorCode", FAILURE_KIND) },
    ExchangeDifference { exchange: 98, why: FAILURE, change: Set("/body/events/19/errorMessage", FAILURE_TEXT) },
    ExchangeDifference { exchange: 100, why: NO_FILE, change: Set("/body/canonicalUri", DOC_0) },
    ExchangeDifference { exchange: 101, why: NO_FILE, change: Set("/body/canonicalUri", DOC_1) },
    ExchangeDifference { exchange: 102, why: NO_FILE, change: Set("/body/canonicalUri", PHOTO) },
    ExchangeDifference { exchange: 103, why: NO_FILE, change: Set("/body/canonicalUri", NESTED) },
    ExchangeDifference { exchange: 107, why: NOTHING_LEFT, change: Order("/body", &[0, 1, 2, 3]) },
    ExchangeDifference { exchange: 115, why: NO_FILE, change: Set("/body/canonicalUri", DOC_0) },
    ExchangeDifference { exchange: 116, why: NO_FILE, change: Set("/body/canonicalUri", DOC_1) },
    ExchangeDifference { exchange: 117, why: NO_FILE, change: Set("/body/0/canonicalUri", DOC_0) },
    ExchangeDifference { exchange: 117, why: NO_FILE, change: Set("/body/1/canonicalUri", DOC_1) },
    ExchangeDifference { exchange: 125, why: MEMORY, change: Set("/status", "400") },
    ExchangeDifference {
        exchange: 125,
        why: MEMORY,
        change: Set(
            "/body",
            r#"{"detail": "Memory service is not configured. This server keeps no long-term memory."}"#,
        ),
    },
    ExchangeDifference { exchange: 133, why: DOTS, change: Set("/status", "404") },
    ExchangeDifference { exchange: 133, why: DOTS, change: Set("/body", r#"{"detail": "Session not found"}"#) },
    ExchangeDifference {
        exchange: 134,
        why: RELATIVE,
        change: Set("/headers/location", r#""../../../../../apps/demo/users/u1/sessions""#),
    },
    ExchangeDifference { exchange: 138, why: OURSELVES, change: Set("/body", r#""<text>""#) },
    ExchangeDifference { exchange: 139, why: ALLOW, change: Add("/headers", "allow", "GET,HEAD") },
    ExchangeDifference { exchange: 141, why: ALLOW, change: Add("/headers", "allow", "GET,HEAD") },
    ExchangeDifference { exchange: 149, why: FOREIGN, change: Set("/status", "403") },
    ExchangeDifference { exchange: 149, why: FOREIGN, change: Set("/headers/content-type", r#""text/plain""#) },
    ExchangeDifference { exchange: 149, why: FOREIGN, change: Set("/body", r#""Forbidden: origin not allowed""#) },
];
