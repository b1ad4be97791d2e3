//! The document of the API says what is served, and nothing else. That each request and each answer of the other tests
//! fits it is checked where they are made.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::Request;
use bytes::Bytes;
use serde_json::{Value, json};
use support::document::{DOCUMENT, misfit, template};
use support::{World, call, get, over_tcp};

/// Every call of the document: its path, its method, and what is said of it.
fn calls() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    DOCUMENT["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(|(method, call)| (path.as_str(), method.as_str(), call))
    })
}

fn names(call: &Value, place: &str) -> BTreeSet<String> {
    let all = call["parameters"].as_array().into_iter().flatten();
    let there = all.filter(|parameter| parameter["in"] == place);
    there.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
}

/// A path with something in the place of each name.
fn filled(path: &str, call: &Value) -> String {
    let mut filled = path.to_owned();
    for parameter in call["parameters"].as_array().into_iter().flatten() {
        let value = parameter["schema"]["enum"][0].as_str().unwrap_or("m-1");
        filled = filled.replace(&format!("{{{}}}", parameter["name"].as_str().unwrap()), value);
    }
    filled
}

#[tokio::test]
async fn what_is_documented_is_served_with_these_parameters() {
    let client = World::new().client();
    for (path, method, documented) in calls() {
        let filled = filled(path, documented);
        assert_eq!(template(&filled), Some(path));
        let mut request = Request::builder().method(method.to_uppercase().as_str());
        let mut body = String::new();
        let schema = &documented["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        if let Some(schema) = schema.as_str() {
            let required = &DOCUMENT.pointer(&schema[1..]).unwrap()["required"];
            let given =
                required.as_array().into_iter().flatten().map(|name| (name.as_str().unwrap(), "park"));
            body = json!(given.collect::<std::collections::BTreeMap<_, _>>()).to_string();
            request = request.header("content-type", "application/json");
        }
        let answer =
            call(&client, request.uri(format!("{filled}?nonsense=1")).body(body.into()).unwrap()).await;
        if matches!(path, "/healthz" | "/readyz" | "/metrics" | "/v1/openapi.json") {
            assert_eq!(answer.status(), 200, "{path}");
            continue;
        }
        assert_eq!(answer.problem(), (400, "RD-API-02".into()), "{method} {path}: {}", answer.text());
        let told = answer.json()["help"].as_str().unwrap().to_owned();
        let known = told.strip_prefix("known are: ").unwrap();
        let known: BTreeSet<String> = match known {
            "none is taken here" => BTreeSet::new(),
            known => known.split(", ").map(str::to_owned).collect(),
        };
        assert_eq!(known, names(documented, "query"), "{method} {path}");
    }
}

#[tokio::test]
async fn every_choice_in_a_path_is_served_and_no_other() {
    let client = World::new().client();
    let mut choices = 0;
    for (path, _, documented) in calls() {
        for parameter in documented["parameters"].as_array().into_iter().flatten() {
            let place = format!("{{{}}}", parameter["name"].as_str().unwrap());
            let values = parameter["schema"]["enum"].as_array().into_iter().flatten();
            for value in values.map(|value| (value.as_str().unwrap(), true)).chain([("nonsense", false)]) {
                if parameter["schema"]["enum"].is_null() {
                    continue;
                }
                choices += 1;
                let uri =
                    path.replace(&place, value.0).replace("{id}", "00000000-0000-0000-0000-000000000000");
                let answer = call(&client, Request::post(uri).body(Bytes::new()).unwrap()).await;
                assert_eq!(answer.problem().1 != "RD-API-07", value.1, "{path} {value:?}: {}", answer.text());
            }
        }
    }
    assert!(choices > 10, "{choices}");
}

/// A route is added with its description; this finds one that was added past it.
#[test]
fn no_route_is_added_past_the_document() {
    let code = testkit::code::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let adds = |code: &str| {
        [".route(", ".route_service(", ".nest(", ".merge("].iter().any(|call| code.contains(call))
    };
    let found: Vec<_> =
        code.iter().filter(|(path, code)| adds(code) && !path.ends_with("openapi/mod.rs")).collect();
    let found: Vec<_> = found.iter().map(|(path, _)| path).collect();
    assert!(found.is_empty(), "{found:?} add routes without a word in the document");
}

#[test]
fn the_document_is_sound() {
    let mut ids = BTreeSet::new();
    for (path, method, call) in calls() {
        assert!(ids.insert(call["operationId"].as_str().unwrap()), "{method} {path}");
        let in_path: BTreeSet<String> = path
            .split('/')
            .filter_map(|part| Some(part.strip_prefix('{')?.strip_suffix('}')?.to_owned()))
            .collect();
        assert_eq!(names(call, "path"), in_path, "{method} {path}");
        let open = matches!(path, "/healthz" | "/readyz");
        assert_eq!(call["security"].is_array(), open, "{method} {path}");
    }
    // Every schema can be read, and every reference in it leads somewhere.
    for name in DOCUMENT["components"]["schemas"].as_object().unwrap().keys() {
        let place = format!("/components/schemas/{name}");
        assert!(misfit(&json!(false), &place).is_some(), "{name} takes anything");
    }
    for parameter in calls().flat_map(|(_, _, call)| call["parameters"].as_array().into_iter().flatten()) {
        assert_ne!(parameter["name"], parameter["description"], "it is described");
    }
}

#[tokio::test]
async fn the_document_needs_the_token_like_the_rest() {
    let world = World::new();
    let listening = world.listen().await;
    let request = Request::get("/v1/openapi.json").header("host", "localhost").body(Bytes::new()).unwrap();
    assert_eq!(over_tcp(listening.address(), request).await.problem(), (401, "RD-API-05".into()));
    let answer = listening.send(get("/v1/openapi.json")).await;
    assert_eq!(answer.json(), *DOCUMENT);
}

#[test]
fn the_page_lists_every_call() {
    let page = include_str!("../../docs/api.md");
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let documented: Vec<String> = calls()
        .map(|(path, method, call)| {
            let summary = call["summary"].as_str().unwrap();
            format!("| `{} {path}` | {summary} |", method.to_uppercase())
        })
        .collect();
    assert_eq!(listed, documented, "docs/api.md should have:\n{}", documented.join("\n"));
    for parameter in calls().flat_map(|(_, _, call)| call["parameters"].as_array().into_iter().flatten()) {
        let Some(values) = parameter["schema"]["enum"].as_array() else { continue };
        let values: Vec<&str> = values.iter().map(|value| value.as_str().unwrap()).collect();
        let told = format!("`{{{}}}` is one of {}", parameter["name"].as_str().unwrap(), values.join(", "));
        assert!(page.contains(&told), "docs/api.md should say: {told}");
    }
}
