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
    let at = |partition, offset| lies(record::place(&name, partition, offset));
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
    assert_eq!(fetch(&look, &lies(record::place(&gone, 0, 0))).await.unwrap(), None);
    let other = lies(SourceRef { kind: "rabbitmq".into(), ..at(1, 0).place });
    assert_eq!(fetch(&look, &other).await.unwrap(), None);
}

fn lies(place: SourceRef) -> Original {
    Original { place, at: None, key: None, keyless: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_message_at_the_same_place_is_not_the_original() {
    let Some(place) = Place::new() else { return };
    place.source(1).await;
    let topic = place.flow.topics[0].clone();
    place.write_at(&topic, 0, "body", 1_700_000_000_000).await;
    let look = place.look();
    let found = async |at: Option<i64>, key: Option<&'static str>, keyless: bool| {
        let original = Original {
            place: record::place(&topic.as_str().into(), 0, 0),
            at: at.map(Timestamp::from_millis),
            key: key.map(Bytes::from),
            keyless,
        };
        fetch(&look, &original).await.unwrap().is_some()
    };
    let time = Some(1_700_000_000_000);
    assert!(found(time, Some("key"), true).await);
    assert!(
        found(None, Some("key"), true).await && found(time, None, false).await,
        "what is not said may be anything"
    );
    assert!(!found(Some(1_700_000_000_001), Some("key"), true).await, "another time");
    assert!(!found(time, Some("other"), false).await, "another key");
    assert!(!found(time, None, true).await, "no key");
}

#[test]
fn a_message_is_known_by_its_time_and_by_a_key_that_is_told() {
    let flow =
        KafkaFlow { foreign: vec!["orders.DLT".to_owned()], ..KafkaFlow::new("orders", "", "orders", "w") };
    let at = Some(Timestamp::from_millis(1_700_000_000_000));
    let origin = Origin { timestamp: at, ..Origin::default() };
    let mut copy =
        found("orders.retry.10s", None, Trail { origin, entry_id: Some("e".into()), ..Trail::default() });
    copy.message.headers.push(BODY_AT, "orders/0/7");
    let original = Original::of(&flow, &copy).unwrap();
    assert_eq!(
        (original.at, original.key, original.keyless),
        (at, None, true),
        "a copy has its original's key, also when that is none"
    );
    copy.message.key = Some("k".into());
    assert_eq!(Original::of(&flow, &copy).unwrap().key, Some("k".into()));
    let mut foreign = found("orders.DLT", None, Trail::default());
    for (name, value) in [("topic", "orders"), ("partition", "0"), ("offset", "7")] {
        foreign.message.headers.push(format!("__dlq.errors.{name}"), value);
    }
    let original = Original::of(&flow, &foreign).unwrap();
    assert_eq!(
        (original.at, original.key, original.keyless),
        (None, None, false),
        "what another system leaves out says nothing"
    );
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
