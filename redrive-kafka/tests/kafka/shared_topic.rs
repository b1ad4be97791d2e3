//! Two services that read one topic, with flows of one name.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::message::Message;
use redrive_engine::port::{EntryState, Ledger as _};
use redrive_kafka::{Groups, KafkaFlow};
use redrive_sqlite::{Options, Store};
use serde_json::json;

use crate::flows::Company;
use crate::stage::{Stage, eventually, sorted};

const RECORDS: usize = 6;

/// Which records fail at a service, and how often each is called.
fn expected(fails: fn(usize) -> bool, stage: &Stage) -> BTreeMap<String, Vec<u32>> {
    let attempts = |number| if fails(number) { vec![1, 2] } else { vec![1] };
    (0..RECORDS).map(|number| (format!("{}/0/{number}", stage.name), attempts(number))).collect()
}

/// Each handles its own failures and nobody else's, and its ledger has its own dead letters alone.
async fn two_services_keep_apart(with_ledgers: bool) {
    let Some(stage) = Stage::shared("shared") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..RECORDS).await;
    let folder = tempfile::tempdir().unwrap();
    // The last record is dead at one of them.
    let fails: [fn(usize) -> bool; 2] = [|number| number % 2 == 0, |number| number % 2 == 1];
    let mut services = Vec::new();
    for (fails, name) in fails.into_iter().zip(["billing", "shipping"]) {
        let mut service = Company::new(&stage, json!({ "retry": "2s" }), move |message, attempt| {
            let number: usize = message.id.rsplit('/').next().unwrap().parse().unwrap();
            !fails(number) || (attempt > 1 && number != RECORDS - 1)
        });
        let groups = Groups::of(&format!("{}-{name}", stage.name));
        service.kafka = KafkaFlow { groups, ledger: with_ledgers, ..service.kafka };
        if with_ledgers {
            let file = folder.path().join(format!("{name}.db"));
            service.store = Some(Arc::new(Store::open(file, Options::default()).unwrap()));
        }
        let (_, flow) = service.join().await;
        services.push((service, flow, fails));
    }
    for (service, flow, fails) in &services {
        let all = expected(*fails, &stage);
        let calls: usize = all.values().map(Vec::len).sum();
        service
            .journal
            .until("each was tried as often as it has to be", |called| called.len() >= calls)
            .await;
        let waits = format!("{}.retry.2s", stage.name);
        eventually("all that waited has been passed", async || {
            // Behind the last record lie the marks of transactions, which nobody reads.
            let last = stage.read(&waits).await.iter().map(Message::offset).max()?;
            let (passed, _) = stage.committed(&service.kafka.groups.retry, &waits, 0).await?;
            (passed > last).then_some(())
        })
        .await;
        let mut called: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for call in service.journal.calls() {
            called.entry(call.id).or_default().push(call.attempt);
        }
        assert_eq!(called, all);
        let shared: Vec<_> =
            flow.alarms().into_iter().filter(|alarm| alarm.name == "shared_topics").collect();
        assert_eq!(shared.len(), 1, "{shared:?}");
    }
    assert_eq!(sorted(&stage.read(&format!("{}.dlq", stage.name)).await), [RECORDS - 1]);
    for (mut service, flow, fails) in services {
        flow.stop().await;
        let Some(store) = service.store.clone() else { continue };
        // At the next start what lies in the topics is looked at.
        let (_, again) = service.join().await;
        let counts = store.counts().await.unwrap().states;
        let dead: u64 = counts.iter().filter(|one| one.state == EntryState::Dead).map(|one| one.count).sum();
        assert_eq!(dead, u64::from(fails(RECORDS - 1)), "{counts:?}");
        again.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_services_on_one_topic_keep_apart() {
    tokio::join!(two_services_keep_apart(false), two_services_keep_apart(true));
}
