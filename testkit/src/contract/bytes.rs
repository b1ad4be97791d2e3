//! The bytes, the key and the headers come back as they went in.

use bytes::Bytes;
use redrive_core::headers::Field;
use redrive_core::{Header, Headers, Message};
use redrive_engine::port::{EntryState, NewMessage};
use serde_json::json;

use super::{Fixture, Stage, not_applicable};
use crate::handler::Step;

/// Sends a message through a first attempt, a delayed one, the dead letters and back, and gives all that was seen.
async fn goes_round(stage: &Stage<'_>, message: NewMessage) -> Vec<Message> {
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.otherwise(Step::status(503));
    let id = stage.publish_message(message).await;
    stage.stands(&id, EntryState::Dead).await;
    stage.handler.otherwise(Step::Succeed);
    stage.done(redrive_engine::port::Deed::RetryNow, &id).await;
    stage.stands(&id, EntryState::Recovered).await;
    stage.drained().await;
    stage.ends(flow).await;
    let seen: Vec<Message> = stage.handler.calls_of(&id).into_iter().map(|call| call.message).collect();
    assert_eq!(seen.len(), 3);
    seen
}

async fn comes_back(fixture: &impl Fixture, body: Option<Bytes>) {
    let stage = Stage::open(fixture).await;
    let key = Some(Bytes::from_static(&[0, 0xff, 0xfe, b'k']));
    let content_type = Some("application/x-thing; v=1".to_owned());
    let message = NewMessage {
        id: Some("a".to_owned()),
        body: body.clone(),
        key: key.clone(),
        content_type: content_type.clone(),
        ..NewMessage::default()
    };
    for seen in goes_round(&stage, message).await {
        assert!(seen.body == body, "the body came back changed");
        assert_eq!(seen.key, key);
        assert_eq!(seen.content_type.as_deref(), content_type.as_deref());
    }
}

/// Any bytes, in the body and the key.
pub async fn any_bytes_come_back(fixture: &impl Fixture) {
    comes_back(fixture, Some((0..=255).collect::<Vec<u8>>().repeat(3).into())).await;
}

/// An empty body stays an empty one.
pub async fn an_empty_body_comes_back(fixture: &impl Fixture) {
    comes_back(fixture, Some(Bytes::new())).await;
}

/// A tombstone stays one.
pub async fn a_null_body_comes_back(fixture: &impl Fixture) {
    if !fixture.capabilities().null_body {
        return not_applicable("a_null_body_comes_back", "the broker has no null body");
    }
    comes_back(fixture, None).await;
}

/// Ten megabytes come back.
pub async fn ten_megabytes_come_back(fixture: &impl Fixture) {
    let body: Vec<u8> =
        (0..10 * 1024 * 1024_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    comes_back(fixture, Some(body.into())).await;
}

/// Headers of others stay as they are: order, repeated names, nulls, bytes that are no text.
pub async fn foreign_headers_are_untouched(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut headers = Headers::new();
    headers.push("b", "1");
    headers.push("a", vec![0xff, 0x00, 0xfe]);
    headers.push("b", "2");
    headers.push("empty", "");
    headers.push("ä", "ü");
    let null = fixture.capabilities().null_body;
    if null {
        headers.push_header("null", None);
    }
    headers.push("X-Retry-Attempt", "not ours: names are exact");
    let message = NewMessage { id: Some("a".to_owned()), headers: headers.clone(), ..NewMessage::default() };
    for seen in goes_round(&stage, NewMessage { body: Some("x".into()), ..message }).await {
        let brought = stage.brought(&seen.headers);
        let foreign: Vec<&Header> =
            brought.iter().filter(|header| Field::of(header.name.as_str()).is_none()).collect();
        assert_eq!(foreign, headers.iter().collect::<Vec<_>>());
    }
}

/// Our own headers replace themselves; they never pile up, and what came from outside is bounded.
pub async fn own_headers_never_pile_up(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": format!("{} x3", stage.ticks(1)) })).await;
    stage.handler.otherwise(Step::status(503));
    stage.publish("a").await;
    stage.stands("a", EntryState::Dead).await;
    let calls = stage.handler.calls_of("a");
    assert_eq!(calls.len(), 4);
    for (made, call) in calls.iter().enumerate().skip(1) {
        let own = |field: Field| {
            let named = call.message.headers.iter().filter(|header| header.name.as_str() == field.name());
            named.map(|header| header.value.clone().unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(own(Field::RetryAttempt), [made.to_string()]);
        assert_eq!(own(Field::DelayCounter), [made.to_string()]);
        assert_eq!(own(Field::RetryMax), ["4"]);
        assert_eq!(own(Field::OriginalTopic), [stage.address("orders")]);
        assert_eq!(own(Field::FailureClass), ["TRANSIENT"]);
        assert_eq!(own(Field::ApiStatusCode), ["503"]);
        assert_eq!(own(Field::IdempotencyKey), ["a"]);
        for field in Field::ALL {
            assert!(own(*field).len() <= 1, "{field:?} piles up");
        }
    }
    let entry_ids: Vec<_> =
        calls[1..].iter().map(|call| call.message.headers.get("x-entry-id").cloned()).collect();
    assert!(entry_ids[0].is_some() && entry_ids.iter().all(|id| *id == entry_ids[0]));
    stage.ends(flow).await;
}

/// Headers that pretend to be ours are bounded and believed no further: no panic, no loss.
pub async fn forged_headers_do_no_harm(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    let forged = [
        ("x-retry-attempt", "99999999999999999999"),
        ("x-delay-counter", "-3"),
        ("x-entry-id", "not an id"),
        ("x-replay-id", "nor this"),
        ("x-first-failure-timestamp", "yesterday"),
        ("x-delay-total-ms", "NaN"),
    ];
    stage.handler.on("a", [Step::status(503)]);
    stage.publish_message(super::stage::with_headers("a", &forged)).await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(entry.message.id, "a");
    assert_eq!(stage.handler.calls_of("a").len(), 1);
    stage.ends(flow).await;
}
