//! The parking-lot envelope as the documents show it, and read from anything at all.

use bytes::Bytes;
use proptest::prelude::*;
use redrive_core::headers::Trail;
use redrive_core::{
    Class, Envelope, EnvelopeError, Facts, Headers, Message, Payload, Reason, RejectionEvent, Text, Timestamp,
};
use serde_json::{Value, json};

fn documented() -> Value {
    json!({
        "messageId": "msg-9e117",
        "correlationId": "corr-214",
        "causationId": "cmd-883",
        "messageType": "CreateOrderCommand",
        "schemaVersion": "2026-07-01",
        "producer": "checkout-api",
        "consumer": "order-command-worker",
        "aggregateId": "order-771",
        "firstFailureAt": "2026-07-01T09:10:00Z",
        "lastFailureAt": "2026-07-01T09:43:00Z",
        "attemptCount": 6,
        "failureClass": "PERMANENT_TECHNICAL",
        "failureReason": "UNSUPPORTED_SCHEMA_VERSION",
        "handlerVersion": "order-worker:2.17.4",
        "replayPolicy": "AFTER_SCHEMA_FIX_ONLY"
    })
}

fn envelope() -> Envelope {
    let own = |text: &str| Some(Text::from(text));
    let facts = Facts {
        message_type: own("CreateOrderCommand"),
        schema: own("2026-07-01"),
        producer: own("checkout-api"),
        entity: own("order-771"),
        correlation: own("corr-214"),
        ..Facts::default()
    };
    let trail = Trail {
        attempt: 6,
        first_failure_at: "2026-07-01T09:10:00Z".parse().ok(),
        last_failure_at: "2026-07-01T09:43:00Z".parse().ok(),
        class: Some(Class::PermanentTechnical),
        reason: Some(Reason::UNSUPPORTED_SCHEMA_VERSION),
        handler_version: own("order-worker:2.17.4"),
        correlation_id: own("the fact comes first"),
        causation_id: own("cmd-883"),
        ..Trail::default()
    };
    Envelope {
        replay_policy: own("AFTER_SCHEMA_FIX_ONLY"),
        ..Envelope::new("msg-9e117".into(), "order-command-worker", &facts, &trail)
    }
}

fn message() -> Message {
    let mut headers = Headers::new();
    headers.push("type", "CreateOrderCommand");
    headers.push("type", "again");
    headers.push("binary", vec![0xff, 0]);
    headers.push_header("null", None);
    headers.push("empty", "");
    Message { body: Some(Bytes::from_static(b"\x00body")), headers, ..Message::default() }
}

#[test]
fn prints_the_documents_example() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&envelope()).unwrap());
    assert_eq!(serde_json::to_value(envelope()).unwrap(), documented());
    assert_eq!(Envelope::from_json(documented().to_string().as_bytes()), Ok(envelope()));
}

#[test]
fn what_is_unknown_is_null_and_never_missing() {
    let bare = Envelope::new("m".into(), "orders", &Facts::default(), &Trail::default());
    let printed = serde_json::to_value(&bare).unwrap();
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&printed), fields(&documented()));
    assert_eq!(printed["failureReason"], "UNKNOWN_FAILURE");
    assert_eq!(printed["producer"], Value::Null);
    assert_eq!(Envelope::from_json(printed.to_string().as_bytes()), Ok(bare));
}

#[test]
fn carries_the_message_it_is_around() {
    let around = envelope().around(&message());
    let printed = serde_json::to_string_pretty(&around).unwrap();
    insta::assert_snapshot!(printed);
    assert_eq!(Envelope::from_json(printed.as_bytes()), Ok(around));

    let tombstone = envelope().around(&Message::default());
    let printed = serde_json::to_vec(&tombstone).unwrap();
    let read = Envelope::from_json(&printed).unwrap();
    assert_eq!((read.payload, read.headers), (Some(Payload::Tombstone), Some(Headers::new())));
}

#[test]
fn the_rejection_event_is_a_cloud_event() {
    let at = Timestamp::from_millis(1_782_896_400_000);
    let event = RejectionEvent::new("e-1".into(), "kafka://main/orders".into(), at, envelope());
    insta::assert_snapshot!(serde_json::to_string_pretty(&event).unwrap());
}

#[test]
fn hostile_envelopes_are_refused_by_field() {
    let change = |field: &str, value: Value| {
        let mut envelope = documented();
        envelope[field] = value;
        Envelope::from_json(envelope.to_string().as_bytes())
    };
    assert_eq!(change("messageId", "".into()), Err(EnvelopeError::Field("messageId")));
    assert_eq!(change("producer", "p".repeat(257).into()), Err(EnvelopeError::Field("producer")));
    assert_eq!(change("attemptCount", 4_000_000_000_u32.into()), Err(EnvelopeError::Field("attemptCount")));
    let many: Vec<Value> = (0..1_001).map(|_| json!({ "name": "n" })).collect();
    assert_eq!(change("headers", many.into()), Err(EnvelopeError::Field("headers")));
    for (field, value) in [
        ("attemptCount", json!(-1)),
        ("attemptCount", json!(1e300)),
        ("failureClass", json!("WRONG")),
        ("failureReason", json!("x".repeat(100_000))),
        ("firstFailureAt", json!("yesterday")),
        ("payload_base64", json!("*")),
        ("headers", json!([{ "name": "n", "value_base64": "*" }])),
    ] {
        let error = change(field, value).unwrap_err();
        assert!(matches!(&error, EnvelopeError::Shape(why) if why.chars().count() <= 256), "{error}");
    }
    assert!(change("aFieldOfALaterVersion", json!([1])).is_ok());
}

#[cfg(feature = "schema")]
#[test]
fn the_schema_names_every_field() {
    let schema = serde_json::to_value(schemars::schema_for!(Envelope)).unwrap();
    let mut expected: Vec<_> = documented().as_object().unwrap().keys().cloned().collect();
    expected.extend(["payload_base64".to_owned(), "headers".to_owned()]);
    expected.sort();
    let mut named: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    named.sort();
    assert_eq!(named, expected);
    let required = ["messageId", "consumer", "attemptCount", "failureClass", "failureReason"];
    assert_eq!(schema["required"], json!(required));
    assert_eq!(schema["properties"]["payload_base64"]["type"], json!(["string", "null"]));
}

proptest! {
    #[test]
    fn no_bytes_panic_the_reader(bytes: Vec<u8>, field in proptest::sample::select(vec![
        "messageId", "firstFailureAt", "attemptCount", "failureClass", "payload_base64", "headers",
    ]), text: String) {
        let _ = Envelope::from_json(&bytes);
        let mut hostile = documented();
        hostile[field] = text.into();
        let _ = Envelope::from_json(hostile.to_string().as_bytes());
    }

    #[test]
    fn any_body_and_headers_read_back(body: Option<Vec<u8>>, pairs: Vec<(String, Option<Vec<u8>>)>) {
        let mut headers = Headers::new();
        for (name, value) in pairs {
            headers.push_header(name, value.map(Bytes::from));
        }
        let around = envelope().around(&Message { body: body.map(Bytes::from), headers, ..Message::default() });
        let printed = serde_json::to_vec(&around).unwrap();
        prop_assert_eq!(Envelope::from_json(&printed), Ok(around));
    }
}
