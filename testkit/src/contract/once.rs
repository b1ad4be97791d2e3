//! Messages and steps that run once.

use redrive_core::Failure;
use redrive_engine::handler::{Attempted, Context, OnceError};
use redrive_engine::port::{Deed, EntryState};
use serde_json::json;

use super::{Fixture, Stage};
use crate::handler::Step;

/// A message that the handler has processed before is acknowledged without a call.
pub async fn a_processed_message_is_not_handled_again(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.once_per_message = true;
    let flow = stage.start(spec.clone()).await;
    stage.publish("a").await;
    stage.called("a", 1).await;
    stage.drained().await;
    stage.publish("a").await;
    stage.drained().await;
    assert_eq!(stage.handler.calls_of("a").len(), 1);
    flow.stop().await;

    let stage = stage.reopen().await;
    spec.handler = stage.handler.clone();
    let flow = stage.start(spec).await;
    stage.publish("a").await;
    stage.publish("b").await;
    stage.called("b", 1).await;
    stage.drained().await;
    assert_eq!(stage.handler.calls_of("a").len(), 1, "marks survive a restart");
    stage.ends(flow).await;
}

/// The mark is made after success, never before: what failed is handled again.
pub async fn a_failed_message_is_not_marked(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "local": "1ms", "retry": stage.ticks(1) }));
    spec.once_per_message = true;
    let flow = stage.start(spec).await;
    stage.handler.on("a", [Step::status(503), Step::status(503), Step::status(503)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Dead).await;
    assert_eq!(stage.ports.ledger.processed("orders", &["a"]).await.expect("marks"), [false]);
    stage.done(Deed::RetryNow, "a").await;
    stage.stands("a", EntryState::Recovered).await;
    assert_eq!(stage.handler.calls_of("a").len(), 4);
    stage.drained().await;
    assert_eq!(stage.ports.ledger.processed("orders", &["a"]).await.expect("marks"), [true]);
    stage.ends(flow).await;
}

/// A step that ran to its end is not run again by the next attempt; one that failed is.
pub async fn a_step_runs_once(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": format!("{} x3", stage.ticks(1)) })).await;
    let (sender, mut ran) = tokio::sync::mpsc::unbounded_channel();
    let attempt = move |context: Context| {
        let sender = sender.clone();
        async move {
            let number = context.attempt;
            let charge = context
                .once("charge the card", async {
                    let _ = sender.send("charge");
                    Ok::<_, Failure>(())
                })
                .await;
            let ship = context
                .once("ship", async {
                    let _ = sender.send("ship");
                    if number < 3 { Err(Failure::from_message("no van").with_status(503)) } else { Ok(()) }
                })
                .await;
            match (charge, ship) {
                (Err(OnceError::Step(failure)), _) | (_, Err(OnceError::Step(failure))) => {
                    Attempted::failure(failure)
                }
                (Ok(_), Ok(_)) => Attempted::success(),
                _ => Attempted::failure(Failure::from_message("no marks")),
            }
        }
    };
    stage.handler.otherwise(Step::run(move |_, context| attempt(context)));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Recovered).await;
    assert_eq!(entry.attempts, 3);
    let mut steps = Vec::new();
    while let Ok(step) = ran.try_recv() {
        steps.push(step);
    }
    assert_eq!(steps, ["charge", "ship", "ship", "ship"]);
    stage.publish("b").await;
    stage.called("b", 1).await;
    stage.drained().await;
    assert_eq!(ran.try_recv(), Ok("charge"), "another message's step of the same name is another step");
    stage.ends(flow).await;
}

/// The idempotency key is the message's id, the same in every attempt and after "retry now".
pub async fn the_idempotency_key_is_stable(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "local": "1ms", "retry": stage.ticks(1) })).await;
    stage.handler.on("a", [Step::status(503), Step::status(503), Step::status(503)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Dead).await;
    stage.done(Deed::RetryNow, "a").await;
    stage.stands("a", EntryState::Recovered).await;
    let calls = stage.handler.calls_of("a");
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|call| &*call.context.idempotency_key == "a"));
    stage.ends(flow).await;
}
