//! What people do, on the record.

use redrive_engine::port::{
    Broker, Deed, DeedReport, EntryState, Filter, Ledger, NewMessage, Outcome, Selection,
};
use redrive_sqlite::Store;

use crate::fixture::{
    Fixture, ack, ann, assert_sound, at, failed, ids, is_empty, publish, recovered, settle_one, subscribe,
    take, text,
};
use crate::settling::rusqlite_of;

fn by_id(id: &str) -> Selection {
    Selection::Ids(vec![id.to_owned()])
}

async fn act(store: &Store, fixture: &Fixture, deed: Deed, id: &str) -> DeedReport {
    store.act(&deed, &by_id(id), &ann(), fixture.now()).await.unwrap()
}

async fn state(store: &Store, id: &str) -> EntryState {
    store.entry(id).await.unwrap().unwrap().state
}

#[tokio::test]
async fn retry_now_and_expiry_deliver_once() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a"]).await;
    let mut source = subscribe(&store, "orders").await;
    let first = take(&mut source, 1).await.remove(0);
    settle_one(&store, failed(&first, Outcome::Delay { until: at(1_000) }, "503", fixture.now())).await;
    fixture.clock.advance(1_000);
    // It is due, and at the same moment somebody sends it at once.
    let now = fixture.now();
    let (selection, actor) = (by_id("a"), ann());
    let (taken, report) =
        tokio::join!(take(&mut source, 1), store.act(&Deed::RetryNow, &selection, &actor, now));
    let report = report.unwrap();
    assert_eq!(report.done + report.refused.len() as u64, 1);
    assert!(is_empty(&store, &mut source).await, "one delivery, whoever was first");
    settle_one(&store, recovered(&taken[0], fixture.now())).await;
    assert_sound(&store).await;
}

#[tokio::test]
async fn retry_now_sends_a_waiting_message_and_begins_a_dead_one_again() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["waits", "dead"]).await;
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 2).await;
    settle_one(&store, failed(&taken[0], Outcome::Delay { until: at(3_600_000) }, "503", fixture.now()))
        .await;
    settle_one(&store, failed(&taken[1], Outcome::DeadLetter, "503", fixture.now())).await;
    for id in ["waits", "dead"] {
        assert_eq!(act(&store, &fixture, Deed::RetryNow, id).await.done, 1);
        assert_eq!(state(&store, id).await, EntryState::Waiting);
    }
    let again = take(&mut source, 2).await;
    let attempts: Vec<_> =
        again.iter().map(|delivery| (delivery.message.id.to_string(), delivery.trail.attempt)).collect();
    assert_eq!(attempts, [("waits".to_owned(), 1), ("dead".to_owned(), 0)]);
    assert_eq!(again[1].trail.entry_id.as_deref(), Some(&*taken_entry(&store, "dead").await));
    for delivery in &again {
        let report = act(&store, &fixture, Deed::Discard, delivery.message.id.as_str()).await;
        assert_eq!(report.done, 0);
        assert!(report.refused[0].1.contains("being handled"), "{report:?}");
        settle_one(&store, recovered(delivery, fixture.now())).await;
    }
    assert_eq!(act(&store, &fixture, Deed::RetryNow, "dead").await.refused.len(), 1);
    assert_eq!(act(&store, &fixture, Deed::RetryNow, "nobody").await.missing, ["nobody"]);
    assert_sound(&store).await;
}

async fn taken_entry(store: &Store, id: &str) -> String {
    store.entry(id).await.unwrap().unwrap().id.to_string()
}

#[tokio::test]
async fn what_is_put_away_can_be_brought_back() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["waits", "dead"]).await;
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 2).await;
    settle_one(&store, failed(&taken[0], Outcome::Delay { until: at(5_000) }, "503", fixture.now())).await;
    settle_one(&store, failed(&taken[1], Outcome::DeadLetter, "503", fixture.now())).await;
    for id in ["waits", "dead"] {
        let was = state(&store, id).await;
        assert_eq!(act(&store, &fixture, Deed::Discard, id).await.done, 1);
        assert_eq!(act(&store, &fixture, Deed::Archive, id).await.done, 1);
        assert_eq!(state(&store, id).await, EntryState::Archived);
        assert_eq!(act(&store, &fixture, Deed::Restore, id).await.done, 1);
        assert_eq!(state(&store, id).await, was);
        assert_sound(&store).await;
    }
    assert_eq!(store.entry("waits").await.unwrap().unwrap().due_at, Some(at(5_000)));
    assert_eq!(act(&store, &fixture, Deed::Cancel, "waits").await.done, 1);
    assert_eq!(state(&store, "waits").await, EntryState::Parked);
    fixture.clock.advance(10_000);
    assert!(is_empty(&store, &mut source).await, "what was cancelled does not come");
    let whats: Vec<_> =
        store.audit(None, 10).await.unwrap().into_iter().rev().map(|line| line.what).collect();
    assert_eq!(whats, ["discard", "archive", "restore", "discard", "archive", "restore", "cancel"]);
    let history = store.history(store.entry("dead").await.unwrap().unwrap().id).await.unwrap();
    assert_eq!(history.last().unwrap().by.as_deref(), Some("ann"));
}

