//! Refusals of requests in the OpenAPI document.

use serde_json::Value;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

/// A refusal by its status, in the form of a schema.
pub(crate) fn refusal(status: &str, what: &str, schema: &str, example: Option<Value>) -> (String, RefOr<Response>) {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).example(example).build();
    let response = ResponseBuilder::new().description(what).content("application/json", content).build();
    (status.to_owned(), response.into())
}
