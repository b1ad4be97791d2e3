//! What people order, in force while messages come and go.

use redrive_core::guard::Rate;
use redrive_engine::port::{Depth, EntryState, NewMessage, Order, PortError, Quarantine, Refusal};
use serde_json::json;

use super::stage::{FLOW, named, operator, with_headers};
use super::{Fixture, Stage, eventually, no_lanes};
use crate::handler::Step;

async fn order(stage: &Stage<'_>, order: Order) -> Result<u64, PortError> {
    stage.ports.ledger.order(FLOW, &order, &operator(), stage.now()).await
}

fn quarantine(text: &str) -> Quarantine {
    text.parse().expect("a quarantine")
}

async fn is_paused(stage: &Stage<'_>, flow: &redrive_engine::Flow, pauses: (bool, bool)) {
    eventually(stage.fixture, &format!("the pauses {pauses:?}"), || async {
        if flow.paused() == pauses { Ok(()) } else { Err(format!("{:?}", flow.paused())) }
    })
    .await;
}

/// A pause holds every call, charges nobody, and ends with a resume; both stand in the audit.
pub async fn a_pause_holds_the_flow(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    order(&stage, Order::Pause).await.expect("a pause");
    is_paused(&stage, &flow, (true, false)).await;
    let again = order(&stage, Order::Pause).await;
    assert!(matches!(again, Err(PortError::Refused(Refusal::State(_)))), "{again:?}");
    for n in 0..5 {
        stage.publish(&format!("m{n}")).await;
    }
    stage.pass(5).await;
    assert!(stage.handler.calls().is_empty());
    order(&stage, Order::Resume).await.expect("a resume");
    stage.drained().await;
    assert_eq!(stage.handler.attempts_of("m4"), [1]);
    let audit = stage.ports.ledger.audit(None, 10).await.expect("an audit");
    let said: Vec<_> = audit.iter().rev().map(|line| (line.what.as_str(), line.who.as_str())).collect();
    assert_eq!(said, [("pause", "ada"), ("resume", "ada")]);
    stage.ends(flow).await;
}

/// A pause of the retries lets fresh messages go.
pub async fn a_pause_of_the_retries_lets_fresh_messages_go(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(2) })).await;
    order(&stage, Order::PauseRetries).await.expect("a pause");
    is_paused(&stage, &flow, (false, true)).await;
    stage.handler.on("late", [Step::status(503)]);
    stage.publish("late").await;
    stage.stands("late", EntryState::Waiting).await;
    stage.pass(10).await;
    stage.publish("fresh").await;
    stage.called("fresh", 1).await;
    assert_eq!(stage.handler.calls_of("late").len(), 1);
    order(&stage, Order::ResumeRetries).await.expect("a resume");
    stage.stands("late", EntryState::Recovered).await;
    stage.ends(flow).await;
}

/// A message that others wait for is a retry, too, and they wait with it.
pub async fn a_pause_of_the_retries_holds_a_blocking_one(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "blocking": format!("{} x5", stage.ticks(3)) })).await;
    stage.handler.on("head", [Step::status(503)]);
    order(&stage, Order::PauseRetries).await.expect("a pause");
    is_paused(&stage, &flow, (false, true)).await;
    stage.publish("head").await;
    eventually(fixture, "the flow to stand still", || async {
        if flow.is_blocked() { Ok(()) } else { Err("it runs".to_owned()) }
    })
    .await;
    stage.publish("behind").await;
    stage.pass(10).await;
    assert_eq!(stage.handler.order(), ["head"]);
    order(&stage, Order::ResumeRetries).await.expect("a resume");
    stage.drained().await;
    assert_eq!(stage.handler.order(), ["head", "head", "behind"]);
    stage.ends(flow).await;
}

/// A pause is in force from the start of the next run.
pub async fn a_pause_survives_a_restart(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    order(&stage, Order::Pause).await.expect("a pause");
    stage.publish("m").await;
    let stage = stage.reopen().await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    assert_eq!(flow.paused(), (true, false));
    stage.pass(5).await;
    assert!(stage.handler.calls().is_empty());
    order(&stage, Order::Resume).await.expect("a resume");
    stage.called("m", 1).await;
    stage.drained().await;
    stage.ends(flow).await;
}

