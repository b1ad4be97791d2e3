//! Answers that the server's layer gives without asking the service.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body;

use super::remembered::AnswerBody;

/// A request that is answered without asking the service.
pub(crate) enum Refused {
    NoKey,
    BadKey(String),
    TooLarge(usize),
    BrokenOff(String),
    Running(Duration),
    Other,
    NotKept,
    Store(Duration),
}

impl Refused {
    pub(crate) fn answer<A: Body>(&self) -> Response<AnswerBody<A>> {
        let (status, retry_after, text) = match self {
            Self::NoKey => (
                StatusCode::BAD_REQUEST,
                None,
                "this request needs an Idempotency-Key header: a text of your own that stays the same when the request is repeated".to_owned(),
            ),
            Self::BadKey(why) => (StatusCode::BAD_REQUEST, None, why.clone()),
            Self::TooLarge(limit) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                None,
                format!("a request with an Idempotency-Key is at most {limit} bytes long"),
            ),
            Self::BrokenOff(why) => {
                (StatusCode::BAD_REQUEST, None, format!("the body of the request did not come to its end: {why}"))
            }
            Self::Running(after) => (
                StatusCode::CONFLICT,
                Some(*after),
                "the first request with this Idempotency-Key is still running; repeat it later".to_owned(),
            ),
            Self::Other => (
                StatusCode::UNPROCESSABLE_ENTITY,
                None,
                "this Idempotency-Key was used for another request; a request of its own needs a key of its own".to_owned(),
            ),
            Self::NotKept => (
                StatusCode::CONFLICT,
                None,
                "the request with this Idempotency-Key was done; its answer was not kept, because it was too large, took too long or broke off".to_owned(),
            ),
            Self::Store(after) => (
                StatusCode::SERVICE_UNAVAILABLE,
                Some(*after),
                "whether this Idempotency-Key was used cannot be told now; repeat the request later".to_owned(),
            ),
        };
        let mut answer = Response::new(AnswerBody::whole(Bytes::from(text)));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Some(after) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(after)));
        }
        answer
    }
}

/// Seconds as the header has them, at least 1: less would say to come back at once.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}
