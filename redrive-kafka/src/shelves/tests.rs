use std::collections::HashSet;

use redrive_core::headers::{self, Origin, Spelling, Trail};
use redrive_core::{Envelope, Headers, Message};

use super::*;
use crate::look::tests::Place;
use crate::position::Position;

/// The headers of a copy with an entry of its own.
fn of_entry(number: u32, origin: Option<(&str, i64)>) -> Headers {
    let mut all = Headers::new();
    let origin = origin.map_or_else(Origin::default, |(topic, offset)| Origin {
        topic: Some(topic.into()),
        partition: Some(0),
        offset: Some(offset),
        timestamp: None,
    });
    let trail =
        Trail { attempt: 1, entry_id: Some(format!("entry-{number}").into()), origin, ..Trail::default() };
    headers::encode(&trail, &mut all, Spelling::Default);
    all
}

async fn all(shelves: &mut dyn Shelves, most: usize) -> Vec<Shelved> {
    let mut found = Vec::new();
    loop {
        let next = shelves.next(most).await.unwrap();
        if next.is_empty() {
            return found;
        }
        assert!(next.len() <= most);
        found.extend(next);
    }
}

fn bodies(shelved: &[Shelved]) -> Vec<String> {
    let text = |one: &Shelved| {
        one.delivery
            .message
            .body
            .clone()
            .map_or("-".to_owned(), |body| String::from_utf8_lossy(&body).into_owned())
    };
    let mut bodies: Vec<String> = shelved.iter().map(text).collect();
    bodies.sort();
    bodies
}

