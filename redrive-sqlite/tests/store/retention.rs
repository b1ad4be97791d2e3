//! What goes by itself, and what never does.

use redrive_engine::port::{Deed, EntryState, Filter, Ledger, Outcome, Page, Retention, Selection};

use crate::fixture::{Fixture, ann, assert_sound, failed, publish, recovered, settle_one, subscribe, take};

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
