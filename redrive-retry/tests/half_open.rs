//! A breaker that probes is closed by an answer of the endpoint, and by nothing that never reached it.
#![cfg(feature = "tower")]

use std::time::Duration;

use redrive_retry::guard::{BreakerConfig, BreakerState, Outcome, Rate};
use redrive_retry::tower::{BreakerLayer, BulkheadLayer, LayerError, RateLimitLayer, RetryLayer};
use redrive_retry::{
    Builder, Bulkhead, CallBudget, CircuitBreaker, Jitter, Judged, RateLimiter, Retryer, TokioClock,
};
use tokio::time::Instant;
use tower::{ServiceBuilder, ServiceExt as _};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn known() -> Builder {
    Retryer::builder().attempts(3).base(ms(100)).jitter(Jitter::None).clock(TokioClock)
}

/// A breaker that has opened and lets one probe through.
async fn probing() -> CircuitBreaker {
    let config = BreakerConfig { consecutive: 1, half_open_probes: 1, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, TokioClock).unwrap();
    breaker.admit().unwrap().report(Outcome::Failure);
    tokio::time::advance(ms(10_000)).await;
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    breaker
}

/// It still probes, and the place of the probe is free.
fn assert_unmoved(breaker: &CircuitBreaker, after: &str) {
    assert_eq!(breaker.state(), BreakerState::HalfOpen, "after {after}");
    assert!(breaker.admit().is_ok(), "after {after}");
}

fn never() -> std::future::Ready<Result<(), &'static str>> {
    panic!("the endpoint was called")
}

/// Makes one call that is not to reach the endpoint, through the layers and with the retryer's own breaker.
async fn refused(settings: Builder, breaker: &CircuitBreaker, budget: &CallBudget, by: &str) {
    let layers = ServiceBuilder::new()
        .layer(BreakerLayer::new(breaker.clone()).around_retries())
        .layer(RetryLayer::new(settings.clone().build().unwrap()));
    let service = layers.service_fn(|(): ()| never());
    let error = budget.scope(service.oneshot(())).await.unwrap_err();
    let LayerError::Failed(error) = error else { panic!("the breaker refused, not {by}") };
    assert_eq!((error.attempts(), error.outcome()), (0, None), "{by}");
    assert_unmoved(breaker, by);
    let own = settings.breaker(breaker.clone()).build().unwrap();
    let call = own.call(|_| never());
    assert_eq!(budget.scope(call).await.unwrap_err().attempts(), 0, "{by}");
    assert_unmoved(breaker, by);
}

#[tokio::test(start_paused = true)]
async fn what_the_retryers_own_parts_refuse_is_no_answer() {
    let breaker = probing().await;
    let unlimited = CallBudget::new(None, None);
    let full = Bulkhead::new(1, 0).unwrap();
    let _place = full.try_acquire().unwrap();
    refused(known().bulkhead(full), &breaker, &unlimited, "a full bulkhead").await;
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(60_000)).unwrap(), 1, TokioClock).unwrap();
    limiter.try_acquire().unwrap();
    refused(known().rate_limit(limiter), &breaker, &unlimited, "a rate limit").await;
    refused(known(), &breaker, &CallBudget::new(Some(0), None), "a spent budget of calls").await;
    let passed = CallBudget::new(None, Some(Instant::now()));
    refused(known(), &breaker, &passed, "the deadline of the message").await;
}

#[tokio::test(start_paused = true)]
async fn what_a_layer_behind_the_retries_refuses_is_no_answer() {
    let breaker = probing().await;
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(60_000)).unwrap(), 1, TokioClock).unwrap();
    let guarded = |settings: Builder| {
        ServiceBuilder::new()
            .layer(RetryLayer::new(settings.behind_guard().behind_guard().build().unwrap()))
            .layer(RateLimitLayer::new(limiter.clone(), ms(0)))
            .layer(BulkheadLayer::new(bulkhead.clone()))
            .service_fn(|(): ()| async { Ok::<(), &str>(()) })
    };
    let around = BreakerLayer::new(breaker.clone()).around_retries();
    let place = bulkhead.try_acquire().unwrap();
    // The first is refused by the bulkhead, and takes the one turn; the second has none.
    for by in ["the bulkhead", "the rate limit"] {
        let error = ServiceBuilder::new().layer(&around).service(guarded(known())).oneshot(()).await;
        assert!(matches!(error, Err(LayerError::Failed(error)) if error.outcome().is_none()), "{by}");
        assert_unmoved(&breaker, by);
        let error = guarded(known().breaker(breaker.clone())).oneshot(()).await.unwrap_err();
        assert_eq!(error.outcome(), None, "{by}");
        assert_unmoved(&breaker, by);
    }
    // As soon as they let it, the endpoint decides.
    drop(place);
    tokio::time::advance(ms(60_000)).await;
    ServiceBuilder::new().layer(&around).service(guarded(known())).oneshot(()).await.unwrap();
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_could_not_be_sent_is_no_answer_and_one_that_was_refused_is() {
    let breaker = probing().await;
    let judged = known().breaker(breaker.clone()).judge(|result: Result<(), &'static str>| match result {
        Ok(()) => Judged::Done(()),
        Err("no address") => Judged::NotMade("no address"),
        Err("busy") => Judged::retry("busy"),
        Err(wrong) => Judged::Fail(wrong),
    });
    let retryer = judged.build().unwrap();
    let error = retryer.call(|_| async { Err("no address") }).await.unwrap_err();
    assert_eq!((error.outcome(), error.attempts()), (None, 1));
    assert_unmoved(&breaker, "an address that is none");
    let error = retryer.call_blocking(|_| Err("no address")).unwrap_err();
    assert_eq!((error.outcome(), error.map(str::len).outcome()), (None, None));
    assert_unmoved(&breaker, "an address that is none");
    let error = retryer.call(|_| async { Err("no such order") }).await.unwrap_err();
    assert_eq!((error.outcome(), breaker.state()), (Some(Outcome::Ignored), BreakerState::Closed));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_failed_before_a_guard_refused_is_still_down() {
    let breaker = probing().await;
    // One turn, and no waiting for a second.
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(60_000)).unwrap(), 1, TokioClock).unwrap();
    let service = ServiceBuilder::new()
        .layer(BreakerLayer::new(breaker.clone()).around_retries())
        .layer(RetryLayer::new(known().behind_guard().build().unwrap()))
        .layer(RateLimitLayer::new(limiter, ms(0)))
        .service_fn(|(): ()| async { Err::<(), _>("busy") });
    let Err(LayerError::Failed(error)) = service.oneshot(()).await else { panic!("the breaker refused") };
    assert_eq!((error.attempts(), error.outcome()), (2, Some(Outcome::Failure)));
    assert_eq!(breaker.state(), BreakerState::Open);
}
