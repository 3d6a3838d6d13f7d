//! The names of an event's fields in JSON. They are written in camelCase, and read in camelCase or snake_case.

use crate::event::{Event, EventActions};
use crate::fields::fields;

fields! {
    Event {
        "modelVersion" or "model_version" => model_version,
        "content" => content as optional_object,
        "groundingMetadata" or "grounding_metadata" => grounding_metadata,
        "partial" => partial,
        "turnComplete" or "turn_complete" => turn_complete,
        "turnCompleteReason" or "turn_complete_reason" => turn_complete_reason,
        "interactionStatus" or "interaction_status" => interaction_status,
        "finishReason" or "finish_reason" => finish_reason,
        "errorCode" or "error_code" => error_code,
        "errorMessage" or "error_message" => error_message,
        "interrupted" => interrupted,
        "customMetadata" or "custom_metadata" => custom_metadata,
        "usageMetadata" or "usage_metadata" => usage_metadata,
        "liveSessionResumptionUpdate" or "live_session_resumption_update" => live_session_resumption_update,
        "liveSessionId" or "live_session_id" => live_session_id,
        "goAway" or "go_away" => go_away,
        "voiceActivity" or "voice_activity" => voice_activity,
        "inputTranscription" or "input_transcription" => input_transcription,
        "outputTranscription" or "output_transcription" => output_transcription,
        "avgLogprobs" or "avg_logprobs" => avg_logprobs,
        "logprobsResult" or "logprobs_result" => logprobs_result,
        "cacheMetadata" or "cache_metadata" => cache_metadata,
        "citationMetadata" or "citation_metadata" => citation_metadata,
        "interactionId" or "interaction_id" => interaction_id,
        "environmentId" or "environment_id" => environment_id,
        "invocationId" or "invocation_id" => invocation_id,
        "author" => author,
        "actions" => actions as place,
        "output" => output,
        "nodeInfo" or "node_info" => node_info as object,
        "longRunningToolIds" or "long_running_tool_ids" => long_running_tool_ids,
        "branch" => branch,
        "isolationScope" or "isolation_scope" => isolation_scope,
        "id" => id,
        "timestamp" => timestamp,
    }
}

