//! Ending deliveries, and what the ledger then shows.

use redrive_engine::port::{
    Broker, EntryState, Keeper, LaneName, Learned, Ledger, Outcome, PortError, Recorded, Refusal, Settlement,
};

use crate::fixture::{
    Fixture, ack, ann, assert_sound, at, failed, is_empty, publish, recovered, settle_one, settlement,
    subscribe, take,
};

#[tokio::test]
async fn every_outcome_leaves_the_message_where_it_belongs() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let now = fixture.now();
    publish(&store, "orders", &["ack", "delay", "hold", "dead", "park", "reject", "discard", "reroute"])
        .await;
    publish(&store, "returns", &["reroute"]).await;
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 8).await;
    let outcomes = [
        Outcome::Ack,
        Outcome::Delay { until: at(1_000) },
        Outcome::Hold { lane: LaneName::of_key(b"customer-1") },
        Outcome::DeadLetter,
        Outcome::Park,
        Outcome::Reject { event: "{\"no\":1}".into(), target: "queue:rejected".to_owned() },
        Outcome::Discard,
        Outcome::Reroute { target: "queue:returns".to_owned() },
    ];
    let batch: Vec<_> = taken
        .iter()
        .zip(outcomes)
        .map(|(delivery, outcome)| match outcome {
            Outcome::Ack => settlement(delivery, Outcome::Ack),
            outcome => Settlement {
                lane: Some(LaneName::of_key(b"customer-1")),
                ..failed(delivery, outcome, "503 from the warehouse", now)
            },
        })
        .collect();
    for answer in store.settle(&batch).await {
        answer.unwrap();
    }
    assert_sound(&store).await;
    let state = async |id: &str| store.entry(id).await.unwrap().map(|entry| entry.state);
    assert_eq!(state("ack").await, None, "what succeeds at once costs the ledger nothing");
    for (id, expected) in [
        ("delay", EntryState::Waiting),
        ("hold", EntryState::Held),
        ("dead", EntryState::Dead),
        ("park", EntryState::Parked),
        ("reject", EntryState::Rejected),
        ("discard", EntryState::Discarded),
    ] {
        assert_eq!(state(id).await, Some(expected), "{id}");
    }
    let depth = source.depth().await.unwrap();
    assert_eq!((depth.ready, depth.waiting), (0, 1));

    let mut rejected = subscribe(&store, "rejected").await;
    let event = take(&mut rejected, 1).await.remove(0);
    assert_eq!(event.message.body.as_deref(), Some(&b"{\"no\":1}"[..]));
    let mut returns = subscribe(&store, "returns").await;
    let moved = take(&mut returns, 2).await;
    assert_eq!(moved[0].message.id.as_str(), "reroute");
    assert_ne!(moved[1].message.id.as_str(), "reroute", "the id was taken there");
    assert_eq!(moved[1].message.body.as_deref(), Some(&b"reroute"[..]));
    assert_eq!(moved[1].trail.attempt, 0);

    fixture.clock.advance(1_000);
    let retry = take(&mut source, 1).await.remove(0);
    assert_eq!((retry.message.id.as_str(), retry.trail.attempt), ("delay", 1));
    settle_one(&store, recovered(&retry, fixture.now())).await;
    assert_eq!(state("delay").await, Some(EntryState::Recovered));
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_entry_tells_what_failed() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut headers = redrive_core::Headers::new();
    headers.push("type", "OrderPlaced");
    let message = redrive_engine::port::NewMessage {
        id: Some("order-1".to_owned()),
        key: Some("customer-9".into()),
        body: Some("{}".into()),
        headers,
        content_type: Some("application/json".to_owned()),
        due: None,
    };
    store.publish("orders", vec![message]).await.unwrap();
    let mut source = subscribe(&store, "orders").await;
    for round in 0..40 {
        let delivery = take(&mut source, 1).await.remove(0);
        fixture.clock.advance(1_000);
        let outcome = if round < 39 { Outcome::Delay { until: fixture.now() } } else { Outcome::DeadLetter };
        let mut settlement = failed(&delivery, outcome, &format!("error {round}"), fixture.now());
        let record = settlement.record.as_mut().unwrap();
        record.message_type = Some("OrderPlaced".to_owned());
        record.entity = Some("order-1".to_owned());
        record.owner = Some("team-orders".into());
        settle_one(&store, settlement).await;
    }
    let entry = store.entry("order-1").await.unwrap().unwrap();
    assert_eq!(entry, store.entry(&entry.id.to_string()).await.unwrap().unwrap());
    assert_eq!((entry.state, entry.attempts), (EntryState::Dead, 40));
    assert_eq!((entry.first_failed_at, entry.last_failed_at), (at(1_000), at(40_000)));
    assert_eq!(entry.message.key.as_deref(), Some("customer-9"));
    assert_eq!(entry.message.headers.get("type").map(String::as_str), Some("OrderPlaced"));
    assert_eq!(entry.message.headers.len(), 1, "without Redrive's own");
    assert_eq!(entry.error.message, "error 39");
    assert_eq!(entry.error.kind.as_deref(), Some("Timeout"));
    assert_eq!(entry.owner.as_deref(), Some("team-orders"));
    assert_eq!(entry.handler_version.as_deref(), Some("v7"));
    assert_eq!((entry.source.kind.as_str(), entry.source.name.as_str()), ("embedded", "orders"));
    assert_eq!(entry.safe_to_replay.verdict, "unknown");
    let history = store.history(entry.id).await.unwrap();
    let numbers: Vec<_> = history.iter().filter_map(|line| line.attempt).collect();
    assert_eq!(numbers.len(), 32);
    assert_eq!((numbers[0], numbers[1], numbers[31]), (1, 10, 40), "the first and the last are kept");
    let payload = store.payload(entry.id).await.unwrap().unwrap();
    assert_eq!(payload.body.as_deref(), Some(&b"{}"[..]));

    store.mark_processed("orders", &["order-1"], fixture.now()).await.unwrap();
    assert_eq!(store.processed("orders", &["order-1", "order-2"]).await.unwrap(), [true, false]);
    let entry = store.entry("order-1").await.unwrap().unwrap();
    assert_eq!(entry.safe_to_replay.why, "the handler has marked it as processed");

    // The names that the documents' own table has.
    let sql = rusqlite_of(&fixture);
    let row: (String, String, i64, String, String, String) = sql
        .query_row(
            "SELECT message_id, aggregate_id, attempt_count, state, owner_team, payload_hash FROM message_retry_ledger",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)),
        )
        .unwrap();
    assert_eq!(
        (&*row.0, &*row.1, row.2, &*row.3, &*row.4),
        ("order-1", "order-1", 40, "dead", "team-orders")
    );
    assert_eq!(row.5, redrive_core::fingerprint::PayloadHash::of(b"{}").to_string());
}

