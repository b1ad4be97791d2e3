//! A broker and a ledger that stand apart: what happens between the two, where no transaction spans both.

use redrive_core::OrderBy;
use redrive_engine::port::{Deed, EntryState, NewMessage, PortError, SourceRange, Subscription};
use redrive_engine::{Flow, FlowSpec};
use serde_json::{Value, json};

use super::stage::{FLOW, named, operator, with_headers};
use super::{Fixture, Stage, eventually, not_applicable};
use crate::handler::Step;

/// So many settles fail that nothing is settled until a test says so.
const ALL: u32 = 1_000_000;

macro_rules! needs_apart {
    ($stage:ident, $name:literal) => {
        match $stage.fixture.apart(&$stage.ports) {
            Some(apart) => apart,
            None => return not_applicable($name, "the broker and the ledger are one"),
        }
    };
}

macro_rules! needs_faults {
    ($stage:ident, $name:literal) => {
        let _ = needs_apart!($stage, $name);
        if !$stage.fixture.fail_settles(0) {
            return not_applicable($name, "no faults on request");
        }
    };
}

fn subscription(stage: &Stage<'_>) -> Subscription {
    Subscription::new(FLOW, stage.address(FLOW))
}

fn ordered(stage: &Stage<'_>, policy: Value) -> FlowSpec {
    let mut spec = stage.flow(policy);
    spec.order_by = OrderBy::Key;
    spec
}

fn keyed(id: &str) -> NewMessage {
    NewMessage { key: Some("k".into()), ..named(id) }
}

