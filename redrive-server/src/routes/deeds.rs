//! What people do to entries: one, some, or all that fit.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::StatusCode;
use redrive_engine::port::{Actor, Deed, DeedReport, EntryState, Filter, Page, Selection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::queues::Ids;
use super::{Answer, accountable, json as answer, ok};
use crate::access::Caller;
use crate::api::Api;
use crate::body::{self, Json};
use crate::codes;
use crate::filter::{self, Conditions};
use crate::params::Params;
use crate::problem::{Problem, brief};
use crate::publish;

pub(super) const DEEDS: &str = "retry-now, cancel, park, discard, restore, archive, reroute, skip";

/// Who does something to a message, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sign {
    /// Why; it has to be given, and stands in the audit.
    reason: Option<String>,
    /// Who; default the token's name.
    by: Option<String>,
    /// Where to, such as `queue:orders-by-hand`; for `reroute` only.
    target: Option<String>,
}

/// What is done to which messages: those with these ids, or those that fit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Act {
    /// retry-now, cancel, park, discard, restore, archive or reroute.
    deed: String,
    /// Ids of entries or of messages.
    ids: Option<Vec<String>>,
    /// Which messages, in place of ids.
    #[schemars(with = "Option<Conditions>")]
    filter: Option<Map<String, Value>>,
    /// Where to, such as `queue:orders-by-hand`; for `reroute` only.
    target: Option<String>,
    /// Why; it has to be given, and stands in the audit.
    reason: Option<String>,
    /// Who; default the token's name.
    by: Option<String>,
}

/// What a deed did.
#[derive(Serialize, JsonSchema)]
pub(super) struct Report {
    /// Messages changed.
    done: u64,
    /// Messages whose state does not allow it; at most 100 are named.
    refused: Vec<RefusedOne>,
    /// Ids that are not there.
    missing: Vec<String>,
}

/// A message whose state does not allow a deed.
#[derive(Serialize, JsonSchema)]
pub(super) struct RefusedOne {
    id: String,
    why: String,
}

fn deed(name: &str, target: Option<String>) -> Result<Deed, Problem> {
    let deed = match name {
        "retry-now" => Deed::RetryNow,
        "cancel" => Deed::Cancel,
        "park" => Deed::Park,
        "discard" => Deed::Discard,
        "restore" => Deed::Restore,
        "archive" => Deed::Archive,
        "skip" => Deed::Skip,
        "reroute" => {
            return match target {
                Some(target) if !target.trim().is_empty() => Ok(Deed::Reroute(target)),
                _ => Err(Problem::missing("target").help("say where to, such as `queue:orders-by-hand`")),
            };
        }
        _ => {
            return Err(Problem::wrong("deed", format_args!("`{}` is none of {DEEDS}", brief(name))));
        }
    };
    if target.is_some() {
        return Err(Problem::new(codes::UNKNOWN_NAME, "`target` is for `reroute` only"));
    }
    Ok(deed)
}

/// `POST /v1/messages/{id}/{deed}`
pub(super) async fn one(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(sign): Json<Sign>,
) -> Answer {
    Params::none(query.as_deref())?;
    let (id, name) = super::names(path)?;
    if !DEEDS.split(", ").any(|known| known == name) {
        return Err(Problem::new(codes::NO_ROUTE, format!("`{}` is none of {DEEDS}, copy", brief(&name))));
    }
    let deed = deed(&name, sign.target)?;
    let actor = accountable(caller, sign.by, sign.reason)?;
    let report = carry_out(&api, &deed, Selection::Ids(vec![id.clone()]), &actor).await?;
    if report.done == 0 && !report.missing.is_empty() {
        return Err(Problem::not_found("message", &id));
    }
    match report.refused.first() {
        Some((_, why)) if report.done == 0 => Err(Problem::new(codes::WRONG_STATE, why)),
        _ => ok(&shown(report)),
    }
}

