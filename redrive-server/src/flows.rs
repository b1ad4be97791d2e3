//! What the API tells of flows.

use redrive_engine::Alarm;
use redrive_engine::port::{Control, ControlKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a flow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// It takes messages.
    Running,
    /// A blocking retry holds it.
    Blocked,
    /// A guard holds it: its breaker is open, or its handler refuses every call.
    Holding,
    /// A person paused it.
    Paused,
    /// A person paused its retries; fresh messages go on.
    RetriesPaused,
    /// It takes nothing new and finishes what it has.
    Stopping,
    /// It does not run here; what people ordered is in force when it starts.
    NotRunning,
}

/// Where a circuit breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerShown {
    /// Calls go through.
    Closed,
    /// Probes go through.
    HalfOpen,
    /// Nothing goes through.
    Open,
}

/// A flow of the running instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowShown {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: FlowState,
    /// Which guard holds it, in a few words; nothing when none does.
    pub holding: Option<String>,
    /// The address it reads, without credentials; nothing for one that does not run here.
    pub from: Option<String>,
    /// What it calls, without credentials; nothing for one that does not run here.
    pub to: Option<String>,
    /// Messages taken in and not settled.
    pub in_hand: u64,
    /// Its breaker, when it has one.
    pub breaker: Option<BreakerShown>,
    /// What a person should know.
    pub alarms: Vec<Alarm>,
    /// Who owns it.
    pub owner: Option<String>,
}

/// The flows of this process.
pub trait Flows: std::fmt::Debug + Send + Sync + 'static {
    /// Every flow and where it stands now, as far as the flow itself knows; what people ordered is added to it.
    fn flows(&self) -> Vec<FlowShown>;

    /// Whether these are all flows that there are, so that another name is a mistake.
    fn are_all(&self) -> bool {
        self.ready()
    }

    /// Whether every flow has begun to read. While it has not, `/readyz` says so.
    fn ready(&self) -> bool {
        true
    }
}

/// No flow runs: a command works on the file itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFlows;

impl Flows for NoFlows {
    fn flows(&self) -> Vec<FlowShown> {
        Vec::new()
    }

    /// A file does not know which flows will be run on it.
    fn are_all(&self) -> bool {
        false
    }
}

/// A flow, and the controls that are in force for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowControlled {
    /// The flow.
    #[serde(flatten)]
    pub flow: FlowShown,
    /// What people ordered.
    pub controls: Vec<Control>,
}

/// The flows that run with what people ordered, then those that do not run here and have orders that wait for them.
pub(crate) fn controlled(flows: Vec<FlowShown>, controls: Vec<Control>) -> Vec<FlowControlled> {
    let with = |flow| FlowControlled { flow, controls: Vec::new() };
    let mut all: Vec<_> = flows.into_iter().map(with).collect();
    for control in controls {
        let place = all.iter().position(|known| known.flow.name == control.flow).unwrap_or_else(|| {
            all.push(with(FlowShown::not_running(&control.flow)));
            all.len() - 1
        });
        all[place].controls.push(control);
    }
    for FlowControlled { flow, controls } in &mut all {
        let ordered = |kind| controls.iter().any(|control| control.kind == kind);
        flow.state = match flow.state {
            FlowState::Stopping | FlowState::NotRunning => flow.state,
            _ if ordered(ControlKind::Pause) => FlowState::Paused,
            FlowState::Running if ordered(ControlKind::PauseRetries) => FlowState::RetriesPaused,
            state => state,
        };
    }
    all
}

impl FlowShown {
    fn not_running(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: FlowState::NotRunning,
            holding: None,
            from: None,
            to: None,
            in_hand: 0,
            breaker: None,
            alarms: Vec::new(),
            owner: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::Timestamp;

    use super::*;

    fn flow(name: &str, state: FlowState) -> FlowShown {
        FlowShown { state, ..FlowShown::not_running(name) }
    }

    fn control(flow: &str, kind: ControlKind) -> Control {
        Control {
            flow: flow.into(),
            kind,
            target: String::new(),
            by: "ada".into(),
            reason: "stock count".into(),
            at: Timestamp::from_millis(0),
            held: 0,
        }
    }

    #[test]
    fn an_order_shows_in_the_state_unless_something_stronger_does() {
        use ControlKind::{Pause, PauseRetries, Quarantine};
        use FlowState::{Blocked, Holding, NotRunning, Paused, RetriesPaused, Running, Stopping};
        for (stands, ordered, shows) in [
            (Running, vec![], Running),
            (Running, vec![Quarantine], Running),
            (Running, vec![PauseRetries], RetriesPaused),
            (Running, vec![PauseRetries, Pause], Paused),
            (Blocked, vec![PauseRetries], Blocked),
            (Holding, vec![PauseRetries], Holding),
            (Holding, vec![Pause], Paused),
            (Stopping, vec![Pause], Stopping),
            (NotRunning, vec![Pause], NotRunning),
        ] {
            let controls = ordered.iter().map(|kind| control("orders", *kind)).collect();
            let all = controlled(vec![flow("orders", stands)], controls);
            assert_eq!((all.len(), all[0].flow.state), (1, shows), "{stands:?} {ordered:?}");
            assert_eq!(all[0].controls.len(), ordered.len());
        }
    }

    #[test]
    fn a_flow_that_does_not_run_is_shown_while_an_order_waits_for_it() {
        let all = controlled(
            vec![flow("orders", FlowState::Running)],
            vec![control("mails", ControlKind::Pause), control("mails", ControlKind::PauseRetries)],
        );
        let names: Vec<_> = all.iter().map(|known| (&*known.flow.name, known.flow.state)).collect();
        assert_eq!(names, [("orders", FlowState::Running), ("mails", FlowState::NotRunning)]);
        assert_eq!(all[1].controls.len(), 2);
    }
}
