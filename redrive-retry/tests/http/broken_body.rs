//! Requests whose body does not come to its end.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use redrive_retry::http::IdempotencyLayer;
use redrive_retry::idempotency::MemoryStore;
use tower::{Layer as _, ServiceExt as _};

/// A body that is whole, or breaks off.
struct Upload(Option<Bytes>, bool);

impl From<Bytes> for Upload {
    fn from(bytes: Bytes) -> Self {
        Self(Some(bytes), false)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(match self.0.take() {
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None if self.1 => Some(Err(std::io::Error::other("the connection was reset"))),
            None => None,
        })
    }
}

#[tokio::test]
async fn one_that_breaks_off_is_not_called_too_large() {
    let service = tower::service_fn(|_: Request<Upload>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("taken")))
    });
    let service = IdempotencyLayer::new(MemoryStore::default()).limits(10, 10).layer(service);
    for (body, breaks, status, text) in [
        ("half", true, 400, "the body of the request did not come to its end: the connection was reset"),
        ("more than ten bytes", false, 413, "a request with an Idempotency-Key is at most 10 bytes long"),
        ("whole", false, 200, "taken"),
    ] {
        let body = Upload(Some(Bytes::from(body)), breaks);
        let request = Request::post("/").header("idempotency-key", "k").body(body).unwrap();
        let answer = service.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), text);
    }
}
