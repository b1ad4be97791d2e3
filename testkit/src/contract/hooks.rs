//! Those who are told of diversions.

use std::sync::{Arc, Mutex};

use redrive_engine::hook::{Diverted, FunctionHook, Hooks, When};
use redrive_engine::port::EntryState;
use serde_json::json;

use super::{Fixture, Stage, eventually};
use crate::handler::Step;

type Heard = Arc<Mutex<Vec<(When, String, EntryState, String)>>>;

/// Hooks that write down what they hear, and then do as they are told.
fn listening(heard: &Heard, fails: bool) -> Hooks {
    let hook = || {
        let heard = Arc::clone(heard);
        Arc::new(FunctionHook::new(move |diverted: Diverted| {
            let heard = Arc::clone(&heard);
            async move {
                let Diverted { when, message, state, decision, .. } = diverted;
                let line = (when, message.id, state, decision.into_owned());
                heard.lock().expect("nobody panics here").push(line);
                assert!(!fails, "the hook breaks");
                Ok::<(), std::convert::Infallible>(())
            }
        })) as _
    };
    Hooks { before: Some(hook()), after: Some(hook()) }
}

async fn tell(fixture: &impl Fixture, fails: bool) {
    let stage = Stage::open(fixture).await;
    let heard = Heard::default();
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.hooks = listening(&heard, fails);
    stage.handler.on("late", [Step::status(503)]);
    stage.handler.on("bad", [Step::status(422)]);
    let flow = stage.start(spec).await;
    for id in ["late", "bad", "good"] {
        stage.publish(id).await;
    }
    stage.stands("late", EntryState::Recovered).await;
    stage.stands("bad", EntryState::Parked).await;
    stage.drained().await;
    let expected = [("bad", EntryState::Parked, "park"), ("late", EntryState::Waiting, "delay")];
    let all = eventually(stage.fixture, "both hooks to be told of both", || async {
        let heard = heard.lock().expect("nobody panics here").clone();
        if heard.len() >= 4 { Ok(heard) } else { Err(format!("{heard:?}")) }
    })
    .await;
    for when in [When::Before, When::After] {
        let mut told: Vec<_> = all
            .iter()
            .filter(|line| line.0 == when)
            .map(|(_, id, state, decision)| (id.as_str(), *state, decision.as_str()))
            .collect();
        told.sort_unstable_by_key(|line| line.0);
        assert_eq!(told, expected, "{when:?}");
    }
    stage.ends(flow).await;
    assert_eq!(heard.lock().expect("nobody panics here").len(), 4, "what succeeds is nobody's business");
}

/// The hooks are told before and after every diversion, and of nothing else.
pub async fn hooks_are_told_of_every_diversion(fixture: &impl Fixture) {
    tell(fixture, false).await;
}

/// Hooks that panic change nothing.
pub async fn hooks_that_fail_change_nothing(fixture: &impl Fixture) {
    tell(fixture, true).await;
}
