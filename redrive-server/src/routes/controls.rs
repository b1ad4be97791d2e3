//! What people order flows to do: pause, resume, keep some of their messages back.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use redrive_engine::port::{Control, ControlKind, Order, Quarantine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, MOST_LISTED, accountable, json as answer, ok};
use crate::access::Caller;
use crate::api::Api;
use crate::body::Json;
use crate::codes;
use crate::params::Params;
use crate::problem::{Problem, brief};

/// What can be done to a flow.
pub(super) const VERBS: &str = "pause, resume";

/// Who pauses a flow or lets it go on, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Steer {
    /// Whether its retries alone are meant.
    #[serde(default)]
    retries: bool,
    /// Why; it has to be given, and stands in the audit.
    reason: Option<String>,
    /// Who; default the token's name.
    by: Option<String>,
}

/// What an order did.
#[derive(Serialize, JsonSchema)]
pub(super) struct Given {
    flow: String,
    /// Whether the flow runs here.
    running: bool,
    order: &'static str,
    /// How many messages were let go.
    released: u64,
    /// Every control that is in force for the flow now.
    controls: Vec<Control>,
}

/// What is kept back.
#[derive(Serialize, JsonSchema)]
pub(super) struct QuarantineList {
    quarantines: Vec<Control>,
    /// How many there are.
    total: usize,
}

/// Which messages are kept back, by whom, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Keep {
    /// The flow; it has to be given.
    flow: Option<String>,
    /// Which of its messages: `key=K`, `tenant=T` or `header:NAME=V`; it has to be given.
    target: Option<String>,
    /// Why; it has to be given, and stands in the audit.
    reason: Option<String>,
    /// Who; default the token's name.
    by: Option<String>,
}

/// `POST /v1/flows/{flow}/{pause|resume}`
pub(super) async fn steer(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(steer): Json<Steer>,
) -> Answer {
    Params::none(query.as_deref())?;
    let (flow, verb) = super::names(path)?;
    let order = match (verb.as_str(), steer.retries) {
        ("pause", false) => Order::Pause,
        ("pause", true) => Order::PauseRetries,
        ("resume", false) => Order::Resume,
        ("resume", true) => Order::ResumeRetries,
        _ => {
            let text = format!("`{}` is none of {VERBS}", brief(&verb));
            return Err(Problem::new(codes::NO_ROUTE, text));
        }
    };
    let sign = Sign { caller, by: steer.by, reason: steer.reason };
    give(&api, StatusCode::OK, &flow, &order, sign).await
}

/// `POST /v1/quarantines`
pub(super) async fn keep(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(keep): Json<Keep>,
) -> Answer {
    Params::none(query.as_deref())?;
    let (flow, quarantine, sign) = kept(keep, caller)?;
    give(&api, StatusCode::CREATED, &flow, &Order::Quarantine(quarantine), sign).await
}

/// `POST /v1/quarantines/release`: the same object. It is no `DELETE`, since what is ended has a reason too, and the
/// body of a `DELETE` is lost on many ways.
pub(super) async fn release(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(keep): Json<Keep>,
) -> Answer {
    Params::none(query.as_deref())?;
    let (flow, quarantine, sign) = kept(keep, caller)?;
    give(&api, StatusCode::OK, &flow, &Order::Release(quarantine), sign).await
}

fn kept(keep: Keep, caller: Caller) -> Result<(String, Quarantine, Sign), Problem> {
    let flow = keep.flow.ok_or_else(|| Problem::missing("flow"))?;
    let target = keep.target.ok_or_else(|| {
        Problem::missing("target").help("say which messages: key=VALUE, tenant=VALUE or header:NAME=VALUE")
    })?;
    let quarantine = target.parse().map_err(|why| Problem::wrong("target", why))?;
    Ok((flow, quarantine, Sign { caller, by: keep.by, reason: keep.reason }))
}

/// Who gives the order, and why.
struct Sign {
    caller: Caller,
    by: Option<String>,
    reason: Option<String>,
}

/// Puts an order in force. Answers with the flow, whether it runs here, how many messages were let go, and every
/// control that is in force for it now.
async fn give(api: &Api, status: StatusCode, flow: &str, order: &Order, sign: Sign) -> Answer {
    let actor = accountable(sign.caller, sign.by, sign.reason)?;
    let flows = api.flows.flows();
    let runs = flows.iter().any(|known| known.name == flow);
    if !runs && api.flows.are_all() {
        // An order of a flow that is gone can still be ended, and no other be given.
        let left = of_flow(api.ledger.controls().await?, flow);
        if order.begins() || left.is_empty() {
            let names: Vec<_> = flows.iter().map(|known| known.name.as_str()).collect();
            return Err(Problem::not_found("flow", flow).help(match names.as_slice() {
                [] => "this instance runs no flow".to_owned(),
                names => format!("this instance runs: {}", names.join(", ")),
            }));
        }
    }
    if order.begins() && !api.flows.obeys(flow) {
        let text = format!("{flow} runs without a ledger, and would not learn of it");
        return Err(
            Problem::new(codes::WRONG_STATE, text).help("run the flow without --no-ledger, or stop it")
        );
    }
    let released = api.ledger.order(flow, order, &actor, api.clock.now()).await?;
    let controls = of_flow(api.ledger.controls().await?, flow);
    let given = Given { flow: flow.to_owned(), running: runs, order: order.name(), released, controls };
    answer(status, &given)
}

fn of_flow(controls: Vec<Control>, flow: &str) -> Vec<Control> {
    controls.into_iter().filter(|control| control.flow == flow).collect()
}

/// `GET /v1/quarantines?flow&limit`: those of one flow are never more than the limit.
pub(super) async fn quarantines(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["flow", "limit"])?;
    let limit = params.limit(MOST_LISTED, 1..=MOST_LISTED)?;
    let mut found = api.ledger.controls().await?;
    found.retain(|control| {
        control.kind == ControlKind::Quarantine && params.get("flow").is_none_or(|flow| flow == control.flow)
    });
    let total = found.len();
    found.truncate(limit);
    ok(&QuarantineList { quarantines: found, total })
}
