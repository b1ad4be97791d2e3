//! Flows and figures.

use axum::extract::{RawQuery, State};
use redrive_core::Timestamp;
use redrive_engine::port::StateCount;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, ok};
use crate::api::Api;
use crate::flows::{self, FlowControlled, QueueShown};
use crate::params::Params;
use crate::problem::Problem;

/// The flows of an instance.
#[derive(Serialize, JsonSchema)]
pub(super) struct FlowList {
    flows: Vec<FlowControlled>,
}

/// How many messages stand where.
#[derive(Serialize, JsonSchema)]
pub(super) struct Stats {
    /// When.
    at: Timestamp,
    /// Messages that failed, by flow and state.
    states: Vec<StateCount>,
    queues: Vec<QueueShown>,
    flows: Vec<FlowControlled>,
}

/// `GET /v1/flows`: those of the running instance, and those that do not run and have orders in force.
pub(super) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    ok(&FlowList { flows: flows(&api).await? })
}

async fn flows(api: &Api) -> Result<Vec<FlowControlled>, Problem> {
    let running = api.flows.with_lag(api.flows.flows()).await;
    let controls = match api.ledger.controls().await {
        // What runs is shown when the ledger is away too: its alarms say that it is.
        Err(_) if !running.is_empty() => Vec::new(),
        controls => controls?,
    };
    Ok(flows::controlled(running, controls))
}

/// `GET /v1/stats`: entries by flow and state, queues, flows.
pub(super) async fn stats(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    let states = api.ledger.counts().await?.states;
    let queues = super::queues::all(&api).await?;
    ok(&Stats { at: api.clock.now(), states, queues, flows: flows(&api).await? })
}
