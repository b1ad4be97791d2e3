//! The paths, and which function serves each.

mod audit;
mod controls;
mod deeds;
mod flows;
mod groups;
mod health;
mod messages;
mod queues;
mod replays;

use axum::Router;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use redrive_engine::port::Actor;
use serde::Serialize;

use crate::access::Caller;
use crate::api::Api;
use crate::codes;
use crate::problem::{Problem, brief};

/// The most of a list that one answer holds.
const MOST_LISTED: usize = 1000;

pub(crate) fn all() -> Router<Api> {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/v1/queues", get(queues::list))
        .route("/v1/queues/{queue}/messages", post(queues::publish))
        .route("/v1/messages", get(messages::list))
        .route("/v1/messages/act", post(deeds::act))
        .route("/v1/messages/{id}", get(messages::show))
        .route("/v1/messages/{id}/payload", get(messages::payload))
        .route("/v1/messages/{id}/copy", post(deeds::copy))
        .route("/v1/messages/{id}/{deed}", post(deeds::one))
        .route("/v1/groups", get(groups::list))
        .route("/v1/groups/{id}", get(groups::show))
        .route("/v1/stats", get(flows::stats))
        .route("/v1/flows", get(flows::list))
        .route("/v1/flows/{flow}/{verb}", post(controls::steer))
        .route("/v1/quarantines", get(controls::quarantines).post(controls::keep))
        .route("/v1/quarantines/release", post(controls::release))
        .route("/v1/replays", get(replays::list).post(replays::begin))
        .route("/v1/replays/plan", post(replays::plan))
        .route("/v1/replays/{id}", get(replays::show))
        .route("/v1/replays/{id}/items", get(replays::items))
        .route("/v1/replays/{id}/{verb}", post(replays::steer))
        .route("/v1/audit", get(audit::list))
        .route("/v1/ledger/check", get(audit::check))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
}

async fn no_route(uri: Uri) -> Problem {
    Problem::new(codes::NO_ROUTE, format!("nothing is served at `{}`", brief(uri.path())))
}

async fn wrong_method(uri: Uri) -> Problem {
    Problem::new(codes::WRONG_METHOD, format!("`{}` does not have this method", brief(uri.path())))
}

type Answer = Result<Response, Problem>;

/// An answer as JSON.
fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let text = serde_json::to_vec(value)
        .map_err(|error| Problem::new(codes::BROKEN, format!("the answer cannot be written: {error}")))?;
    let mut response = (status, text).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}

/// Who does something, and why; both bounded, since they stay in the audit for ever.
fn actor(caller: Caller, by: Option<String>, why: Option<String>) -> Result<Actor, Problem> {
    let who = by.unwrap_or(caller.0);
    if who.trim().is_empty() || who.chars().count() > 200 || who.chars().any(char::is_control) {
        return Err(Problem::wrong("by", "expected a name of 1 to 200 characters on one line"));
    }
    let why = why.unwrap_or_default();
    if why.chars().count() > 2000 {
        return Err(Problem::wrong("reason", "expected at most 2000 characters"));
    }
    Ok(Actor { who, why })
}

/// [`actor`] for what needs a reason.
fn accountable(caller: Caller, by: Option<String>, why: Option<String>) -> Result<Actor, Problem> {
    match why {
        Some(why) if !why.trim().is_empty() => actor(caller, by, Some(why)),
        _ => Err(Problem::missing("reason").help("say why; it stands in the audit")),
    }
}

/// A name in the path.
fn name(path: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let Path(name) = path.map_err(unreadable_path)?;
    checked(name)
}

/// Two names in the path.
fn names(path: Result<Path<(String, String)>, PathRejection>) -> Result<(String, String), Problem> {
    let Path((first, second)) = path.map_err(unreadable_path)?;
    Ok((checked(first)?, second))
}

fn unreadable_path(rejection: PathRejection) -> Problem {
    Problem::new(codes::UNREADABLE, format!("the path cannot be read: {rejection}"))
}

fn checked(name: String) -> Result<String, Problem> {
    if name.trim().is_empty() || name.chars().count() > 1024 || name.chars().any(char::is_control) {
        return Err(Problem::new(codes::UNREADABLE, "a name in the path has 1 to 1024 characters"));
    }
    Ok(name)
}