/// A long pause gives back what was taken in.
pub async fn a_long_pause_gives_back_what_was_taken_in(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.long_hold = stage.tick * 5;
    // One runs, and the others are in hand until the rate allows them.
    spec.rate = Rate::new(1, stage.tick * 10_000);
    for n in 0..10 {
        stage.publish(&format!("m{n}")).await;
    }
    let flow = stage.start(spec).await;
    let in_hand = async |count: usize| {
        eventually(stage.fixture, &format!("{count} in hand"), || async {
            if flow.in_hand() == count { Ok(()) } else { Err(flow.in_hand().to_string()) }
        })
        .await;
    };
    in_hand(9).await;
    order(&stage, Order::Pause).await.expect("a pause");
    in_hand(0).await;
    assert_eq!(stage.depth(FLOW).await, Depth { ready: 9, waiting: 0 });
    stage.ends(flow).await;

    order(&stage, Order::Resume).await.expect("a resume");
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.drained().await;
    for n in 0..10 {
        assert_eq!(stage.handler.attempts_of(&format!("m{n}")), [1]);
    }
    stage.ends(flow).await;
}

/// What is in quarantine is kept, by key, tenant or header, and goes in order when it is let go; the rest goes on.
pub async fn a_quarantine_keeps_what_fits(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    for (text, fits, other) in [
        ("key=k1", NewMessage { key: Some("k1".into()), ..named("x") }, named("y")),
        ("tenant=acme", with_headers("x", &[("tenant", "acme")]), with_headers("y", &[("tenant", "other")])),
        ("header:region=eu", with_headers("x", &[("region", "eu")]), with_headers("y", &[("region", "us")])),
    ] {
        let stage = Stage::open(fixture).await;
        order(&stage, Order::Quarantine(quarantine(text))).await.expect("a quarantine");
        let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
        spec.concurrency = 1;
        let flow = stage.start(spec).await;
        for n in 0..3 {
            stage.publish_message(NewMessage { id: Some(format!("x{n}")), ..fits.clone() }).await;
            stage.publish_message(NewMessage { id: Some(format!("y{n}")), ..other.clone() }).await;
        }
        for n in 0..3 {
            stage.called(&format!("y{n}"), 1).await;
            let entry = stage.stands(&format!("x{n}"), EntryState::Held).await;
            assert_eq!((entry.attempts, entry.reason.as_str()), (0, "QUARANTINED"), "{text}");
        }
        let controls = stage.ports.ledger.controls().await.expect("controls");
        assert_eq!((controls.len(), controls[0].target.as_str(), controls[0].held), (1, text, 3));
        let let_go = order(&stage, Order::Release(quarantine(text))).await;
        assert_eq!(let_go, Ok(3));
        for n in 0..3 {
            let entry = stage.stands(&format!("x{n}"), EntryState::Recovered).await;
            let history = stage.ports.ledger.history(entry.id).await.expect("history");
            let again = history.iter().any(|line| line.what == "waiting");
            assert!(!again, "what was let go was kept once more: {history:?}");
        }
        let order: Vec<_> = stage.handler.order().into_iter().filter(|id| id.starts_with('x')).collect();
        assert_eq!(order, ["x0", "x1", "x2"]);
        stage.ends(flow).await;
    }
}

/// Orders that come and go while messages are settled lose none and repeat none.
pub async fn orders_race_settles(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": format!("{} x3", stage.ticks(1)) })).await;
    for n in 0..60 {
        let id = format!("m{n:02}");
        if n % 3 == 0 {
            stage.handler.on(&id, [Step::status(503)]);
        }
        stage.publish(&id).await;
        match n % 12 {
            2 => order(&stage, Order::Pause).await.map(drop).expect("a pause"),
            5 => order(&stage, Order::Resume).await.map(drop).expect("a resume"),
            7 => order(&stage, Order::PauseRetries).await.map(drop).expect("a pause"),
            11 => order(&stage, Order::ResumeRetries).await.map(drop).expect("a resume"),
            _ => stage.fixture.pass(stage.tick / 4).await,
        }
    }
    stage.drained().await;
    for n in 0..60 {
        let expected: &[u32] = if n % 3 == 0 { &[1, 2] } else { &[1] };
        assert_eq!(stage.handler.attempts_of(&format!("m{n:02}")), expected);
    }
    assert_eq!(stage.found(&super::stage::in_state(EntryState::Recovered)).await.len(), 20);
    stage.ends(flow).await;
}