/// `POST /v1/messages/act`: always answers with a report; what was refused or missing is in it.
pub(super) async fn act(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(act): Json<Act>,
) -> Answer {
    Params::none(query.as_deref())?;
    let deed = deed(&act.deed, act.target)?;
    let selection = selection(&api, act.ids, act.filter)?;
    let actor = accountable(caller, act.by, act.reason)?;
    ok(&shown(carry_out(&api, &deed, selection, &actor).await?))
}

/// Either ids or a filter. A filter without a condition would take the whole ledger, which nobody means who forgot
/// one; `state` can name every state.
pub(super) fn selection(
    api: &Api,
    ids: Option<Vec<String>>,
    filter: Option<Map<String, Value>>,
) -> Result<Selection, Problem> {
    match (ids, filter) {
        (Some(ids), None) if !ids.is_empty() => Ok(Selection::Ids(ids)),
        (None, Some(filter)) => {
            let filter = filter::from_json(&filter, api.clock.now())?;
            if filter.is_empty() {
                return Err(Problem::new(codes::REFUSED, "a filter without a condition selects everything")
                    .help("name at least one condition, such as a flow or a state"));
            }
            Ok(Selection::Filter(filter))
        }
        (Some(_), Some(_)) => {
            Err(Problem::new(codes::REFUSED, "`ids` and `filter` stand together; give one of them"))
        }
        _ => Err(Problem::missing("ids").help("give `ids` or `filter`")),
    }
}

async fn carry_out(
    api: &Api,
    deed: &Deed,
    selection: Selection,
    actor: &Actor,
) -> Result<DeedReport, Problem> {
    if matches!(deed, Deed::RetryNow | Deed::Cancel | Deed::Park | Deed::Discard | Deed::Reroute(_)) {
        within_reach(api, &selection).await?;
    }
    Ok(api.ledger.act(deed, &selection, actor, api.clock.now()).await?)
}

/// Refuses when one of these waits at a broker where others, who share no ledger, may have it in hand.
async fn within_reach(api: &Api, selection: &Selection) -> Result<(), Problem> {
    for (flow, why) in api.flows.out_of_reach().await {
        let waits = match selection {
            Selection::Ids(ids) => {
                let mut waits = false;
                for id in ids {
                    let entry = api.ledger.entry(id).await?;
                    waits |= entry.is_some_and(|one| one.flow == flow && one.state == EntryState::Waiting);
                }
                waits
            }
            Selection::Filter(filter) if filter.flow.as_ref().is_none_or(|named| *named == flow) => {
                let fits = filter.state.is_empty() || filter.state.contains(&EntryState::Waiting);
                let waiting =
                    Filter { flow: Some(flow.clone()), state: vec![EntryState::Waiting], ..filter.clone() };
                let page = Page { limit: 1, after: None };
                fits && !api.ledger.search(&waiting, &page).await?.entries.is_empty()
            }
            Selection::Filter(_) => false,
        };
        if waits {
            return Err(Problem::new(
                codes::WRONG_STATE,
                format!("what waits for {flow} is out of reach: {why}"),
            )
            .help("run one instance of the flow, or wait until the message is due"));
        }
    }
    Ok(())
}

fn shown(report: DeedReport) -> Report {
    let refused = report.refused.into_iter().map(|(id, why)| RefusedOne { id, why }).collect();
    Report { done: report.done, refused, missing: report.missing }
}

/// `POST /v1/messages/{id}/copy`: the request's body is the edited one, whatever its content type; `reason` and
/// `by` stand in the query. Key, headers and content type that the request does not have are the original's.
pub(super) async fn copy(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Answer {
    let id = super::name(id)?;
    let (parts, content) = request.into_parts();
    let mut params = Params::read(parts.uri.query(), &["reason", "by", "key", "id", "delay"])?;
    let actor = accountable(caller, params.take("by"), params.take("reason"))?;
    let held = body::read(&api, content, api.limits.request).await?;
    let now = api.clock.now();
    let edited = publish::opaque(&mut params, &parts.headers, held.bytes.clone(), &api.limits, now)?;
    let made = api.ledger.copy(&id, edited, &actor, now).await?;
    answer(StatusCode::CREATED, &Ids { ids: vec![made] })
}
