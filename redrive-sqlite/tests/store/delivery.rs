//! Bytes and order: what comes out is what went in.

use bytes::Bytes;
use redrive_core::Headers;
use redrive_core::headers::{Key, Keyring, MacCheck};
use redrive_engine::port::{
    Broker, Doubt, HeaderRules, Ledger, NewMessage, Outcome, Published, Room, Subscription,
};

use crate::fixture::{
    Fixture, ack, assert_sound, at, failed, ids, is_empty, publish, settle_one, settlement, subscribe, take,
    text,
};

#[tokio::test]
async fn bytes_come_out_as_they_went_in() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut headers = Headers::new();
    headers.push("type", "OrderPlaced");
    headers.push("type", vec![0xff, 0x00]);
    headers.push_header("nothing", None);
    headers.push("empty", "");
    let bodies = [
        None,
        Some(Bytes::new()),
        Some(Bytes::from(vec![0xff, 0xfe, 0x00])),
        Some(Bytes::from((0..10_000_000_u32).map(|n| n as u8).collect::<Vec<_>>())),
    ];
    for body in bodies {
        let sent = NewMessage {
            key: Some(Bytes::from(vec![0xc3, 0x28])),
            body: body.clone(),
            headers: headers.clone(),
            content_type: Some("application/json".to_owned()),
            ..NewMessage::default()
        };
        let published = store.publish("orders", vec![sent.clone()]).await.unwrap();
        let [Published::Accepted(id)] = &published[..] else { panic!("{published:?}") };
        let mut source = subscribe(&store, "orders").await;
        let taken = take(&mut source, 1).await;
        let message = &taken[0].message;
        assert_eq!(message.id.as_str(), id);
        assert_eq!(message.body, body);
        assert_eq!(message.key, sent.key);
        assert_eq!(message.headers, headers);
        assert_eq!(message.content_type.as_deref(), Some("application/json"));
        assert_eq!(*taken[0].trail, redrive_core::headers::Trail::default());

        // A diversion keeps all of it and adds its own headers, which replace themselves.
        for round in 1..=2 {
            let delivery = if round == 1 { taken[0].clone() } else { take(&mut source, 1).await.remove(0) };
            let again = failed(&delivery, Outcome::Delay { until: fixture.now() }, "503", fixture.now());
            settle_one(&store, again).await;
        }
        let last = take(&mut source, 1).await.remove(0);
        assert_eq!(last.trail.attempt, 2);
        assert_eq!(last.message.body, body);
        assert_eq!(last.message.key, sent.key);
        let foreign: Headers = last
            .message
            .headers
            .iter()
            .filter(|header| redrive_core::headers::Field::of(header.name.as_str()).is_none())
            .cloned()
            .collect();
        assert_eq!(foreign, headers);
        let attempts = last.message.headers.iter().filter(|header| header.name.as_str() == "x-retry-attempt");
        assert_eq!(attempts.count(), 1);
        ack(&store, &last).await;
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn ready_messages_come_in_order_and_due_ones_by_their_time() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let later = |id: &str, millis: i64| NewMessage { due: Some(at(millis)), ..text(id) };
    store.publish("orders", vec![later("d3", 300), later("d1", 100), later("d2", 200)]).await.unwrap();
    publish(&store, "orders", &["a", "b", "c"]).await;
    let mut source = subscribe(&store, "orders").await;
    assert_eq!(ids(&take(&mut source, 3).await), ["a", "b", "c"]);
    assert!(is_empty(&store, &mut source).await);
    fixture.clock.advance(250);
    assert_eq!(ids(&take(&mut source, 2).await), ["d1", "d2"]);
    fixture.clock.advance(60);
    let last = take(&mut source, 1).await;
    assert_eq!(last[0].ready_at, at(300));
}

#[tokio::test]
async fn what_is_given_back_comes_before_what_is_newer() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a", "b", "c", "d"]).await;
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 2).await;
    for delivery in &taken {
        settle_one(&store, settlement(delivery, Outcome::Return)).await;
    }
    let again = take(&mut source, 4).await;
    assert_eq!(ids(&again), ["a", "b", "c", "d"]);
    assert!(!again[0].redelivered, "it was settled: given back");
    for delivery in &again {
        ack(&store, delivery).await;
    }
    assert!(is_empty(&store, &mut source).await);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_restart_returns_everything_that_was_open() {
    let fixture = Fixture::new();
    {
        let store = fixture.open();
        publish(&store, "orders", &["a", "b", "c"]).await;
        let mut source = subscribe(&store, "orders").await;
        let taken = take(&mut source, 3).await;
        ack(&store, &taken[1]).await;
    }
    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 2).await;
    assert_eq!(ids(&taken), ["a", "c"]);
    assert!(taken.iter().all(|delivery| delivery.trail.attempt == 0), "nothing is charged");
}

