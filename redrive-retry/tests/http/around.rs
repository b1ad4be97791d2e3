//! A breaker and a fallback around retries take the 503 that these hand on for the failure that it is.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use redrive_retry::guard::{BreakerConfig, BreakerState, Outcome};
use redrive_retry::http::{HttpAnswers, HttpRetryLayer, Retried};
use redrive_retry::tower::{BreakerLayer, FallbackLayer, LayerError};
use redrive_retry::{CircuitBreaker, Retryer, TokioClock};
use tower::{Service, ServiceBuilder, ServiceExt as _};

use crate::clients::quick;

/// An endpoint that answers with a status which can be changed, and counts how often it was asked.
#[derive(Clone)]
struct Endpoint {
    status: Arc<AtomicU16>,
    asked: Arc<AtomicUsize>,
}

impl Endpoint {
    fn new(status: u16) -> Self {
        Self { status: Arc::new(AtomicU16::new(status)), asked: Arc::default() }
    }

    fn service(
        &self,
    ) -> impl Service<Request<()>, Response = Response<&'static str>, Error = Infallible, Future: Send> + Clone
    {
        let Self { status, asked } = self.clone();
        tower::service_fn(move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            let answer = Response::builder().status(status.load(Ordering::SeqCst));
            // With it a 409 asks for another attempt.
            let answer = answer.header("retry-after", "0").body("from the endpoint").unwrap();
            async move { Ok(answer) }
        })
    }
}

fn retryer() -> Retryer<HttpAnswers> {
    quick().attempts(2).clock(TokioClock).classify(HttpAnswers::default()).build().unwrap()
}

fn brittle() -> CircuitBreaker {
    let config = BreakerConfig { consecutive: 2, half_open_probes: 1, ..BreakerConfig::default() };
    CircuitBreaker::with_clock(config, TokioClock).unwrap()
}

fn get() -> Request<()> {
    Request::get("/").body(()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn answers_with_which_retries_give_up_open_a_breaker_and_keep_it_open() {
    let (endpoint, breaker) = (Endpoint::new(503), brittle());
    let client = ServiceBuilder::new()
        .layer(BreakerLayer::new(breaker.clone()).around_http_retries())
        .layer(HttpRetryLayer::new(retryer()))
        .service(endpoint.service());
    for _ in 0..2 {
        assert_eq!(breaker.state(), BreakerState::Closed);
        let answer = client.clone().oneshot(get()).await.unwrap();
        let retried = answer.extensions().get::<Retried>().unwrap();
        assert_eq!((answer.status().as_u16(), retried.outcome), (503, Some(Outcome::Failure)));
    }
    assert_eq!((breaker.state(), endpoint.asked.load(Ordering::SeqCst)), (BreakerState::Open, 4));
    assert!(matches!(client.clone().oneshot(get()).await, Err(LayerError::Refused(_))));
    // A probe that is answered with 503 opens it again, and one that is answered well closes it.
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(client.clone().oneshot(get()).await.unwrap().status(), 503);
    assert_eq!((breaker.state(), endpoint.asked.load(Ordering::SeqCst)), (BreakerState::Open, 6));
    tokio::time::advance(Duration::from_mins(10)).await;
    endpoint.status.store(200, Ordering::SeqCst);
    assert_eq!(client.oneshot(get()).await.unwrap().status(), 200);
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn answers_for_which_the_endpoint_is_not_to_blame_open_no_breaker() {
    for status in [200, 404, 409, 501] {
        let (endpoint, breaker) = (Endpoint::new(status), brittle());
        let client = ServiceBuilder::new()
            .layer(BreakerLayer::new(breaker.clone()).around_http_retries())
            .layer(HttpRetryLayer::new(retryer()))
            .service(endpoint.service());
        for _ in 0..5 {
            assert_eq!(client.clone().oneshot(get()).await.unwrap().status(), status);
        }
        assert_eq!(breaker.state(), BreakerState::Closed, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_opens_a_breaker_too() {
    let breaker = brittle();
    let client = ServiceBuilder::new()
        .layer(BreakerLayer::new(breaker.clone()).around_http_retries())
        .layer(HttpRetryLayer::new(retryer()))
        .service_fn(|_: Request<()>| async {
            Err::<Response<()>, _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
        });
    for _ in 0..2 {
        assert!(matches!(client.clone().oneshot(get()).await, Err(LayerError::Failed(_))));
    }
    assert_eq!(breaker.state(), BreakerState::Open);
}

/// Says what it was asked with: the status of the last answer, or 0 when there is none.
async fn cached<E>(last: Result<Response<&'static str>, E>) -> Result<Response<&'static str>, Infallible> {
    let last = last.map_or(0, |answer| answer.status().as_u16());
    Ok(Response::builder().header("instead-of", last).body("from the cache").unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_fallback_stands_in_for_answers_with_which_retries_give_up() {
    let (endpoint, breaker) = (Endpoint::new(503), brittle());
    let client = ServiceBuilder::new()
        .layer(FallbackLayer::new(cached).around_http_retries())
        .layer(BreakerLayer::new(breaker.clone()).around_http_retries())
        .layer(HttpRetryLayer::new(retryer()))
        .service(endpoint.service());
    for last in [503, 503, 0] {
        let answer = client.clone().oneshot(get()).await.unwrap();
        assert_eq!(*answer.body(), "from the cache");
        assert_eq!(answer.headers()["instead-of"], last.to_string());
    }
    assert_eq!((breaker.state(), endpoint.asked.load(Ordering::SeqCst)), (BreakerState::Open, 4));
    // What is an answer for good is none to fall back on.
    for status in [404, 501, 200] {
        let endpoint = Endpoint::new(status);
        let client = ServiceBuilder::new()
            .layer(FallbackLayer::new(cached).around_http_retries())
            .layer(HttpRetryLayer::new(retryer()))
            .service(endpoint.service());
        let answer = client.oneshot(get()).await.unwrap();
        assert_eq!((answer.status().as_u16(), *answer.body()), (status, "from the endpoint"));
    }
}
