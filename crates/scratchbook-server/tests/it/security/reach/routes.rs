//! All routes, as the router itself lists them, and how the tests call each of them.

use std::collections::BTreeSet;

use axum::http::Method;
use regex::Regex;

use super::{ReachServer, TestToken, TextAnswer};

/// A route for the data of one user. With this query and this body, a request of the owner succeeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) method: &'static str,
    pub(super) route: &'static str,
    pub(super) query: &'static str,
    pub(super) body: &'static str,
}

/// The callers that a route serves if the route is not about one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Common {
    /// Everybody, with or without a token.
    Open,
    /// Only the server's own pages, with or without a token.
    Form,
    /// Everybody with a token, with the same answer for all.
    Same,
    /// Everybody with a token. The answer has what is within the caller's reach.
    Reached,
    /// Callers that have something of the app within reach, with the same answer for all.
    App,
    /// Callers that have something of the app within reach. The answer has what is the caller's own.
    PartOfApp,
    /// Callers that have the whole app within reach.
    WholeApp,
    /// Callers that have all apps within reach.
    All,
}

const fn owned(method: &'static str, route: &'static str, query: &'static str, body: &'static str) -> Owned {
    Owned { method, route, query, body }
}

const RUN: &str =
    r#"{"appName":"demo","userId":"u2","sessionId":"s-2","newMessage":{"role":"user","parts":[{"text":"x"}]}}"#;
const PATCH: &str = r#"{"author":"x","stateDelta":{"k":1}}"#;
const PRUNE: &str = r#"{"before":1}"#;
const EVENT: &str = r#"{"author":"x","timestamp":"2026-01-01T00:00:00Z","actions":{"stateDelta":{"k":1}}}"#;

/// The forms of Vertex AI's paths. The same routes are below each of them; only those below the first have entries.
const ENGINES: [&str; 4] = [
    "/v1beta1/projects/{project}/locations/{location}/reasoningEngines",
    "/v1beta1/reasoningEngines",
    "/v1/projects/{project}/locations/{location}/reasoningEngines",
    "/v1/reasoningEngines",
];

