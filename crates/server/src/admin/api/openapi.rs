//! The description of the interface in OpenAPI 3.1, made from the table of routes and the types.

use std::sync::LazyLock;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http::Response;

use super::problem::Problem;
use super::routes::{ROUTES, Route, resource_of};
use super::types::ProblemDetails;
use super::{Api, Asked};

/// Where types are described.
const DEFINITIONS: &str = "/components/schemas";

pub(super) fn answer(_: &Api, _: &Asked<'_>) -> Result<Response, Problem> {
    // Made only once: making it takes as long as thousands of NFS calls.
    static TEXT: LazyLock<Vec<u8>> =
        LazyLock::new(|| serde_json::to_vec(&describe(ROUTES)).expect("JSON is written to memory"));
    Ok(Response::new(200, "application/json", TEXT.clone()))
}

/// Returns the description of `routes`.
pub(super) fn describe(routes: &[Route]) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = DEFINITIONS.into());
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        operations[route.method.to_ascii_lowercase()] = operation(route, &mut generator);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Administration of a Holdfast server.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let (status, schema) = route.success;
    let problem = generator.subschema_for::<ProblemDetails>();
    let mut operation = json!({
        "summary": route.summary,
        "responses": {
            status.to_string(): {
                "description": "Success.",
                "content": { route.content_type(): { "schema": schema(generator) } },
            },
            "default": {
                "description": "Why the request was refused.",
                "content": { "application/problem+json": { "schema": problem } },
            },
        },
    });
    if let Some(content) = route.content {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": content(generator) } } });
    }
    if let Some(role) = route.role {
        operation["security"] = json!([{ "token": [role] }]);
    }
    if route.has_revision() {
        let field = json!({ "ETag": { "description": "The revision.", "schema": { "type": "string" } } });
        operation["responses"][status.to_string()]["headers"] = field;
    }
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters = Vec::new();
    if route.path.contains("{name}") {
        parameters
            .push(json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } }));
    }
    for (name, kind, description) in route.parameters() {
        parameters.push(
            json!({ "name": name, "in": "query", "description": description, "schema": { "type": kind } }),
        );
    }
    if !route.is_read_only() && resource_of(ROUTES, route.path).is_some() {
        let description =
            "The revision that was seen: if the resource has another one, nothing is changed (412).";
        parameters.push(
            json!({ "name": "If-Match", "in": "header", "description": description, "schema": { "type": "string" } }),
        );
    }
    parameters
}
