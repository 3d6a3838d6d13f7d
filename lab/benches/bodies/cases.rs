//! The bodies: the largest ones that are accepted, in the forms that cost most.

use scratchbook::state::Operation;
use serde_json::{Map, Value, json};

/// The keys that a case finds, with their values.
pub(crate) type Stored = Map<String, Value>;

/// A body for a route.
pub(crate) struct BodyCase {
    pub(crate) name: String,
    pub(crate) method: String,
    pub(crate) route: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    pub(crate) stored: Stored,
    /// The statuses with which the body may be answered.
    pub(crate) statuses: &'static [u16],
}

/// The maximum number of operations in a body.
const OPERATIONS: usize = 100_000;
/// The maximum number of keys of a scope.
const KEYS: usize = 10_000;
/// The maximum number of events in a body.
const EVENTS: usize = 20_000;
/// The maximum number of parts of a content.
const PARTS: usize = 10_000;
/// Nearly as many members as a value of 4 MiB may have.
const MEMBERS: usize = 250_000;

const DONE: &[u16] = &[200, 201, 204];
/// Some operations do not fit the value that they find. The work before the refusal counts, too.
const DONE_OR_REFUSED: &[u16] = &[200, 400, 409, 413];

impl BodyCase {
    pub(crate) fn path(&self, app: &str, user: &str) -> String {
        // Vertex's short names have no user, and each user has one session, which is called as he is.
        let session = if self.name.contains("new session") { format!("{user}-new") } else { user.to_owned() };
        let names = [
            ("{app}", app),
            ("{user}", user),
            ("{project}", "p"),
            ("{location}", "l"),
            ("{artifact}", "f"),
            ("{session}", &session),
        ];
        names.iter().fold(self.route.clone(), |path, (name, value)| path.replace(name, value))
    }
}

/// Returns the methods and paths of the document's routes that take a body.
pub(crate) fn routes(document: &Value) -> Vec<(String, String)> {
    let mut routes = Vec::new();
    for (route, item) in document["paths"].as_object().unwrap() {
        for (method, described) in item.as_object().unwrap() {
            if !described["requestBody"].is_null() {
                routes.push((method.to_uppercase(), route.clone()));
            }
        }
    }
    routes
}

