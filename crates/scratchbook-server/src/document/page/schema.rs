//! Schemas as text.

use maud::{Markup, html};
use serde_json::Value;

use super::{fields, items, text, words};

/// Renders a schema with its name and its fields.
pub(super) fn article(name: &str, schema: &Value) -> Markup {
    html! {
        article id={ "schema-" (name) } {
            h3 { (name) }
            p { (words(text(&schema["description"]))) }
            (body(schema))
            @if let Some(example) = schema.get("example") {
                details { summary { "Example" } pre { (serde_json::to_string_pretty(example).unwrap_or_default()) } }
            }
        }
    }
}

fn body(schema: &Value) -> Markup {
    let parts: Vec<_> = items(&schema["allOf"]).collect();
    let forms: Vec<_> = items(&schema["oneOf"]).collect();
    html! {
        @if schema["properties"].is_object() { (table(schema)) }
        @for part in &parts {
            @if part["$ref"].is_string() { p { "All of " (kind(part)) ", and:" } } @else { (body(part)) }
        }
        @for form in &forms {
            @if form["properties"].is_object() {
                p.form { (words(text(&form["description"]))) }
                (table(form))
            } @else {
                p.form { (kind(form)) " " (words(text(&form["description"]))) }
            }
        }
        @if !schema["properties"].is_object() && parts.is_empty() && forms.is_empty() { p { (kind(schema)) } }
    }
}

fn table(schema: &Value) -> Markup {
    let required: Vec<_> = items(&schema["required"]).map(text).collect();
    html! {
        table {
            @for (name, field) in fields(&schema["properties"]) {
                tr {
                    td { code { (name) } @if required.contains(&name) { span.required { "required" } } }
                    td.kind { (kind(field)) }
                    td { (words(text(&field["description"]))) }
                }
            }
        }
    }
}

/// Returns a schema's type in a few words, or a link to the schema that it refers to.
pub(super) fn kind(schema: &Value) -> Markup {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return html! { a href={ "#schema-" (name) } { (name) } };
    }
    let forms: Vec<_> = items(&schema["oneOf"]).collect();
    if !forms.is_empty() {
        return html! { @for (n, form) in forms.iter().enumerate() { @if n > 0 { " or " } (kind(form)) } };
    }
    // A type and its default value are parts of their own.
    if let Some(parts) = schema["allOf"].as_array().filter(|parts| !parts.is_empty()) {
        let value = parts.iter().find_map(|part| part.get("default"));
        return html! { (kind(&parts[0])) @if let Some(value) = value { (by_default(value)) } };
    }
    if schema["enum"].is_array() {
        return html! {
            @for (n, value) in items(&schema["enum"]).enumerate() { @if n > 0 { ", " } code { (text(value)) } }
        };
    }
    let types: Vec<_> = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().map(text).collect(),
        _ => vec!["any value"],
    };
    html! {
        @for (n, name) in types.iter().enumerate() {
            @if n > 0 { " or " }
            (name)
            @if *name == "array" { " of " (kind(&schema["items"])) }
            @if *name == "object" && schema["additionalProperties"].is_object() {
                " of " (kind(&schema["additionalProperties"]))
            }
        }
        @if let Some(value) = schema.get("default") { (by_default(value)) }
    }
}

fn by_default(value: &Value) -> Markup {
    html! { ", " (value.to_string().trim_matches('"')) " by default" }
}

/// Returns the example of a body or an answer, or else the example of its schema.
pub(super) fn example<'d>(document: &'d Value, content: &'d Value) -> Option<&'d Value> {
    let schema = match content["schema"]["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#'))?,
        None => &content["schema"],
    };
    content.get("example").or_else(|| schema.get("example"))
}
