//! Renders the OpenAPI document as a page to read, from the document alone and without a script.

mod operation;
mod schema;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Map, Value};

use operation::DocumentedOperation;

const STYLE: &str = include_str!("style.css");

/// The policy allows no loading and no scripts.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Returns the whole page.
pub(super) fn page(document: &Value) -> Markup {
    let title = text(&document["info"]["title"]);
    let parts: Vec<_> = items(&document["tags"]).map(|tag| TaggedOperations::of(document, tag)).collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " API" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                nav { (contents(title, &parts, document)) }
                main {
                    header {
                        h1 { (title) " API " small { (text(&document["info"]["version"])) } }
                        p { (words(text(&document["info"]["description"]))) }
                        p { "For programs: " a href="openapi.json" { "openapi.json" } }
                        p {
                            "The examples use the session " code { "s1" } " of the user " code { "alice" }
                            " in the app " code { "demo" } ", which is there if the server hosts no agents of yours. They take the "
                            "server's address from a variable. Create the session first:"
                        }
                        pre {
                            "SERVER=http://127.0.0.1:8000\n"
                            "curl -X POST \"$SERVER/apps/demo/users/alice/sessions/s1\""
                        }
                    }
                    @for part in &parts {
                        section id=(part.name) {
                            h2 { (part.name) }
                            p { (words(part.description)) }
                            @for operation in &part.operations { (operation.article(document)) }
                        }
                    }
                    section id="schemas" {
                        h2 { "Schemas" }
                        @for (name, schema) in fields(&document["components"]["schemas"]) {
                            (schema::article(name, schema))
                        }
                    }
                }
            }
        }
    }
}

/// The operations with one tag.
struct TaggedOperations<'d> {
    name: &'d str,
    description: &'d str,
    operations: Vec<DocumentedOperation<'d>>,
}

impl<'d> TaggedOperations<'d> {
    fn of(document: &'d Value, tag: &'d Value) -> Self {
        let name = text(&tag["name"]);
        let all = fields(&document["paths"]).flat_map(|(path, item)| {
            fields(item).map(move |(method, operation)| DocumentedOperation { path, method, is: operation })
        });
        let operations = all.filter(|operation| text(&operation.is["tags"][0]) == name).collect();
        Self { name, description: text(&tag["description"]), operations }
    }
}

fn contents(title: &str, parts: &[TaggedOperations<'_>], document: &Value) -> Markup {
    html! {
        p { b { (title) } }
        @for part in parts {
            p { a href={ "#" (part.name) } { (part.name) } }
            ul {
                @for operation in &part.operations {
                    li {
                        a href={ "#" (operation.id()) } {
                            span.method.(operation.method) { (operation.method) } " "
                            (text(&operation.is["summary"]).trim_end_matches('.'))
                        }
                    }
                }
            }
        }
        p { a href="#schemas" { "Schemas" } }
        ul {
            @for (name, _) in fields(&document["components"]["schemas"]) {
                li { a href={ "#schema-" (name) } { (name) } }
            }
        }
    }
}

/// Returns text in which words between backticks become code.
fn words(text: &str) -> Markup {
    html! {
        @for (n, part) in text.split('`').enumerate() {
            @if n % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn fields(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(name, value)| (name.as_str(), value))
}
