//! Renders an operation: its parameters and body, its answers, and how to call it.

use maud::{Markup, html};
use serde_json::Value;

use super::schema::{example, kind};
use super::{fields, items, text, words};

/// An operation of the document.
pub(super) struct DocumentedOperation<'d> {
    pub(super) path: &'d str,
    pub(super) method: &'d str,
    pub(super) is: &'d Value,
}

impl DocumentedOperation<'_> {
    pub(super) fn id(&self) -> &str {
        text(&self.is["operationId"])
    }

    pub(super) fn article(&self, document: &Value) -> Markup {
        let body = &self.is["requestBody"]["content"]["application/json"];
        html! {
            article id=(self.id()) {
                h3 { span.method.(self.method) { (self.method) } " " code { (self.path) } }
                p.summary { (words(text(&self.is["summary"]))) }
                p { (words(text(&self.is["description"]))) }
                @if self.is["parameters"].is_array() { (self.parameters()) }
                @if body.is_object() {
                    h4 { "Body" }
                    p { (kind(&body["schema"])) " as " code { "application/json" } }
                }
                h4 { "Responses" }
                (self.answers(document))
                h4 { "Example" }
                pre { (self.call(document, body)) }
            }
        }
    }

    fn parameters(&self) -> Markup {
        html! {
            h4 { "Parameters" }
            table {
                @for parameter in items(&self.is["parameters"]) {
                    tr {
                        td {
                            code { (text(&parameter["name"])) }
                            @if parameter["required"] == true { span.required { "required" } }
                        }
                        td.kind { (text(&parameter["in"])) ", " (kind(&parameter["schema"])) }
                        td { (words(text(&parameter["description"]))) }
                    }
                }
            }
        }
    }

    fn answers(&self, document: &Value) -> Markup {
        let (good, bad): (Vec<_>, Vec<_>) =
            fields(&self.is["responses"]).partition(|(status, _)| status.starts_with('2'));
        let refusal = bad.iter().find_map(|(_, answer)| answer.pointer("/content/application~1json/schema"));
        html! {
            @for (status, answer) in good {
                p {
                    b { (status) } " " (words(text(&answer["description"]))) " "
                    @for (media, content) in fields(&answer["content"]) {
                        (kind(&content["schema"])) " as " code { (media) }
                    }
                }
                @for (_, content) in fields(&answer["content"]) {
                    @if let Some(example) = example(document, content) { pre { (pretty(example)) } }
                }
            }
            details {
                summary { "Errors" }
                table {
                    @for (status, answer) in bad {
                        tr { td { b { (status) } } td { (words(text(&answer["description"]))) } }
                    }
                }
                @if let Some(refusal) = refusal { p { "The body of an error is: " (kind(refusal)) "." } }
            }
        }
    }

    /// Returns the curl command that calls the operation.
    fn call(&self, document: &Value, body: &Value) -> String {
        let (mut path, mut query) = (self.path.to_owned(), String::new());
        for parameter in items(&self.is["parameters"]) {
            let (name, value) = (text(&parameter["name"]), plain(&parameter["example"]));
            match text(&parameter["in"]) {
                "path" => path = path.replace(&format!("{{{name}}}"), &value),
                "query" if parameter["required"] == true => {
                    let before = if query.is_empty() { '?' } else { '&' };
                    query = format!("{query}{before}{name}={value}");
                }
                _ => {}
            }
        }
        let method = match self.method {
            "get" => String::new(),
            method => format!("-X {} ", method.to_uppercase()),
        };
        let unbuffered = if self.path.ends_with("/watch") { "-N " } else { "" };
        let call = format!("curl {unbuffered}{method}\"$SERVER{path}{query}\"");
        match example(document, body) {
            Some(example) => {
                let body = example.to_string().replace('\'', r"'\''");
                format!("{call} \\\n  -H 'content-type: application/json' \\\n  -d '{body}'")
            }
            // The body is raw data, which curl sends from a file.
            None if !self.is["requestBody"].is_null() => {
                format!("{call} \\\n  -H 'content-type: text/plain' \\\n  --data-binary @FILE")
            }
            None => call,
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Indents JSON for readers; text, such as a stream, stays as it is.
fn pretty(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim_end().to_owned(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}
