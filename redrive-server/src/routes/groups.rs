//! Failures grouped by fingerprint.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use redrive_engine::port::{Entry, Filter, Group, Page};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, MOST_LISTED, ok};
use crate::api::Api;
use crate::params::Params;
use crate::problem::Problem;

/// How many groups are looked through for one by its id.
const MOST_GROUPS: usize = 10_000;

/// Failure groups.
#[derive(Serialize, JsonSchema)]
pub(super) struct GroupList {
    groups: Vec<Group>,
}

/// One failure group.
#[derive(Serialize, JsonSchema)]
pub(super) struct GroupShown {
    /// The group in each flow that has it.
    groups: Vec<Group>,
    /// The messages that failed last.
    entries: Vec<Entry>,
}

/// `GET /v1/groups?flow&limit`
pub(super) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["flow", "limit"])?;
    let limit = params.limit(100, 1..=MOST_LISTED)?;
    ok(&GroupList { groups: api.ledger.groups(params.get("flow"), limit).await? })
}

/// `GET /v1/groups/{id}`: the group in each flow that has it, and the entries that failed last.
pub(super) async fn show(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    let params = Params::read(query.as_deref(), &["flow"])?;
    let id = super::name(id)?;
    let all = api.ledger.groups(params.get("flow"), MOST_GROUPS).await?;
    let groups: Vec<Group> = all.into_iter().filter(|group| group.id == id).collect();
    if groups.is_empty() {
        return Err(Problem::not_found("group", &id).help("groups without open entries are not shown"));
    }
    let filter = Filter { group: Some(id), flow: params.get("flow").map(str::to_owned), ..Filter::default() };
    let found = api.ledger.search(&filter, &Page { limit: 10, after: None }).await?;
    ok(&GroupShown { groups, entries: found.entries })
}
