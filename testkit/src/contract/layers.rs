//! Where a retry waits: in hand, in front of the others, or in the broker.

use std::time::Duration;

use redrive_core::policy::IN_PLACE_SLOT;
use redrive_engine::port::{Clock as _, EntryState, Filter};
use serde_json::json;

use super::{Fixture, Stage, eventually, not_applicable};
use crate::handler::{Door, Step};

/// A retry in place costs the ledger nothing when it succeeds.
pub async fn in_place_retries_leave_no_trace_when_they_succeed(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "local": "1ms x3" })).await;
    stage.handler.on("a", [Step::status(503), Step::status(503)]);
    stage.publish("a").await;
    stage.called("a", 3).await;
    stage.drained().await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3]);
    assert!(stage.found(&Filter::default()).await.is_empty());
    stage.ends(flow).await;
}

/// A wait in place that is longer than a slot should be kept lets others run meanwhile.
pub async fn a_long_wait_in_place_frees_its_slot(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let wait = IN_PLACE_SLOT + Duration::from_millis(50).max(stage.tick);
    let mut spec = stage.flow(json!({ "local": format!("{}ms", wait.as_millis()) }));
    spec.concurrency = 1;
    let flow = stage.start(spec).await;
    stage.handler.on("a", [Step::status(503)]);
    stage.publish("a").await;
    stage.publish("b").await;
    stage.called("a", 2).await;
    stage.called("b", 1).await;
    stage.drained().await;
    assert_eq!(stage.handler.order(), ["a", "b", "a"]);
    stage.ends(flow).await;
}

/// A blocking retry holds everything behind it, and then lets it go.
pub async fn a_blocking_retry_holds_the_others(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "blocking": format!("{} x2", stage.ticks(3)) }));
    spec.concurrency = 1;
    let flow = stage.start(spec).await;
    stage.handler.on("a", [Step::status(503), Step::status(503)]);
    for id in ["a", "b", "c"] {
        stage.publish(id).await;
    }
    stage.called("a", 1).await;
    eventually(fixture, "the flow to stand still", || async {
        if flow.is_blocked() { Ok(()) } else { Err("it runs".to_owned()) }
    })
    .await;
    stage.called("c", 1).await;
    assert_eq!(stage.handler.order(), ["a", "a", "a", "b", "c"]);
    assert!(!flow.is_blocked());
    assert!(
        stage.found(&Filter::default()).await.is_empty(),
        "a blocking retry holds the flow, not the entry"
    );
    stage.drained().await;
    stage.ends(flow).await;
}

/// What fails while another of them stands first stands too: none is sent round, and each goes on in its place.
pub async fn those_that_fail_together_keep_their_places(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "blocking": format!("{} x5", stage.ticks(3)) })).await;
    let door = Door::closed();
    let ids = ["a", "b", "c", "d"];
    for id in ids {
        let fails = Step::Wait(door.clone(), Box::new(Step::status(503)));
        stage.handler.on(id, [fails, Step::status(503)]);
        stage.publish(id).await;
        stage.called(id, 1).await;
    }
    door.open();
    stage.called("d", 3).await;
    stage.drained().await;
    assert_eq!(stage.handler.order()[4..], ["a", "a", "b", "b", "c", "c", "d", "d"]);
    for id in ids {
        assert_eq!(stage.handler.attempts_of(id), [1, 2, 3], "{id}");
    }
    assert!(stage.found(&Filter::default()).await.is_empty(), "none of them was diverted");
    assert!(!flow.is_blocked());
    stage.ends(flow).await;
}

/// When the blocking retries are spent, the message leaves and the others go on.
pub async fn a_blocking_retry_ends(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "blocking": format!("{} x2", stage.ticks(1)) }));
    spec.concurrency = 4;
    let flow = stage.start(spec).await;
    stage.handler.on("a", [Step::status(503), Step::status(503), Step::status(503)]);
    stage.publish("a").await;
    assert_eq!(stage.stands("a", EntryState::Dead).await.attempts, 3);
    stage.publish("b").await;
    stage.called("b", 1).await;
    assert!(!flow.is_blocked());
    stage.ends(flow).await;
}

/// A delayed retry never comes early, and others go on meanwhile.
pub async fn a_delayed_retry_waits_in_the_broker(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(20) }));
    spec.concurrency = 1;
    let flow = stage.start(spec).await;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let clock = stage.ports.clock.clone();
    stage.handler.on(
        "a",
        [
            Step::status(503),
            Step::run(move |_, _| {
                let _ = sender.send(clock.now());
                std::future::ready(redrive_engine::handler::Attempted::success())
            }),
        ],
    );
    stage.publish("a").await;
    let waiting = stage.stands("a", EntryState::Waiting).await;
    let due = waiting.due_at.expect("a waiting entry has a due time");
    assert!(due >= waiting.last_failed_at + stage.tick * 20);
    stage.publish("b").await;
    stage.called("b", 1).await;
    let recovered = stage.stands("a", EntryState::Recovered).await;
    assert_eq!(recovered.attempts, 2);
    assert_eq!(recovered.due_at, None);
    assert!(receiver.recv().await.expect("it ran") >= due, "it came early");
    assert_eq!(stage.handler.order(), ["a", "b", "a"]);
    stage.drained().await;
    stage.ends(flow).await;
}

/// Local, then blocking, then delayed, once per message; n attempts are n calls, and the headers count along.
pub async fn the_layers_follow_each_other(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let tick = stage.ticks(1);
    let flow = stage
        .run(json!({ "local": "1ms x2", "blocking": tick, "retry": format!("{tick} x2"), "budgets": { "attempts": 6 } }))
        .await;
    stage.handler.otherwise(Step::status(503));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(entry.attempts, 6);
    stage.pass(5).await;
    let calls = stage.handler.calls_of("a");
    let seen: Vec<_> = calls
        .iter()
        .map(|call| {
            let header = call.message.headers.get_text("x-retry-attempt", 16);
            (call.context.attempt, call.context.will_retry, header.map(|text| text.to_string()))
        })
        .collect();
    let made = |n: &str| Some(n.to_owned());
    assert_eq!(
        seen,
        [
            (1, true, None),
            (2, true, None),
            (3, true, None),
            (4, true, None),
            (5, true, made("4")),
            (6, false, made("5")),
        ]
    );
    stage.ends(flow).await;
}

/// With one worker, what is ready comes in the order in which it was published.
pub async fn ready_messages_keep_their_order(fixture: &impl Fixture) {
    if !fixture.capabilities().ordered {
        return not_applicable("ready_messages_keep_their_order", "the broker keeps no order");
    }
    let stage = Stage::open(fixture).await;
    let ids: Vec<String> = (0..50).map(|n| format!("m{n:02}")).collect();
    for id in &ids {
        stage.publish(id).await;
    }
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.concurrency = 1;
    spec.prefetch = 7;
    let flow = stage.start(spec).await;
    stage.called("m49", 1).await;
    assert_eq!(stage.handler.order(), ids);
    stage.ends(flow).await;
}
