//! The two lines of the protocol: the call that goes in, the answer that comes out.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use redrive_core::{Failure, Message, Reason, Timestamp, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::handler::{Attempted, Charge, Context};

/// A message as the process reads it.
#[derive(Debug, Serialize)]
struct Call<'a> {
    id: &'a str,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    headers: BTreeMap<&'a str, Option<&'a str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers_base64: BTreeMap<&'a str, String>,
    #[serde(flatten)]
    body: Body<'a>,
    deadline: Timestamp,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Body<'a> {
    Body(Option<&'a str>),
    BodyBase64(String),
}

/// The line for a call, with its end.
pub(super) fn call_line(message: &Message, context: &Context) -> serde_json::Result<Vec<u8>> {
    let mut headers = BTreeMap::new();
    let mut headers_base64 = BTreeMap::new();
    for header in &message.headers {
        let name = header.name.as_str();
        // The last one of a name counts, whichever of the two it is written into.
        headers.remove(name);
        headers_base64.remove(name);
        match header.value.as_deref().map(std::str::from_utf8) {
            None => _ = headers.insert(name, None),
            Some(Ok(text)) => _ = headers.insert(name, Some(text)),
            Some(Err(_)) => {
                _ = headers_base64.insert(name, STANDARD.encode(header.value.as_deref().unwrap_or_default()));
            }
        }
    }
    let (key, key_base64) = match message.key.as_deref() {
        None => (None, None),
        Some(key) => match std::str::from_utf8(key) {
            Ok(text) => (Some(text), None),
            Err(_) => (None, Some(STANDARD.encode(key))),
        },
    };
    let body = match message.body.as_deref() {
        None => Body::Body(None),
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Body::Body(Some(text)),
            Err(_) => Body::BodyBase64(STANDARD.encode(bytes)),
        },
    };
    let call = Call {
        id: &message.id,
        attempt: context.attempt,
        key,
        key_base64,
        headers,
        headers_base64,
        body,
        deadline: context.deadline,
    };
    let mut line = serde_json::to_vec(&call)?;
    line.push(b'\n');
    Ok(line)
}

/// An answer, as far as it can be told whose it is.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) id: String,
    /// The attempt that it answers, when the process says so.
    pub(super) attempt: Option<u64>,
    fields: serde_json::Map<String, Value>,
}

impl Answer {
    /// Reads a line; nothing when it is no object with an id.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(line) else { return None };
        let Some(Value::String(id)) = fields.remove("id") else { return None };
        let attempt = fields.get("attempt").and_then(Value::as_u64);
        Some(Self { id, attempt, fields })
    }

    /// What the answer means. `pass_over` is told of each field that is not understood.
    ///
    /// A verdict that nobody knows, without an error beside it, is a failure and no success: it was meant to say
    /// something, and an acknowledged message is gone.
    pub(super) fn meaning(&self, mut pass_over: impl FnMut(&str)) -> Attempted {
        let field = |name: &str| self.fields.get(name).filter(|value| !value.is_null());
        let verdict =
            field("verdict").map(|value| value.as_str().and_then(|text| text.parse::<Verdict>().ok()));
        let error = field("error");
        let reason = field("reason").map(|value| value.as_str().and_then(|text| Reason::new(text).ok()));
        let [calls, cost] = ["calls_used", "cost"].map(|name| {
            let read = field(name).map(|value| value.as_u64().map(Charge::bounded));
            if read == Some(None) {
                pass_over(name);
            }
            read.flatten()
        });
        let charge = Charge { calls: calls.unwrap_or(1).max(1), cost: cost.unwrap_or(0) };
        if reason == Some(None) {
            pass_over("reason");
        }
        let failure = match (&verdict, error) {
            (Some(Some(Verdict::Ack)), _) | (None, None) => return Attempted { result: Ok(()), charge },
            (Some(Some(verdict)), None) => Failure::from_message(format!("verdict `{verdict}`")),
            (Some(None), None) => {
                pass_over("verdict");
                Failure::from_message("the answer has a verdict that is not known")
            }
            (_, Some(error)) => {
                if verdict == Some(None) {
                    pass_over("verdict");
                }
                failure_of(error)
            }
        };
        let failure = match verdict.flatten() {
            Some(verdict) => failure.with_verdict(verdict),
            None => failure,
        };
        let failure = match reason.flatten() {
            Some(reason) => failure.with_reason(reason),
            None => failure,
        };
        Attempted { result: Err(Box::new(failure)), charge }
    }
}

