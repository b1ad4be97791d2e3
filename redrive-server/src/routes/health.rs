//! Whether it lives, whether it works, and its figures.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse as _;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::timeout;

use super::{Answer, ok};
use crate::api::Api;
use crate::codes;
use crate::figures::Figures;
use crate::metrics;
use crate::problem::Problem;

/// A store that needs longer than this for its kept counts is not ready.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// That the process answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Alive {
    alive: bool,
}

/// That it works.
#[derive(Serialize, JsonSchema)]
pub(super) struct Ready {
    ready: bool,
}

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> Answer {
    ok(&Alive { alive: true })
}

/// `GET /readyz`: the flows read, the ledger answers and the broker takes writes. It says no more than that: anyone may ask.
pub(super) async fn ready(State(api): State<Api>) -> Answer {
    if !api.flows.ready() {
        return Err(Problem::new(codes::UNAVAILABLE, "not every flow has begun"));
    }
    // A broker apart from the data says itself that it is away; its flow raises the alarm.
    if api.flows.flows().iter().any(|flow| flow.alarms.iter().any(|alarm| alarm.name == "broker_away")) {
        return Err(Problem::new(codes::UNAVAILABLE, "a flow's broker does not answer; messages are held"));
    }
    let Ok(Ok(_)) = timeout(LONGEST_LOOK, api.ledger.counts()).await else {
        return Err(Problem::new(codes::UNAVAILABLE, "the ledger does not answer"));
    };
    match timeout(LONGEST_LOOK, api.broker.ready()).await {
        Ok(Ok(())) => ok(&Ready { ready: true }),
        _ => Err(Problem::new(codes::UNAVAILABLE, "the data cannot be written; messages are held")),
    }
}

/// `GET /metrics`
pub(super) async fn metrics(State(api): State<Api>) -> Answer {
    let mut text = api.metrics.as_ref().map(Figures::render).unwrap_or_default();
    let counts = api.ledger.counts().await?;
    metrics::write(&mut text, &counts, api.clock.now());
    let flows = api.flows.flows();
    let mut held = Vec::with_capacity(flows.len());
    for flow in &flows {
        held.push((flow.name.as_str(), api.ledger.held_lanes(&flow.name).await?));
    }
    metrics::write_held(&mut text, &held);
    if api.metrics.is_none() {
        metrics::write_alarms(&mut text, &flows);
    }
    let mut response = (StatusCode::OK, text).into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}
