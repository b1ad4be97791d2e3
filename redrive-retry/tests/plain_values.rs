//! The parts as plain values around each other, in the documented order, without a retryer that holds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive_retry::guard::{
    BreakerConfig, BreakerOpen, BreakerState, BulkheadFull, Outcome, Rate, RateSpent,
};
use redrive_retry::{Bulkhead, CircuitBreaker, Jitter, Judged, RateLimiter, RetryError, Retryer, TokioClock};
use tokio::time::{Instant, error::Elapsed, timeout};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Why there is no price.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Rate(#[from] RateSpent),
    #[error(transparent)]
    Bulkhead(#[from] BulkheadFull),
    #[error(transparent)]
    Timeout(#[from] Elapsed),
    #[error("busy")]
    Busy,
}

/// What a retryer around guards that it does not know has to be told: what they refuse is not made.
fn judge(result: Result<u32, Failed>) -> Judged<u32, Failed> {
    match result {
        Ok(price) => Judged::Done(price),
        Err(refused @ (Failed::Rate(_) | Failed::Bulkhead(_))) => Judged::NotMade(refused),
        Err(failed) => Judged::retry(failed),
    }
}

struct Prices {
    breaker: CircuitBreaker,
    limiter: RateLimiter,
    bulkhead: Bulkhead,
    calls: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum NoPrice {
    Open(BreakerOpen),
    GaveUp(RetryError<Failed>),
}

impl Prices {
    fn new(burst: u32) -> Self {
        let config = BreakerConfig { consecutive: 1, half_open_probes: 1, ..BreakerConfig::default() };
        Self {
            breaker: CircuitBreaker::with_clock(config, TokioClock).unwrap(),
            limiter: RateLimiter::with_clock(Rate::new(1, ms(500)).unwrap(), burst, TokioClock).unwrap(),
            bulkhead: Bulkhead::new(1, 1).unwrap(),
            calls: Arc::default(),
        }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Breaker, retry, rate limit, bulkhead, timeout, from the outside in.
    async fn fetch(&self, service: impl AsyncFn() -> Result<u32, Failed>) -> Result<u32, NoPrice> {
        let settings = Retryer::builder().attempts(3).base(ms(100)).jitter(Jitter::None).clock(TokioClock);
        let retryer = settings.no_attempt_timeout().judge(judge).build().unwrap();
        let permit = self.breaker.admit().map_err(NoPrice::Open)?;
        let ended = retryer
            .call(|_| async {
                self.limiter.acquire(ms(1_000)).await?;
                let _place = self.bulkhead.acquire().await?;
                self.calls.fetch_add(1, Ordering::SeqCst);
                timeout(ms(200), service()).await?
            })
            .await;
        match &ended {
            Ok(_) => permit.report(Outcome::Success),
            Err(error) => {
                // Without a word the permit goes back: the endpoint was not asked.
                if let Some(outcome) = error.outcome() {
                    permit.report(outcome);
                }
            }
        }
        ended.map_err(NoPrice::GaveUp)
    }

    /// The same with a fallback around all of it.
    async fn price(&self, service: impl AsyncFn() -> Result<u32, Failed>) -> u32 {
        self.fetch(service).await.unwrap_or(100)
    }
}

#[tokio::test(start_paused = true)]
async fn the_breaker_sees_one_verdict_for_all_attempts_and_the_fallback_all_that_went_wrong() {
    let prices = Prices::new(10);
    assert_eq!(prices.price(async || Ok(17)).await, 17);
    let Err(NoPrice::GaveUp(error)) = prices.fetch(async || Err(Failed::Busy)).await else { panic!("busy") };
    assert_eq!((error.attempts(), prices.calls(), prices.breaker.state()), (3, 4, BreakerState::Open));
    assert_eq!(prices.price(async || Ok(17)).await, 100, "it is open");
    let Err(NoPrice::Open(open)) = prices.fetch(async || Ok(17)).await else { panic!("it is open") };
    assert_eq!(open.retry_after, Some(ms(10_000)));
    assert_eq!(prices.calls(), 4, "nothing inside of the breaker was asked");
}

#[tokio::test(start_paused = true)]
async fn every_attempt_takes_a_turn_and_holds_a_place_only_while_it_runs() {
    let prices = Prices::new(1);
    let began = Instant::now();
    let Err(NoPrice::GaveUp(error)) = prices.fetch(async || Err(Failed::Busy)).await else { panic!("busy") };
    assert_eq!((error.attempts(), began.elapsed(), prices.bulkhead.running()), (3, ms(1_000), 0));
    let times: Vec<_> = error.history().iter().map(|tried| (tried.began + tried.took).as_millis()).collect();
    assert_eq!(times, [0, 500, 1_000], "each came to its turn");
}

#[tokio::test(start_paused = true)]
async fn what_a_guard_refuses_is_neither_retried_nor_counted() {
    let prices = Prices::new(10);
    let place = prices.bulkhead.try_acquire().unwrap();
    let waits = prices.fetch(async || Ok(17));
    let refused = async {
        let refused = prices.fetch(async || Ok(17)).await;
        drop(place);
        refused
    };
    let (waited, refused) = tokio::join!(waits, refused);
    assert_eq!(waited.unwrap(), 17, "there was a seat");
    let Err(NoPrice::GaveUp(error)) = refused else { panic!("there was no second seat") };
    assert!(matches!(error.error(), Some(Failed::Bulkhead(_))), "{error:?}");
    assert_eq!((error.attempts(), error.outcome(), prices.breaker.state()), (1, None, BreakerState::Closed));

    let mut slow = Prices::new(1);
    slow.limiter = RateLimiter::with_clock(Rate::new(1, ms(60_000)).unwrap(), 1, TokioClock).unwrap();
    slow.limiter.try_acquire().unwrap();
    let Err(NoPrice::GaveUp(error)) = slow.fetch(async || Ok(17)).await else { panic!("no turn comes") };
    assert!(matches!(error.error(), Some(Failed::Rate(_))), "{error:?}");
    assert_eq!((error.attempts(), error.outcome(), slow.breaker.state()), (1, None, BreakerState::Closed));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_attempt_begins_in_its_place() {
    let prices = Prices::new(10);
    let slow = async || {
        tokio::time::sleep(ms(150)).await;
        Ok(17)
    };
    let (one, two) = tokio::join!(prices.fetch(slow), prices.fetch(slow));
    assert_eq!((one.unwrap(), two.unwrap(), prices.calls()), (17, 17, 2), "the second has queued for 150 ms");
    let Err(NoPrice::GaveUp(error)) = prices.fetch(async || std::future::pending().await).await else {
        panic!("it does not answer");
    };
    assert!(matches!(error.error(), Some(Failed::Timeout(_))), "{error:?}");
    assert_eq!((error.outcome(), prices.breaker.state()), (Some(Outcome::Failure), BreakerState::Open));
}