/// An error is a text, or an object with `type` and `message`.
fn failure_of(error: &Value) -> Failure {
    let part = |name| error.get(name).and_then(Value::as_str);
    let message = match error {
        Value::String(text) => text.clone(),
        other => part("message").map_or_else(|| other.to_string(), str::to_owned),
    };
    let failure = Failure::from_message(message);
    match part("type") {
        Some(kind) => failure.with_type(kind),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::prelude::*;
    use redrive_core::Headers;

    use super::*;

    fn line(message: &Message) -> String {
        let context = Context::detached("f", 2, Duration::from_secs(30), Timestamp::from_millis(0));
        String::from_utf8(call_line(message, &context).unwrap()).unwrap()
    }

    #[test]
    fn writes_text_as_text_and_bytes_as_base64() {
        let mut headers = Headers::new();
        headers.push("type", vec![0xff]);
        headers.push("type", "OrderPlaced");
        headers.push("raw", "text");
        headers.push("raw", vec![0xff]);
        headers.push_header("nothing", None);
        let mut message =
            Message { id: "m\n1".into(), headers, body: Some("é\n".into()), ..Message::default() };
        message.key = Some("k".into());
        let expected = concat!(
            r#"{"id":"m\n1","attempt":2,"key":"k","headers":{"nothing":null,"type":"OrderPlaced"},"#,
            r#""headers_base64":{"raw":"/w=="},"body":"é\n","deadline":"1970-01-01T00:00:30Z"}"#,
            "\n"
        );
        assert_eq!(line(&message), expected);

        let raw =
            Message { key: Some(vec![0xff].into()), body: Some(vec![0xfe].into()), ..Message::default() };
        assert!(line(&raw).contains(r#""key_base64":"/w==","headers":{},"body_base64":"/g==""#));
        assert!(line(&Message::default()).contains(r#""body":null"#));
        let empty = Message { body: Some(Bytes::new()), ..Message::default() };
        assert!(line(&empty).contains(r#""body":"""#));
    }

    fn meaning(line: &str) -> (Attempted, usize) {
        let mut passed_over = 0;
        let attempted = Answer::read(line.as_bytes()).unwrap().meaning(|_| passed_over += 1);
        (attempted, passed_over)
    }

    #[test]
    fn reads_what_an_answer_means() {
        for line in [
            r#"{"id":"1"}"#,
            r#"{"id":"1","verdict":null,"error":null}"#,
            r#"{"id":"1","verdict":"ack","error":"never mind"}"#,
        ] {
            assert!(meaning(line).0.result.is_ok(), "{line}");
        }
        let (attempted, ignored) = meaning(
            r#"{"id":"1","verdict":"park","reason":"NO_STOCK","error":"none left","calls_used":3,"cost":2}"#,
        );
        let failure = attempted.result.unwrap_err();
        assert_eq!((failure.message(), failure.verdict()), ("none left", Some(&Verdict::Park)));
        assert_eq!(failure.reason().map(Reason::as_str), Some("NO_STOCK"));
        assert_eq!((attempted.charge, ignored), (Charge { calls: 3, cost: 2 }, 0));

        let (attempted, ignored) =
            meaning(r#"{"id":"1","verdict":"maybe","reason":"no code","calls_used":"3"}"#);
        assert!(attempted.result.unwrap_err().verdict().is_none());
        assert_eq!((attempted.charge.calls, ignored), (1, 3));

        let (attempted, _) = meaning(r#"{"id":"1","error":{"type":"ValueError","message":"bad"}}"#);
        let failure = attempted.result.unwrap_err();
        assert_eq!((failure.error_type(), failure.message()), (Some("ValueError"), "bad"));
        assert!(meaning(r#"{"id":"1","error":""}"#).0.result.is_err());
        assert!(meaning(r#"{"id":"1","error":[1]}"#).0.result.is_err());
    }

    proptest! {
        #[test]
        fn no_line_panics(bytes: Vec<u8>, verdict: String, number: f64) {
            let _ = Answer::read(&bytes);
            let line = serde_json::json!({"id": "1", "verdict": verdict, "calls_used": number, "error": number});
            let answer = Answer::read(line.to_string().as_bytes()).unwrap();
            let attempted = answer.meaning(|_| ());
            prop_assert!(attempted.charge.calls >= 1);
        }
    }
}