/// Returns the names of the kinds of operations, as the enum itself tells them.
fn kinds() -> Vec<String> {
    let error = serde_json::from_str::<Operation>("\"?\"").unwrap_err().to_string();
    let (_, names) = error.split_once("expected one of ").unwrap();
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the cases of a route; none if the bench does not know the route.
pub(crate) fn of_route(method: &str, route: &str) -> Vec<BodyCase> {
    let case = |name: &str, body: Value| BodyCase {
        name: format!("{method} {route}: {name}"),
        method: method.to_owned(),
        route: route.to_owned(),
        content_type: "application/json",
        body: body.to_string(),
        stored: Map::new(),
        statuses: DONE,
    };
    let filled = |name: &str, body: Value| BodyCase { stored: keys(0), ..case(name, body) };
    let (delta, text) = (json!(keys(1)), "x".repeat(15 << 20));
    let events = |name: &str, events: Value| {
        let body = json!({"state": keys(0), "events": events});
        case(&format!("new session, {name}"), body)
    };
    let message = |name: &str| json!({"appName": "{app}", "userId": "{user}", "sessionId": "{user}", name: {"role": "user", "parts": texts()}});
    match (method, route) {
        ("POST" | "PATCH", route) if route.ends_with("/state") || route.ends_with("/{session}/events") => {
            let body = |name: &str, content: Value| {
                let mut body =
                    if route.ends_with("/events") { json!({"event": {"author": "x"}}) } else { json!({"author": "x"}) };
                body[name] = content;
                body
            };
            let mut cases = Vec::new();
            for kind in kinds() {
                for (shape, stored, operations, statuses) in operations(&kind) {
                    let case = case(&format!("{kind}, {shape}"), body("operations", operations));
                    cases.push(BodyCase { stored, statuses, ..case });
                }
            }
            if route.ends_with("/events") {
                let event = |field: &str, value: Value| json!({"event": {"author": "x", field: value}});
                cases.push(case("10,000 keys", event("actions", json!({"stateDelta": delta}))));
                cases.push(case("two values", event("actions", json!({"stateDelta": values()}))));
                cases.push(case("10,000 parts", event("content", json!({"role": "model", "parts": parts()}))));
                cases.push(case("15 MiB of text", event("content", json!({"parts": [{"text": text}]}))));
            } else {
                cases.push(filled("10,000 keys", body("stateDelta", delta)));
                cases.push(case("two values", body("stateDelta", values())));
            }
            cases
        }
        ("POST", "/run" | "/run_sse") => {
            let mut with_keys = message("newMessage");
            with_keys["stateDelta"] = delta;
            let answers = json!({"role": "user", "parts": answers()});
            let answers = json!({"appName": "{app}", "userId": "{user}", "sessionId": "{user}", "newMessage": answers});
            vec![
                case("10,000 parts", message("newMessage")),
                filled("10,000 keys and parts", with_keys),
                // A stream has begun with 200 when its run is refused.
                BodyCase { statuses: &[200, 400], ..case("10,000 answers to no call", answers) },
            ]
        }
        ("POST", route) if route.ends_with("/{session}/runs") => {
            let message = json!({"role": "user", "parts": texts()});
            vec![
                case("10,000 parts", json!({"message": message})),
                filled("10,000 keys", json!({"message": "x", "stateDelta": delta})),
            ]
        }
        ("POST", "/apps/{app}/users/{user}/sessions/{session}") => {
            vec![case("new session, 10,000 keys", delta), case("new session, two values", values())]
        }
        ("POST", route) if route.ends_with("/users/{user}/sessions") => vec![
            case("new session, 10,000 keys", json!({"state": delta})),
            case("new session, two values", json!({"state": values()})),
            events("20,000 events that write keys", event_list(|n| json!({format!("k{}", n % KEYS): n}))),
            // At the limit of keys, a removal makes room for one key.
            events(
                "20,000 events that remove and add keys",
                event_list(|n| match n % 2 {
                    0 => json!({format!("k{}", n / 2): "__ADK_SENTINEL_REMOVED__"}),
                    _ => json!({format!("new{n}"): n, format!("user:new{}", n % KEYS): n}),
                }),
            ),
        ],
        ("PATCH", "/apps/{app}/users/{user}/sessions/{session}") => {
            vec![
                filled("10,000 keys", json!({"stateDelta": delta})),
                case("two values", json!({"stateDelta": values()})),
            ]
        }
        ("POST", route) if route.ends_with("/reasoningEngines/{app}/sessions") => {
            let session = |state: Value| json!({"userId": "{user}", "sessionState": state});
            vec![case("new session, 10,000 keys", session(delta)), case("new session, two values", session(values()))]
        }
        ("POST", route) if route.ends_with(":appendEvent") => {
            let event = |field: &str, value: Value| json!({"author": "user", "invocationId": "i", "timestamp": "2026-01-01T00:00:00Z", field: value});
            vec![
                filled("10,000 keys", event("actions", json!({"stateDelta": delta}))),
                case("10,000 parts", event("content", json!({"role": "user", "parts": parts()}))),
            ]
        }
        ("POST" | "PUT", route) if route.contains("/artifacts") => {
            let data = "eHh4".repeat((11 << 20) / 3);
            match method {
                "POST" => {
                    let artifact = json!({"inlineData": {"mimeType": "image/png", "data": data}});
                    vec![case("11 MiB of data", json!({"filename": "f", "artifact": artifact}))]
                }
                _ => vec![BodyCase {
                    content_type: "image/png",
                    body: "x".repeat(11 << 20),
                    ..case("11 MiB of data", json!(1))
                }],
            }
        }
        ("PATCH", route) if route.ends_with("/reasoningEngines/{app}/sessions/{session}") => {
            vec![filled("64 labels", json!({"labels": labels()}))]
        }
        ("PATCH", "/v1/apps/{app}/users/{user}/sessions/{session}") => {
            vec![filled("64 labels", json!({"labels": labels()}))]
        }
        // These bodies only name something. What they do depends on what is stored.
        (_, route) if route.ends_with("/memory") => {
            vec![BodyCase { statuses: &[400], ..filled("a session", json!({"sessionId": "{user}"})) }]
        }
        (_, route) if route.ends_with("/fork") => vec![filled("of 10,000 keys", json!({}))],
        (_, route) if route.ends_with("/rewind") => {
            vec![BodyCase { statuses: &[404], ..filled("of 10,000 keys", json!({"beforeInvocationId": "i"})) }]
        }
        (_, route) if route.ends_with("/prune") => vec![filled("of 10,000 keys", json!({"before": 1}))],
        (_, route) if route.ends_with("/prune-expired") => vec![case("nothing", json!({}))],
        _ => Vec::new(),
    }
}

/// Returns operations of one kind in each form: what is stored, the operations by key, and the possible statuses.
fn operations(kind: &str) -> Vec<(&'static str, Stored, Value, &'static [u16])> {
    let one = |n: usize| operation(kind, n, &json!(7));
    let found = |value: Value| if kind == "expect" { value } else { Value::Null };
    let stored = |name: &str, value: Value| {
        if value.is_null() { Map::new() } else { Map::from_iter([(name.to_owned(), value)]) }
    };
    let by_key: Map<_, _> =
        (0..KEYS).map(|key| (format!("k{key}"), (0..OPERATIONS / KEYS).map(|n| one(key * 10 + n)).collect())).collect();
    let many = if kind == "expect" { (0..KEYS).map(|n| (format!("k{n}"), json!(7))).collect() } else { Map::new() };
    let large: Map<_, _> = (0..MEMBERS).map(|n| (format!("m{n:06}"), json!(n % 10))).collect();
    let list: Vec<_> = (0..MEMBERS).collect();
    let on_large: Vec<_> = match kind {
        // The whole value has to be sent to be expected.
        "expect" => (0..5).map(|_| json!({"expect": large})).collect(),
        // Each second patch sets again what the one before it has removed.
        "mergePatch" => (0..OPERATIONS)
            .map(|n| json!({"mergePatch": {format!("m{:06}", n / 2): if n % 2 == 0 { Value::Null } else { json!(n) }}}))
            .collect(),
        _ => (0..OPERATIONS).map(one).collect(),
    };
    let large = if kind == "append" { json!(list) } else { Value::Object(large) };
    let mut all = vec![
        ("one key", stored("k", found(json!(7))), json!({"k": (0..OPERATIONS).map(one).collect::<Vec<_>>()}), DONE),
        ("10,000 keys", many, Value::Object(by_key), DONE),
        ("a large value", stored("k", large.clone()), json!({"k": on_large}), DONE_OR_REFUSED),
    ];
    if kind != "set" && kind != "remove" {
        // The value is known before the commit.
        let first = json!({"set": large});
        let later = on_large.into_iter().take(OPERATIONS - 1);
        let steps: Vec<_> = [first].into_iter().chain(later).collect();
        all.push(("a large value of the same body", Map::new(), json!({"k": steps}), DONE_OR_REFUSED));
    }
    if kind == "mergePatch" {
        let removals: Map<_, _> = (0..MEMBERS).map(|n| (format!("m{n:06}"), Value::Null)).collect();
        all.push(("all members at once", stored("k", large), json!({"k": [{"mergePatch": removals}]}), DONE));
    }
    all
}

/// Returns an operation of a kind. The bench fails if there is a kind that it does not know.
fn operation(kind: &str, n: usize, expected: &Value) -> Value {
    match kind {
        "remove" | "expectAbsent" => json!(kind),
        "expect" => json!({kind: expected}),
        "increment" => json!({kind: 1}),
        "mergePatch" => json!({kind: {format!("m{n}"): n}}),
        "set" | "append" | "setIfAbsent" => json!({kind: n}),
        _ => unreachable!("there is no body for the operation '{kind}'; add the largest one"),
    }
}

fn keys(value: usize) -> Stored {
    (0..KEYS).map(|n| (format!("k{n}"), json!(value))).collect()
}

/// Two values that together are nearly as large as a delta may be.
fn values() -> Value {
    let value: Map<_, _> = (0..MEMBERS).map(|n| (format!("m{n:06}"), json!(n % 10))).collect();
    json!({"a": value, "b": value})
}

fn parts() -> Vec<Value> {
    let part = |n: usize| match n % 2 {
        0 => json!({"text": "x".repeat(600)}),
        _ => json!({"functionCall": {"id": format!("c{n}"), "name": "tool", "args": {"a": "y".repeat(600)}}}),
    };
    (0..PARTS).map(part).collect()
}

/// The parts of a user's message, who calls no tool.
fn texts() -> Vec<Value> {
    (0..PARTS).map(|_| json!({"text": "x".repeat(1_200)})).collect()
}

fn answers() -> Vec<Value> {
    (0..PARTS).map(|n| json!({"functionResponse": {"id": format!("c{n}"), "name": "tool", "response": {}}})).collect()
}

fn event_list(delta: impl Fn(usize) -> Value) -> Value {
    (0..EVENTS).map(|n| json!({"author": "x", "actions": {"stateDelta": delta(n)}})).collect()
}

fn labels() -> Value {
    (0..64).map(|n| (format!("label{n}"), json!("x".repeat(200)))).collect::<Map<_, _>>().into()
}
