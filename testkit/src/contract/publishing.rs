//! Putting messages in.

use redrive_engine::port::{NewMessage, Published, Refusal};
use serde_json::json;

use super::stage::{FLOW, named};
use super::{Fixture, Stage, not_applicable};
use crate::handler::Step;

/// Messages that are published while the flow runs are handled, each once.
pub async fn messages_published_while_running_are_handled(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    for batch in 0..10 {
        let messages: Vec<NewMessage> = (0..20).map(|n| named(&format!("m{batch}-{n}"))).collect();
        let published = stage.try_publish(messages).await;
        assert!(published.iter().all(|one| matches!(one, Published::Accepted(_))));
    }
    for batch in 0..10 {
        stage.called(&format!("m{batch}-19"), 1).await;
    }
    stage.drained().await;
    let mut order = stage.handler.order();
    assert_eq!(order.len(), 200);
    order.sort();
    order.dedup();
    assert_eq!(order.len(), 200);
    stage.ends(flow).await;
}

/// A message with a delay is not handed out early.
pub async fn a_delayed_message_is_not_early(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    let due = stage.now() + stage.tick * 40;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let clock = stage.ports.clock.clone();
    stage.handler.on(
        "a",
        [Step::run(move |_, _| {
            let _ = sender.send(redrive_engine::port::Clock::now(&*clock));
            std::future::ready(redrive_engine::handler::Attempted::success())
        })],
    );
    stage.publish_message(NewMessage { due: Some(due), ..named("a") }).await;
    let depth = stage.depth(FLOW).await;
    // Whoever counts slowly may find that it was due meanwhile.
    assert!(depth.ready + depth.waiting == 1 || !stage.handler.calls_of("a").is_empty(), "{depth:?}");
    stage.publish("b").await;
    stage.called("b", 1).await;
    stage.called("a", 1).await;
    assert!(receiver.recv().await.expect("it ran") >= due);
    assert_eq!(stage.handler.attempts_of("a"), [1]);
    stage.drained().await;
    stage.ends(flow).await;
}

/// A message without an id gets one, and each another.
pub async fn ids_are_minted(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    let one = stage.publish_message(NewMessage::default()).await;
    let two = stage.publish_message(NewMessage::default()).await;
    assert_ne!(one, two);
    assert_eq!(stage.called(&one, 1).await[0].context.idempotency_key.as_ref(), one);
    stage.called(&two, 1).await;
    stage.ends(flow).await;
}

/// An id that is still queued is refused; the others of its batch are taken; afterwards it is free again.
pub async fn a_queued_id_is_refused(fixture: &impl Fixture) {
    if !fixture.capabilities().unique_ids {
        return not_applicable("a_queued_id_is_refused", "the broker takes an id twice");
    }
    let stage = Stage::open(fixture).await;
    stage.publish("a").await;
    let published = stage.try_publish(vec![named("a"), named("b"), named("b")]).await;
    assert_eq!(
        published,
        [
            Published::Refused(Refusal::Duplicate("a".to_owned())),
            Published::Accepted("b".to_owned()),
            Published::Refused(Refusal::Duplicate("b".to_owned())),
        ]
    );
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.called("b", 1).await;
    stage.drained().await;
    stage.publish("a").await;
    stage.called("a", 2).await;
    stage.drained().await;
    assert_eq!(stage.handler.calls_of("b").len(), 1);
    stage.ends(flow).await;
}

/// What was published before a restart is handled after it, delays included.
pub async fn published_messages_survive_a_restart(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    stage.publish("a").await;
    let due = stage.now() + stage.tick * 5;
    stage.publish_message(NewMessage { due: Some(due), ..named("b") }).await;
    let stage = stage.reopen().await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.called("a", 1).await;
    stage.called("b", 1).await;
    stage.drained().await;
    stage.ends(flow).await;
}
