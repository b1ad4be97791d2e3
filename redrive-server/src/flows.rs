//! What the API tells of flows.

use async_trait::async_trait;
use redrive_engine::Alarm;
use redrive_engine::port::{
    Actor, Control, ControlKind, EntryId, PortError, QueueInfo, Refusal, SourceRange, Topology,
};
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
    /// Messages of its source that it has not read or not settled; nothing where that cannot be told now.
    #[serde(default)]
    pub lag: Option<u64>,
    /// Its breaker, when it has one.
    pub breaker: Option<BreakerShown>,
    /// What a person should know.
    pub alarms: Vec<Alarm>,
    /// Who owns it.
    pub owner: Option<String>,
}

/// A queue or topic, and for which flow it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueShown {
    /// The queue.
    #[serde(flatten)]
    pub queue: QueueInfo,
    /// The flow whose broker it lies at; nothing for a queue of the data file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
}

/// One thing that a flow needs at its broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowTopology {
    /// The flow.
    pub flow: String,
    /// What it needs.
    #[serde(flatten)]
    pub topology: Topology,
}

/// What a rebuild of the ledger did for a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RebuiltFlow {
    /// The flow.
    pub flow: String,
    /// Messages that its broker keeps, as far as they were looked at.
    pub looked_at: u64,
    /// Entries that the ledger was told of; it leaves alone what it knows.
    pub told: u64,
    /// Entries left out because people had resolved them.
    pub resolved: u64,
}

/// Messages of a source that were sent to a flow once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceReplayed {
    /// The id, as the messages carry it.
    #[schemars(with = "String")]
    pub id: EntryId,
    /// The flow.
    pub flow: String,
    /// How many messages.
    pub messages: u64,
}

/// The flows of this process.
#[async_trait]
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

    /// Fills in how far each flow is behind its source, as far as the brokers answer.
    async fn with_lag(&self, flows: Vec<FlowShown>) -> Vec<FlowShown> {
        flows
    }

    /// Whether a flow obeys orders: one without a ledger has nowhere to find them.
    fn obeys(&self, _flow: &str) -> bool {
        true
    }

    /// Why people cannot act on what waits at a flow's broker; nothing where they can.
    async fn out_of_reach(&self) -> Vec<(String, PortError)> {
        Vec::new()
    }

    /// Queues and topics of the brokers that flows read, beside the data file's own. A broker that does not answer is
    /// left out: its flow's alarms say so.
    async fn queues(&self) -> Vec<QueueShown> {
        Vec::new()
    }

    /// What each flow needs at its broker, and what of it is missing or not as it should be.
    async fn topology(&self) -> Result<Vec<FlowTopology>, PortError> {
        Ok(Vec::new())
    }

    /// Makes the ledger's entries again from what the brokers keep, of one flow or of all.
    async fn rebuild(&self, flow: Option<&str>, actor: &Actor) -> Result<Vec<RebuiltFlow>, PortError> {
        let _ = (flow, actor);
        Err(nobody_runs())
    }

    /// Sends messages of a flow's source to the flow once more.
    async fn replay_source(
        &self,
        flow: &str,
        range: &SourceRange,
        actor: &Actor,
    ) -> Result<SourceReplayed, PortError> {
        let _ = (flow, range, actor);
        Err(nobody_runs())
    }
}

fn nobody_runs() -> PortError {
    let why = "no flow runs on this file: `redrive run` has to run it, since its broker has to be reached";
    Refusal::State(why.to_owned()).into()
}

/// No flow runs: a command works on the file itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFlows;

#[async_trait]
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
            lag: None,
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
