//! Queues, and publishing into them.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::StatusCode;
use redrive_engine::port::{NewMessage, Published};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Answer, json as answer, ok};
use crate::api::Api;
use crate::body;
use crate::codes;
use crate::flows::QueueShown;
use crate::params::Params;
use crate::problem::Problem;
use crate::publish;

/// Queues and what lies in them.
#[derive(Serialize, JsonSchema)]
pub(super) struct QueueList {
    queues: Vec<QueueShown>,
}

/// The ids of new messages, in their order.
#[derive(Serialize, JsonSchema)]
pub(super) struct Ids {
    pub(super) ids: Vec<String>,
}

/// `GET /v1/queues`
pub(super) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    ok(&QueueList { queues: all(&api).await? })
}

/// The queues of the data file, then those of the flows' brokers.
pub(super) async fn all(api: &Api) -> Result<Vec<QueueShown>, Problem> {
    let own = api.broker.queues().await?.into_iter().map(|queue| QueueShown { queue, flow: None });
    let mut queues: Vec<_> = own.collect();
    queues.extend(api.flows.queues().await);
    Ok(queues)
}

/// `POST /v1/queues/{queue}/messages`
pub(super) async fn publish(
    State(api): State<Api>,
    queue: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let queue = super::name(queue)?;
    let (parts, content) = request.into_parts();
    let batch = body::media_type(&parts.headers).as_deref() == Some("application/x-ndjson");
    let known: &[&str] = if batch { &[] } else { &["key", "id", "delay"] };
    let mut params = Params::read(parts.uri.query(), known)?;
    let held = body::read(&api, content, api.limits.request).await?;
    let now = api.clock.now();
    let (lines, messages): (Vec<usize>, Vec<NewMessage>) = if batch {
        publish::lines(&held.bytes, &api.limits, now)?.into_iter().unzip()
    } else {
        let bytes = held.bytes.clone();
        (vec![1], vec![publish::opaque(&mut params, &parts.headers, bytes, &api.limits, now)?])
    };
    let results = api.broker.publish(&queue, messages).await?;
    if results.len() != lines.len() {
        return Err(Problem::new(codes::BROKEN, "the broker did not answer for every message"));
    }
    report(results, &lines, batch)
}

/// The ids; or, when anything was refused, what became of each line. A batch that was taken in part is an error:
/// who looks at the status alone must not believe that all is well.
fn report(results: Vec<Published>, lines: &[usize], batch: bool) -> Answer {
    let refused = results.iter().filter(|result| matches!(result, Published::Refused(_))).count();
    if refused == 0 {
        let ids: Vec<String> = results
            .into_iter()
            .filter_map(|result| match result {
                Published::Accepted(id) => Some(id),
                Published::Refused(_) => None,
            })
            .collect();
        return answer(StatusCode::CREATED, &Ids { ids });
    }
    let total = results.len();
    let mut first = None;
    let each: Vec<Value> = results
        .into_iter()
        .zip(lines)
        .map(|(result, line)| match result {
            Published::Accepted(id) => json!({ "line": line, "id": id }),
            Published::Refused(refusal) => {
                let problem = Problem::from(refusal);
                let shown =
                    json!({ "line": line, "code": problem.code().id(), "message": problem.message() });
                first.get_or_insert((*line, problem));
                shown
            }
        })
        .collect();
    let Some((line, problem)) = first else {
        return Err(Problem::new(codes::BROKEN, "a refusal was lost"));
    };
    if !batch {
        return Err(problem);
    }
    if refused == total {
        return Err(problem.on_line(line).help("nothing was published").with("lines", each));
    }
    let text = format!(
        "{refused} of {total} messages were refused, the first on line {line}: {}",
        problem.message()
    );
    Err(Problem::new(codes::PARTLY, text)
        .help("`lines` says what became of each; send only the refused ones again")
        .with("lines", each))
}
