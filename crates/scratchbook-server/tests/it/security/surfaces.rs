//! Surfaces that are switched off.

use scratchbook_server::Surface;

use super::{LoginFiles, demo, get, token_of_u1};

const ADK: &str = "/apps/demo/users/u1/sessions";
const V1: &str = "/v1/apps/demo/users/u1/sessions";
const VERTEX: &str = "/v1beta1/projects/p/locations/l/reasoningEngines/demo/sessions";

#[tokio::test]
async fn a_surface_that_is_off_is_not_there_and_the_others_are() {
    let of_v1 = [V1, "/v1", "/v1/"];
    let of_adk = [ADK, "/list-apps", "/version", "/nothing", "/"];
    let of_vertex = [VERTEX, "/v1/projects/p/locations/l/reasoningEngines/demo/sessions", "/v1beta1/x"];
    for (off, paths) in [(Surface::V1, &of_v1[..]), (Surface::Adk, &of_adk), (Surface::Vertex, &of_vertex)] {
        let (_, server) = demo().await;
        let on = Surface::ALL.into_iter().filter(|surface| *surface != off);
        let router = server.surfaces(on).build().unwrap().router();
        for path in paths {
            let answer = get(&router, path, &[]).await;
            assert_eq!((answer.status, answer.text.as_str()), (404, "Not Found"), "{path}");
            assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"), "{path}");
        }
        for (surface, path) in [(Surface::V1, V1), (Surface::Adk, ADK), (Surface::Vertex, VERTEX)] {
            let status = get(&router, path, &[]).await.status;
            assert_eq!(status, if surface == off { 404 } else { 200 }, "{path} without {off:?}");
        }
        for path in ["/health", "/health/ready", "/docs", "/openapi.json"] {
            assert_eq!(get(&router, path, &[]).await.status, 200, "{path}");
        }
    }
}

#[tokio::test]
async fn the_document_has_the_paths_of_what_is_served_and_no_others() {
    let of = |path: &str| match path {
        path if path.contains("/reasoningEngines/") => Some(Surface::Vertex),
        path if path.starts_with("/v1/") => Some(Surface::V1),
        path if path.starts_with("/health") => None,
        _ => Some(Surface::Adk),
    };
    for off in Surface::ALL {
        let (_, server) = demo().await;
        let on: Vec<_> = Surface::ALL.into_iter().filter(|surface| *surface != off).collect();
        let router = server.surfaces(on.clone()).build().unwrap().router();
        let document = get(&router, "/openapi.json", &[]).await;
        let json = document.json();
        let found: Vec<_> = json["paths"].as_object().unwrap().keys().map(|path| of(path)).collect();
        assert!(found.contains(&None) && on.iter().all(|surface| found.contains(&Some(*surface))), "without {off:?}");
        assert!(!found.contains(&Some(off)), "{off:?} is off");
        // The document has no unused schema, and no part without an operation.
        for name in json["components"]["schemas"].as_object().unwrap().keys() {
            assert!(document.text.contains(&format!(r##""#/components/schemas/{name}""##)), "{name} without {off:?}");
        }
        for tag in json["tags"].as_array().unwrap() {
            let has = |operation: &serde_json::Value| operation["tags"][0] == tag["name"];
            let paths = json["paths"].as_object().unwrap().values();
            assert!(paths.flat_map(|item| item.as_object().unwrap().values()).any(has), "{tag} without {off:?}");
        }
    }
}

#[tokio::test]
async fn who_has_no_token_is_told_no_more_of_it() {
    let (files, (_, server)) = (LoginFiles::new(), demo().await);
    let (login, token) = token_of_u1(&files, &[]);
    let router = server.login(login).surfaces([Surface::Adk]).build().unwrap().router();
    for headers in [&[][..], &[("authorization", token.as_str())]] {
        let answer = get(&router, V1, headers).await;
        assert_eq!((answer.status, answer.text.as_str()), (404, "Not Found"));
    }
}

#[tokio::test]
async fn a_server_serves_something_and_the_dev_interface_what_it_speaks_to() {
    let (_, server) = demo().await;
    assert!(server.surfaces([]).build().unwrap_err().to_string().contains("no surface"));
    let files = LoginFiles::new();
    files.write("index.html", "<html></html>");
    let (_, server) = demo().await;
    let refused = server.dev_ui(files.folder.path()).surfaces([Surface::V1]).build().unwrap_err();
    assert!(refused.to_string().contains("dev interface"), "{refused}");
}
