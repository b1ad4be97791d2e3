//! Flows and figures.

use axum::extract::{RawQuery, State};
use serde_json::json;

use super::{Answer, ok};
use crate::api::Api;
use crate::flows::{self, FlowControlled};
use crate::params::Params;
use crate::problem::Problem;

/// `GET /v1/flows`: those of the running instance, and those that do not run and have orders in force.
pub(super) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    ok(&json!({ "flows": flows(&api).await? }))
}

async fn flows(api: &Api) -> Result<Vec<FlowControlled>, Problem> {
    Ok(flows::controlled(api.flows.flows(), api.ledger.controls().await?))
}

/// `GET /v1/stats`: entries by flow and state, queues, flows.
pub(super) async fn stats(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    let counts = api.ledger.counts().await?;
    let queues = api.broker.queues().await?;
    let at = api.clock.now();
    ok(&json!({ "at": at, "states": counts.states, "queues": queues, "flows": flows(&api).await? }))
}