pub(crate) fn rusqlite_of(fixture: &Fixture) -> rusqlite::Connection {
    rusqlite::Connection::open(fixture.path()).unwrap()
}

#[tokio::test]
async fn a_record_that_contradicts_its_outcome_changes_nothing() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a", "b"]).await;
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 2).await;
    let mut wrong = failed(&taken[0], Outcome::DeadLetter, "503", fixture.now());
    wrong.record.as_mut().unwrap().state = EntryState::Parked;
    let without = settlement(&taken[0], Outcome::Park);
    let name = Outcome::Reroute { target: "no name".to_owned() };
    let nowhere = failed(&taken[0], name, "503", fixture.now());
    let fine = settlement(&taken[1], Outcome::Ack);
    let answers = store.settle(&[wrong, without, nowhere, fine]).await;
    for answer in &answers[..3] {
        assert!(matches!(answer, Err(PortError::Refused(Refusal::Invalid(_)))), "{answer:?}");
    }
    assert!(answers[3].is_ok());
    ack(&store, &taken[0]).await;
    assert!(is_empty(&store, &mut source).await);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_mark_is_set_together_with_the_release() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a"]).await;
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 1).await;
    let mut done = settlement(&taken[0], Outcome::Ack);
    done.processed_by = Some("ship".into());
    settle_one(&store, done).await;
    assert_eq!(store.processed("ship", &["a"]).await.unwrap(), [true]);
    assert_eq!(store.processed("bill", &["a"]).await.unwrap(), [false]);
}

#[tokio::test]
async fn groups_and_counts_follow_their_entries() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a", "b", "c"]).await;
    let mut source = subscribe(&store, "orders").await;
    let taken = take(&mut source, 3).await;
    for delivery in &taken {
        let error = if delivery.message.id.as_str() == "c" { "refused" } else { "timed out after 3 s" };
        settle_one(&store, failed(delivery, Outcome::Park, error, fixture.now())).await;
    }
    let groups = store.groups(Some("orders"), 10).await.unwrap();
    let sizes: Vec<_> = groups.iter().map(|group| group.counts["parked"]).collect();
    assert_eq!(sizes, [2, 1]);
    assert_eq!(groups[1].example, "refused");
    assert_eq!(store.count("orders", EntryState::Parked).await.unwrap(), 3);
    let discard = redrive_engine::port::Selection::Ids(vec!["c".to_owned()]);
    store.act(&redrive_engine::port::Deed::Discard, &discard, &ann(), fixture.now()).await.unwrap();
    assert_eq!(store.groups(None, 10).await.unwrap().len(), 1);
    let counts = store.counts().await.unwrap().states;
    let shown: Vec<_> = counts.iter().map(|count| (count.state, count.count)).collect();
    assert_eq!(shown, [(EntryState::Parked, 2), (EntryState::Discarded, 1)]);
    assert_eq!(counts[0].oldest_at, Some(fixture.now()));
}

#[tokio::test]
async fn a_record_of_another_broker_is_taken_once() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a"]).await;
    let mut source = subscribe(&store, "orders").await;
    let delivery = take(&mut source, 1).await.remove(0);
    let settlement = failed(&delivery, Outcome::Park, "503", fixture.now());
    let record = settlement.record.clone().unwrap();
    let learned = Learned::Settled;
    let recorded = Recorded { settlement, copy: None, keeper: Keeper::Broker, learned, by_pointer: false };
    for _ in 0..2 {
        store.record(std::slice::from_ref(&recorded)).await.unwrap();
    }
    assert_eq!(store.history(record.entry).await.unwrap().len(), 1);
    assert_eq!(store.count("orders", EntryState::Parked).await.unwrap(), 1);
    assert_sound(&store).await;
}
