//! Contents, where ADK and proto-JSON write one thing in two ways: bytes, and values of enums.

use serde_json::Value;

/// Values of enums by their numbers, in which some clients send them: names of the part, its field, the values' names.
const ENUMS: [([&str; 2], &str, &[&str]); 3] = [
    (["executableCode", "executable_code"], "language", &["LANGUAGE_UNSPECIFIED", "PYTHON"]),
    (
        ["codeExecutionResult", "code_execution_result"],
        "outcome",
        &["OUTCOME_UNSPECIFIED", "OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"],
    ),
    (
        ["mediaResolution", "media_resolution"],
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

/// A content as it was sent, in ADK's way: values of enums have names.
pub(super) fn named(mut content: Value) -> Value {
    for part in parts(content.get_mut("parts")) {
        for (names, field, values) in ENUMS {
            let value = names.iter().find(|name| part.get(**name).is_some());
            let Some(value) = value.and_then(|name| part.get_mut(name)?.get_mut(field)) else { continue };
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            if let Some(name) = number.and_then(|number| values.get(number)) {
                *value = Value::from(*name);
            }
        }
    }
    content
}

/// A content as it is shown, in the way of proto-JSON: bytes are in the standard alphabet, which is all that some clients
/// read. ADK's is the one for URLs.
pub(super) fn shown(mut content: Value) -> Value {
    for part in parts(content.get_mut("parts")) {
        for bytes in ["/thoughtSignature", "/inlineData/data"] {
            with_standard_alphabet(part.pointer_mut(bytes));
        }
        for part in parts(part.pointer_mut("/functionResponse/parts")) {
            with_standard_alphabet(part.pointer_mut("/inlineData/data"));
        }
    }
    content
}

/// Writes base64 in the standard alphabet.
pub(super) fn with_standard_alphabet(bytes: Option<&mut Value>) {
    if let Some(Value::String(text)) = bytes {
        *text = text.replace('-', "+").replace('_', "/");
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
                {"functionResponse": {"response": {"data": "-_"}, "parts": [{"inlineData": {"data": bytes}}]}},
            ]})
        };
        assert_eq!(shown(with("-_8=")), with("+/8="));
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
