use redrive_core::Headers;
use redrive_core::headers::{Origin, Trail};
use redrive_engine::port::{Carried, Tag};

use super::*;
use crate::look::tests::Place;
use crate::record;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_found_by_its_place_alone() {
    let Some(place) = Place::new() else { return };
    place.source(2).await;
    let topic = place.flow.topics[0].clone();
    let mut headers = Headers::new();
    headers.push("type", "A");
    headers.push_header("nothing", None);
    let offsets = place
        .write(
            &topic,
            1,
            vec![(Some("first"), Headers::new()), (Some("second"), headers.clone()), (None, headers.clone())],
        )
        .await;
    place.write_in_transaction(&topic, 1, "fourth").await;
    let look = place.look();
    let name: Arc<str> = topic.as_str().into();
    let at = |partition, offset| record::place(&name, partition, offset);
    let second = fetch(&look, &at(1, offsets[1])).await.unwrap().unwrap();
    assert_eq!((second.body.as_deref(), second.key.as_deref()), (Some(&b"second"[..]), Some(&b"key"[..])));
    assert_eq!(second.headers, headers);
    let tombstone = fetch(&look, &at(1, offsets[2])).await.unwrap().unwrap();
    assert_eq!(tombstone.body, None);
    // The mark of a transaction, what is not there yet, another partition, another topic, another broker.
    assert_eq!(fetch(&look, &at(1, 4)).await.unwrap(), None);
    assert_eq!(fetch(&look, &at(1, 99)).await.unwrap(), None);
    assert_eq!(fetch(&look, &at(0, 0)).await.unwrap(), None);
    assert_eq!(fetch(&look, &at(7, 0)).await.unwrap(), None);
    let gone: Arc<str> = format!("{name}.none").into();
    assert_eq!(fetch(&look, &record::place(&gone, 0, 0)).await.unwrap(), None);
    let other = SourceRef { kind: "rabbitmq".into(), ..at(1, 0) };
    assert_eq!(fetch(&look, &other).await.unwrap(), None);
}

fn found(topic: &str, body: Option<&'static [u8]>, trail: Trail) -> Delivery {
    let name: Arc<str> = topic.into();
    Delivery::from(DeliveryParts {
        tag: Tag::APART,
        message: Message { body: body.map(bytes::Bytes::from_static), ..Message::default() },
        trail: Carried::from(trail),
        source: record::place(&name, 0, 0),
        ready_at: Timestamp::from_millis(0),
        redelivered: false,
    })
}

#[test]
fn a_header_is_followed_only_into_the_flows_own_topics() {
    let flow = KafkaFlow::new("orders", "localhost:9092", "orders/eu", "worker");
    let mut pointer = found("orders.retry.10s", None, Trail::default());
    assert_eq!(body_place(&flow, &pointer), None);
    for (text, expected) in [
        ("orders/eu/3/42", Some((3, 42))),
        ("salaries/3/42", None),
        ("orders/eu/3/x", None),
        ("orders/eu/3", None),
        ("", None),
        ("/", None),
    ] {
        pointer.message.headers.set(BODY_AT, text);
        let place = body_place(&flow, &pointer);
        let at = place.as_ref().and_then(|place| Some((place.partition?, place.offset?)));
        assert_eq!(at, expected, "{text}");
    }
    // One that has its body needs no other.
    pointer.message.headers.set(BODY_AT, "orders/eu/3/42");
    pointer.message.body = Some("x".into());
    assert_eq!(body_place(&flow, &pointer), None);
}

#[test]
fn a_dead_letter_without_its_body_names_the_original() {
    let flow = KafkaFlow::new("orders", "localhost:9092", "orders", "worker");
    let origin =
        Origin { topic: Some("orders".into()), partition: Some(3), offset: Some(42), timestamp: None };
    let trail = Trail { origin, entry_id: Some("e".into()), ..Trail::default() };
    let envelope = redrive_core::Envelope::new("m".into(), "orders", &redrive_core::Facts::default(), &trail);
    let mut dead = found("orders.dlq", None, trail);
    dead.message.content_type = Some("application/json".into());
    dead.message.body = Some(serde_json::to_vec(&envelope).unwrap().into());
    let place = body_place(&flow, &dead).unwrap();
    assert_eq!((&*place.name, place.partition, place.offset), ("orders", Some(3), Some(42)));
    let full = envelope.around(&Message { body: Some("x".into()), ..Message::default() });
    dead.message.body = Some(serde_json::to_vec(&full).unwrap().into());
    assert_eq!(body_place(&flow, &dead), None);
}
