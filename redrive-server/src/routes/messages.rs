//! Entries of the ledger: searched, shown, their bytes handed out.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse as _;
use redrive_engine::port::{Entry, HistoryLine, Page};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, MOST_LISTED, ok};
use crate::api::Api;
use crate::filter;
use crate::params::Params;
use crate::problem::Problem;
use crate::publish::TOMBSTONE;

/// The parameters of a search: the words of a filter, and those of a page.
pub(super) fn words() -> Vec<&'static str> {
    filter::WORDS.into_iter().chain(["limit", "after"]).collect()
}

/// A page of messages that failed.
#[derive(Serialize, JsonSchema)]
pub(super) struct EntryPage {
    entries: Vec<Entry>,
    /// The `after` of the next page; null at the end.
    next: Option<String>,
}

/// `GET /v1/messages`
pub(super) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let mut params = Params::read(query.as_deref(), &words())?;
    let filter = filter::from_params(&params, api.clock.now())?;
    let page = Page { limit: params.limit(100, 1..=MOST_LISTED)?, after: params.take("after") };
    let found = api.ledger.search(&filter, &page).await?;
    ok(&EntryPage { entries: found.entries, next: found.next })
}

pub(super) async fn entry(api: &Api, id: &str) -> Result<Entry, Problem> {
    let found = api.ledger.entry(id).await?;
    found.ok_or_else(|| {
        Problem::not_found("message", id)
            .help("the ledger knows messages that failed, by the entry's id or the message's; one that succeeded at once leaves no trace")
    })
}

/// A message that failed, and everything that happened to it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EntryShown")]
pub(super) struct Shown {
    #[serde(flatten)]
    entry: Entry,
    /// Every kept attempt, decision and deed, oldest first.
    history: Vec<HistoryLine>,
}

/// `GET /v1/messages/{id}`
pub(super) async fn show(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    Params::none(query.as_deref())?;
    let entry = entry(&api, &super::name(id)?).await?;
    let history = api.ledger.history(entry.id).await?;
    ok(&Shown { entry, history })
}

/// `GET /v1/messages/{id}/payload`
///
/// The bytes may be anything, a page with a script too: they are only ever saved, never shown by a browser.
pub(super) async fn payload(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    Params::none(query.as_deref())?;
    let id = super::name(id)?;
    let entry = entry(&api, &id).await?;
    let Some(payload) = api.ledger.payload(entry.id).await? else {
        return Err(Problem::not_found("the body of message", &id)
            .help("bodies of recovered and rejected messages are not kept"));
    };
    let kind = payload.content_type.and_then(|kind| HeaderValue::from_str(&kind).ok());
    let tombstone = payload.body.is_none();
    let mut response = (StatusCode::OK, payload.body.unwrap_or_default()).into_response();
    let headers = response.headers_mut();
    headers
        .insert(header::CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"payload\""));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    if tombstone {
        headers.insert(TOMBSTONE, HeaderValue::from_static("true"));
    }
    Ok(response)
}
