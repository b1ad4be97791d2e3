//! The document of the API, and whether what was said over it fits.

use std::cell::RefCell;
use std::sync::LazyLock;

use axum::http::{HeaderMap, Method, Request};
use boon::{Compiler, Schemas};
use bytes::Bytes;
use serde_json::Value;

use super::{Answer, World};

const NAME: &str = "mem:///openapi.json";

/// The document as it is served.
pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    // Tests run in a runtime of their own, which must not be blocked.
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = Request::get("/v1/openapi.json").body(Bytes::new()).unwrap();
        let answer = runtime.block_on(async { World::new().client().call(request).await.unwrap() });
        assert_eq!(answer.status(), 200);
        serde_json::from_slice(answer.body()).unwrap()
    };
    std::thread::spawn(ask).join().unwrap()
});

thread_local! {
    /// What this thread has read of it.
    static READ: RefCell<(Compiler, Schemas)> = RefCell::new({
        let mut compiler = Compiler::new();
        compiler.add_resource(NAME, DOCUMENT.clone()).unwrap();
        (compiler, Schemas::new())
    });
}

/// Why a value does not fit the schema at a place of the document.
pub(crate) fn misfit(value: &Value, place: &str) -> Option<String> {
    READ.with_borrow_mut(|(compiler, schemas)| {
        let schema = compiler.compile(&format!("{NAME}#{place}"), schemas).unwrap();
        schemas.validate(value, schema).err().map(|error| format!("{error:#}"))
    })
}

#[track_caller]
fn fits(value: &Value, place: &str) {
    if let Some(why) = misfit(value, place) {
        panic!("{place} does not hold:\n{why}\nfor {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('~', "~0").replace('/', "~1")
}

/// The path of the document that serves this one: a written name goes before a variable.
pub(crate) fn template(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').collect();
    let templates = DOCUMENT["paths"].as_object().unwrap().keys();
    let fitting = templates.filter(|template| {
        let names: Vec<&str> = template.split('/').collect();
        let fits = |(name, part): (&&str, &&str)| name.starts_with('{') || name == part;
        names.len() == parts.len() && names.iter().zip(&parts).all(fits)
    });
    fitting.min_by_key(|template| template.matches('{').count()).map(String::as_str)
}

/// What was asked.
pub(crate) struct Asked {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Asked {
    pub(crate) fn of(request: &Request<Bytes>) -> Self {
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            headers: request.headers().clone(),
            body: request.body().clone(),
        }
    }

    /// A refusal has its shape; what was done was asked for and is answered as the document says.
    #[track_caller]
    pub(crate) fn check(&self, answer: &Answer) {
        let status = answer.status();
        if !status.is_success() {
            return fits(&answer.json(), "/components/schemas/Refusal");
        }
        let method = self.method.as_str().to_lowercase();
        let template = template(&self.path).unwrap_or_else(|| panic!("{} is not documented", self.path));
        let place = format!("/paths/{}/{method}", escaped(template));
        let documented = DOCUMENT.pointer(&place).unwrap_or_else(|| panic!("{place} is not documented"));
        let answers = &documented["responses"][status.as_str()]["content"];
        let kind = answer.header("content-type").unwrap_or_default().split(';').next().unwrap();
        let kinds: Vec<&String> =
            answers.as_object().unwrap_or_else(|| panic!("{place}: {status}")).keys().collect();
        assert!(kinds.iter().any(|known| *known == kind || *known == "*/*"), "{place}: {kind} of {kinds:?}");
        if answers[kind]["schema"].is_object() && kind == "application/json" {
            let place = format!("{place}/responses/{}/content/application~1json/schema", status.as_str());
            fits(&answer.json(), &place);
        }
        self.check_request(documented, &place);
    }

    fn check_request(&self, documented: &Value, place: &str) {
        let given = self.headers.get("content-type").map_or("", |kind| kind.to_str().unwrap());
        let given = given.split(';').next().unwrap();
        let bodies = &documented["requestBody"]["content"];
        // What comes with a call that takes no body is not looked at.
        if self.body.is_empty() || bodies.is_null() {
            return;
        }
        if bodies[given].is_null() {
            assert!(bodies["*/*"].is_object(), "{place}: a body {given}");
            return;
        }
        let place = format!("{place}/requestBody/content/{}/schema", escaped(given));
        let lines: Vec<&[u8]> = match given {
            "application/x-ndjson" => self.body.split(|byte| *byte == b'\n').collect(),
            _ => vec![&self.body],
        };
        for line in lines.into_iter().filter(|line| !line.trim_ascii().is_empty()) {
            fits(&serde_json::from_slice(line).unwrap(), &place);
        }
    }
}
