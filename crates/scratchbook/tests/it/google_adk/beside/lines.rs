//! The result of a case, as text for people.

use serde_json::Value;

/// Returns what agents have said and done, one line per event.
pub(super) fn lines(played: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for turn in played["turns"].as_array().unwrap() {
        for event in turn["events"].as_array().unwrap().iter().filter(|event| event["author"] != "user") {
            lines.push(line(event));
        }
        if turn["fails"] == true {
            lines.push("fails".to_owned());
        }
    }
    lines
}

fn line(event: &Value) -> String {
    let mut said = Vec::new();
    for part in event["content"]["parts"].as_array().into_iter().flatten() {
        said.extend(part["text"].as_str().map(str::to_owned));
        said.extend(part["functionCall"]["name"].as_str().map(|name| format!("{name}?")));
        let answer = &part["functionResponse"];
        said.extend(answer["name"].as_str().map(|name| format!("{name}={}", answer["response"])));
    }
    let actions = &event["actions"];
    let filled = |field: &str| actions[field].as_object().filter(|map| !map.is_empty());
    said.extend(event["errorCode"].as_str().map(|_| "failed".to_owned()));
    said.extend(filled("stateDelta").map(|_| actions["stateDelta"].to_string()));
    for (name, version) in filled("artifactDelta").into_iter().flatten() {
        said.push(format!("{name}@{version}"));
    }
    said.extend((actions["escalate"] == true).then(|| "escalates".to_owned()));
    said.extend(actions["transferToAgent"].as_str().map(|name| format!("-> {name}")));
    let branch = event["branch"].as_str().map(|branch| format!(" on {branch}")).unwrap_or_default();
    format!("{}{branch}: {}", event["author"].as_str().unwrap(), said.join(" "))
}
