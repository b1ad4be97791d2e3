//! Replays: planned, begun, watched and steered.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use redrive_core::guard::Rate;
use redrive_engine::port::{EntryId, Filter, NewReplay, Replay, ReplayItem, ReplayState, Selection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::deeds::selection;
use super::{Answer, MOST_LISTED, accountable, actor, json as answer, ok};
use crate::access::Caller;
use crate::api::Api;
use crate::body::Json;
use crate::codes;
use crate::filter::Conditions;
use crate::params::Params;
use crate::problem::{Problem, brief};

/// What is to be sent back: the messages with these ids, or those that fit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewReplay")]
pub(super) struct Wanted {
    /// Which messages.
    #[schemars(with = "Option<Conditions>")]
    filter: Option<Map<String, Value>>,
    /// Ids of entries or of messages, in place of a filter.
    ids: Option<Vec<String>>,
    /// At most so many sends in a time.
    rate: Option<Rate>,
    /// At most so many messages.
    max: Option<u64>,
    /// Send so many first, and the rest when these have come to an end.
    canary: Option<u64>,
    /// Why; a replay that is to begin needs it, and it stands in the audit.
    reason: Option<String>,
    /// Who; default the token's name.
    by: Option<String>,
}

/// Who steers a replay, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Steer {
    /// Why; stands in the audit.
    reason: Option<String>,
    /// Who; default the token's name.
    by: Option<String>,
}

/// Replays, newest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReplayList {
    replays: Vec<Replay>,
}

/// A page of a replay's messages, in the order in which they are sent.
#[derive(Serialize, JsonSchema)]
pub(super) struct ItemPage {
    items: Vec<ReplayItem>,
    /// The `after` of the next page; null at the end.
    next: Option<u64>,
}

pub(super) const VERBS: &str = "pause, resume, cancel";

fn replay(api: &Api, wanted: Wanted) -> Result<NewReplay, Problem> {
    for (name, number) in [("max", wanted.max), ("canary", wanted.canary)] {
        if number == Some(0) {
            return Err(Problem::wrong(name, "expected 1 or more"));
        }
    }
    let (filter, ids) = match selection(api, wanted.ids, wanted.filter)? {
        Selection::Ids(ids) => (Filter::default(), ids),
        Selection::Filter(filter) => (filter, Vec::new()),
    };
    Ok(NewReplay { filter, ids, rate: wanted.rate, max: wanted.max, canary: wanted.canary })
}

/// `POST /v1/replays/plan`: changes nothing. Takes the same object as `POST /v1/replays`.
pub(super) async fn plan(
    State(api): State<Api>,
    RawQuery(query): RawQuery,
    Json(wanted): Json<Wanted>,
) -> Answer {
    Params::none(query.as_deref())?;
    let replay = replay(&api, wanted)?;
    ok(&api.ledger.plan_replay(&replay, api.clock.now()).await?)
}

/// `POST /v1/replays`
pub(super) async fn begin(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(mut wanted): Json<Wanted>,
) -> Answer {
    Params::none(query.as_deref())?;
    let actor = accountable(caller, wanted.by.take(), wanted.reason.take())?;
    let replay = replay(&api, wanted)?;
    let now = api.clock.now();
    let begun = api.ledger.begin_replay(mint(now.as_millis())?, &replay, &actor, now).await?;
    answer(StatusCode::CREATED, &begun)
}

/// A UUID of version 7.
fn mint(millis: i64) -> Result<EntryId, Problem> {
    let mut random = [0; 10];
    getrandom::fill(&mut random)
        .map_err(|why| Problem::new(codes::UNAVAILABLE, format!("no random numbers: {why}")))?;
    let millis = u64::try_from(millis).unwrap_or(0);
    Ok(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
}

/// `GET /v1/replays?limit`
pub(super) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["limit"])?;
    ok(&ReplayList { replays: api.ledger.replays(params.limit(100, 1..=MOST_LISTED)?).await? })
}

fn id(text: &str) -> Result<EntryId, Problem> {
    text.parse().map_err(|_| Problem::not_found("replay", text).help("`GET /v1/replays` lists their ids"))
}

/// `GET /v1/replays/{id}`
pub(super) async fn show(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    Params::none(query.as_deref())?;
    let name = super::name(path)?;
    let found = api.ledger.replay(id(&name)?).await?;
    ok(&found.ok_or_else(|| Problem::not_found("replay", &name))?)
}

/// `GET /v1/replays/{id}/items?after&limit`: `after` is how many to pass over.
pub(super) async fn items(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    let params = Params::read(query.as_deref(), &["after", "limit"])?;
    let name = super::name(path)?;
    let id = id(&name)?;
    let limit = params.limit(100, 1..=MOST_LISTED)?;
    let after: u64 = params.parse("after")?.unwrap_or(0);
    if api.ledger.replay(id).await?.is_none() {
        return Err(Problem::not_found("replay", &name));
    }
    let items = api.ledger.replay_items(id, after, limit).await?;
    let next = (items.len() == limit).then(|| after.saturating_add(limit as u64));
    ok(&ItemPage { items, next })
}

/// `POST /v1/replays/{id}/{pause|resume|cancel}`
pub(super) async fn steer(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(steer): Json<Steer>,
) -> Answer {
    Params::none(query.as_deref())?;
    let (name, verb) = super::names(path)?;
    let to = match verb.as_str() {
        "pause" => ReplayState::Paused,
        "resume" => ReplayState::Running,
        "cancel" => ReplayState::Cancelled,
        _ => {
            let text = format!("`{}` is none of {VERBS}", brief(&verb));
            return Err(Problem::new(codes::NO_ROUTE, text));
        }
    };
    let actor = actor(caller, steer.by, steer.reason)?;
    ok(&api.ledger.steer_replay(id(&name)?, to, &actor, api.clock.now()).await?)
}
