//! What an endpoint's answer means: its status, its verdict, its charges, and the beginning of its body.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::{Response, StatusCode};
use redrive_core::{Failure, Reason, Timestamp, Verdict, parse_retry_after};

use super::encoding::decoded;
use crate::handler::{Attempted, Charge};

/// How much of an answer's body is kept with a failure.
pub(super) const MAX_EXCERPT: usize = 4 * 1024;
/// How much of a body is read in all: up to here it is cheaper to read than to open another connection.
const MAX_READ: usize = 64 * 1024;
/// How long the rest of a body may take. The head has said what there is to say.
const MAX_BODY_TIME: Duration = Duration::from_secs(1);

/// Reads an answer to its meaning. The body is read within its bounds, the rest is dropped with its connection.
pub(super) async fn read(
    response: Response<Incoming>,
    target: &str,
    now: Timestamp,
    ignored: &AtomicU64,
) -> Attempted {
    let (head, body) = response.into_parts();
    let head_said = Said::read(&head.headers, ignored);
    let charge = head_said.charge;
    let succeeded = match &head_said.verdict {
        Some(verdict) => *verdict == Verdict::Ack,
        None => head.status.is_success(),
    };
    let excerpt = read_body(body, if succeeded { 0 } else { MAX_EXCERPT }).await;
    if succeeded {
        return Attempted { result: Ok(()), charge };
    }
    let mut failure = Failure::from_message(describe(head.status, head_said.verdict.as_ref(), target))
        .with_type("http")
        .with_status(head.status.as_u16());
    if !excerpt.is_empty() {
        failure = failure.with_body(text(excerpt));
    }
    if let Some(wait) =
        head.headers.get(RETRY_AFTER).and_then(|value| parse_retry_after(value.as_bytes(), now))
    {
        failure = failure.with_retry_after(wait);
    }
    if let Some(verdict) = head_said.verdict {
        failure = failure.with_verdict(verdict);
    }
    if let Some(reason) = head_said.reason {
        failure = failure.with_reason(reason);
    }
    Attempted { result: Err(Box::new(failure)), charge }
}

pub(super) fn describe(status: StatusCode, verdict: Option<&Verdict>, target: &str) -> String {
    let status = match status.canonical_reason() {
        Some(phrase) => format!("{} {phrase}", status.as_u16()),
        None => status.as_u16().to_string(),
    };
    match verdict {
        Some(verdict) => format!("verdict `{verdict}` with {status} from POST {target}"),
        None => format!("{status} from POST {target}"),
    }
}

/// What the answer's headers say beside the status.
struct Said {
    verdict: Option<Verdict>,
    reason: Option<Reason>,
    charge: Charge,
}

impl Said {
    fn read(headers: &HeaderMap, ignored: &AtomicU64) -> Self {
        let find = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let number = |name| {
            let text = find(name)?;
            Charge::read(&text).or_else(|| pass_over(ignored, name, &text))
        };
        let verdict = find("redrive-verdict").and_then(|text| match text.parse() {
            Ok(Verdict::Follow(id)) => Some(Verdict::Follow(decoded(&id).into())),
            Ok(verdict) => Some(verdict),
            Err(_) => pass_over(ignored, "redrive-verdict", &text),
        });
        let reason = find("redrive-reason").and_then(|text| {
            Reason::new(text.trim()).ok().or_else(|| pass_over(ignored, "redrive-reason", &text))
        });
        let calls = number("redrive-calls-used").unwrap_or(1).max(1);
        let cost = number("redrive-cost").unwrap_or(0);
        Self { verdict, reason, charge: Charge { calls, cost } }
    }
}

/// Counts what is not understood; it changes nothing about the message.
fn pass_over<T>(ignored: &AtomicU64, header: &str, text: &str) -> Option<T> {
    ignored.fetch_add(1, Ordering::Relaxed);
    let value: String = text.chars().take(64).collect();
    tracing::debug!(header, value, "passed over a header of an answer");
    None
}

/// Reads a body up to its bounds, and answers its beginning. Errors end it: the head has already arrived.
pub(super) async fn read_body(mut body: Incoming, keep: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    if body.is_end_stream() {
        return kept;
    }
    let reading = async {
        let mut left = MAX_READ;
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            keep_some(&mut kept, &data, keep);
            left = left.saturating_sub(data.len());
            // What says that it is too long to be read is not read on for the connection's sake.
            let too_long = body.size_hint().lower() > left as u64 && kept.len() >= keep;
            if left == 0 || too_long {
                break;
            }
        }
    };
    // The timer is touched only when the body is not there yet.
    let _ = tokio::time::timeout(MAX_BODY_TIME, reading).await;
    kept
}

fn keep_some(kept: &mut Vec<u8>, data: &Bytes, keep: usize) {
    let room = keep.saturating_sub(kept.len());
    kept.extend_from_slice(&data[..data.len().min(room)]);
}

/// The excerpt as text; a character that the cut went through is left out.
pub(super) fn text(mut bytes: Vec<u8>) -> String {
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
