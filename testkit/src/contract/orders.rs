//! What people order flows to do: in force, on the record, and still so after a restart.

use redrive_engine::port::{ControlKind, Order, PortError, Quarantine, Refusal};

use super::stage::{FLOW, operator};
use super::{Fixture, Stage};

/// A flow that nothing runs: an order takes no flow to be in force.
const OTHER: &str = "mails";

async fn order(stage: &Stage<'_>, flow: &str, order: Order) -> Result<u64, PortError> {
    stage.ports.ledger.order(flow, &order, &operator(), stage.now()).await
}

async fn in_force(stage: &Stage<'_>) -> Vec<(String, ControlKind, String)> {
    let controls = stage.ports.ledger.controls().await.expect("controls");
    for control in &controls {
        assert_eq!((&control.by, &control.reason), (&operator().who, &operator().why));
    }
    controls.into_iter().map(|control| (control.flow, control.kind, control.target)).collect()
}

fn acme() -> Quarantine {
    Quarantine::Tenant("acme".to_owned())
}

/// A control is in force from its order to the order that ends it, whatever happens between, and both are audited.
pub async fn controls_are_in_force_until_they_are_ended(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    assert_eq!(in_force(&stage).await, []);
    for (flow, given) in [
        (FLOW, Order::PauseRetries),
        (FLOW, Order::Quarantine(acme())),
        (OTHER, Order::Pause),
        (FLOW, Order::Pause),
    ] {
        assert_eq!(order(&stage, flow, given).await, Ok(0));
    }
    let stage = stage.reopen().await;
    let of = |flow: &str, kind, target: &str| (flow.to_owned(), kind, target.to_owned());
    assert_eq!(
        in_force(&stage).await,
        [
            of(OTHER, ControlKind::Pause, ""),
            of(FLOW, ControlKind::PauseRetries, ""),
            of(FLOW, ControlKind::Quarantine, "tenant=acme"),
            of(FLOW, ControlKind::Pause, ""),
        ],
        "flow by flow, the oldest first"
    );
    for given in [Order::Resume, Order::Release(acme())] {
        assert_eq!(order(&stage, FLOW, given).await, Ok(0));
    }
    let left = [of(OTHER, ControlKind::Pause, ""), of(FLOW, ControlKind::PauseRetries, "")];
    assert_eq!(in_force(&stage).await, left);
    let lines = stage.ports.ledger.audit(None, 100).await.expect("the audit");
    let told: Vec<_> = lines.iter().rev().map(|line| (line.what.as_str(), line.subject.as_str())).collect();
    assert_eq!(
        told,
        [
            ("pause --retries", FLOW),
            ("quarantine add", "orders tenant=acme"),
            ("pause", OTHER),
            ("pause", FLOW),
            ("resume", FLOW),
            ("quarantine rm", "orders tenant=acme"),
        ]
    );
    stage.is_sound().await;
}

/// An order that changes nothing is refused with its reason, and is not audited.
pub async fn an_order_that_changes_nothing_is_refused(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    for (given, why) in [
        (Order::Resume, "flow `orders` is not paused"),
        (Order::ResumeRetries, "the retries of flow `orders` are not paused"),
        (Order::Release(acme()), "`tenant=acme` of flow `orders` is not in quarantine"),
    ] {
        let refused = order(&stage, FLOW, given).await;
        assert_eq!(refused, Err(Refusal::State(why.to_owned()).into()));
    }
    for (given, why) in [
        (Order::Pause, "flow `orders` is paused already"),
        (Order::PauseRetries, "the retries of flow `orders` are paused already"),
        (Order::Quarantine(acme()), "`tenant=acme` of flow `orders` is in quarantine already"),
    ] {
        assert_eq!(order(&stage, FLOW, given.clone()).await, Ok(0));
        assert_eq!(order(&stage, FLOW, given).await, Err(Refusal::State(why.to_owned()).into()));
    }
    let nobody = order(&stage, "no flow", Order::Pause).await;
    assert!(matches!(nobody, Err(PortError::Refused(Refusal::Invalid(_)))), "{nobody:?}");
    assert_eq!(stage.ports.ledger.audit(None, 100).await.expect("the audit").len(), 3);
}

/// Quarantines are bounded for each flow; the refusal says how to go on.
pub async fn a_flow_has_so_many_quarantines(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let keep = |n: u64| Order::Quarantine(Quarantine::Key(n.to_string()));
    for n in 0..Quarantine::MOST {
        assert_eq!(order(&stage, FLOW, keep(n)).await, Ok(0));
    }
    let refused = order(&stage, FLOW, keep(Quarantine::MOST)).await;
    assert_eq!(refused, Err(Quarantine::limit(FLOW).into()));
    assert_eq!(order(&stage, FLOW, Order::Pause).await, Ok(0), "a pause is no quarantine");
    assert_eq!(order(&stage, OTHER, keep(0)).await, Ok(0));
    assert_eq!(order(&stage, FLOW, Order::Release(Quarantine::Key("0".to_owned()))).await, Ok(0));
    assert_eq!(order(&stage, FLOW, keep(Quarantine::MOST)).await, Ok(0));
    stage.is_sound().await;
}