/// The routes for data of one user.
pub(super) const OWNED: &[Owned] = &[
    // ADK's surface.
    owned("POST", "/run", "", RUN),
    owned("POST", "/run_sse", "", RUN),
    owned("PATCH", "/apps/{app}/users/{user}/memory", "", r#"{"sessionId":"s-2"}"#),
    owned("GET", "/apps/{app}/users/{user}/sessions", "", ""),
    owned("POST", "/apps/{app}/users/{user}/sessions", "", r#"{"state":{"k":1}}"#),
    owned("GET", "/apps/{app}/users/{user}/sessions/{session}", "", ""),
    owned("POST", "/apps/{app}/users/{user}/sessions/{new}", "", r#"{"k":1}"#),
    owned("PATCH", "/apps/{app}/users/{user}/sessions/{session}", "", r#"{"stateDelta":{"k":1}}"#),
    owned("DELETE", "/apps/{app}/users/{user}/sessions/{session}", "", ""),
    owned("GET", "/apps/{app}/users/{user}/sessions/{session}/artifacts", "", ""),
    owned(
        "POST",
        "/apps/{app}/users/{user}/sessions/{session}/artifacts",
        "",
        r#"{"filename":"a","artifact":{"text":"x"}}"#,
    ),
    owned("GET", "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*path}", "", ""),
    owned("DELETE", "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*path}", "", ""),
    owned("GET", "/dev/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph", "", ""),
    // Ours.
    owned("DELETE", "/v1/apps/{app}/users/{user}", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/changes", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/feed", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/history", "key=secret", ""),
    owned("POST", "/v1/apps/{app}/users/{user}/prune", "", PRUNE),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions", "", ""),
    owned("POST", "/v1/apps/{app}/users/{user}/sessions", "", r#"{"state":{"k":1}}"#),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}", "", ""),
    owned("PATCH", "/v1/apps/{app}/users/{user}/sessions/{session}", "", r#"{"title":"x"}"#),
    owned("DELETE", "/v1/apps/{app}/users/{user}/sessions/{session}", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/artifacts", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}", "", ""),
    owned("PUT", "/v1/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}", "", "{}"),
    owned("DELETE", "/v1/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/blame", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/diff", "before=0&after=1", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/events", "", ""),
    owned(
        "POST",
        "/v1/apps/{app}/users/{user}/sessions/{session}/events",
        "",
        r#"{"event":{"author":"x","actions":{"stateDelta":{"k":1}}}}"#,
    ),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/events/by-id/{event}", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/events/{seq}", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/feed", "", ""),
    owned("POST", "/v1/apps/{app}/users/{user}/sessions/{session}/fork", "", r#"{}"#),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/history", "key=secret", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/initial-state", "", ""),
    owned("POST", "/v1/apps/{app}/users/{user}/sessions/{session}/prune", "", PRUNE),
    owned("POST", "/v1/apps/{app}/users/{user}/sessions/{session}/rewind", "", r#"{"beforeInvocationId":"i-u2"}"#),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/runs", "", ""),
    owned("POST", "/v1/apps/{app}/users/{user}/sessions/{session}/runs", "", r#"{"message":"x"}"#),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/runs/{invocation}", "", ""),
    owned("DELETE", "/v1/apps/{app}/users/{user}/sessions/{session}/runs/{invocation}", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/state", "", ""),
    owned("PATCH", "/v1/apps/{app}/users/{user}/sessions/{session}/state", "", PATCH),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/state/{key}", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/verify", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/sessions/{session}/watch", "from=beginning", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/state", "", ""),
    owned("PATCH", "/v1/apps/{app}/users/{user}/state", "", PATCH),
    owned("GET", "/v1/apps/{app}/users/{user}/state/{key}", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/verify", "", ""),
    owned("GET", "/v1/apps/{app}/users/{user}/watch", "from=beginning", ""),
    // Vertex AI's.
    owned(
        "POST",
        "/v1beta1/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions",
        "",
        r#"{"userId":"u2","sessionState":{"k":1}}"#,
    ),
    owned("GET", "/v1beta1/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}", "", ""),
    owned(
        "PATCH",
        "/v1beta1/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}",
        "",
        r#"{"displayName":"x"}"#,
    ),
    owned(
        "DELETE",
        "/v1beta1/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}",
        "",
        "",
    ),
    owned(
        "POST",
        "/v1beta1/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{append}",
        "",
        EVENT,
    ),
    owned(
        "GET",
        "/v1beta1/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}/events",
        "",
        "",
    ),
    owned(
        "GET",
        "/v1beta1/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}/operations/{operation}",
        "",
        "",
    ),
];

/// The routes that are not about one user.
pub(super) const COMMON: &[(&str, &str, &str, Common)] = &[
    ("GET", "/health", "", Common::Open),
    ("GET", "/health/ready", "", Common::Open),
    ("GET", "/version", "", Common::Same),
    ("GET", "/list-apps", "", Common::Same),
    // The login of people. A person sees only their own login.
    ("GET", "/login", "", Common::Open),
    ("POST", "/login", "", Common::Form),
    ("POST", "/logout", "", Common::Form),
    ("GET", "/run_live", "", Common::Same),
    ("GET", "/openapi.json", "", Common::Same),
    ("GET", "/docs", "", Common::Same),
    ("GET", "/", "", Common::Same),
    ("GET", "/dev-ui", "", Common::Same),
    ("GET", "/dev-ui/config", "", Common::Same),
    ("GET", "/dev-ui/assets/config/runtime-config.json", "", Common::Same),
    ("GET", "/config/telemetry", "", Common::Same),
    ("POST", "/config/telemetry", "", Common::Same),
    ("GET", "/apps/{app}/app-info", "", Common::App),
    ("GET", "/dev/apps/{app}/build_graph", "", Common::App),
    ("GET", "/dev/apps/{app}/build_graph_image", "", Common::App),
    ("GET", "/dev/apps/{app}/graph", "", Common::App),
    // There is no data here, whichever app is named.
    ("GET", "/dev/apps/{app}/builder", "", Common::Same),
    ("POST", "/dev/apps/{app}/builder/save", "", Common::Same),
    ("GET", "/debug/trace/session/{session}", "", Common::Reached),
    ("GET", "/debug/trace/{event}", "", Common::Same),
    ("GET", "/dev/apps/{app}/debug/trace/session/{session}", "", Common::Reached),
    ("GET", "/dev/apps/{app}/debug/trace/{event}", "", Common::Same),
    ("GET", "/dev/apps/{app}/eval-sets", "", Common::Same),
    ("POST", "/dev/apps/{app}/eval-sets", "", Common::Same),
    ("GET", "/dev/apps/{app}/eval-results", "", Common::Same),
    ("GET", "/dev/apps/{app}/eval-results/{result}", "", Common::Same),
    ("GET", "/dev/apps/{app}/eval_results", "", Common::Same),
    ("GET", "/dev/apps/{app}/eval_results/{result}", "", Common::Same),
    ("GET", "/dev/apps/{app}/eval_sets", "", Common::Same),
    ("POST", "/dev/apps/{app}/eval_sets/{set}", "", Common::Same),
    ("GET", "/dev/apps/{app}/metrics-info", "", Common::Same),
    ("GET", "/dev/apps/{app}/tests", "", Common::Same),
    ("POST", "/dev/apps/{app}/tests/rebuild", "", Common::Same),
    ("POST", "/dev/apps/{app}/tests/run", "", Common::Same),
    ("GET", "/dev/apps/{app}/tests/{test}", "", Common::Same),
    ("PUT", "/dev/apps/{app}/tests/{test}", "", Common::Same),
    ("DELETE", "/dev/apps/{app}/tests/{test}", "", Common::Same),
    ("GET", "/v1/apps/{app}/changes", "", Common::WholeApp),
    ("GET", "/v1/apps/{app}/feed", "", Common::WholeApp),
    ("GET", "/v1/apps/{app}/history?key=shared", "", Common::WholeApp),
    ("POST", "/v1/apps/{app}/prune", PRUNE, Common::WholeApp),
    ("GET", "/v1/apps/{app}/sessions", "", Common::WholeApp),
    ("GET", "/v1/apps/{app}/state", "", Common::WholeApp),
    ("PATCH", "/v1/apps/{app}/state", PATCH, Common::WholeApp),
    ("GET", "/v1/apps/{app}/state/{key}", "", Common::WholeApp),
    ("GET", "/v1/apps/{app}/users", "", Common::WholeApp),
    ("GET", "/v1/apps/{app}/verify", "", Common::WholeApp),
    ("GET", "/v1/apps/{app}/watch?from=beginning", "", Common::WholeApp),
    ("GET", "/v1beta1/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions", "", Common::PartOfApp),
    ("GET", "/metrics", "", Common::All),
    ("POST", "/v1/prune-expired", "{}", Common::All),
];

/// Routes that lead to the same handlers as other entries.
const LIKE_OTHERS: &[(&str, &str)] = &[
    ("GET", "/apps/{app}/users/{user}/sessions/{session}/artifacts/"),
    ("DELETE", "/apps/{app}/users/{user}/sessions/{session}/artifacts/"),
    ("ANY", "/v1/"),
    ("ANY", "/v1beta1/"),
    ("ANY", "/v1/projects/"),
    ("ANY", "/v1/reasoningEngines/"),
];

/// Routes of the inspector. Its own tests try them with tokens (`inspector/rights.rs`).
pub(crate) const OF_INSPECTOR: &[(&str, &str)] = &[
    ("GET", "/inspector"),
    ("GET", "/inspector/"),
    ("GET", "/inspector/assets/{file}"),
    ("GET", "/inspector/overview"),
    ("GET", "/inspector/apps/{app}"),
    ("GET", "/inspector/apps/{app}/users"),
    ("GET", "/inspector/apps/{app}/users/{user}"),
    ("GET", "/inspector/apps/{app}/users/{user}/erase"),
    ("POST", "/inspector/apps/{app}/users/{user}/erase"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/delete"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/details"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/event"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/events"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/export"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/history"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/live"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/prune"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/rewind"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/runs"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/state"),
    ("GET", "/inspector/apps/{app}/users/{user}/sessions/{session}/value"),
    ("POST", "/inspector/apps/{app}/users/{user}/sessions/{session}/change"),
    ("POST", "/inspector/apps/{app}/users/{user}/sessions/{session}/delete"),
    ("POST", "/inspector/apps/{app}/users/{user}/sessions/{session}/details"),
    ("POST", "/inspector/apps/{app}/users/{user}/sessions/{session}/fork"),
    ("POST", "/inspector/apps/{app}/users/{user}/sessions/{session}/prune"),
    ("POST", "/inspector/apps/{app}/users/{user}/sessions/{session}/rewind"),
    ("POST", "/inspector/apps/{app}/users/{user}/sessions/{session}/runs"),
    ("POST", "/inspector/apps/{app}/users/{user}/sessions/{session}/stop"),
];

/// Returns the path of a route for the data of a user.
pub(crate) fn path(route: &str, app: &str, user: &str, session: &str) -> String {
    [
        ("{app}", app),
        ("{user}", user),
        ("{session}", session),
        ("{new}", "s-new"),
        ("{append}", &format!("{session}:appendEvent")),
        ("{project}", "p1"),
        ("{location}", "l1"),
        // The operation that created `s-2`; its number is derived from the session's name.
        ("{operation}", "5239567565414647720"),
        ("{invocation}", "i-run"),
        ("{event}", "ev-u2"),
        ("{seq}", "1"),
        ("{key}", if route.contains("{user}") { "secret" } else { "shared" }),
        ("{*path}", "secret.txt"),
        ("{artifact}", "secret.txt"),
        ("{result}", "x"),
        ("{set}", "x"),
        ("{test}", "x"),
    ]
    .iter()
    .fold(route.to_owned(), |path, (name, value)| path.replace(name, value))
}

impl Owned {
    /// Returns the address of the route for this user and this session.
    pub(super) fn uri(&self, app: &str, user: &str, session: &str) -> String {
        let path = path(self.route, app, user, session);
        if self.query.is_empty() { path } else { format!("{path}?{}", self.query) }
    }

    /// Returns the body for this user and this session.
    pub(super) fn body(&self, user: &str, session: &str) -> String {
        self.body.replace(r#""u2""#, &format!(r#""{user}""#)).replace(r#""s-2""#, &format!(r#""{session}""#))
    }

    /// Returns whether this is the answer to a caller with access. The server has no memory service, and the answer
    /// says so.
    pub(super) fn is_done(&self, answer: &TextAnswer) -> bool {
        if self.route.ends_with("/memory") {
            return answer.status == 400 && answer.text.contains("Memory service is not configured.");
        }
        (200..300).contains(&answer.status)
    }

    pub(super) fn reads(&self) -> bool {
        self.method == "GET"
    }
}

/// Returns the methods and paths of the router. Its `Debug` text is a table of both.
fn of_router(world: &ReachServer) -> BTreeSet<(String, String)> {
    let text = format!("{:?}", world.router);
    // After this mark come the handlers for requests without a route.
    let (text, _) = text.split_once("fallback_router: PathRouter").unwrap();
    let paths = Regex::new(r#"RouteId\((\d+)\): "([^"]*)""#).unwrap();
    let mut found = BTreeSet::new();
    for path in paths.captures_iter(text) {
        let methods =
            Regex::new(&format!(r"RouteId\({}\): MethodRouter\(MethodRouter \{{ (.*?), fallback:", &path[1])).unwrap();
        let methods = methods.captures(text).map(|methods| methods[1].to_owned()).unwrap_or_default();
        let of_route = methods.split(", ").filter_map(|method| method.split_once(": ")).filter(|(_, to)| *to != "None");
        let mut of_route: Vec<_> = of_route.map(|(method, _)| method.to_uppercase()).collect();
        if of_route.is_empty() {
            of_route.push("ANY".to_owned());
        }
        found.extend(of_route.into_iter().map(|method| (method, path[2].to_owned())));
    }
    found
}

/// Returns whether a route is for programs. The other routes are pages and their requests, and routes that ADK's own
/// document does not have either.
fn is_for_programs(route: &str) -> bool {
    let pages = ["/", "/docs", "/openapi.json", "/login", "/logout", "/dev-ui", "/metrics", "/run_live"];
    !pages.contains(&route)
        && !["/dev-ui/", "/dev/", "/debug/", "/config/", "/inspector"].iter().any(|folder| route.starts_with(folder))
}

/// Returns whether a route of Vertex AI leaves out project and location. The document says that these routes are the
/// same as the long ones.
fn is_short(route: &str) -> bool {
    [ENGINES[1], ENGINES[3]].iter().any(|engines| route.starts_with(engines))
}

#[tokio::test]
async fn every_route_for_programs_is_in_the_document_and_no_other() {
    let world = ReachServer::new().await;
    let document = world.send(TestToken::All, Method::GET, "/openapi.json", "").await.json();
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            documented.insert((method.to_uppercase(), path.clone()));
        }
    }
    let artifacts = "/apps/{app}/users/{user}/sessions/{session}/artifacts/";
    let mut there = BTreeSet::new();
    for (method, route) in of_router(&world) {
        if !is_for_programs(&route) || route.ends_with('/') || is_short(&route) {
            continue;
        }
        match (route.strip_prefix(artifacts), method.as_str()) {
            // The end of such a path says what is requested.
            (Some("{*path}"), "GET") => {
                let ends =
                    ["", "/versions", "/versions/metadata", "/versions/{version}", "/versions/{version}/metadata"];
                there.extend(ends.map(|end| (method.clone(), format!("{artifacts}{{artifact}}{end}"))));
            }
            (Some("{*path}"), _) => drop(there.insert((method, format!("{artifacts}{{artifact}}")))),
            // A POST to a session of an engine appends an event.
            _ if method == "POST" && route.contains("/reasoningEngines/") && route.ends_with("/{session}") => {
                there.insert((method, format!("{route}:appendEvent")));
            }
            _ => drop(there.insert((method, route))),
        }
    }
    assert_eq!(there, documented);
}

#[tokio::test]
async fn every_route_there_is_is_tried() {
    let plain = |route: &str| route.replace("{new}", "{session}").replace("{append}", "{session}");
    let owned = OWNED.iter().map(|owned| (owned.method, plain(owned.route)));
    let common = COMMON.iter().map(|(method, route, ..)| (*method, route.split('?').next().unwrap().to_owned()));
    let like_others = LIKE_OTHERS.iter().chain(OF_INSPECTOR).map(|(method, route)| (*method, (*route).to_owned()));
    let mut tried: Vec<_> = owned.chain(common).chain(like_others).map(|(m, route)| (m.to_owned(), route)).collect();
    let [first, others @ ..] = ENGINES;
    let of_first = tried.iter().filter_map(|(method, route)| Some((method.clone(), route.strip_prefix(first)?)));
    let alike = |(method, rest): (String, &str)| others.map(|other| (method.clone(), format!("{other}{rest}")));
    let alike: Vec<_> = of_first.flat_map(alike).collect();
    tried.extend(alike);
    let set: BTreeSet<_> = tried.iter().cloned().collect();
    assert_eq!(set.len(), tried.len(), "an entry is there twice");
    let there = of_router(&ReachServer::new().await);
    assert!(there.len() > 20, "the router does not tell its routes any more: {there:?}");
    let missing: Vec<_> = there.difference(&set).collect();
    assert!(missing.is_empty(), "say in OWNED or COMMON who may use these routes: {missing:?}");
    let gone: Vec<_> = set.difference(&there).collect();
    assert!(gone.is_empty(), "these are no routes any more: {gone:?}");
}
