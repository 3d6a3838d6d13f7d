//! Converts field names to camelCase. google-adk stores field names in snake_case and shows them in camelCase. Our
//! events accept both for their own fields. This module converts the names in the fields that events keep as plain
//! JSON.

use scratchbook::{Content, Event};
use serde_json::{Map, Value};

/// Converts the field names inside an event to camelCase, except in a program's own data.
pub(super) fn convert(event: &mut Event) {
    let fields = [
        &mut event.grounding_metadata,
        &mut event.turn_complete_reason,
        &mut event.interaction_status,
        &mut event.usage_metadata,
        &mut event.live_session_resumption_update,
        &mut event.go_away,
        &mut event.voice_activity,
        &mut event.input_transcription,
        &mut event.output_transcription,
        &mut event.logprobs_result,
        &mut event.citation_metadata,
    ];
    fields.into_iter().flatten().for_each(|value| camel(value, &[]));
    for widget in event.actions.render_ui_widgets.iter_mut().flatten() {
        camel(widget, &["payload"]);
    }
    let summary = event.actions.compaction.as_mut().map(|compaction| &mut compaction.compacted_content);
    for content in event.content.iter_mut().chain(summary) {
        parts(content);
    }
}

fn parts(content: &mut Content) {
    for part in content.parts.iter_mut().flatten() {
        let fields = [
            &mut part.media_resolution,
            &mut part.video_metadata,
            &mut part.audio_transcription,
            &mut part.media_processing,
            &mut part.speech_metadata,
        ];
        fields.into_iter().flatten().for_each(|value| camel(value, &[]));
        part.tool_call.iter_mut().for_each(|call| camel(call, &["args"]));
        part.tool_response.iter_mut().for_each(|response| camel(response, &["response"]));
        let partial = part.function_call.iter_mut().filter_map(|call| call.partial_args.as_mut()).flatten();
        let media = part.function_response.iter_mut().filter_map(|response| response.parts.as_mut()).flatten();
        partial.chain(media).for_each(|value| camel(value, &[]));
    }
}

/// Converts all field names to camelCase, except inside the fields in `own_data`.
fn camel(value: &mut Value, own_data: &[&str]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| camel(item, own_data)),
        Value::Object(map) => {
            let fields = std::mem::take(map).into_iter().map(|(name, mut value)| {
                if !own_data.contains(&name.as_str()) {
                    camel(&mut value, own_data);
                }
                (camel_name(&name), value)
            });
            *map = fields.collect::<Map<_, _>>();
        }
        _ => {}
    }
}

fn camel_name(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_field_names_are_converted() {
        let usage_metadata = Some(json!({"prompt_token_count": 1, "details": [{"token_count": "a_b"}]}).into());
        let mut event = Event { usage_metadata, ..Event::default() };
        event.actions.render_ui_widgets = Some(vec![json!({"id": 1, "the_kind": "x", "payload": {"my_key": 1}})]);
        event.custom_metadata = json!({"my_key": {"a_b": 1}}).as_object().cloned().map(Box::new);
        event.cache_metadata = Some(json!({"cache_name": "x"}).into());
        convert(&mut event);
        let usage = json!({"promptTokenCount": 1, "details": [{"tokenCount": "a_b"}]});
        assert_eq!(event.usage_metadata.as_deref(), Some(&usage));
        let widgets = event.actions.render_ui_widgets.unwrap();
        assert_eq!(widgets, [json!({"id": 1, "theKind": "x", "payload": {"my_key": 1}})]);
        assert_eq!(json!(event.custom_metadata), json!({"my_key": {"a_b": 1}}));
        assert_eq!(
            event.cache_metadata.as_deref(),
            Some(&json!({"cache_name": "x"})),
            "google-adk shows it as it is stored"
        );
    }
}
