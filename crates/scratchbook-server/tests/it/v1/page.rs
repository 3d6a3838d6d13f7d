//! The page that shows the document.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::support::Api;

#[tokio::test]
async fn the_page_has_every_operation_and_schema_and_loads_nothing() {
    let api = Api::memory().await;
    let request = Request::get("/docs").body(Body::empty()).unwrap();
    let response = api.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    assert!(response.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    let page = response.into_body().collect().await.unwrap().to_bytes();
    let page = std::str::from_utf8(&page).unwrap();

    let document = api.ok("GET", "/openapi.json", None).await;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let names: Vec<_> = operations.map(|operation| operation["operationId"].as_str().unwrap().to_owned()).collect();
    for name in names.iter().cloned().chain(schemas.keys().map(|name| format!("schema-{name}"))) {
        assert!(page.contains(&format!("<article id=\"{name}\"")), "{name}");
    }
    // Every link within the page has a target.
    for link in page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("url("));
    assert!(page.contains("curl -X POST &quot;$SERVER/run&quot;"), "examples of calls");
    assert!(page.contains("SERVER=http://"), "what the examples need");
    let summaries = document["paths"]["/v1/apps/{app}/users"]["get"]["summary"].clone();
    assert_eq!(summaries, Value::from("List the users of an app."));
}

#[tokio::test]
async fn the_page_describes_adks_routes_first_and_runs_first_of_them() {
    let api = Api::memory().await;
    let document = api.ok("GET", "/openapi.json", None).await;
    let tags: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    assert_eq!(
        tags,
        [
            "ADK",
            "Sessions",
            "Events",
            "State",
            "Time",
            "Feeds",
            "Runs",
            "Artifacts",
            "Users",
            "Upkeep",
            "Agent Engine",
            "Server",
        ]
    );
    let request = Request::get("/docs").body(Body::empty()).unwrap();
    let page = api.router.clone().oneshot(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let page = std::str::from_utf8(&page).unwrap();
    let articles = page.split("<article id=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let articles: Vec<_> = articles.collect();
    assert_eq!(articles[..3], ["adkRun", "adkRunSse", "adkListApps"]);
    let place = |name: &str| articles.iter().position(|article| *article == name).unwrap();
    assert!(place("adkVersion") < place("listUserSessions") && place("listUserSessions") < place("listEngineSessions"));
    assert!(place("listEngineSessions") < place("health"));
}
