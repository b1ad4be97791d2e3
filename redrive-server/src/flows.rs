//! What the API tells of flows while they run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a running flow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// It takes messages.
    Running,
    /// A blocking retry holds it.
    Blocked,
    /// A guard holds it: its breaker is open, or its handler refuses every call.
    Held,
    /// A person paused it.
    Paused,
    /// It takes nothing new and finishes what it has.
    Stopping,
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

/// Something about a flow that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alarm {
    /// Its short name, which is also the label of the gauge `redrive_alarm`; one of a few.
    pub name: String,
    /// What is the matter.
    pub message: String,
}

/// A flow of the running instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowShown {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: FlowState,
    /// The address it reads, without credentials.
    pub from: String,
    /// What it calls, without credentials.
    pub to: String,
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
    /// Every flow and where it stands now.
    fn flows(&self) -> Vec<FlowShown>;

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
}
