//! As layers, the time of an attempt begins when the guards have let it through, and who only queued blames nobody.
#![cfg(feature = "tower")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive_core::classify::{Classifier, Seen, Subject};
use redrive_core::{Class, Failure, History, Reason};
use redrive_retry::guard::{BreakerConfig, BreakerState, Outcome, Rate};
use redrive_retry::tower::{
    BreakerLayer, BulkheadLayer, LayerError, RateLimitLayer, RetryLayer, TimeoutLayer,
};
use redrive_retry::{
    BuildError, Builder, Bulkhead, Cause, CircuitBreaker, Jitter, RateLimiter, Retryer, Stop, TokioClock,
};
use tokio::time::Instant;
use tower::{Layer as _, Service, ServiceBuilder, ServiceExt as _};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn known() -> Builder {
    Retryer::builder().attempts(2).base(ms(100)).jitter(Jitter::None).clock(TokioClock)
}

/// Answers after this time, or never, and counts how often it was asked.
fn answering(
    after: Option<Duration>,
) -> (Arc<AtomicUsize>, impl Service<(), Response = (), Error = &'static str, Future: Send> + Clone) {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let service = tower::service_fn(move |()| {
        seen.fetch_add(1, Ordering::SeqCst);
        async move {
            match after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
            Ok(())
        }
    });
    (calls, service)
}

fn brittle() -> CircuitBreaker {
    let config = BreakerConfig { consecutive: 1, ..BreakerConfig::default() };
    CircuitBreaker::with_clock(config, TokioClock).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_only_queued_is_no_failure_of_the_endpoint() {
    // With the timeout of the retryer's own too: it runs in the queue.
    for settings in [known().no_attempt_timeout(), known()] {
        let (breaker, own) = (brittle(), brittle());
        let bulkhead = Bulkhead::new(1, 10).unwrap();
        let limiter = RateLimiter::with_clock(Rate::new(1, ms(60_000)).unwrap(), 1, TokioClock).unwrap();
        let _place = bulkhead.try_acquire().unwrap();
        limiter.try_acquire().unwrap();
        let (calls, service) = answering(Some(ms(0)));
        let retryer = settings.breaker(own.clone()).behind_guard().build().unwrap();
        let outer = ServiceBuilder::new()
            .layer(BreakerLayer::new(breaker.clone()).around_retries())
            .layer(RetryLayer::new(retryer));
        let timed = TimeoutLayer::new(ms(2_000)).unwrap().layer(service);
        let queues = outer.clone().layer(BulkheadLayer::new(bulkhead.clone())).service(timed.clone());
        let Err(LayerError::Failed(error)) = queues.oneshot(()).await else {
            panic!("nobody leaves the place")
        };
        assert!(matches!(error.last(), Some(Cause::TimedOut(_))), "{error:?}");
        assert_eq!(
            (error.outcome(), breaker.state(), own.state()),
            (None, BreakerState::Closed, BreakerState::Closed)
        );
        let waits = outer.layer(RateLimitLayer::new(limiter, ms(120_000))).service(timed);
        let Err(LayerError::Failed(error)) = waits.oneshot(()).await else {
            panic!("its turn does not come")
        };
        assert!(matches!(error.last(), Some(Cause::TimedOut(_))), "{error:?}");
        assert_eq!(
            (error.outcome(), breaker.state(), own.state()),
            (None, BreakerState::Closed, BreakerState::Closed)
        );
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_is_retried_and_counted_by_its_own_time() {
    let breaker = brittle();
    let (calls, service) = answering(None);
    let service = ServiceBuilder::new()
        .layer(BreakerLayer::new(breaker.clone()).around_retries())
        .layer(RetryLayer::new(known().no_attempt_timeout().behind_guard().build().unwrap()))
        .layer(BulkheadLayer::new(Bulkhead::new(1, 1).unwrap()))
        .layer(TimeoutLayer::new(ms(2_000)).unwrap())
        .service(service);
    let began = Instant::now();
    let Err(LayerError::Failed(error)) = service.oneshot(()).await else { panic!("it does not answer") };
    assert_eq!((error.stop(), error.attempts(), began.elapsed()), (Stop::Attempts, 2, ms(4_100)));
    assert_eq!(error.error(), Some(&LayerError::Failed(Cause::TimedOut(ms(2_000)))));
    assert_eq!((error.outcome(), breaker.state()), (Some(Outcome::Failure), BreakerState::Open));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

/// A handler that returns the error of such layers as it is has called an endpoint that does not answer.
#[tokio::test(start_paused = true)]
async fn the_rules_of_a_flow_know_a_timeout_of_the_layer() {
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(known().no_attempt_timeout().behind_guard().build().unwrap()))
        .layer(BulkheadLayer::new(Bulkhead::new(1, 1).unwrap()))
        .layer(TimeoutLayer::new(ms(2_000)).unwrap())
        .service_fn(|(): ()| std::future::pending::<Result<(), std::io::Error>>());
    let failure = Failure::from_error(service.oneshot(()).await.unwrap_err());
    let seen = Seen { subject: &Subject::default(), history: &History::first(), failure: &failure };
    let found = Classifier::default().classify(&seen);
    assert_eq!(
        (found.class, found.reason, found.fault),
        (Class::Transient, Reason::DOWNSTREAM_TIMEOUT, None)
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_queue_took_is_not_taken_from_the_attempt() {
    let (calls, service) = answering(Some(ms(1_900)));
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(known().no_attempt_timeout().behind_guard().build().unwrap()))
        .layer(BulkheadLayer::new(Bulkhead::new(1, 1).unwrap()))
        .layer(TimeoutLayer::new(ms(2_000)).unwrap())
        .service(service);
    let began = Instant::now();
    let (one, two) = tokio::join!(service.clone().oneshot(()), service.oneshot(()));
    assert_eq!((one.is_ok(), two.is_ok(), began.elapsed()), (true, true, ms(3_800)));
    assert_eq!(calls.load(Ordering::SeqCst), 2, "each at its first attempt");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_not_get_ready_is_given_up_too() {
    let (_, service) = answering(None);
    let busy = ServiceBuilder::new().concurrency_limit(1).service(service);
    let mut service = TimeoutLayer::new(ms(50)).unwrap().layer(busy);
    let began = Instant::now();
    let first = service.ready().await.unwrap().call(());
    let second = service.ready().await.unwrap().call(());
    let (one, two) = tokio::join!(first, second);
    assert_eq!((one, two), (Err(Cause::TimedOut(ms(50))), Err(Cause::TimedOut(ms(50)))));
    assert_eq!(began.elapsed(), ms(50));
}

#[test]
fn no_time_at_all_is_refused() {
    assert_eq!(TimeoutLayer::new(Duration::ZERO).unwrap_err(), BuildError::NoTime("timeout"));
}
