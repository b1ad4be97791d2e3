//! Controls beside what the contract asks of every ledger.

use redrive_engine::port::{Ledger, Order, Quarantine};

use crate::fixture::{Fixture, ann};
use crate::settling::rusqlite_of;

#[tokio::test]
async fn of_two_who_order_the_same_one_is_refused() {
    let fixture = Fixture::new();
    let (store, actor) = (fixture.open(), ann());
    let (first, second) = tokio::join!(
        store.order("orders", &Order::Pause, &actor, fixture.now()),
        store.order("orders", &Order::Pause, &actor, fixture.now()),
    );
    assert_eq!([&first, &second].iter().filter(|answer| answer.is_ok()).count(), 1, "{first:?} {second:?}");
    assert_eq!(store.audit(None, 100).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_quarantine_shows_what_its_own_lane_keeps() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let acme = Quarantine::Tenant("acme".to_owned());
    for flow in ["orders", "mails"] {
        store.order(flow, &Order::Quarantine(acme.clone()), &ann(), fixture.now()).await.unwrap();
    }
    store.order("orders", &Order::Pause, &ann(), fixture.now()).await.unwrap();
    rusqlite_of(&fixture)
        .execute("INSERT INTO lanes (flow, lane, count) VALUES ('orders', ?1, 3)", [acme.lane().as_str()])
        .unwrap();
    let held: Vec<u64> = store.controls().await.unwrap().iter().map(|control| control.held).collect();
    assert_eq!(held, [0, 3, 0]);
}
