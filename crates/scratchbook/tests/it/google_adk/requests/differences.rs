//! The differences between our requests and google-adk's, and the reasons.

use std::fmt;

use serde_json::{Value, json};

/// A field that differs between the two sides.
#[derive(Clone, Debug)]
pub(crate) struct FieldDifference {
    /// The keys and indices from the top, separated by `/`.
    pub(crate) path: String,
    pub(crate) ours: Option<Value>,
    pub(crate) theirs: Option<Value>,
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(f, "{}\n  ours:   {}\n  theirs: {}", self.path, shown(&self.ours), shown(&self.theirs))
    }
}

/// An accepted difference.
pub(super) struct AcceptedDifference {
    /// The difference, as in `docs/adk-compatibility.md`.
    pub(super) what: &'static str,
    /// Why the difference is accepted.
    pub(super) why: &'static str,
    pub(super) explains: fn(&FieldDifference) -> bool,
}

/// All differences. Each occurs in some scenario.
pub(super) const DIFFERENCES: [AcceptedDifference; 6] = [
    REPR,
    AcceptedDifference {
        what: "names of fields that google-genai leaves in snake_case",
        why: "the API takes both; one spelling",
        explains: |found| {
            let same =
                |(own, other): (&str, &str)| found.path.ends_with(&format!("/{own}")) && other == snake_case(own);
            found.texts().is_some_and(same)
        },
    },
    AcceptedDifference {
        what: "spaces in the text of an answer that `set_model_response` took",
        why: "the same answer",
        explains: |found| {
            let same = |(own, other): (&str, &str)| own == other.replace(": ", ":").replace(", ", ",");
            found.path.contains("/contents/") && found.texts().is_some_and(same)
        },
    },
    AcceptedDifference {
        what: "title and description of the schema that `set_model_response` takes",
        why: "what describes the answer helps to give it",
        explains: |found| {
            let schema = "/tools/0/functionDeclarations/0/parametersJsonSchema";
            let above = ["/title", "/description", "/properties/items/title"].iter();
            above.clone().any(|field| found.path.ends_with(&format!("{schema}{field}")))
        },
    },
    AcceptedDifference {
        what: "title of the schema of a list",
        why: "it is of google-genai's own making",
        explains: |found| {
            found.path.ends_with("/generationConfig/responseSchema/title")
                && found.ours.is_none()
                && found.theirs == Some(json!("Placeholder"))
        },
    },
    AcceptedDifference {
        what: "arguments of `set_model_response` where the schema is raw",
        why: "a model that is not told the schema cannot keep to it",
        explains: |found| {
            let schema = "/tools/0/functionDeclarations/0/parametersJsonSchema";
            found.path.starts_with("raw_output_schema_and_tools/") && found.path.contains(schema)
        },
    },
];

/// The calls and results of other agents, described in words.
pub(super) const REPR: AcceptedDifference = AcceptedDifference {
    what: "arguments and results in what is told of other agents",
    why: "models and readers know JSON, not the `repr` of Python",
    explains: |found| {
        let told =
            |(own, other): (&str, &str)| own.contains("<<<BEGIN_QUOTED_AGENT_CONTENT>>>\n{") && own == as_json(other);
        found.path.contains("/parts/") && found.texts().is_some_and(told)
    },
};

impl FieldDifference {
    fn texts(&self) -> Option<(&str, &str)> {
        Some((self.ours.as_ref()?.as_str()?, self.theirs.as_ref()?.as_str()?))
    }
}

/// Converts Python's `repr` of plain values to JSON.
fn as_json(told: &str) -> String {
    let words = told.replace(": None", ":null").replace(": True", ":true").replace(": False", ":false");
    words.replace("': ", "':").replace(", '", ",'").replace('\'', "\"")
}

/// Returns every field that differs. The paths begin with `name`.
pub(crate) fn differences(name: &str, ours: &Value, theirs: &Value) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    compare(name.to_owned(), Some(ours), Some(theirs), &mut found);
    found
}

fn compare(path: String, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<FieldDifference>) {
    match (ours, theirs) {
        (Some(Value::Object(own)), Some(Value::Object(other))) => {
            let spelled = |key: &str| if other.contains_key(key) { key.to_owned() } else { snake_case(key) };
            for (key, value) in own {
                let (path, of_other) = (format!("{path}/{key}"), spelled(key));
                if *key != of_other && other.contains_key(&of_other) {
                    found.push(FieldDifference {
                        path: path.clone(),
                        ours: Some(json!(key)),
                        theirs: Some(json!(of_other)),
                    });
                }
                compare(path, Some(value), other.get(&of_other), found);
            }
            let matched: Vec<_> = own.keys().map(|key| spelled(key)).collect();
            for (key, value) in other.iter().filter(|(key, _)| !matched.contains(key)) {
                compare(format!("{path}/{key}"), None, Some(value), found);
            }
        }
        (Some(Value::Array(own)), Some(Value::Array(other))) => {
            for place in 0..own.len().max(other.len()) {
                compare(format!("{path}/{place}"), own.get(place), other.get(place), found);
            }
        }
        (own, other) if own == other => {}
        (own, other) => found.push(FieldDifference { path, ours: own.cloned(), theirs: other.cloned() }),
    }
}

fn snake_case(key: &str) -> String {
    key.chars().flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain(c.to_lowercase())).collect()
}
