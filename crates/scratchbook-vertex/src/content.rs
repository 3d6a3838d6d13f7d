//! Contents and metadata that ADK and proto-JSON write in different ways: bytes, enum values and names.

use serde_json::Value;

use super::message::{either, is_either};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;
use scratchbook_core::json::camel_case;

/// Enums that some clients send as numbers: the part, its field, and the names of the values.
const ENUMS: [(&str, &str, &[&str]); 3] = [
    ("executableCode", "language", &["LANGUAGE_UNSPECIFIED", "PYTHON"]),
    (
        "codeExecutionResult",
        "outcome",
        &["OUTCOME_UNSPECIFIED", "OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"],
    ),
    (
        "mediaResolution",
        "level",
        &[
            "MEDIA_RESOLUTION_UNSPECIFIED",
            "MEDIA_RESOLUTION_LOW",
            "MEDIA_RESOLUTION_MEDIUM",
            "MEDIA_RESOLUTION_HIGH",
            "MEDIA_RESOLUTION_ULTRA_HIGH",
        ],
    ),
];

/// Converts a received content to ADK's form, in which enum values have names.
pub(super) fn named(mut content: Value) -> Value {
    for part in parts(content.get_mut("parts")) {
        for (name, field, values) in ENUMS {
            let Some(value) = either(part, name).and_then(|inner| inner.get_mut(field)) else { continue };
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            if let Some(name) = number.and_then(|number| values.get(number)) {
                *value = Value::from(*name);
            }
        }
    }
    content
}

/// Converts a content to the proto-JSON form for responses: bytes use the standard base64 alphabet, which is the only
/// one that some clients read. ADK uses the URL-safe one.
pub(super) fn shown(mut content: Value) -> Value {
    for part in parts(content.get_mut("parts")) {
        for bytes in ["/thoughtSignature", "/inlineData/data"] {
            with_standard_alphabet(part.pointer_mut(bytes));
        }
        if let Some(more) = part.pointer_mut("/functionResponse/parts") {
            in_camel_case(more);
            for part in parts(Some(more)) {
                with_standard_alphabet(part.pointer_mut("/inlineData/data"));
            }
        }
    }
    content
}

/// Converts grounding metadata to the form for responses.
pub(super) fn shown_grounding(mut grounding: Value) -> Value {
    in_camel_case(&mut grounding);
    with_standard_alphabet(grounding.pointer_mut("/searchEntryPoint/sdkBlob"));
    grounding
}

/// Refuses grounding metadata and transcriptions that clients could not read. They have to be messages, and some fields
/// have to be lists.
pub(super) fn check_messages(event: &Event) -> Result<()> {
    const LISTS: [&str; 4] = ["groundingChunks", "groundingSupports", "webSearchQueries", "retrievalQueries"];
    for (name, value) in [
        ("groundingMetadata", &event.grounding_metadata),
        ("inputTranscription", &event.input_transcription),
        ("outputTranscription", &event.output_transcription),
    ] {
        let Some(value) = value.as_deref().filter(|value| !value.is_null()) else { continue };
        let Value::Object(fields) = value else {
            return Err(Error::invalid(format!("'{name}' of the event is not an object; send one")));
        };
        let is_wrong = |(field, value): (&String, &Value)| {
            LISTS.iter().any(|list| is_either(list, field)) && !matches!(value, Value::Array(_) | Value::Null)
        };
        if name == "groundingMetadata" && fields.iter().any(is_wrong) {
            return Err(Error::invalid(format!("'{name}' of the event has no list for one of {}", LISTS.join(", "))));
        }
    }
    Ok(())
}

/// Converts the names of a message and of its nested messages to camelCase.
fn in_camel_case(message: &mut Value) {
    match message {
        Value::Array(items) => items.iter_mut().for_each(in_camel_case),
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                in_camel_case(&mut value);
                fields.insert(camel_case(&name), value);
            }
        }
        _ => {}
    }
}

/// Converts base64 to the standard alphabet, with padding.
fn with_standard_alphabet(bytes: Option<&mut Value>) {
    if let Some(Value::String(text)) = bytes {
        let padding = "=".repeat((4 - text.len() % 4) % 4);
        *text = text.replace('-', "+").replace('_', "/") + &padding;
    }
}

fn parts(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_shown_in_the_alphabet_that_all_clients_read() {
        let with = |bytes: &str| {
            json!({"role": "-_", "parts": [
                {"text": "-_"}, {"thoughtSignature": bytes, "thought": true},
                {"inlineData": {"data": bytes, "mimeType": "a/b"}},
                {"functionResponse": {"response": {"data_x": "-_"}, "parts": [{"inlineData": {"data": bytes}}]}},
            ]})
        };
        assert_eq!(shown(with("-_8=")), with("+/8="));
        assert_eq!(shown(with("-_8")), with("+/8="));
        let snake =
            json!({"parts": [{"functionResponse": {"parts": [{"inline_data": {"mime_type": "a/b", "data": "-_8"}}]}}]});
        let camel = json!({"inlineData": {"mimeType": "a/b", "data": "+/8="}});
        assert_eq!(shown(snake)["parts"][0]["functionResponse"]["parts"][0], camel);
        let grounding =
            json!({"search_entry_point": {"sdk_blob": "-_8="}, "grounding_chunks": [{"web": {"uri": "-_"}}]});
        let camel = json!({"searchEntryPoint": {"sdkBlob": "+/8="}, "groundingChunks": [{"web": {"uri": "-_"}}]});
        assert_eq!(shown_grounding(grounding), camel);
        for other in [json!({}), json!(null), json!({"parts": 1}), json!({"parts": [1, null, {"inlineData": []}]})] {
            assert_eq!(shown(other.clone()), other);
        }
    }

    #[test]
    fn values_of_enums_that_come_as_numbers_get_their_names() {
        let content = json!({"parts": [
            {"executableCode": {"language": 1, "code": "1"}}, {"code_execution_result": {"outcome": 3}},
            {"mediaResolution": {"level": 4}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
            {"codeExecutionResult": {"outcome": 99}}, {"executableCode": null},
        ]});
        let expected = json!({"parts": [
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"code_execution_result": {"outcome": "OUTCOME_DEADLINE_EXCEEDED"}},
            {"mediaResolution": {"level": "MEDIA_RESOLUTION_ULTRA_HIGH"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}, {"codeExecutionResult": {"outcome": 99}},
            {"executableCode": null},
        ]});
        assert_eq!(named(content), expected);
    }
}