#[tokio::test]
async fn a_filter_acts_on_all_in_steps() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let messages = (0..1_200).map(|n| NewMessage { id: Some(format!("m{n}")), ..NewMessage::default() });
    store.publish("orders", messages.collect()).await.unwrap();
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 1_200).await;
    let batch: Vec<_> =
        taken.iter().map(|delivery| failed(delivery, Outcome::DeadLetter, "503", fixture.now())).collect();
    for answer in store.settle(&batch).await {
        answer.unwrap();
    }
    let dead = Filter { state: vec![EntryState::Dead], ..Filter::default() };
    let report = store.act(&Deed::Park, &Selection::Filter(dead), &ann(), fixture.now()).await.unwrap();
    assert_eq!((report.done, report.refused.len()), (1_200, 0));
    assert_eq!(store.count("orders", EntryState::Parked).await.unwrap(), 1_200);
    let lines = store.audit(None, 10).await.unwrap();
    assert_eq!(lines.iter().map(|line| line.count).sum::<u64>(), 1_200);
    assert_eq!(lines[0].subject, "{\"state\":[\"dead\"]}");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_reroute_and_a_copy_are_new_messages() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a", "b"]).await;
    let mut source = subscribe(&store, "orders").await;
    for delivery in take(&mut source, 2).await {
        settle_one(&store, failed(&delivery, Outcome::Park, "bad", fixture.now())).await;
    }
    assert_eq!(act(&store, &fixture, Deed::Reroute("queue:legacy".to_owned()), "a").await.done, 1);
    assert_eq!(state(&store, "a").await, EntryState::Archived);
    let mut legacy = subscribe(&store, "legacy").await;
    assert_eq!(ids(&take(&mut legacy, 1).await), ["a"]);

    let edited = NewMessage { body: Some("fixed".into()), ..NewMessage::default() };
    let copy = store.copy("b", edited, &ann(), fixture.now()).await.unwrap();
    let delivery = take(&mut source, 1).await.remove(0);
    assert_eq!(
        (delivery.message.id.as_str(), delivery.message.body.as_deref()),
        (&*copy, Some(&b"fixed"[..]))
    );
    settle_one(&store, failed(&delivery, Outcome::Park, "still bad", fixture.now())).await;
    let parent = store.entry("b").await.unwrap().unwrap();
    assert_eq!(store.entry(&copy).await.unwrap().unwrap().parent_id, Some(parent.id));
    assert_eq!(parent.state, EntryState::Parked);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_copy_of_what_is_gone_inherits_what_the_entry_knows() {
    let fixture = Fixture::new();
    let store = fixture.open();
    for (id, key) in [("a", &b"customer-7"[..]), ("b", b"\xff\x00")] {
        let mut headers = redrive_core::Headers::new();
        headers.push("tenant", "north");
        let key = Some(bytes::Bytes::copy_from_slice(key));
        let message =
            NewMessage { key: key.clone(), headers, content_type: Some("text/plain".into()), ..text(id) };
        store.publish("orders", vec![message]).await.unwrap();
        let mut source = subscribe(&store, "orders").await;
        let first = take(&mut source, 1).await.remove(0);
        settle_one(&store, failed(&first, Outcome::Delay { until: fixture.now() }, "bad", fixture.now()))
            .await;
        settle_one(&store, recovered(&take(&mut source, 1).await[0], fixture.now())).await;
        let edited = NewMessage { body: Some("again".into()), ..NewMessage::default() };
        store.copy(id, edited, &ann(), fixture.now()).await.unwrap();
        let copy = take(&mut source, 1).await.remove(0);
        assert_eq!(
            (copy.message.key.clone(), copy.message.content_type.as_deref()),
            (key, Some("text/plain"))
        );
        assert_eq!(copy.message.headers.get_text("tenant", 10).as_deref(), Some("north"));
        assert_eq!((copy.message.headers.len(), copy.trail.attempt), (1, 0));
        ack(&store, &copy).await;
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_audit_only_grows() {
    let fixture = Fixture::new();
    let store = fixture.open();
    for n in 0..3 {
        store.note(&ann(), "pause", "orders", n, fixture.now()).await.unwrap();
    }
    let sql = rusqlite_of(&fixture);
    for statement in
        ["UPDATE audit SET who = 'bob'", "DELETE FROM audit", "DELETE FROM audit WHERE number = 3"]
    {
        let refused = sql.execute(statement, []).unwrap_err();
        assert!(refused.to_string().contains("never"), "{refused}");
    }
    let numbers: Vec<_> = store.audit(Some(3), 10).await.unwrap().iter().map(|line| line.number).collect();
    assert_eq!(numbers, [2, 1]);
    publish(&store, "orders", &["a"]).await;
    let mut source = subscribe(&store, "orders").await;
    ack(&store, &take(&mut source, 1).await[0]).await;
    assert_sound(&store).await;
}
