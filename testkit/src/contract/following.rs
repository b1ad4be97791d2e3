//! A handler that names the message to wait for.

use redrive_core::{Class, Verdict};
use redrive_engine::port::{Deed, EntryState};
use serde_json::json;

use super::{Fixture, Stage, no_lanes};
use crate::handler::Step;

fn follow(id: &str) -> Step {
    Step::verdict(Verdict::Follow(id.into()))
}

/// Who follows a message that has not come to an end is kept behind it, uncharged, and goes when it is through.
pub async fn follow_waits_for_the_one_in_front(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("first", [Step::status(422)]);
    stage.publish("first").await;
    let first = stage.stands("first", EntryState::Parked).await;
    // By the message's id, and by the entry's.
    stage.handler.on("second", [follow("first")]);
    stage.handler.on("third", [follow(&first.id.to_string())]);
    for id in ["second", "third"] {
        stage.publish(id).await;
        let entry = stage.stands(id, EntryState::Held).await;
        assert_eq!((entry.held_behind.as_deref(), entry.attempts), (Some("first"), 0));
    }
    stage.pass(3).await;
    assert_eq!(stage.handler.calls_of("second").len(), 1);
    stage.done(Deed::RetryNow, "first").await;
    for id in ["first", "second", "third"] {
        stage.stands(id, EntryState::Recovered).await;
    }
    assert_eq!(stage.handler.attempts_of("second"), [1, 1]);
    stage.ends(flow).await;
}

/// Who follows a message that waits for its retry goes after it; one that is discarded lets its followers go.
pub async fn follow_ends_with_what_it_follows(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(10) })).await;
    stage.handler.on("waits", [Step::status(503)]);
    stage.handler.on("parked", [Step::status(422)]);
    for id in ["waits", "parked"] {
        stage.publish(id).await;
        stage.called(id, 1).await;
    }
    stage.stands("waits", EntryState::Waiting).await;
    stage.stands("parked", EntryState::Parked).await;
    for (id, first) in [("one", "waits"), ("two", "parked")] {
        stage.handler.on(id, [follow(first)]);
        stage.publish(id).await;
        stage.stands(id, EntryState::Held).await;
    }
    stage.done(Deed::Discard, "parked").await;
    stage.stands("one", EntryState::Recovered).await;
    stage.stands("two", EntryState::Recovered).await;
    let order = stage.handler.order();
    let place = |id: &str| order.iter().rposition(|call| call == id);
    assert!(place("waits") < place("one"), "{order:?}");
    stage.ends(flow).await;
}

/// To follow oneself, or what has come to an end, is charged as contention.
pub async fn follow_on_what_has_ended_is_contention(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("done", [Step::status(503)]);
    stage.publish("done").await;
    stage.stands("done", EntryState::Recovered).await;
    for (id, first) in [("late", "done"), ("self", "self")] {
        stage.handler.on(id, [follow(first), follow(first)]);
        stage.publish(id).await;
        let entry = stage.stands(id, EntryState::Dead).await;
        assert_eq!((entry.class, entry.attempts), (Class::Contention, 2), "{id}");
    }
    stage.ends(flow).await;
}
