//! What goes by itself, and what never does.

use redrive_engine::port::{
    Broker, Deed, EntryState, Filter, Ledger, NewMessage, Outcome, Page, Retention, Selection,
};

use crate::fixture::{
    Fixture, ann, assert_sound, failed, publish, recovered, settle_one, settlement, subscribe, take,
};
use crate::settling::rusqlite_of;

#[tokio::test]
async fn finished_and_discarded_entries_go_and_open_ones_stay() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["recovers", "discarded", "dead", "parked", "archived"]).await;
    let mut source = subscribe(&store, "orders").await;
    for delivery in take(&mut source, 5).await {
        let outcome = match delivery.message.id.as_str() {
            "recovers" => Outcome::Delay { until: fixture.now() },
            "dead" => Outcome::DeadLetter,
            _ => Outcome::Park,
        };
        settle_one(&store, failed(&delivery, outcome, "503", fixture.now())).await;
    }
    let retry = take(&mut source, 1).await.remove(0);
    settle_one(&store, recovered(&retry, fixture.now())).await;
    for (deed, id) in [(Deed::Discard, "discarded"), (Deed::Archive, "archived")] {
        store.act(&deed, &Selection::Ids(vec![id.to_owned()]), &ann(), fixture.now()).await.unwrap();
    }
    store.mark_processed("orders", &["recovers"], fixture.now()).await.unwrap();
    let retention = Retention::default();
    fixture.clock.advance(13 * 86_400_000);
    assert_eq!(store.tidy(&retention, 100, fixture.now()).await.unwrap(), 1, "the mark");
    fixture.clock.advance(2 * 86_400_000);
    assert_eq!(store.tidy(&retention, 1, fixture.now()).await.unwrap(), 1, "in small steps");
    assert_eq!(store.tidy(&retention, 100, fixture.now()).await.unwrap(), 1);
    assert_eq!(store.tidy(&retention, 100, fixture.now()).await.unwrap(), 0);
    let left = store.search(&Filter::default(), &Page::default()).await.unwrap().entries;
    let mut states: Vec<_> = left.iter().map(|entry| entry.state).collect();
    states.sort_unstable();
    assert_eq!(states, [EntryState::Dead, EntryState::Parked, EntryState::Archived]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_file_that_was_large_becomes_small_again_in_steps() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let large = |n: usize| NewMessage {
        id: Some(format!("m{n}")),
        body: Some(vec![1; 50_000].into()),
        ..NewMessage::default()
    };
    store.publish("orders", (0..500).map(large).collect()).await.unwrap();
    let mut source = subscribe(&store, "orders").await;
    let batch: Vec<_> =
        take(&mut source, 500).await.iter().map(|delivery| settlement(delivery, Outcome::Ack)).collect();
    for answer in store.settle(&batch).await {
        answer.unwrap();
    }
    let pages =
        || -> i64 { rusqlite_of(&fixture).pragma_query_value(None, "page_count", |row| row.get(0)).unwrap() };
    let before = pages();
    store.tidy(&Retention::default(), 100, fixture.now()).await.unwrap();
    let after_one = pages();
    assert!(after_one < before && before - after_one <= 600, "{before} {after_one}");
    for _ in 0..20 {
        store.tidy(&Retention::default(), 100, fixture.now()).await.unwrap();
    }
    let after_all = pages();
    assert!((4_000..4_400).contains(&after_all), "some are kept for what comes next: {after_all}");
    assert_sound(&store).await;
}
