//! Each part as a layer, and all of them together, on paused time.
#![cfg(feature = "tower")]

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive_retry::guard::{BreakerConfig, BreakerState, BulkheadFull, Outcome, Rate};
use redrive_retry::tower::{
    BreakerLayer, BulkheadLayer, FallbackLayer, LayerError, RateLimitLayer, Replay, RetryLayer, TimeoutLayer,
};
use redrive_retry::{
    Builder, Bulkhead, CircuitBreaker, Jitter, RateLimiter, RetryError, Retryer, Stop, TokioClock,
};
use tokio::time::Instant;
use tower::{Layer as _, Service, ServiceBuilder, ServiceExt as _};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn known() -> Builder {
    Retryer::builder().base(ms(100)).jitter(Jitter::None).clock(TokioClock)
}

/// Counts its calls, and fails until so many were made.
fn failing(
    until: usize,
) -> (Arc<AtomicUsize>, impl Service<u32, Response = u32, Error = &'static str, Future: Send> + Clone) {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let service = tower::service_fn(move |request: u32| {
        let number = seen.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            tokio::time::sleep(ms(10)).await;
            if number < until { Err("busy") } else { Ok(request * 2) }
        }
    });
    (calls, service)
}

#[tokio::test(start_paused = true)]
async fn retries_send_clones() {
    let (calls, service) = failing(3);
    let mut service = RetryLayer::new(known().build().unwrap()).layer(service);
    assert_eq!(service.ready().await.unwrap().call(21).await.unwrap(), 42);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let (_, service) = failing(100);
    let service = RetryLayer::new(known().build().unwrap()).layer(service);
    let error = service.oneshot(21).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.error()), (Stop::Attempts, 5, Some(&"busy")));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_copied_is_sent_once() {
    #[derive(Debug, Clone)]
    struct Never;
    impl Replay<u32> for Never {
        fn copy(&self, _: &u32) -> Option<u32> {
            None
        }
    }
    let (calls, service) = failing(3);
    let service = RetryLayer::new(known().build().unwrap()).replay(Never).layer(service);
    let error = service.oneshot(21).await.unwrap_err();
    assert_eq!((error.stop(), calls.load(Ordering::SeqCst)), (Stop::NotRepeatable, 1));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_ready_is_waited_for_within_the_attempt() {
    // One at a time, and each takes its time.
    let service =
        ServiceBuilder::new().concurrency_limit(1).service(tower::service_fn(|request: u32| async move {
            tokio::time::sleep(ms(500)).await;
            Ok::<_, &str>(request)
        }));
    let service = RetryLayer::new(known().build().unwrap()).layer(service);
    let began = Instant::now();
    let (one, two) = tokio::join!(service.clone().oneshot(1), service.oneshot(2));
    assert_eq!((one.unwrap(), two.unwrap(), began.elapsed()), (1, 2, ms(1_000)));
}

#[tokio::test(start_paused = true)]
async fn a_breaker_refuses_and_is_told() {
    let config = BreakerConfig { consecutive: 2, half_open_probes: 1, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, TokioClock).unwrap();
    let (calls, service) = failing(3);
    let mut service = BreakerLayer::new(breaker.clone()).layer(service);
    for _ in 0..2 {
        let error = service.ready().await.unwrap().call(1).await.unwrap_err();
        assert_eq!(error, LayerError::Failed("busy"));
    }
    let error = service.ready().await.unwrap().call(1).await.unwrap_err();
    assert!(matches!(error, LayerError::Refused(open) if open.retry_after == Some(ms(10_000))));
    assert!(error.to_string().starts_with("the circuit breaker is open"));
    tokio::time::sleep(ms(10_000)).await;
    // A probe that is given up leaves its place.
    let given_up = tokio::time::timeout(ms(1), service.ready().await.unwrap().call(1)).await;
    assert!(given_up.is_err());
    assert_eq!(service.ready().await.unwrap().call(1).await, Ok(2));
    assert_eq!((breaker.state(), calls.load(Ordering::SeqCst)), (BreakerState::Closed, 4));
}

#[tokio::test(start_paused = true)]
async fn a_breaker_around_retries_sees_their_end_and_not_their_waits() {
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    let (calls, service) = failing(3);
    let service = ServiceBuilder::new()
        .layer(BreakerLayer::new(breaker.clone()).around_retries())
        .layer(RetryLayer::new(known().build().unwrap()))
        .service(service);
    let opens = async {
        tokio::time::sleep(ms(50)).await;
        breaker.force_open();
    };
    let (answer, ()) = tokio::join!(service.clone().oneshot(21), opens);
    assert_eq!((answer.unwrap(), calls.load(Ordering::SeqCst)), (42, 3));
    assert!(matches!(service.oneshot(21).await, Err(LayerError::Refused(_))));
}

#[tokio::test(start_paused = true)]
async fn the_faults_of_callers_open_no_breaker() {
    let config = BreakerConfig { consecutive: 1, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, TokioClock).unwrap();
    let retryer = known().retry_if(|error: &&str| *error == "busy").build().unwrap();
    let judged = |result: &Result<u32, RetryError<&str>>| {
        result.as_ref().map_or_else(RetryError::outcome, |_| Some(Outcome::Success))
    };
    let layers = || {
        ServiceBuilder::new()
            .layer(BreakerLayer::new(breaker.clone()).judged_by(judged))
            .layer(RetryLayer::new(retryer.clone()))
    };
    let wrong = layers().service_fn(|_: u32| async { Err::<u32, _>("no such order") });
    assert!(wrong.oneshot(1).await.is_err());
    assert_eq!(breaker.state(), BreakerState::Closed);
    let down = layers().service_fn(|_: u32| async { Err::<u32, _>("busy") });
    assert!(down.oneshot(1).await.is_err());
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_bulkhead_lets_so_many_run_and_a_few_wait() {
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let (calls, service) = failing(0);
    let service = BulkheadLayer::new(bulkhead.clone()).layer(service);
    let began = Instant::now();
    let (one, two, three) =
        tokio::join!(service.clone().oneshot(1), service.clone().oneshot(2), service.oneshot(3));
    assert_eq!((one, two, began.elapsed()), (Ok(2), Ok(4), ms(20)));
    assert!(matches!(three, Err(LayerError::Refused(full)) if full.waiting == 1));
    assert_eq!((calls.load(Ordering::SeqCst), bulkhead.running()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_and_a_long_queue_refused() {
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(1_000)).unwrap(), 1, TokioClock).unwrap();
    let (_, service) = failing(0);
    let service = RateLimitLayer::new(limiter, ms(1_500)).layer(service);
    let began = Instant::now();
    let calls = (0..3).map(|number| service.clone().oneshot(number));
    let mut answers = Vec::new();
    for call in calls.map(tokio::spawn).collect::<Vec<_>>() {
        answers.push((call.await.unwrap(), began.elapsed()));
    }
    assert_eq!(answers[0], (Ok(0), ms(10)));
    assert_eq!(answers[1], (Ok(2), ms(1_010)));
    assert!(matches!(answers[2].0, Err(LayerError::Refused(spent)) if spent.wait == ms(2_000)));
}

#[tokio::test(start_paused = true)]
async fn a_place_whose_call_is_dropped_is_the_next_ones() {
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let (calls, service) = failing(0);
    let service = BulkheadLayer::new(bulkhead.clone()).layer(service);
    let began = Instant::now();
    let runs = tokio::spawn(service.clone().oneshot(1));
    tokio::time::sleep(ms(1)).await;
    // The one that waits is given up, and its seat is taken.
    assert!(tokio::time::timeout(ms(2), service.clone().oneshot(2)).await.is_err());
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (1, 0));
    let waits = tokio::spawn(service.oneshot(3));
    tokio::time::sleep(ms(1)).await;
    assert_eq!(bulkhead.waiting(), 1);
    // The one that runs is given up, and its place is taken.
    runs.abort();
    assert_eq!(waits.await.unwrap(), Ok(6));
    assert_eq!((began.elapsed(), calls.load(Ordering::SeqCst), bulkhead.running()), (ms(14), 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_call_is_dropped_is_not_called() {
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(1_000)).unwrap(), 1, TokioClock).unwrap();
    let (calls, service) = failing(0);
    let service = RateLimitLayer::new(limiter, ms(5_000)).layer(service);
    let began = Instant::now();
    assert_eq!(service.clone().oneshot(1).await, Ok(2));
    assert!(tokio::time::timeout(ms(490), service.clone().oneshot(2)).await.is_err());
    assert_eq!(service.oneshot(3).await, Ok(6));
    // Its turn is spent: the next one has the one after it.
    assert_eq!((began.elapsed(), calls.load(Ordering::SeqCst)), (ms(2_010), 2));
}

#[tokio::test(start_paused = true)]
async fn what_a_guard_refuses_is_not_retried_and_opens_no_breaker() {
    let config = BreakerConfig { consecutive: 1, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, TokioClock).unwrap();
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(1_000)).unwrap(), 2, TokioClock).unwrap();
    let (calls, service) = failing(usize::MAX);
    let service = ServiceBuilder::new()
        .layer(BreakerLayer::new(breaker.clone()).around_retries())
        .layer(RetryLayer::new(known().attempts(3).behind_guard().behind_guard().build().unwrap()))
        .layer(RateLimitLayer::new(limiter.clone(), ms(0)))
        .layer(BulkheadLayer::new(bulkhead.clone()))
        .service(service);
    let place = bulkhead.try_acquire().unwrap();
    let LayerError::Failed(full) = service.clone().oneshot(1).await.unwrap_err() else {
        panic!("the breaker is closed");
    };
    assert_eq!((full.stop(), full.attempts()), (Stop::Final, 1));
    assert!(matches!(full.error(), Some(LayerError::Failed(LayerError::Refused(_)))));
    drop(place);
    limiter.try_acquire().unwrap();
    let LayerError::Failed(late) = service.clone().oneshot(1).await.unwrap_err() else {
        panic!("the breaker is closed");
    };
    assert_eq!((late.stop(), late.attempts()), (Stop::Final, 1));
    assert!(matches!(late.error(), Some(LayerError::Refused(spent)) if spent.wait == ms(1_000)));
    assert_eq!((calls.load(Ordering::SeqCst), breaker.state()), (0, BreakerState::Closed));
    // What the service itself fails at is retried, and counted.
    tokio::time::advance(ms(60_000)).await;
    let LayerError::Failed(failed) = service.oneshot(1).await.unwrap_err() else {
        panic!("the breaker is closed");
    };
    assert_eq!(failed.history().first().unwrap().cause.error().unwrap().to_string(), "busy");
    assert!(failed.attempts() > 1 && calls.load(Ordering::SeqCst) > 1);
}

#[tokio::test(start_paused = true)]
async fn all_of_them_in_their_order() {
    let breaker =
        CircuitBreaker::with_clock(BreakerConfig { consecutive: 1, ..BreakerConfig::default() }, TokioClock);
    let breaker = breaker.unwrap();
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let limiter = RateLimiter::with_clock(Rate::per_second(1_000).unwrap(), 1_000, TokioClock).unwrap();
    let (calls, service) = failing(usize::MAX);
    let service = ServiceBuilder::new()
        .layer(FallbackLayer::new(|_error| async { Ok::<u32, std::convert::Infallible>(100) }))
        .layer(BreakerLayer::new(breaker.clone()).around_retries())
        .layer(RetryLayer::new(
            known().attempts(3).no_attempt_timeout().behind_guard().behind_guard().build().unwrap(),
        ))
        .layer(RateLimitLayer::new(limiter, ms(100)))
        .layer(BulkheadLayer::new(bulkhead))
        .layer(TimeoutLayer::new(ms(2_000)).unwrap())
        .service(service);
    assert_eq!(service.clone().oneshot(1).await, Ok(100));
    assert_eq!(
        (calls.load(Ordering::SeqCst), breaker.state()),
        (3, BreakerState::Open),
        "one verdict for all three"
    );
    assert_eq!(service.oneshot(1).await, Ok(100));
    assert_eq!(calls.load(Ordering::SeqCst), 3, "the breaker is outside of the retries");
}

#[tokio::test(start_paused = true)]
async fn what_lies_inside_is_found_in_the_chain_of_causes() {
    let layers = |place| {
        let retryer = known().attempts(1).no_attempt_timeout().behind_guard().build().unwrap();
        ServiceBuilder::new()
            .layer(BreakerLayer::new(CircuitBreaker::new(BreakerConfig::default()).unwrap()).around_retries())
            .layer(RetryLayer::new(retryer))
            .layer(BulkheadLayer::new(Bulkhead::clone(place)))
            .layer(TimeoutLayer::new(ms(2_000)).unwrap())
            .service_fn(|(): ()| async { Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionReset)) })
    };
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let error = layers(&bulkhead).oneshot(()).await.unwrap_err();
    let reset =
        causes(&error).find_map(|cause| cause.downcast_ref::<io::Error>()).expect("the service's own");
    assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
    let _place = bulkhead.try_acquire().unwrap();
    let error = layers(&bulkhead).oneshot(()).await.unwrap_err();
    assert!(causes(&error).any(<dyn Error>::is::<BulkheadFull>), "{error:?}");
}

fn causes(error: &dyn Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}
