//! The document describes all operations correctly.

use serde_json::{Map, Value};

use super::support::Api;

/// Returns the path, the method and the operation of each entry.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().clone();
        let path = path.clone();
        methods.into_iter().map(move |(method, operation)| (path.clone(), method, operation))
    };
    paths.iter().flat_map(of_path).collect()
}

/// Returns whether an operation is one of ours.
fn is_ours(path: &str) -> bool {
    path.starts_with("/v1/") && !path.contains("/reasoningEngines/")
}

async fn document() -> (Api, Value) {
    let api = Api::memory().await;
    let document = api.ok("GET", "/openapi.json", None).await;
    (api, document)
}

fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

#[tokio::test]
async fn every_operation_has_a_name_words_schemas_and_examples() {
    let (_, document) = document().await;
    let operations = operations(&document);
    assert!(operations.len() > 40, "{}", operations.len());
    let mut names = Vec::new();
    for (path, method, operation) in &operations {
        let of = format!("{method} {path}");
        names.push(operation["operationId"].as_str().expect(&of));
        assert!(operation["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{of}: summary");
        assert!(operation["tags"][0].is_string(), "{of}: tag");
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        for parameter in &parameters {
            let name = &parameter["name"];
            assert!(parameter["description"].as_str().is_some_and(|text| !text.is_empty()), "{of}: {name}");
            assert!(parameter["schema"].is_object(), "{of}: {name}");
        }
        let in_path = parameters.iter().filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap());
        let in_template = path.split(['{', '}']).skip(1).step_by(2);
        assert_eq!(in_path.collect::<Vec<_>>(), in_template.collect::<Vec<_>>(), "{of}");
        let has_example = |media: &Value| {
            let schema = resolved(&document, &media["schema"]);
            [&media["example"], &schema["example"], &schema["examples"]].into_iter().any(|example| !example.is_null())
        };
        if let Some(body) = operation.get("requestBody") {
            let media = body["content"].as_object().unwrap();
            assert!(!media.is_empty() && media.values().all(has_example), "{of}: example of the body");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!(!response["description"].as_str().unwrap().is_empty(), "{of}: {status}");
            let none = Map::new();
            for media in response["content"].as_object().unwrap_or(&none).values() {
                assert!(has_example(media), "{of}: example of {status}");
            }
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "two operations have one name");
}

#[tokio::test]
async fn every_reference_leads_somewhere() {
    fn walk<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let (_, document) = document().await;
    let mut found = Vec::new();
    walk(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn unknown_parameters_are_refused_everywhere_and_named() {
    let (api, document) = document().await;
    for (path, method, operation) in operations(&document).into_iter().filter(|(path, ..)| is_ours(path)) {
        let path = path.replace("{seq}", "1").replace(['{', '}'], "");
        let body = operation.get("requestBody").map(|_| serde_json::json!({}));
        let (kind, message) = api.refused(400, &method.to_uppercase(), &format!("{path}?nonsense=1"), body).await;
        assert_eq!(kind, "invalid_argument", "{method} {path}");
        assert!(message.contains("nonsense"), "{method} {path}: {message}");
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_everywhere_and_named() {
    let (api, document) = document().await;
    for (path, method, operation) in operations(&document).into_iter().filter(|(path, ..)| is_ours(path)) {
        if operation["requestBody"]["content"]["application/json"].is_null() {
            continue;
        }
        let path = path.replace(['{', '}'], "");
        let body = serde_json::json!({"nonsense": 1});
        let (_, message) = api.refused(400, &method.to_uppercase(), &path, Some(body)).await;
        assert!(message.contains("nonsense"), "{method} {path}: {message}");
    }
}
