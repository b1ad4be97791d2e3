//! What the document says of one call.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// The schema of a body, made when the document is.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A body.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// `application/json`.
    Json(SchemaOf),
    /// `application/x-ndjson`: one object a line.
    Lines(SchemaOf),
    /// Any bytes, of any content type.
    Bytes,
    /// `text/plain`.
    Text,
}

/// One call.
pub(crate) struct Operation {
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) more: Option<&'static str>,
    pub(super) query: Vec<&'static str>,
    pub(super) headers: Vec<&'static str>,
    /// A name in the path, and the values it takes.
    pub(super) choices: Option<(&'static str, &'static str)>,
    pub(super) request: Vec<Content>,
    pub(super) status: u16,
    pub(super) answer: Content,
    pub(super) open: bool,
}

impl Operation {
    /// A call that is answered with this type as JSON.
    pub(crate) fn gives<T: JsonSchema>(id: &'static str, summary: &'static str) -> Self {
        Self::new(id, summary, Content::Json(SchemaGenerator::subschema_for::<T>))
    }

    /// A call that is answered with this body.
    pub(crate) fn new(id: &'static str, summary: &'static str, answer: Content) -> Self {
        Self {
            id,
            summary,
            more: None,
            query: Vec::new(),
            headers: Vec::new(),
            choices: None,
            request: Vec::new(),
            status: 200,
            answer,
            open: false,
        }
    }

    /// There is more to say of it.
    pub(crate) fn more(mut self, text: &'static str) -> Self {
        self.more = Some(text);
        self
    }

    /// It is answered with 201.
    pub(crate) fn creates(mut self) -> Self {
        self.status = 201;
        self
    }

    /// It needs no token.
    pub(crate) fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// It takes these parameters in its query.
    pub(crate) fn query(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.query.extend(names);
        self
    }

    /// It looks at these headers.
    pub(crate) fn headers(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.headers.extend(names);
        self
    }

    /// A name in its path is one of these, which stand with commas between them.
    pub(crate) fn choice(mut self, name: &'static str, values: &'static str) -> Self {
        self.choices = Some((name, values));
        self
    }

    /// It takes this type as JSON.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.request.push(Content::Json(SchemaGenerator::subschema_for::<T>));
        self
    }

    /// It takes lines of this type.
    pub(crate) fn takes_lines<T: JsonSchema>(mut self) -> Self {
        self.request.push(Content::Lines(SchemaGenerator::subschema_for::<T>));
        self
    }

    /// It takes any bytes.
    pub(crate) fn takes_bytes(mut self) -> Self {
        self.request.push(Content::Bytes);
        self
    }
}

/// What a parameter is. A name means the same in every call.
pub(super) fn parameter(name: &str) -> Value {
    let (kind, text) = match name {
        "flow" => ("string", "The flow"),
        "state" => ("string", "One of these states, with commas between them"),
        "class" => ("string", "The class of the last failure"),
        "group" => ("string", "The failure group"),
        "key" => ("string", "The message's key"),
        "type" => ("string", "The message's type"),
        "tenant" => ("string", "The tenant"),
        "entity" => ("string", "The business entity"),
        "correlation_id" => ("string", "The correlation id"),
        "since" => ("string", "Failed last so long ago or later: `2h`, or a time in RFC 3339"),
        "until" => ("string", "Failed last before: `10m`, or a time in RFC 3339"),
        "text" => ("string", "A text in the last error"),
        "limit" => {
            return json!({ "schema": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }, "description": "At most so many" });
        }
        "after" => ("string", "Where to go on: the `next` of the page before"),
        "before" => ("integer", "Only lines with a smaller number: the `next` of the page before"),
        "id" => ("string", "The message's id; one is made when there is none"),
        "delay" => ("string", "Hand it out only after so long: `5m`"),
        "by" => ("string", "Who does it; default the token's name"),
        "reason" => ("string", "In a filter the reason of the last failure, in a deed why it is done"),
        "redrive-tombstone" => ("string", "`true`: the message has no body, which is not an empty one"),
        other => ("string", other),
    };
    json!({ "schema": { "type": kind }, "description": text })
}