/// Ends a flow as a crash does: what could not be settled is handed out again.
async fn crash(stage: Stage<'_>, flow: Flow) -> Stage<'_> {
    flow.force().now();
    flow.stop().await;
    let stage = stage.reopen().await;
    stage.fixture.fail_settles(0);
    stage
}

async fn no_lane_is_held(stage: &Stage<'_>) {
    eventually(stage.fixture, "open lanes", || async {
        match stage.ports.ledger.held_lanes(FLOW).await {
            Ok(0) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;
}

/// A retry that was sent at once is not made a second time when the broker's copy comes.
pub async fn a_copy_that_went_another_way_is_dropped(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let _ = needs_apart!(stage, "a_copy_that_went_another_way_is_dropped");
    let flow = stage.run(json!({ "retry": format!("{} x2", stage.ticks(30)) })).await;
    stage.handler.on("a", [Step::status(503), Step::status(503)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Waiting).await;
    stage.done(Deed::RetryNow, "a").await;
    stage.called("a", 2).await;
    // The second retry waits in the ledger's queue, where it was sent from; the first one's copy comes meanwhile.
    stage.stands("a", EntryState::Recovered).await;
    stage.drained().await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3]);
    stage.stands("a", EntryState::Recovered).await;
    stage.ends(flow).await;
}

/// A cancelled retry is parked, also when its copy comes later; it can be sent again.
pub async fn a_cancelled_copy_is_dropped(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let _ = needs_apart!(stage, "a_cancelled_copy_is_dropped");
    let flow = stage.run(json!({ "retry": stage.ticks(20) })).await;
    stage.handler.on("a", [Step::status(503)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Waiting).await;
    stage.done(Deed::Cancel, "a").await;
    stage.drained().await;
    assert_eq!(stage.handler.calls_of("a").len(), 1);
    stage.stands("a", EntryState::Parked).await;
    stage.done(Deed::RetryNow, "a").await;
    stage.stands("a", EntryState::Recovered).await;
    assert_eq!(stage.handler.calls_of("a").len(), 2);
    stage.ends(flow).await;
}

/// A crash after the ledger has written a head and its followers down, and before the broker has let them go.
pub async fn a_crash_between_ledger_and_broker_keeps_the_lane(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    needs_faults!(stage, "a_crash_between_ledger_and_broker_keeps_the_lane");
    let policy = json!({ "retry": format!("{} x3", stage.ticks(2)) });
    let flow = stage.start(ordered(&stage, policy.clone())).await;
    stage.fixture.fail_settles(ALL);
    stage.handler.on("a", [Step::status(503)]);
    stage.publish_batch(vec![keyed("a"), keyed("b"), keyed("c")]).await;
    stage.stands("a", EntryState::Waiting).await;
    let stage = crash(stage, flow).await;

    let flow = stage.start(ordered(&stage, policy)).await;
    stage.publish_message(keyed("d")).await;
    stage.called("d", 1).await;
    stage.drained().await;
    stage.stands("a", EntryState::Recovered).await;
    assert_eq!(stage.handler.order(), ["a", "a", "b", "c", "d"], "in order, and none of them twice");
    assert_eq!(stage.handler.attempts_of("a"), [1, 2], "the attempt before the crash counts");
    no_lane_is_held(&stage).await;
    stage.ends(flow).await;
}

/// The same crash when it was a retry that failed: the broker hands its old copy out again.
pub async fn a_crash_after_a_second_failure_loses_nothing(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    needs_faults!(stage, "a_crash_after_a_second_failure_loses_nothing");
    let policy = json!({ "retry": format!("{} x5", stage.ticks(3)) });
    let flow = stage.start(ordered(&stage, policy.clone())).await;
    let fixture_fails = fail_from_now_on(&stage);
    stage.handler.on("a", [Step::status(503), fixture_fails]);
    stage.publish_message(keyed("a")).await;
    stage.called("a", 2).await;
    eventually(fixture, "the second failure in the ledger", || async {
        let entry = stage.ports.ledger.entry("a").await.map_err(|error| error.to_string())?;
        let attempts = entry.map_or(0, |entry| entry.attempts);
        if attempts == 2 { Ok(()) } else { Err(format!("{attempts} attempts")) }
    })
    .await;
    stage.fixture.fail_settles(ALL);
    let stage = crash(stage, flow).await;

    let flow = stage.start(ordered(&stage, policy)).await;
    stage.publish_message(keyed("b")).await;
    stage.called("b", 1).await;
    stage.stands("a", EntryState::Recovered).await;
    stage.drained().await;
    let order = stage.handler.order();
    assert_eq!(order.iter().filter(|id| *id == "b").count(), 1);
    assert_eq!(order.last().map(String::as_str), Some("b"), "it waited for the one in front: {order:?}");
    no_lane_is_held(&stage).await;
    stage.ends(flow).await;
}

/// A failure; nothing is settled from then on.
fn fail_from_now_on(stage: &Stage<'_>) -> Step {
    let failing = stage.fixture.settles_fail();
    Step::run(move |_, _| {
        failing(ALL);
        async {
            redrive_engine::handler::Attempted::failure(
                redrive_core::Failure::from_message("the handler answered 503").with_status(503),
            )
        }
    })
}

/// A dead head that only the ledger knows to be dead holds its lane, and is a dead letter of the broker in the end.
pub async fn a_crash_before_a_dead_letter_keeps_it(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    needs_faults!(stage, "a_crash_before_a_dead_letter_keeps_it");
    let policy = json!({ "retry": stage.ticks(1), "budgets": { "attempts": 1 } });
    let flow = stage.start(ordered(&stage, policy.clone())).await;
    stage.fixture.fail_settles(ALL);
    stage.handler.on("a", vec![Step::status(503); 2]);
    stage.publish_batch(vec![keyed("a"), keyed("b")]).await;
    stage.stands("a", EntryState::Dead).await;
    let stage = crash(stage, flow).await;

    let flow = stage.start(ordered(&stage, policy)).await;
    stage.drained().await;
    stage.stands("a", EntryState::Dead).await;
    stage.stands("b", EntryState::Held).await;
    stage.done(Deed::RetryNow, "a").await;
    stage.stands("a", EntryState::Recovered).await;
    stage.called("b", 1).await;
    assert_eq!(stage.handler.order().last().map(String::as_str), Some("b"));
    assert_eq!(stage.handler.calls_of("b").len(), 1);
    no_lane_is_held(&stage).await;
    stage.ends(flow).await;
}

/// While the ledger is away, what needs no ledger is handled and settled; afterwards the ledger knows of all of it.
pub async fn a_ledger_that_is_away_holds_up_nobody(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let _ = needs_apart!(stage, "a_ledger_that_is_away_holds_up_nobody");
    if fixture.delays_in_ledger() || !fixture.ledger_away(false) {
        let why = "the ledger cannot be sent away, or everything waits there";
        return not_applicable("a_ledger_that_is_away_holds_up_nobody", why);
    }
    let flow = stage.run(json!({ "retry": format!("{} x2", stage.ticks(2)) })).await;
    fixture.ledger_away(true);
    stage.handler.on("b", [Step::status(503)]);
    stage.handler.on("c", [Step::status(422)]);
    for id in ["a", "b", "c"] {
        stage.publish(id).await;
        stage.called(id, 1).await;
    }
    // All that is left at the broker is the retry: whether it is still expected, only the ledger knows.
    eventually(fixture, "one message to be left", || async {
        let depth = stage.depth(FLOW).await;
        if depth.ready + depth.waiting == 1 { Ok(()) } else { Err(format!("{depth:?}")) }
    })
    .await;
    stage.pass(4).await;
    stage.publish("d").await;
    stage.called("d", 1).await;
    assert_eq!(stage.handler.calls_of("b").len(), 1, "nothing is handed out unasked");
    fixture.ledger_away(false);
    stage.stands("b", EntryState::Recovered).await;
    stage.stands("c", EntryState::Parked).await;
    stage.drained().await;
    assert_eq!(stage.handler.attempts_of("b"), [1, 2]);
    stage.ends(flow).await;
}

/// A ledger that was lost is made again from what the broker keeps; what people resolved stays resolved.
pub async fn a_rebuild_brings_back_what_is_open(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let apart = needs_apart!(stage, "a_rebuild_brings_back_what_is_open");
    let policy = json!({ "retry": stage.ticks(1) });
    let flow = stage.run(policy.clone()).await;
    for id in ["dead", "again"] {
        stage.handler.on(id, vec![Step::status(503); 2]);
    }
    for id in ["parked", "gone", "put-away", "mended"] {
        stage.handler.on(id, [Step::status(422)]);
    }
    stage.handler.on("better", [Step::status(503)]);
    for id in ["dead", "again", "parked", "gone", "put-away", "mended", "better"] {
        stage.publish(id).await;
    }
    for (id, state) in [
        ("dead", EntryState::Dead),
        ("again", EntryState::Dead),
        ("parked", EntryState::Parked),
        ("gone", EntryState::Parked),
        ("put-away", EntryState::Parked),
        ("mended", EntryState::Parked),
        ("better", EntryState::Recovered),
    ] {
        stage.stands(id, state).await;
    }
    stage.handler.on("again", [Step::status(422)]);
    stage.done(Deed::RetryNow, "again").await;
    let again = stage.stands("again", EntryState::Parked).await;
    stage.done(Deed::Discard, "gone").await;
    stage.done(Deed::Archive, "put-away").await;
    stage.done(Deed::RetryNow, "mended").await;
    stage.stands("mended", EntryState::Recovered).await;
    let subscription = subscription(&stage);
    eventually(fixture, "the broker to keep what was resolved", || async {
        let resolved = stage.ports.broker.resolved(&subscription).await.map_err(|error| error.to_string())?;
        if resolved.len() >= 3 { Ok(()) } else { Err(format!("{resolved:?}")) }
    })
    .await;
    let dead = stage.stands("dead", EntryState::Dead).await;
    stage.ends(flow).await;

    drop(apart);
    let Stage { fixture, ports, handler, tick } = stage;
    let Some(ports) = fixture.lose_ledger(ports).await else {
        return not_applicable("a_rebuild_brings_back_what_is_open", "the ledger cannot be lost");
    };
    let stage = Stage { fixture, ports, handler, tick };
    let apart = needs_apart!(stage, "a_rebuild_brings_back_what_is_open");
    apart.rebuild(&subscription, &operator()).await.expect("a rebuild");
    for _ in 0..2 {
        let entry = stage.stands("dead", EntryState::Dead).await;
        assert_eq!((entry.id, entry.attempts, &entry.reason), (dead.id, 2, &dead.reason));
        assert_eq!(entry.error.message, dead.error.message);
        stage.stands("parked", EntryState::Parked).await;
        let entry = stage.stands("again", EntryState::Parked).await;
        assert_eq!((entry.id, entry.reason), (again.id, again.reason.clone()), "the last word counts");
        for id in ["gone", "put-away", "mended", "better"] {
            let entry = stage.ports.ledger.entry(id).await.expect("the ledger");
            assert_eq!(entry, None, "{id} is resolved");
        }
        apart.rebuild(&subscription, &operator()).await.expect("a second rebuild");
    }
    let audit = stage.ports.ledger.audit(None, 10).await.expect("the audit");
    assert!(audit.iter().any(|line| line.what == "ledger rebuild" && line.who == "ada"), "{audit:?}");
    let flow = stage.run(policy).await;
    stage.done(Deed::RetryNow, "dead").await;
    stage.stands("dead", EntryState::Recovered).await;
    stage.ends(flow).await;
}

/// Whoever copies a dead letter back into the source sends a new message, whatever entry its headers name.
pub async fn a_dead_letter_that_is_sent_in_again_is_a_message_of_its_own(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let _ = needs_apart!(stage, "a_dead_letter_that_is_sent_in_again_is_a_message_of_its_own");
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("a", [Step::status(422)]);
    stage.publish("a").await;
    let dead = stage.stands("a", EntryState::Parked).await;
    let id = dead.id.to_string();
    let headers = [("x-entry-id", id.as_str()), ("x-wait-id", "1"), ("x-retry-attempt", "1")];
    stage.publish_message(with_headers("a", &headers)).await;
    stage.called("a", 2).await;
    stage.handler.on("fails", [Step::status(422)]);
    stage.publish_message(with_headers("fails", &headers)).await;
    let other = stage.stands("fails", EntryState::Parked).await;
    assert_ne!(other.id, dead.id);
    stage.drained().await;
    let entry = stage.ports.ledger.entry(&id).await.expect("the ledger").expect("its entry");
    assert_eq!((entry.state, entry.attempts), (EntryState::Parked, 1), "it was left alone");
    assert_eq!(entry.message.id, "a");
    stage.done(Deed::RetryNow, &id).await;
    stage.stands(&id, EntryState::Recovered).await;
    assert_eq!(stage.handler.calls_of("a").len(), 3);
    stage.ends(flow).await;
}

fn since_ever() -> SourceRange {
    SourceRange::Since { from: redrive_core::Timestamp::from_millis(0), to: None }
}

/// What was published is sent to this flow once more, and to nobody else.
pub async fn a_source_replay_goes_to_the_flow_alone(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let apart = needs_apart!(stage, "a_source_replay_goes_to_the_flow_alone");
    if !fixture.keeps_what_was_read() {
        let refused = apart.replay_source(&subscription(&stage), &since_ever(), &operator()).await;
        assert!(matches!(refused, Err(PortError::Refused(_))), "{refused:?}");
        return not_applicable(
            "a_source_replay_goes_to_the_flow_alone",
            "the broker does not keep what was read",
        );
    }
    let began = stage.now();
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    for id in ["a", "b", "c"] {
        stage.publish(id).await;
        stage.called(id, 1).await;
    }
    stage.drained().await;
    stage.handler.on("b", [Step::status(422)]);
    let range = SourceRange::Since { from: began, to: None };
    let done = apart.replay_source(&subscription(&stage), &range, &operator()).await.expect("a replay");
    assert_eq!(done.messages, 3);
    for id in ["a", "b", "c"] {
        let calls = stage.called(id, 2).await;
        let again = &calls[1];
        assert_eq!(again.message.body, calls[0].message.body);
        assert_eq!(again.context.replay.as_deref(), Some(&*done.id.to_string()));
        assert_eq!(again.message.headers.get_text("x-replayed-by", 64).as_deref(), Some("ada"));
    }
    stage.stands("b", EntryState::Parked).await;
    stage.drained().await;
    let again = apart.replay_source(&subscription(&stage), &range, &operator()).await.expect("a replay");
    assert_eq!(again.messages, 3, "nothing was published to the source");
    stage.called("a", 3).await;
    let audit = stage.ports.ledger.audit(None, 10).await.expect("the audit");
    let counts: Vec<u64> =
        audit.iter().filter(|line| line.what == "replay source").map(|line| line.count).collect();
    assert_eq!(counts, [3, 3]);
    stage.drained().await;
    stage.ends(flow).await;
}
