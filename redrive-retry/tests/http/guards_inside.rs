//! Guards as layers inside of the retries: what they refuse is not retried and speaks against no endpoint, and what is
//! behind them is judged as it is.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use http::{Extensions, Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use redrive_retry::guard::{BreakerConfig, Outcome, Rate};
use redrive_retry::http::{FailedRequest, HttpAnswers, HttpJudge, HttpRetry, Retried, RetryMiddleware};
use redrive_retry::tower::{BreakerLayer, BulkheadLayer, RateLimitLayer, TimeoutLayer};
use redrive_retry::{Builder, Bulkhead, CallBudget, CircuitBreaker, Classify, RateLimiter, Stop};
use tower::{Layer as _, Service, ServiceBuilder, ServiceExt as _};

use crate::clients::{hyper, quick};
use crate::server::{Fate, OK, Server};
use crate::unsent::{assert_unmoved, probing};

fn answers() -> Builder<HttpAnswers> {
    quick().classify(HttpAnswers::default())
}

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

/// A rate limit without a turn.
fn without_turn() -> RateLimitLayer {
    let limiter = RateLimiter::with_burst(Rate::new(1, Duration::from_hours(1)).unwrap(), 1).unwrap();
    limiter.try_acquire().unwrap();
    RateLimitLayer::new(limiter, Duration::ZERO)
}

fn open() -> BreakerLayer {
    let breaker = CircuitBreaker::new(BreakerConfig::default()).unwrap();
    breaker.force_open();
    BreakerLayer::new(breaker)
}

/// Sends a request that retries around this client give up at once, as one that never left it.
async fn is_not_made<S, C, X, E>(what: &str, request: Request<Full<Bytes>>, client: S, settings: Builder<C>)
where
    S: Service<Request<Full<Bytes>>, Response = Response<Incoming>, Error = X> + Clone,
    C: HttpJudge + Classify<Response<Incoming>, X, Error = E>,
    E: FailedRequest<Answer = Response<Incoming>, Cause: Debug>,
{
    let (breaker, budget) = (probing(), CallBudget::new(None, None));
    let client = HttpRetry::new(client, settings.breaker(breaker.clone()).build().unwrap());
    let error = budget.scope(client.oneshot(request)).await.unwrap_err();
    assert_eq!(
        (error.stop(), error.attempts(), error.outcome()),
        (Stop::Final, 1, None),
        "{what}: {error:?}"
    );
    assert_unmoved(&breaker, what);
    assert_eq!(budget.used(), 0, "{what}: it is charged to nobody");
}

#[tokio::test]
async fn what_a_guard_inside_refuses_is_not_retried() {
    let server = Server::start([OK]).await;
    let get = || get(&server.url());
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let place = bulkhead.try_acquire().unwrap();
    let full = BulkheadLayer::new(bulkhead);
    is_not_made("a bulkhead", get(), full.layer(hyper()), answers().behind_guard()).await;
    is_not_made("a rate limit", get(), without_turn().layer(hyper()), answers().behind_guard()).await;
    is_not_made("a breaker", get(), open().layer(hyper()), answers().behind_guard()).await;
    let two = ServiceBuilder::new()
        .layer(RateLimitLayer::new(RateLimiter::new("100/s".parse().unwrap()), Duration::ZERO))
        .layer(full.clone())
        .layer(TimeoutLayer::new(Duration::from_secs(20)).unwrap())
        .service(hyper());
    is_not_made("two", get(), two.clone(), answers().behind_guard().behind_guard()).await;
    // Behind a layer that hides the type of the error it is told by its causes.
    let boxed = two.map_err(Box::<dyn Error + Send + Sync>::from);
    is_not_made("two, hidden", get(), boxed, answers()).await;
    assert_eq!(server.count(), 0);
    drop(place);
}

#[tokio::test]
async fn what_is_behind_a_guard_is_judged_as_it_is() {
    let server = Server::start([Fate::Answer(503, &[]), Fate::Reset, OK]).await;
    let inside = || {
        ServiceBuilder::new()
            .layer(BulkheadLayer::new(Bulkhead::new(1, 0).unwrap()))
            .layer(TimeoutLayer::new(Duration::from_secs(20)).unwrap())
            .service(hyper())
    };
    let client = HttpRetry::new(inside(), answers().behind_guard().build().unwrap());
    assert_eq!(client.oneshot(get(&server.url())).await.unwrap().status(), 200);
    assert_eq!(server.count(), 3);
    let mut wrong = get(&server.url());
    *wrong.version_mut() = Version::HTTP_09;
    is_not_made("a version", wrong.clone(), inside(), answers().behind_guard()).await;
    let timed = TimeoutLayer::new(Duration::from_secs(20)).unwrap().layer(hyper());
    is_not_made("a version, in time", wrong.clone(), timed, answers()).await;
    let boxed = inside().map_err(Box::<dyn Error + Send + Sync>::from);
    is_not_made("a version, hidden", wrong, boxed, answers()).await;
    // The last answer is handed on through a guard too.
    let down = Server::start([Fate::Answer(503, &[])]).await;
    let client = HttpRetry::new(inside(), answers().attempts(2).behind_guard().build().unwrap());
    let answer = client.oneshot(get(&down.url())).await.unwrap();
    let retried = answer.extensions().get::<Retried>().unwrap();
    assert_eq!((answer.status().as_u16(), retried.stop, retried.attempts), (503, Stop::Attempts, 2));
    assert_eq!(retried.outcome, Some(Outcome::Failure));
}

#[tokio::test]
async fn an_endpoint_that_hangs_behind_a_guard_is_blamed_by_the_timeout_inside() {
    let server = Server::start([Fate::HalfOpen]).await;
    let inside = ServiceBuilder::new()
        .layer(BulkheadLayer::new(Bulkhead::new(1, 0).unwrap()))
        .layer(TimeoutLayer::new(Duration::from_millis(50)).unwrap())
        .service(hyper());
    let settings = answers().no_attempt_timeout().attempts(2).behind_guard();
    let client = HttpRetry::new(inside, settings.build().unwrap());
    let error = client.oneshot(get(&server.url())).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts()), (Stop::Attempts, 2));
    assert_eq!(error.outcome(), Some(Outcome::Failure), "{error:?}");
}

/// A middleware with a bulkhead, as a user would write it.
struct Limited(Bulkhead);

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for Limited {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: reqwest_middleware::Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let _place = self.0.acquire().await.map_err(reqwest_middleware::Error::middleware)?;
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn what_a_guard_in_a_middleware_refuses_is_not_retried() {
    let server = Server::start([OK]).await;
    let (breaker, bulkhead) = (probing(), Bulkhead::new(1, 0).unwrap());
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(RetryMiddleware::new(answers().breaker(breaker.clone()).build().unwrap()))
        .with(Limited(bulkhead.clone()))
        .build();
    let place = bulkhead.try_acquire().unwrap();
    let error = client.get(server.url()).send().await.unwrap_err();
    assert!(error.to_string().contains("after 1 attempt"), "{error}");
    assert_unmoved(&breaker, "a middleware");
    assert_eq!(server.count(), 0);
    drop(place);
    assert_eq!(client.get(server.url()).send().await.unwrap().status(), 200);
}
