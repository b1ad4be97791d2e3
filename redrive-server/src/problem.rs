//! How the API says no: one shape for every refusal, for programs by its code and for people by its words.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use redrive_engine::port::{PortError, Refusal};
use serde_json::{Map, Value, json};

use crate::codes::{self, Code};

/// What is quoted of a request is cut to so many characters: an answer never grows with what was sent.
const MOST_QUOTED: usize = 400;

/// A refusal. As JSON: `{code, title, status, message, help}` and what else a code carries, such as `line`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    code: Code,
    message: String,
    help: String,
    more: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new(code: Code, message: impl AsRef<str>) -> Self {
        Self { code, message: quoted(message.as_ref()), help: String::new(), more: Map::new() }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Says on which line of a batch it was found.
    pub(crate) fn on_line(mut self, line: usize) -> Self {
        self.message = format!("line {line}: {}", self.message);
        self.with("line", line)
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn not_found(what: &str, name: &str) -> Self {
        Self::new(codes::NOT_FOUND, format!("{what} `{}` is not there", brief(name)))
    }

    pub(crate) fn missing(name: &str) -> Self {
        Self::new(codes::MISSING, format!("`{name}` is missing"))
    }

    pub(crate) fn wrong(name: &str, why: impl std::fmt::Display) -> Self {
        Self::new(codes::WRONG_VALUE, format!("`{name}`: {why}")).with("parameter", name)
    }
}

/// A name as it is quoted in a message.
pub(crate) fn brief(text: &str) -> String {
    if text.chars().count() <= 64 {
        return text.to_owned();
    }
    text.chars().take(63).chain(['…']).collect()
}

fn quoted(text: &str) -> String {
    text.chars().take(MOST_QUOTED).collect()
}

/// The shape of every refusal.
pub(crate) fn schema() -> Value {
    let codes: Vec<&str> = codes::ALL.iter().filter(|code| code.status() > 0).map(|code| code.id()).collect();
    json!({
        "type": "object",
        "description": "A refusal: `code` for programs, the rest for people.",
        "required": ["code", "title", "status", "message", "help"],
        "additionalProperties": false,
        "properties": {
            "code": { "type": "string", "enum": codes, "description": "Its page is docs/errors/<code>.md." },
            "title": { "type": "string", "description": "What the code means." },
            "status": { "type": "integer", "description": "The HTTP status." },
            "message": { "type": "string", "description": "What is wrong." },
            "help": { "type": "string", "description": "The way out." },
            "parameter": { "type": "string", "description": "The parameter or key it is about." },
            "limit": { "type": "integer", "description": "The limit that is exceeded." },
            "line": { "type": "integer", "description": "The line of a batch on which it was found first." },
            "lines": {
                "type": "array",
                "description": "What became of each line of a batch: its id, or why it was refused.",
                "items": {
                    "type": "object",
                    "required": ["line"],
                    "additionalProperties": false,
                    "properties": {
                        "line": { "type": "integer" },
                        "id": { "type": "string" },
                        "code": { "type": "string", "enum": codes },
                        "message": { "type": "string" },
                    },
                },
            },
        },
    })
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NotFound { .. } => codes::NOT_FOUND,
            Refusal::State(_) => codes::WRONG_STATE,
            Refusal::Limit(_) => codes::LIMIT,
            Refusal::Duplicate(_) => codes::DUPLICATE,
            Refusal::Invalid(_) => codes::REFUSED,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<PortError> for Problem {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Unavailable(why) => Self::new(codes::UNAVAILABLE, why)
                .help("nothing was changed; the same request can be sent again"),
            PortError::Refused(refusal) => refusal.into(),
            PortError::Broken(why) => {
                tracing::error!(%why, "what is stored cannot be read");
                Self::new(codes::BROKEN, why).help("`redrive ledger check` says what is wrong with the file")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let help =
            if self.help.is_empty() { format!("docs/errors/{}.md says more", self.code) } else { self.help };
        let mut object = self.more;
        object.insert("code".into(), json!(self.code.id()));
        object.insert("title".into(), json!(self.code.title()));
        object.insert("status".into(), json!(status.as_u16()));
        object.insert("message".into(), json!(self.message));
        object.insert("help".into(), json!(help));
        let mut response = (status, Value::Object(object).to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