#[tokio::test]
async fn a_second_reader_is_refused_and_a_later_one_gets_what_was_open() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a", "b"]).await;
    let mut source = subscribe(&store, "orders").await;
    let subscription = Subscription::new("x", "orders");
    let Err(refused) = store.subscribe(&subscription).await else { panic!("two readers") };
    assert_eq!(refused.to_string(), "the queue `orders` already has a reader; one flow reads one queue");
    let old = take(&mut source, 2).await;
    drop(source);
    let mut source = subscribe(&store, "orders").await;
    let again = take(&mut source, 2).await;
    assert_eq!(ids(&again), ["a", "b"]);
    assert!(again.iter().all(|delivery| delivery.redelivered));
    // A tag of the first subscription harms nothing.
    let answers = store.settle(&[settlement(&old[0], Outcome::Ack)]).await;
    assert!(answers[0].is_err());
    ack(&store, &again[0]).await;
    let answers = store.settle(&[settlement(&again[0], Outcome::Ack)]).await;
    assert!(answers[0].is_err(), "a delivery ends once");
}

#[tokio::test]
async fn a_cancelled_receive_loses_nothing() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    publish(&store, "orders", &["a", "b", "c"]).await;
    for _ in 0..20 {
        let mut into = Vec::new();
        let room = Room { bytes: 1, ..Room::of(1) };
        tokio::select! {
            biased;
            () = tokio::task::yield_now() => {}
            received = source.receive(room, &mut into) => received.unwrap(),
        }
        for delivery in into {
            settle_one(&store, settlement(&delivery, Outcome::Return)).await;
        }
    }
    assert_eq!(ids(&take(&mut source, 3).await), ["a", "b", "c"]);
}

/// A reader that found nothing rests. What comes while nobody waits, is given back, or was not wanted before, is found.
#[tokio::test]
async fn a_reader_that_rests_misses_nothing() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    let no_retries = Room { retries: 0, ..Room::of(10) };
    for round in 0..5 {
        for room in [Room::of(10), no_retries] {
            // It is dropped while it rests: the next one rests on.
            let mut into = Vec::new();
            let waited = std::time::Duration::from_millis(20);
            assert!(tokio::time::timeout(waited, source.receive(room, &mut into)).await.is_err(), "{into:?}");
        }
        let id = format!("ready{round}");
        publish(&store, "orders", &[&id]).await;
        let taken = take(&mut source, 1).await;
        assert_eq!(ids(&taken), [&*id]);
        assert!(is_empty(&store, &mut source).await);
        settle_one(&store, settlement(&taken[0], Outcome::Return)).await;
        let again = take(&mut source, 1).await;
        ack(&store, &again[0]).await;
        let late = format!("due{round}");
        let due = Some(fixture.now() + std::time::Duration::from_millis(500));
        store.publish("orders", vec![NewMessage { due, ..text(&late) }]).await.unwrap();
        assert!(is_empty(&store, &mut source).await);
        fixture.clock.advance(1_000);
        let mut into = Vec::new();
        let waited = std::time::Duration::from_millis(20);
        assert!(
            tokio::time::timeout(waited, source.receive(no_retries, &mut into)).await.is_err(),
            "{into:?}"
        );
        let taken = take(&mut source, 1).await;
        assert_eq!(ids(&taken), [&*late]);
        ack(&store, &taken[0]).await;
    }
}

#[tokio::test]
async fn room_is_kept_by_messages_and_bytes() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let big = |id: &str| NewMessage { body: Some(vec![7; 600].into()), ..text(id) };
    store.publish("orders", vec![big("a"), big("b"), big("c")]).await.unwrap();
    let mut source = subscribe(&store, "orders").await;
    let mut into = Vec::new();
    source.receive(Room { bytes: 1_300, ..Room::of(10) }, &mut into).await.unwrap();
    assert_eq!(ids(&into), ["a", "b"]);
    into.clear();
    source.receive(Room { bytes: 10, ..Room::of(10) }, &mut into).await.unwrap();
    assert_eq!(ids(&into), ["c"], "one that is larger than the room comes alone");
}

