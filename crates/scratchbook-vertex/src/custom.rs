//! Fields that ADK's clients put into an event's custom metadata, because the API has no field for them.

use serde_json::{Map, Value, json};

/// A summary that replaces earlier events. ADK for TypeScript uses another form than the other ADKs.
pub(super) const COMPACTION: &str = "_compaction";
pub(super) const USAGE: &str = "_usage_metadata";
/// The data of workflows in ADK for TypeScript: fields of the event, and actions. Other fields are not read from there.
/// Otherwise the metadata would be another way to write the whole event.
const WORKFLOW: &str = "_workflow";
const WORKFLOW_FIELDS: [&str; 4] = ["output", "route", "nodeInfo", "isolationScope"];
const WORKFLOW_ACTIONS: [&str; 2] = ["agentState", "endOfAgent"];
/// The fields of a summary in ADK for TypeScript.
const SUMMARY_FIELDS: [&str; 3] = ["startTime", "endTime", "compactedContent"];

/// Moves fields from the custom metadata to where ADK's events have them.
pub(super) fn unpack(
    custom: &mut Map<String, Value>,
    event: &mut Map<String, Value>,
    actions: &mut Map<String, Value>,
) {
    if let Some(compaction) = custom.shift_remove(COMPACTION) {
        if let Some(summary) = summary_of_typescript(&compaction) {
            actions.insert("compaction".to_owned(), summary);
            event.insert("isCompacted".to_owned(), true.into());
            if let Value::Object(mut rest) = compaction {
                take(&mut rest, &SUMMARY_FIELDS, event);
                custom.extend((!rest.is_empty()).then(|| (COMPACTION.to_owned(), rest.into())));
            }
        } else {
            actions.insert("compaction".to_owned(), compaction);
        }
    }
    event.extend(custom.shift_remove(USAGE).map(|usage| ("usageMetadata".to_owned(), usage)));
    // A value that is not an object belongs to another program.
    if let Some(Value::Object(workflow)) = custom.get_mut(WORKFLOW) {
        take(workflow, &WORKFLOW_FIELDS, event);
        take(workflow, &WORKFLOW_ACTIONS, actions);
        if workflow.is_empty() {
            custom.shift_remove(WORKFLOW);
        }
    }
}

/// Moves the fields with these names. If the target already has another value, both values stay.
fn take(from: &mut Map<String, Value>, names: &[&str], to: &mut Map<String, Value>) {
    for &name in names {
        if to.contains_key(name) && to.get(name) != from.get(name) {
            continue;
        }
        to.extend(from.shift_remove(name).map(|value| (name.to_owned(), value)));
    }
}

/// Converts a summary in the form of ADK for TypeScript, a text with times in milliseconds, to the form of the other
/// ADKs.
fn summary_of_typescript(compaction: &Value) -> Option<Value> {
    let seconds = |name: &str| compaction.get(name)?.as_f64().map(|millis| millis / 1000.0);
    let text = compaction.get("compactedContent")?.as_str()?;
    Some(json!({
        "startTimestamp": seconds("startTime")?,
        "endTimestamp": seconds("endTime")?,
        "compactedContent": {"role": "model", "parts": [{"text": text}]},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(custom: Value) -> Value {
        let Value::Object(mut custom) = custom else { panic!("an object") };
        let (mut event, mut actions) = (Map::new(), Map::new());
        unpack(&mut custom, &mut event, &mut actions);
        json!([custom, event, actions])
    }

    #[test]
    fn a_summary_has_one_form_whoever_sent_it() {
        let summary = json!({"startTimestamp": 1.5, "endTimestamp": 2.0, "compactedContent": {"role": "model",
            "parts": [{"text": "Tea was ordered."}]}});
        let python = json!({"_compaction": summary, "own": 1});
        assert_eq!(unpacked(python), json!([{"own": 1}, {}, {"compaction": summary}]));
        let sent = json!({"startTime": 1500, "endTime": 2000, "compactedContent": "Tea was ordered."});
        let mut kept = sent.clone();
        kept["isCompacted"] = true.into();
        assert_eq!(unpacked(json!({"_compaction": sent})), json!([{}, kept, {"compaction": summary}]));
    }

    #[test]
    fn what_workflows_put_aside_is_put_where_it_belongs() {
        let workflow = json!({"output": [1], "route": "left", "nodeInfo": {"path": "a"}, "isolationScope": "s",
            "agentState": {"n": 1}, "endOfAgent": true});
        let event = json!({"output": [1], "route": "left", "nodeInfo": {"path": "a"}, "isolationScope": "s"});
        let actions = json!({"agentState": {"n": 1}, "endOfAgent": true});
        assert_eq!(unpacked(json!({"_workflow": workflow})), json!([{}, event, actions]));
        // No other field of the event can be written in this way.
        let more =
            json!({"output": 1, "content": {"parts": []}, "id": "e", "longRunningToolIds": ["c"], "actions": {}});
        let rest = json!({"content": {"parts": []}, "id": "e", "longRunningToolIds": ["c"], "actions": {}});
        assert_eq!(unpacked(json!({"_workflow": more})), json!([{"_workflow": rest}, {"output": 1}, {}]));
        let summary = json!({"startTime": 1500, "endTime": 2000, "compactedContent": "Tea.", "id": "e", "content": 1});
        let unpacked_summary = unpacked(json!({"_compaction": summary}));
        let kept = json!({"startTime": 1500, "endTime": 2000, "compactedContent": "Tea.", "isCompacted": true});
        assert_eq!(unpacked_summary[0], json!({"_compaction": {"id": "e", "content": 1}}));
        assert_eq!(unpacked_summary[1], kept);
        assert_eq!(unpacked(json!({"_workflow": "mine"})), json!([{"_workflow": "mine"}, {}, {}]));
    }
}
