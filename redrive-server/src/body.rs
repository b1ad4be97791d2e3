//! Request bodies: bounded in size, in time and in sum.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::api::{Api, kib};
use crate::codes;
use crate::problem::Problem;

/// The most bytes of a request that is JSON.
const MOST_JSON: usize = 1024 * 1024;

/// A body in hand, and the room that it takes until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn read(api: &Api, body: Body, most: usize) -> Result<Held, Problem> {
    let too_large = || {
        Problem::new(codes::TOO_LARGE, format!("a request here has at most {most} bytes")).with("limit", most)
    };
    let hint = body.size_hint();
    if hint.lower() > most as u64 {
        return Err(too_large());
    }
    // A body of unknown length may turn out as large as it can be.
    let expected = hint.exact().and_then(|exact| usize::try_from(exact).ok()).unwrap_or(most);
    let arrive = async {
        let room = api.room.clone().acquire_many_owned(kib(expected)).await;
        let room = room.map_err(|_| Problem::new(codes::UNAVAILABLE, "the instance stops"))?;
        match Limited::new(body, most).collect().await {
            Ok(collected) => Ok(Held { bytes: collected.to_bytes(), _room: room }),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(error) => Err(Problem::new(codes::UNREADABLE, format!("the body broke off: {error}"))),
        }
    };
    timeout(api.limits.arrival, arrive)
        .await
        .unwrap_or_else(|_| Err(Problem::new(codes::TOO_SLOW, "the body did not arrive in time")))
}

/// The media type without its parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// A body that is JSON and has only keys that are known.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Api> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let kind = media_type(&parts.headers);
        let held = read(api, body, MOST_JSON).await?;
        // No body at all is an object without keys.
        if held.bytes.is_empty() && kind.is_none() {
            return parse(b"{}").map(Self);
        }
        if kind.as_deref() != Some("application/json") {
            return Err(Problem::new(codes::WRONG_CONTENT_TYPE, "expected `content-type: application/json`"));
        }
        parse(&held.bytes).map(Self)
    }
}

/// Reads JSON; what is unknown or missing is refused by name.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let code = if error.is_syntax() || error.is_eof() {
            codes::UNREADABLE
        } else if text.starts_with("unknown field") {
            codes::UNKNOWN_NAME
        } else if text.starts_with("missing field") {
            codes::MISSING
        } else {
            codes::WRONG_VALUE
        };
        Problem::new(code, text)
    })
}
