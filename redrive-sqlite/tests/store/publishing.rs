//! Taking in: ids, limits, many publishers at once.

use std::collections::BTreeSet;

use redrive_engine::port::{Broker, NewMessage, PortError, Published, Refusal};
use redrive_sqlite::{Options, QueueSettings, Store};

use crate::fixture::{Fixture, ack, assert_sound, at, publish, subscribe, take, text};

fn refused(published: &[Published]) -> Vec<Option<String>> {
    published
        .iter()
        .map(|one| match one {
            Published::Accepted(_) => None,
            Published::Refused(refusal) => Some(refusal.to_string()),
        })
        .collect()
}

#[tokio::test]
async fn an_id_is_unique_while_it_is_queued() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a"]).await;
    let again = store.publish("orders", vec![text("a"), text("b")]).await.unwrap();
    assert_eq!(
        again,
        [Published::Refused(Refusal::Duplicate("a".to_owned())), Published::Accepted("b".to_owned())]
    );
    publish(&store, "returns", &["a"]).await;
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 2).await;
    ack(&store, &taken[0]).await;
    publish(&store, "orders", &["a"]).await;
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_window_remembers_ids_longer() {
    let fixture = Fixture::new();
    let store = fixture.open();
    store
        .configure_queue("orders", QueueSettings { dedup_ms: Some(60_000), ..QueueSettings::default() })
        .await
        .unwrap();
    publish(&store, "orders", &["a"]).await;
    let mut source = subscribe(&store, "orders").await;
    ack(&store, &take(&mut source, 1).await[0]).await;
    fixture.clock.advance(59_000);
    let again = store.publish("orders", vec![text("a")]).await.unwrap();
    assert_eq!(again, [Published::Refused(Refusal::Duplicate("a".to_owned()))]);
    fixture.clock.advance(2_000);
    publish(&store, "orders", &["a"]).await;
}

#[tokio::test]
async fn a_full_queue_says_so() {
    let fixture = Fixture::new();
    let store = fixture.open();
    store
        .configure_queue("orders", QueueSettings { limit: Some(2), ..QueueSettings::default() })
        .await
        .unwrap();
    let later = NewMessage { due: Some(at(5_000)), ..text("later") };
    let published = store.publish("orders", vec![later, text("a"), text("b")]).await.unwrap();
    let full = "the queue `orders` is full: it holds 2 messages, its limit is 2".to_owned();
    assert_eq!(refused(&published), [None, None, Some(full)]);
    let mut source = subscribe(&store, "orders").await;
    ack(&store, &take(&mut source, 1).await[0]).await;
    publish(&store, "orders", &["b"]).await;
    let queues = store.queues().await.unwrap();
    assert_eq!((queues[0].depth.ready, queues[0].depth.waiting, queues[0].limit), (1, 1, Some(2)));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let fixture = Fixture::new();
    let options = Options { message_limit: 10, ..fixture.options.clone() };
    let store = Store::open(fixture.path(), options).unwrap();
    for name in ["", "a b", "é", "a/b", &"x".repeat(201)] {
        let answer = store.publish(name, vec![text("a")]).await;
        assert!(matches!(answer, Err(PortError::Refused(Refusal::Invalid(_)))), "{name}: {answer:?}");
    }
    let long = "x".repeat(301);
    for id in ["", "a\nb", &long] {
        let answer = store.publish("orders", vec![NewMessage { body: None, ..text(id) }]).await.unwrap();
        assert!(matches!(answer[..], [Published::Refused(Refusal::Invalid(_))]), "{answer:?}");
    }
    let large = NewMessage { body: Some(vec![0; 11].into()), ..NewMessage::default() };
    let answer = store.publish("orders", vec![large]).await.unwrap();
    assert_eq!(refused(&answer), [Some("the message has 11 bytes; at most 10 are taken".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_publishers_lose_and_double_nothing() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut publishers = Vec::new();
    for publisher in 0..16 {
        let store = store.clone();
        publishers.push(tokio::spawn(async move {
            for n in 0..25 {
                publish(&store, "orders", &[&format!("{publisher}-{n}")]).await;
                // One request of a group that fails takes no other along.
                assert!(store.publish("no name", vec![text("x")]).await.is_err());
            }
        }));
    }
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 400).await;
    for publisher in publishers {
        publisher.await.unwrap();
    }
    let ids: BTreeSet<_> = taken.iter().map(|delivery| delivery.message.id.to_string()).collect();
    assert_eq!(ids.len(), 400);
    for publisher in 0..16 {
        let of_one: Vec<_> = taken
            .iter()
            .filter_map(|delivery| {
                delivery.message.id.strip_prefix(&format!("{publisher}-")).map(str::to_owned)
            })
            .collect();
        assert_eq!(of_one, (0..25).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    for delivery in &taken {
        ack(&store, delivery).await;
    }
    assert_sound(&store).await;
}
