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
mod sources;

use axum::Router;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use redrive_engine::port::{Actor, Replay, ReplayPlan};
use serde::Serialize;

use crate::access::Caller;
use crate::api::Api;
use crate::codes;
use crate::flows::SourceReplayed;
use crate::openapi::{Content, Operation, Routes};
use crate::problem::{Problem, brief};
use crate::publish;

/// What the document cannot say with a name.
const HEADERS: &str = "Request headers `redrive-header-NAME` become the headers NAME of the message.";

/// The most of a list that one answer holds.
const MOST_LISTED: usize = 1000;

/// Every route, with what the document of the API says of it.
pub(crate) fn all() -> Router<Api> {
    Routes::default()
        .get(
            "/healthz",
            health::alive,
            Operation::gives::<health::Alive>("healthz", "Whether the process answers").open(),
        )
        .get(
            "/readyz",
            health::ready,
            Operation::gives::<health::Ready>(
                "readyz",
                "Whether the flows read, the ledger answers and the broker takes writes",
            )
            .open(),
        )
        .get(
            "/metrics",
            health::metrics,
            Operation::new("metrics", "Figures for Prometheus; on loopback without a token", Content::Text),
        )
        .get(
            "/v1/queues",
            queues::list,
            Operation::gives::<queues::QueueList>("listQueues", "Queues and what lies in them"),
        )
        .post(
            "/v1/queues/{queue}/messages",
            queues::publish,
            Operation::gives::<queues::Ids>(
                "publish",
                "Publish one message with any body, or a batch of lines",
            )
            .creates()
            .query(["key", "id", "delay"])
            .headers(["redrive-tombstone"])
            .more(HEADERS)
            .takes_lines::<publish::Line>()
            .takes_bytes(),
        )
        .get(
            "/v1/messages",
            messages::list,
            Operation::gives::<messages::EntryPage>("listMessages", "Messages that failed, the latest first")
                .query(messages::words()),
        )
        .post(
            "/v1/messages/act",
            deeds::act,
            Operation::gives::<deeds::Report>("act", "Do something to messages, by ids or by a filter")
                .takes::<deeds::Act>(),
        )
        .get(
            "/v1/messages/{id}",
            messages::show,
            Operation::gives::<messages::Shown>("showMessage", "A message that failed, with its history"),
        )
        .get(
            "/v1/messages/{id}/payload",
            messages::payload,
            Operation::new("payload", "The bytes of a message, as they were published", Content::Bytes),
        )
        .post(
            "/v1/messages/{id}/copy",
            deeds::copy,
            Operation::gives::<queues::Ids>(
                "copy",
                "Publish an edited copy; what is not given is the original's",
            )
            .creates()
            .query(["reason", "by", "key", "id", "delay"])
            .headers(["redrive-tombstone"])
            .more(HEADERS)
            .takes_bytes(),
        )
        .post(
            "/v1/messages/{id}/{deed}",
            deeds::one,
            Operation::gives::<deeds::Report>("actOnOne", "Do something to one message")
                .choice("deed", deeds::DEEDS)
                .takes::<deeds::Sign>(),
        )
        .get(
            "/v1/groups",
            groups::list,
            Operation::gives::<groups::GroupList>("listGroups", "Failures by what they have in common")
                .query(["flow", "limit"]),
        )
        .get(
            "/v1/groups/{id}",
            groups::show,
            Operation::gives::<groups::GroupShown>("showGroup", "A failure group and its latest messages")
                .query(["flow"]),
        )
        .get(
            "/v1/stats",
            flows::stats,
            Operation::gives::<flows::Stats>("stats", "How many messages stand where"),
        )
        .get(
            "/v1/flows",
            flows::list,
            Operation::gives::<flows::FlowList>(
                "listFlows",
                "The flows of the running instance, and those that do not run and have orders in force",
            ),
        )
        .post(
            "/v1/flows/{flow}/{order}",
            controls::steer,
            Operation::gives::<controls::Given>("steerFlow", "Pause a flow or its retries, or let it go on")
                .choice("order", controls::VERBS)
                .takes::<controls::Steer>(),
        )
        .get(
            "/v1/quarantines",
            controls::quarantines,
            Operation::gives::<controls::QuarantineList>("listQuarantines", "What is kept back, and by whom")
                .query(["flow", "limit"]),
        )
        .post(
            "/v1/quarantines",
            controls::keep,
            Operation::gives::<controls::Given>("quarantine", "Keep some messages of a flow back")
                .creates()
                .takes::<controls::Keep>(),
        )
        .post(
            "/v1/quarantines/release",
            controls::release,
            Operation::gives::<controls::Given>("release", "Let go what is kept back, in order")
                .takes::<controls::Keep>(),
        )
        .get(
            "/v1/replays",
            replays::list,
            Operation::gives::<replays::ReplayList>("listReplays", "Replays, newest first").query(["limit"]),
        )
        .post(
            "/v1/replays",
            replays::begin,
            Operation::gives::<Replay>("beginReplay", "Freeze a selection and send it back")
                .creates()
                .takes::<replays::Wanted>(),
        )
        .post(
            "/v1/replays/plan",
            replays::plan,
            Operation::gives::<ReplayPlan>("planReplay", "What a replay would do; changes nothing")
                .takes::<replays::Wanted>(),
        )
        .post(
            "/v1/replays/source",
            sources::replay,
            Operation::gives::<SourceReplayed>(
                "replaySource",
                "Send messages of a flow's source to that flow once more",
            )
            .takes::<sources::Range>(),
        )
        .get(
            "/v1/replays/{id}",
            replays::show,
            Operation::gives::<Replay>("showReplay", "A replay and how far it is"),
        )
        .get(
            "/v1/replays/{id}/items",
            replays::items,
            Operation::gives::<replays::ItemPage>("listReplayItems", "What became of each of its messages")
                .query(["after", "limit"]),
        )
        .post(
            "/v1/replays/{id}/{verb}",
            replays::steer,
            Operation::gives::<Replay>("steerReplay", "Hold a replay, let it go on, or end it")
                .choice("verb", replays::VERBS)
                .takes::<replays::Steer>(),
        )
        .get(
            "/v1/audit",
            audit::list,
            Operation::gives::<audit::AuditPage>("listAudit", "Who did what, and why, newest first")
                .query(["before", "limit"]),
        )
        .get(
            "/v1/ledger/check",
            audit::check,
            Operation::gives::<audit::Checked>("checkLedger", "What cannot be right in the ledger"),
        )
        .post(
            "/v1/ledger/rebuild",
            sources::rebuild,
            Operation::gives::<sources::Rebuilt>(
                "rebuildLedger",
                "Make entries again from what the flows' brokers keep",
            )
            .takes::<sources::Rebuild>(),
        )
        .get(
            "/v1/topology",
            sources::topology,
            Operation::gives::<sources::Topologies>(
                "topology",
                "What each flow needs at its broker, and what of it is missing or different",
            ),
        )
        .with_document_at("/v1/openapi.json")
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