#[tokio::test(flavor = "multi_thread")]
async fn shelves_are_read_from_where_the_last_look_ended() {
    let Some(mut place) = Place::new() else { return };
    let flow = place.flow.flow.to_string();
    place.flow.foreign = vec![format!("{flow}.DLT"), format!("{flow}.not-there")];
    let (dead, parking, level) =
        (format!("{flow}.dlq"), format!("{flow}.parking"), format!("{flow}.retry.10s"));
    for topic in [&dead, &parking, &level, &place.flow.foreign[0]] {
        place.topic(topic, 2, &[]).await;
    }
    place.write(&dead, 0, (0..25).map(|_| (Some("dead"), of_entry(1, None))).collect()).await;
    place.write(&dead, 1, vec![(Some("dead-by-hand"), Headers::new())]).await;
    place.write_in_transaction(&dead, 1, "dead-in-transaction").await;
    place.write(&parking, 1, vec![(Some("parked"), of_entry(2, None))]).await;
    place.write(&place.flow.foreign[0], 0, vec![(Some("foreign"), Headers::new())]).await;
    place.write(&level, 0, (0..5).map(|_| (Some("passed"), of_entry(3, None))).collect()).await;
    place
        .write(&level, 0, vec![(Some("waits"), of_entry(4, None)), (Some("passed"), of_entry(5, None))])
        .await;
    // What the retry group has finished does not wait any more, also beyond its lowest.
    let position = Position { lowest: 5, beyond: vec![(6, 7)] };
    place.commit(&place.flow.groups.retry, &level, 0, &position).await;

    let look = place.look();
    let mut shelves = open(&look, None).await.unwrap();
    let found = all(&mut *shelves, 7).await;
    let mut expected = vec!["dead"; 25];
    expected.extend(["dead-by-hand", "dead-in-transaction", "foreign", "parked", "waits"]);
    assert_eq!(bodies(&found), expected);
    for one in &found {
        let message = &one.delivery.message;
        let expected = match &*String::from_utf8_lossy(message.body.as_deref().unwrap()) {
            "dead" => (EntryState::Dead, false),
            "dead-by-hand" | "dead-in-transaction" | "foreign" => (EntryState::Dead, true),
            "parked" => (EntryState::Parked, false),
            _ => (EntryState::Waiting, false),
        };
        assert_eq!((one.state, one.foreign), expected);
        assert_eq!(one.delivery.tag, redrive_engine::port::Tag::APART);
    }
    let places: HashSet<_> = found
        .iter()
        .map(|one| {
            (one.delivery.source.name.clone(), one.delivery.source.partition, one.delivery.source.offset)
        })
        .collect();
    assert_eq!(places.len(), found.len(), "each lies at a place of its own");

    let position = shelves.position();
    let mut again = open(&look, Some(&position)).await.unwrap();
    assert_eq!(bodies(&all(&mut *again, 100).await), Vec::<String>::new());
    assert_eq!(again.position(), position);
    place.write(&dead, 1, vec![(None, of_entry(6, None))]).await;
    let mut again = open(&look, Some(&position)).await.unwrap();
    assert_eq!(bodies(&all(&mut *again, 100).await), ["-"]);
    assert!(open(&look, Some("no position")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_where_it_was_when_the_look_began() {
    let Some(place) = Place::new() else { return };
    let dead = place.flow.dead_letter.topic.clone();
    place.topic(&dead, 1, &[]).await;
    place.write(&dead, 0, vec![(Some("before"), of_entry(1, None)); 3]).await;
    let look = place.look();
    let mut shelves = open(&look, None).await.unwrap();
    place.write(&dead, 0, vec![(Some("after"), of_entry(2, None)); 3]).await;
    assert_eq!(bodies(&all(&mut *shelves, 2).await), ["before"; 3]);
    let mut rest = open(&look, Some(&shelves.position())).await.unwrap();
    assert_eq!(bodies(&all(&mut *rest, 2).await), ["after"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_is_opened_and_what_has_no_body_is_read_at_its_source() {
    let Some(mut place) = Place::new() else { return };
    place.flow.dead_letter.format = DeadLetterFormat::Envelope;
    place.source(1).await;
    let source = place.flow.topics[0].clone();
    let dead = place.flow.dead_letter.topic.clone();
    place.topic(&dead, 1, &[]).await;
    let mut own = Headers::new();
    own.push("type", "Original");
    let offset = place.write(&source, 0, vec![(Some("original"), own.clone())]).await[0];
    let message =
        Message { id: "m-1".into(), body: Some("inside".into()), headers: own, ..Message::default() };
    let envelope =
        Envelope::new("m-1".into(), &*place.flow.flow, &redrive_core::Facts::default(), &Trail::default());
    let mut outer = of_entry(1, Some((&source, offset)));
    outer.push("content-type", "application/json");
    let json = |envelope: &Envelope| serde_json::to_string(envelope).unwrap();
    let around = json(&envelope.clone().around(&message));
    let bare = json(&envelope);
    place.write(&dead, 0, vec![(Some(&around), outer.clone()), (Some(&bare), outer)]).await;
    let mut shelves = open(&place.look(), None).await.unwrap();
    let found = all(&mut *shelves, 10).await;
    assert_eq!(bodies(&found), ["inside", "original"]);
    for one in found {
        assert_eq!(one.delivery.message.headers.get_text("type", 99).as_deref(), Some("Original"));
        assert_eq!(one.delivery.trail.entry_id.as_deref(), Some("entry-1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_groups_dead_letter_is_read_at_its_source() {
    let Some(mut place) = Place::new() else { return };
    let foreign = format!("{}.share-dlq", place.flow.flow);
    place.flow.foreign = vec![foreign.clone()];
    place.source(1).await;
    place.topic(&foreign, 1, &[]).await;
    let source = place.flow.topics[0].clone();
    let mut own = Headers::new();
    own.push("type", "Original");
    let offset = place.write(&source, 0, vec![(Some("original"), own)]).await[0];
    let said = |topic: &str, offset: i64| {
        let mut said = Headers::new();
        said.push("__dlq.errors.topic", topic.to_owned());
        said.push("__dlq.errors.partition", "0");
        said.push("__dlq.errors.offset", offset.to_string());
        said.push("__dlq.errors.message", "too often");
        said
    };
    let elsewhere = format!("{source}.elsewhere");
    let records = vec![
        (None, said(&source, offset)),
        // Gone, not the flow's to read, and one that has its body.
        (None, said(&source, 99)),
        (None, said(&elsewhere, 0)),
        (Some("copied"), said(&source, offset)),
    ];
    place.write(&foreign, 0, records).await;
    let mut shelves = open(&place.look(), None).await.unwrap();
    let found = all(&mut *shelves, 10).await;
    assert_eq!(bodies(&found), ["-", "-", "copied", "original"]);
    for one in &found {
        assert_eq!(
            one.bodiless,
            one.delivery.message.body.is_none(),
            "what could not be read is no tombstone"
        );
    }
    let resolved =
        found.iter().find(|one| one.delivery.message.body.as_deref() == Some(b"original")).unwrap();
    let message = &resolved.delivery.message;
    assert_eq!(message.headers.get_text("type", 99).as_deref(), Some("Original"));
    assert_eq!(message.headers.get_text("__dlq.errors.message", 99).as_deref(), Some("too often"));
    assert!(resolved.foreign);
}

#[test]
fn a_place_and_its_words_say_how_a_message_stands() {
    let mut flow = KafkaFlow::new("orders", "localhost:9092", "orders", "worker");
    flow.foreign = vec!["orders.DLT".to_owned()];
    let lies = |topic: &str, parked: bool, own: bool| {
        let mut all = Headers::new();
        if parked {
            all.push(PARKED, "true");
        }
        let entry_id = own.then(|| "0190-entry".into());
        Delivery::from(redrive_engine::port::DeliveryParts {
            tag: redrive_engine::port::Tag::APART,
            message: Message { headers: all, ..Message::default() },
            trail: Trail { entry_id, ..Trail::default() }.into(),
            source: crate::record::place(&topic.into(), 0, 0),
            ready_at: redrive_core::Timestamp::from_millis(0),
            redelivered: false,
        })
    };
    let (dead, parked) = (EntryState::Dead, EntryState::Parked);
    assert_eq!(standing(&flow, &lies("orders.dlq", false, true)), (dead, false));
    assert_eq!(standing(&flow, &lies("orders.dlq", true, true)), (dead, false), "parked ones lie elsewhere");
    assert_eq!(standing(&flow, &lies("orders.parking", false, true)), (parked, false));
    assert_eq!(standing(&flow, &lies("orders.DLT", true, false)), (dead, true));
    assert_eq!(standing(&flow, &lies("orders.retry.10s", false, true)), (EntryState::Waiting, false));
    flow.parking = Parking::Same;
    assert_eq!(standing(&flow, &lies("orders.dlq", false, true)), (dead, false));
    assert_eq!(standing(&flow, &lies("orders.dlq", true, true)), (parked, false));
    assert_eq!(standing(&flow, &lies("orders.dlq", true, false)), (dead, true), "a stranger's word is none");
}
