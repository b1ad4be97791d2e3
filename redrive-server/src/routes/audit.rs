//! Who did what, and whether the ledger is sound.

use axum::extract::{RawQuery, State};
use redrive_engine::port::{self, AuditLine};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, MOST_LISTED, ok};
use crate::api::Api;
use crate::params::Params;

/// A page of the audit.
#[derive(Serialize, JsonSchema)]
pub(super) struct AuditPage {
    lines: Vec<AuditLine>,
    /// The `before` of the next page; null at the end.
    next: Option<u64>,
}

/// What is wrong with the ledger.
#[derive(Serialize, JsonSchema)]
pub(super) struct Checked {
    /// Nothing when it is sound.
    problems: Vec<port::Problem>,
}

/// `GET /v1/audit?before&limit`: newest first; `next` is the `before` of the next page.
pub(super) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["before", "limit"])?;
    let limit = params.limit(100, 1..=MOST_LISTED)?;
    let lines = api.ledger.audit(params.parse("before")?, limit).await?;
    let next = lines.last().filter(|line| lines.len() == limit && line.number > 1).map(|line| line.number);
    ok(&AuditPage { lines, next })
}

/// `GET /v1/ledger/check`: no problems is a list without entries.
pub(super) async fn check(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    ok(&Checked { problems: api.ledger.check().await? })
}
