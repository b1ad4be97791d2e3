//! What an entry remembers of its attempts, also of those that stayed in hand.

use redrive_engine::handler::{Attempted, Charge};
use redrive_engine::port::{Entry, EntryState, HistoryLine};
use serde_json::json;

use super::{Fixture, Stage};
use crate::handler::Step;

async fn history(stage: &Stage<'_>, entry: &Entry) -> Vec<HistoryLine> {
    stage.ports.ledger.history(entry.id).await.expect("the ledger")
}

/// The number, the decision and the status of each attempt.
fn attempts(history: &[HistoryLine]) -> Vec<(u32, &str, Option<u16>)> {
    let told = history.iter().filter(|line| line.what == "attempt");
    told.map(|line| {
        let (number, decision) = (line.attempt.expect("a number"), line.decision.as_deref());
        (number, decision.expect("a decision"), line.http_status)
    })
    .collect()
}

fn numbers(history: &[HistoryLine]) -> Vec<u32> {
    attempts(history).into_iter().map(|(number, ..)| number).collect()
}

/// Attempts in place and blocking ones stand in the history beside those that left the hand, each with its failure.
pub async fn the_history_has_every_attempt(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let tick = stage.ticks(1);
    let flow = stage
        .run(json!({ "local": "1ms x2", "blocking": tick, "retry": format!("{tick} x2"), "budgets": { "attempts": 6 } }))
        .await;
    stage.handler.on("a", [503, 502, 504, 500, 503, 502].map(Step::status));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    let lines = history(&stage, &entry).await;
    assert_eq!(
        attempts(&lines),
        [
            (1, "retry_in_place", Some(503)),
            (2, "retry_in_place", Some(502)),
            (3, "block", Some(504)),
            (4, "delay", Some(500)),
            (5, "delay", Some(503)),
            (6, "dead_letter", Some(502)),
        ]
    );
    assert!(lines.is_sorted_by_key(|line| line.at), "{lines:?}");
    assert!(lines.iter().all(|line| line.error.is_some() && line.because.is_some()), "{lines:?}");
    stage.ends(flow).await;
}

/// A retry that fails in place and then succeeds leaves both on the record, and what the success cost.
pub async fn a_recovery_keeps_what_failed_in_hand(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage
        .run(json!({ "retry": format!("{} x2", stage.ticks(1)),
            "rules": [{ "when": { "status": 502 }, "class": "TRANSIENT", "reason": "AWAY", "handling": "delayed" }],
            "local": "1ms x3" }))
        .await;
    let succeeds = Step::run(|_, _| async {
        Attempted { charge: Charge { calls: 3, cost: 0 }, ..Attempted::success() }
    });
    stage.handler.on("a", [502, 503, 503].map(Step::status).into_iter().chain([succeeds]));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Recovered).await;
    let lines = history(&stage, &entry).await;
    let told = numbers(&lines);
    assert_eq!(told, [1, 2, 3], "{lines:?}");
    let last = lines.last().expect("a history");
    assert_eq!((last.what.as_str(), last.attempt, last.calls), ("recovered", Some(4), Some(3)));
    assert!(last.took_ms.is_some(), "{last:?}");
    assert_eq!(entry.attempts, 4);
    stage.ends(flow).await;
}

/// However many attempts were made in hand: the first and the last ones are kept, and few of them.
pub async fn a_long_history_keeps_its_ends(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "local": "0ms x60", "budgets": { "attempts": 61 } })).await;
    stage.handler.otherwise(Step::status(503));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(entry.attempts, 61);
    let lines = history(&stage, &entry).await;
    let told = numbers(&lines);
    assert_eq!((told.first(), told.last()), (Some(&1), Some(&61)), "{told:?}");
    assert!((4..=32).contains(&told.len()) && told.is_sorted(), "{told:?}");
    stage.ends(flow).await;
}

/// A stop in the middle of attempts in hand writes them down, each once.
pub async fn a_stop_in_between_doubles_no_attempt(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = json!({ "local": format!("1ms, {} x2", stage.ticks(40)), "budgets": { "attempts": 4 } });
    let flow = stage.run(policy.clone()).await;
    stage.handler.otherwise(Step::status(503));
    stage.publish("a").await;
    stage.called("a", 2).await;
    flow.stop().await;
    let entry = stage.stands("a", EntryState::Waiting).await;
    assert_eq!(entry.attempts, 2);
    assert_eq!(numbers(&history(&stage, &entry).await), [1, 2]);
    let flow = stage.run(policy).await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(numbers(&history(&stage, &entry).await), [1, 2, 3, 4]);
    stage.ends(flow).await;
}
