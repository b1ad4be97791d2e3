//! Flows and figures.

use axum::extract::{RawQuery, State};
use serde_json::json;

use super::{Answer, ok};
use crate::api::Api;
use crate::params::Params;

/// `GET /v1/flows`: those of the running instance.
pub(super) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    ok(&json!({ "flows": api.flows.flows() }))
}

/// `GET /v1/stats`: entries by flow and state, queues, flows.
pub(super) async fn stats(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    let counts = api.ledger.counts().await?;
    let queues = api.broker.queues().await?;
    let at = api.clock.now();
    ok(&json!({ "at": at, "states": counts.states, "queues": queues, "flows": api.flows.flows() }))
}