fields! {
    EventActions {
        "skipSummarization" or "skip_summarization" => skip_summarization,
        "stateDelta" or "state_delta" => state_delta,
        "artifactDelta" or "artifact_delta" => artifact_delta,
        "transferToAgent" or "transfer_to_agent" => transfer_to_agent,
        "transferReason" or "transfer_reason" => transfer_reason,
        "escalate" => escalate,
        "requestedAuthConfigs" or "requested_auth_configs" => requested_auth_configs,
        "requestedToolConfirmations" or "requested_tool_confirmations" => requested_tool_confirmations,
        "compaction" => compaction as optional_object,
        "endOfAgent" or "end_of_agent" => end_of_agent,
        "agentState" or "agent_state" => agent_state,
        "rewindBeforeInvocationId" or "rewind_before_invocation_id" => rewind_before_invocation_id,
        "route" => route,
        "renderUiWidgets" or "render_ui_widgets" => render_ui_widgets,
        "setModelResponse" or "set_model_response" => set_model_response,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::{Map, Value, json};

    use crate::content::Content;
    use crate::event::{Event, EventActions, EventCompaction, NodeInfo};
    use crate::extra::ExtraFields;
    use crate::state::StateDelta;

    fn text() -> Option<String> {
        Some("text".to_owned())
    }

    fn value() -> Option<Box<Value>> {
        Some(Box::new(json!({"a": 1})))
    }

    fn map() -> Map<String, Value> {
        Map::from_iter([("key".to_owned(), json!(1))])
    }

    /// Returns actions in which no field is missing.
    fn actions() -> EventActions {
        EventActions {
            skip_summarization: Some(true),
            state_delta: StateDelta::new().with("user:key", 1).unwrap(),
            artifact_delta: BTreeMap::from([("file".to_owned(), 2)]),
            transfer_to_agent: text(),
            transfer_reason: text(),
            escalate: Some(false),
            requested_auth_configs: map(),
            requested_tool_confirmations: map(),
            compaction: Some(Box::new(EventCompaction::new(1.0, 2.0, Content::user("short")))),
            end_of_agent: Some(true),
            agent_state: Some(Box::new(map())),
            rewind_before_invocation_id: text(),
            route: value(),
            render_ui_widgets: Some(vec![json!(1)]),
            set_model_response: value(),
            extra: ExtraFields::from(map()),
        }
    }

    /// Returns an event in which no field is missing, except for its number, which is not in the JSON.
    fn event() -> Event {
        Event {
            model_version: text(),
            content: Some(Content::model("text")),
            grounding_metadata: value(),
            partial: Some(true),
            turn_complete: Some(true),
            turn_complete_reason: value(),
            interaction_status: value(),
            finish_reason: text(),
            error_code: text(),
            error_message: text(),
            interrupted: Some(true),
            custom_metadata: Some(Box::new(map())),
            usage_metadata: value(),
            live_session_resumption_update: value(),
            live_session_id: text(),
            go_away: value(),
            voice_activity: value(),
            input_transcription: value(),
            output_transcription: value(),
            avg_logprobs: Some(-0.5),
            logprobs_result: value(),
            cache_metadata: value(),
            citation_metadata: value(),
            interaction_id: text(),
            environment_id: text(),
            invocation_id: "e-1".to_owned(),
            author: "agent".to_owned(),
            actions: actions(),
            output: value(),
            node_info: NodeInfo { path: "a/b".to_owned(), ..NodeInfo::default() },
            long_running_tool_ids: Some(BTreeSet::from(["call".to_owned()])),
            branch: text(),
            isolation_scope: text(),
            id: "id".to_owned(),
            timestamp: Some(1.5),
            seq: None,
            extra: ExtraFields::from(map()),
        }
    }

    #[test]
    fn every_field_that_is_written_is_read_back_as_this_field() {
        let written = serde_json::to_value(event()).unwrap();
        let read: Event = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(read, event(), "a field that is not in the list is read as an unknown one");
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }

    #[test]
    fn every_field_is_read_by_its_name_in_snake_case_too() {
        fn snake(object: &Map<String, Value>) -> Map<String, Value> {
            let name = |name: &str| {
                let parts = name.chars().map(|c| match c.is_uppercase() {
                    true => format!("_{}", c.to_lowercase()),
                    false => c.to_string(),
                });
                parts.collect::<String>()
            };
            object.iter().map(|(of, value)| (name(of), value.clone())).collect()
        }
        let written = serde_json::to_value(event()).unwrap();
        let mut written = snake(written.as_object().unwrap());
        let actions = snake(written["actions"].as_object().unwrap());
        written.insert("actions".to_owned(), actions.into());
        assert_eq!(serde_json::from_value::<Event>(written.into()).unwrap(), event());
    }

    #[test]
    fn a_field_that_comes_twice_or_has_another_shape_is_refused() {
        for (text, error) in [
            (r#"{"id": "a", "id": "b"}"#, "duplicate field `id`"),
            (r#"{"invocationId": "a", "invocation_id": "b"}"#, "duplicate field `invocationId`"),
            (r#"{"actions": {"escalate": true, "escalate": true}}"#, "duplicate field `escalate`"),
            (r#"{"actions": []}"#, "invalid type: sequence, expected struct EventActions"),
            (r#"{"actions": null}"#, "invalid type: null, expected struct EventActions"),
            (r#"{"nodeInfo": []}"#, "invalid type: sequence, expected struct NodeInfo"),
            (r#"{"id": null}"#, "invalid type: null, expected a string"),
            (r#"["a"]"#, "invalid type: sequence, expected struct Event"),
        ] {
            let refused = serde_json::from_str::<Event>(text).unwrap_err().to_string();
            assert!(refused.starts_with(error), "{text}: {refused}");
        }
    }
}
