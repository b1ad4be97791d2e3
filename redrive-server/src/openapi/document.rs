//! The document itself.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::operation::{Content, parameter};
use super::{Described, Operation};
use crate::problem;

const ABOUT: &str = "\
What `redrive` does on the command line is done by these calls. Over TCP they need `Authorization: Bearer` with the \
token, from `$REDRIVE_TOKEN` or the file `token` in the data folder; a refusal is `application/problem+json` with a \
`code` that has a page under docs/errors.";

/// This document, as a body.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "required": ["openapi", "paths"] })
}

/// The document over these routes.
pub(super) fn written(described: &[Described]) -> Value {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
    };
    let mut answers = settings().for_serialize().into_generator();
    let mut requests = settings().for_deserialize().into_generator();
    let mut paths = Map::new();
    for Described { method, path, operation } in described {
        let told = told(path, operation, &mut requests, &mut answers);
        let methods = paths.entry(*path).or_insert_with(|| json!({}));
        methods[*method] = told;
    }
    let (mut schemas, read) = (answers.take_definitions(true), requests.take_definitions(true));
    for (name, schema) in read {
        debug_assert!(
            schemas.get(&name).is_none_or(|known| *known == schema),
            "{name} is written and read differently: give one of the two another name"
        );
        schemas.insert(name, schema);
    }
    schemas.insert("Refusal".into(), problem::schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Redrive",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:7337" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": {
                "Refusal": {
                    "description": "A refusal",
                    "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Refusal" } } },
                },
            },
        },
    })
}

fn told(
    path: &str,
    operation: &Operation,
    requests: &mut SchemaGenerator,
    answers: &mut SchemaGenerator,
) -> Value {
    let mut parameters: Vec<Value> = in_path(path).map(|name| place(name, "path", operation)).collect();
    parameters.extend(operation.query.iter().map(|name| place(name, "query", operation)));
    parameters.extend(operation.headers.iter().map(|name| place(name, "header", operation)));
    let answer = json!({ "description": "Done", "content": content(&[operation.answer], answers) });
    let mut told = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": {
            operation.status.to_string(): answer,
            "default": { "$ref": "#/components/responses/Refusal" },
        },
    });
    if let Some(more) = operation.more {
        told["description"] = json!(more);
    }
    if !parameters.is_empty() {
        told["parameters"] = parameters.into();
    }
    if !operation.request.is_empty() {
        told["requestBody"] = json!({ "content": content(&operation.request, requests) });
    }
    if operation.open {
        told["security"] = json!([]);
    }
    told
}

/// The names in a path such as `/v1/messages/{id}`.
fn in_path(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn place(name: &str, place: &str, operation: &Operation) -> Value {
    let mut told = if place == "path" { named(name) } else { parameter(name) };
    told["name"] = json!(name);
    told["in"] = json!(place);
    if place == "path" {
        told["required"] = json!(true);
    }
    if let Some((_, values)) = operation.choices.filter(|(choice, _)| *choice == name) {
        told["schema"]["enum"] = values.split(", ").collect();
    }
    told
}

fn named(name: &str) -> Value {
    let text = match name {
        "queue" => "The name of the queue",
        "flow" => "The name of the flow",
        "order" => "Whether to hold it or to let it go on",
        "deed" => "What to do",
        "verb" => "How to steer it",
        "id" => "The id of the entry or of its message; of a group, or of a replay",
        other => other,
    };
    json!({ "schema": { "type": "string" }, "description": text })
}

fn content(all: &[Content], schemas: &mut SchemaGenerator) -> Value {
    let mut told = Map::new();
    for one in all {
        let (kind, media) = match one {
            Content::Json(schema) => ("application/json", json!({ "schema": schema(schemas) })),
            Content::Lines(schema) => ("application/x-ndjson", json!({ "schema": schema(schemas) })),
            Content::Bytes => ("*/*", json!({})),
            Content::Text => ("text/plain", json!({ "schema": { "type": "string" } })),
        };
        told.insert(kind.to_owned(), media);
    }
    told.into()
}