#[tokio::test]
async fn a_clock_that_is_set_back_loses_nothing() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    let soon = NewMessage { due: Some(at(1_000)), ..text("soon") };
    store.publish("orders", vec![soon]).await.unwrap();
    fixture.clock.advance(2_000);
    let taken = take(&mut source, 1).await;
    fixture.clock.advance(-3_600_000);
    // Its new time is before what the reader has already looked at.
    let until = fixture.now() + std::time::Duration::from_millis(5);
    settle_one(&store, failed(&taken[0], Outcome::Delay { until }, "503", fixture.now())).await;
    assert!(is_empty(&store, &mut source).await);
    fixture.clock.advance(10);
    assert_eq!(ids(&take(&mut source, 1).await), ["soon"]);
}

#[tokio::test]
async fn neither_fresh_messages_nor_retries_starve() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let due: Vec<_> = (0..40).map(|n| NewMessage { due: Some(at(-1)), ..text(&format!("due{n}")) }).collect();
    let fresh: Vec<_> = (0..300).map(|n| text(&format!("fresh{n}"))).collect();
    store.publish("orders", fresh).await.unwrap();
    store.publish("orders", due).await.unwrap();
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 128).await;
    let due = taken.iter().filter(|delivery| delivery.message.id.starts_with("due")).count();
    assert_eq!(due, 40);
}

#[tokio::test]
async fn retries_are_bounded_and_fresh_messages_come_beyond_them() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    let past = |id: &str| NewMessage { due: Some(at(-10)), ..text(id) };
    store.publish("orders", vec![past("r1"), past("r2"), past("r3")]).await.unwrap();
    publish(&store, "orders", &["a", "b"]).await;
    let room = |retries| Room { retries, ..Room::of(10) };
    let mut taken = Vec::new();
    source.receive(room(1), &mut taken).await.unwrap();
    assert_eq!(ids(&taken), ["r1", "a", "b"]);
    publish(&store, "orders", &["c"]).await;
    taken.clear();
    source.receive(room(0), &mut taken).await.unwrap();
    assert_eq!(ids(&taken), ["c"]);
    taken.clear();
    source.receive(room(10), &mut taken).await.unwrap();
    assert_eq!(ids(&taken), ["r2", "r3"]);
}

#[tokio::test]
async fn what_the_file_wrote_itself_needs_no_signature() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let signed = |seed| {
        let keys = Keyring::new(Key::generate([seed; 32]));
        let headers = HeaderRules::default().signed(keys);
        Subscription { headers, ..Subscription::new("orders", "orders") }
    };
    publish(&store, "orders", &["a"]).await;
    let mut source = store.subscribe(&signed(1)).await.unwrap();
    let first = take(&mut source, 1).await.remove(0);
    settle_one(&store, failed(&first, Outcome::Delay { until: fixture.now() }, "away", fixture.now())).await;
    // A key that nobody has any more did sign it.
    drop(source);
    let mut source = store.subscribe(&signed(2)).await.unwrap();
    let again = take(&mut source, 1).await.remove(0);
    assert!(again.message.headers.get("x-redrive-mac").is_some());
    assert_eq!((again.trail.attempt, again.trail.doubt()), (1, None));
    ack(&store, &again).await;
    // The same headers in a message that somebody published are worth nothing.
    let headers = again.message.headers.clone();
    store.publish("orders", vec![NewMessage { headers, ..text("b") }]).await.unwrap();
    let copied = take(&mut source, 1).await.remove(0);
    assert_eq!((copied.trail.attempt, copied.trail.entry_id.clone()), (0, None));
    assert_eq!(copied.trail.doubt(), Some(Doubt { found: MacCheck::UnknownKey, again: false }));
}

#[tokio::test]
async fn a_published_message_cannot_take_anothers_entry() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a"]).await;
    let mut source = subscribe(&store, "orders").await;
    let first = take(&mut source, 1).await.remove(0);
    let dead = failed(&first, Outcome::DeadLetter, "away", fixture.now());
    let (entry, trail) = (dead.record.as_ref().unwrap().entry, dead.trail.clone().unwrap());
    settle_one(&store, dead).await;
    let mut headers = Headers::new();
    HeaderRules::default().write(&trail, &mut headers, None);
    store.publish("orders", vec![NewMessage { headers, ..text("b") }]).await.unwrap();
    let thief = take(&mut source, 1).await.remove(0);
    assert_eq!((thief.trail.attempt, thief.trail.entry_id.clone()), (1, None));
    settle_one(&store, failed(&thief, Outcome::DeadLetter, "away", fixture.now())).await;
    let kept = store.entry(&entry.to_string()).await.unwrap().unwrap();
    assert_eq!((kept.message.id.as_str(), kept.attempts), ("a", 1));
    assert!(store.payload(entry).await.unwrap().is_some(), "its body is still there");
    assert_sound(&store).await;
}
