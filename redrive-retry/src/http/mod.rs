//! Retries of HTTP requests, and the server's part of idempotency keys.
//!
//! - [`HttpRetryLayer`] goes around any `tower` service of HTTP requests, such as the client of `hyper-util`; with the
//!   feature `hyper` what that client could not send is told apart.
//! - With the feature `reqwest`, [`HttpRetry`] goes around a `reqwest::Client`; with `reqwest-middleware`,
//!   `RetryMiddleware` is one for `reqwest_middleware`.
//! - [`HttpAnswers`] is the judge behind both: 408, 425, 429 and 5xx without 501 and 505 are retried, and 409 when it
//!   says when; any other answer is the answer.
//! - [`ReplayBody`] lets a body that is a stream be sent again, without copying it.
//! - [`IdempotencyLayer`] is the server's part.
//!
//! | request | retried |
//! |---|---|
//! | GET, HEAD, OPTIONS, TRACE, PUT, DELETE | yes |
//! | any other method with an `Idempotency-Key` | yes, with the same key |
//! | any other method without one | no |
//!
//! ```no_run
//! use http_body_util::Full;
//! use hyper_util::client::legacy::Client;
//! use hyper_util::client::legacy::connect::HttpConnector;
//! use hyper_util::rt::TokioExecutor;
//! use redrive_retry::Retryer;
//! use redrive_retry::http::{HttpAnswers, HttpRetryLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let retryer = Retryer::builder().classify(HttpAnswers::default()).build()?;
//! let mut connector = HttpConnector::new();
//! connector.set_connect_timeout(Some(retryer.connect_timeout()));
//! let client = Client::builder(TokioExecutor::new()).build::<_, Full<bytes::Bytes>>(connector);
//! let mut client = ServiceBuilder::new().layer(HttpRetryLayer::new(retryer).generate_keys()).service(client);
//!
//! let order = http::Request::post("http://127.0.0.1:3000/orders").body(Full::from(r#"{"sku": 17}"#))?;
//! let answer = client.ready().await?.call(order).await?; // its last answer, also if that is a 503
//! # Ok(())
//! # }
//! ```

mod answer;
mod around;
mod claim;
mod held;
mod idempotency;
mod keeping;
mod refused;
mod remembered;
mod replay_body;
mod request;
#[cfg(feature = "reqwest")]
mod reqwest_client;
#[cfg(feature = "reqwest-middleware")]
mod reqwest_middleware;
mod retry;
mod size;
mod unanswered;

pub use answer::{
    FailedRequest, HttpAnswer, HttpAnswers, HttpCause, HttpFailure, HttpJudge, Retried, is_retryable,
};
pub use around::{HttpRetriesFail, OnLastAnswers};
pub use idempotency::{IdempotencyLayer, Idempotent};
pub use remembered::AnswerBody;
pub use replay_body::{BodyGone, ReplayBody};
pub use request::{HttpReplay, HttpRequest, IDEMPOTENCY_KEY, is_idempotent};
#[cfg(feature = "reqwest-middleware")]
pub use reqwest_middleware::RetryMiddleware;
pub use retry::{HttpRetry, HttpRetryLayer, RetriedFuture};
