//! Clocks that jump, stand still and run backwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use redrive_core::Timestamp;
use redrive_retry::guard::{BreakerConfig, RetryBudgetConfig};
use redrive_retry::{
    BuildError, CircuitBreaker, Clock, Jitter, Retryer, SharedBudget, SharedClock, Stop, SystemClock,
    TokioClock,
};

use crate::ms;
use crate::script::{Busy, FAIL, OK, Service, Step};

/// A clock that a test sets by hand.
#[derive(Debug, Default)]
pub(crate) struct ByHand {
    millis: AtomicU64,
    wall: AtomicI64,
}

impl ByHand {
    pub(crate) fn set(&self, millis: u64) {
        self.millis.store(millis, Ordering::SeqCst);
    }
}

impl Clock for ByHand {
    fn now(&self) -> Duration {
        ms(self.millis.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }
}

fn by(clock: &Arc<ByHand>) -> redrive_retry::Builder {
    Retryer::builder().base(ms(1)).jitter(Jitter::None).no_budget().clock(Arc::clone(clock))
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_through_the_deadline_gives_up() {
    let clock = Arc::new(ByHand::default());
    let retryer = by(&clock).build().unwrap();
    let error = retryer
        .call(|attempt| {
            clock.set(u64::from(attempt.number) * 5_000);
            async { Err::<(), _>(Busy(0)) }
        })
        .await
        .unwrap_err();
    assert_eq!((error.stop(), error.attempts()), (Stop::Deadline, 2));
    assert_eq!(error.took(), ms(10_000));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_ends_with_the_attempts() {
    let clock = Arc::new(ByHand::default());
    clock.set(1_000_000);
    let retryer = by(&clock).build().unwrap();
    let error = retryer
        .call(|attempt| {
            clock.set(1_000_000 - u64::from(attempt.number) * 1_000);
            async { Err::<(), _>(Busy(0)) }
        })
        .await
        .unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.took()), (Stop::Attempts, 5, ms(0)));
}

/// Tokio's clock, with recent readings that lag by as much as they may.
#[derive(Debug)]
pub(crate) struct Lagging;

impl Clock for Lagging {
    fn now(&self) -> Duration {
        TokioClock.now()
    }

    fn recent(&self) -> Duration {
        TokioClock.now().saturating_sub(ms(10))
    }
}

#[tokio::test(start_paused = true)]
async fn short_times_are_not_cut_by_a_reading_that_lags() {
    let clock = Arc::new(Lagging);
    let by = || Retryer::builder().base(ms(1)).jitter(Jitter::None).no_budget().clock(Arc::clone(&clock));
    for retryer in [by().attempt_timeout(ms(5)), by().deadline(ms(5))] {
        let retryer = retryer.build().unwrap();
        let service = Service::new([Step::Answer(ms(4))]);
        assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
        assert_eq!(service.attempts()[0].time, Some(ms(5)));
        let hangs = Service::new([Step::Hang]);
        let error = retryer.call(|attempt| hangs.call(attempt)).await.unwrap_err();
        assert_eq!(error.history()[0].took, ms(5));
    }
    let retryer = by().deadline(ms(5)).build().unwrap();
    let service = Service::new([FAIL, OK]);
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 2, "there is time for a retry");
}

#[tokio::test(start_paused = true)]
async fn a_quick_call_is_not_taken_for_a_slow_one() {
    let clock = Arc::new(Lagging);
    let config = BreakerConfig { slow_call: Some(ms(5)), ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, Arc::clone(&clock)).unwrap();
    let retryer = Retryer::builder().no_budget().breaker(breaker.clone()).clock(clock).build().unwrap();
    for (takes, slow) in [(0, 0), (4, 0), (6, 1)] {
        let service = Service::new([Step::Answer(ms(takes))]);
        retryer.call(|attempt| service.call(attempt)).await.unwrap();
        assert_eq!(breaker.snapshot().slow, slow, "after {takes} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_by_the_calendar_follows_the_time_of_day() {
    let clock = Arc::new(ByHand::default());
    // Wed, 01 Jul 2026 08:59:59.900 UTC: a tenth of a second before the working hours.
    clock.wall.store(1_782_896_399_900, Ordering::SeqCst);
    let retryer = Retryer::builder()
        .schedule("calendar(mon-fri 09:00-17:00 UTC)".parse().unwrap())
        .clock(Arc::clone(&clock))
        .build()
        .unwrap();
    let began = tokio::time::Instant::now();
    let mut calls = 0;
    retryer
        .call(|_| {
            calls += 1;
            let result = if calls == 1 { Err(Busy(0)) } else { Ok(()) };
            async move { result }
        })
        .await
        .unwrap();
    assert_eq!(began.elapsed(), ms(100));
}

#[test]
fn parts_by_different_clocks_are_refused() {
    let budget = SharedBudget::with_clock(RetryBudgetConfig::default(), TokioClock).unwrap();
    let refused = Retryer::builder().budget(budget).build().unwrap_err();
    assert_eq!(refused, BuildError::OtherClock("retry budget"));
    assert_eq!(
        refused.to_string(),
        "the retry budget goes by another clock than the retryer; make both with the same one"
    );
    let breaker = CircuitBreaker::new(BreakerConfig::default()).unwrap();
    let refused = Retryer::builder().breaker(breaker.clone()).clock(TokioClock).build().unwrap_err();
    assert_eq!(refused, BuildError::OtherClock("circuit breaker"));
    assert!(Retryer::builder().breaker(breaker).clock(SystemClock).build().is_ok());
    let (one, two) = (Arc::new(ByHand::default()), Arc::new(ByHand::default()));
    let shared = SharedClock::given(Arc::clone(&one) as Arc<dyn Clock>);
    assert!(!SharedClock::from(Arc::clone(&one)).same(&SharedClock::from(two)));
    assert_eq!((shared.now(), shared.recent()), (ms(0), ms(0)));
}

proptest! {
    /// Whatever the clock does, a call ends within its attempts and panics nowhere.
    #[test]
    fn any_clock_is_survived(times in prop::collection::vec(any::<u32>(), 1..20), fail: bool) {
        let clock = Arc::new(ByHand::default());
        let retryer = by(&clock)
            .base(ms(0))
            .breaker(CircuitBreaker::with_clock(BreakerConfig::default(), Arc::clone(&clock)).unwrap())
            .budget(SharedBudget::with_clock(RetryBudgetConfig::default(), Arc::clone(&clock)).unwrap())
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let mut next = times.iter().cycle();
        for _ in 0..times.len() {
            clock.set(u64::from(*next.next().unwrap()));
            let ended = runtime.block_on(retryer.call(|_| {
                clock.set(u64::from(*next.next().unwrap()));
                let result = if fail { Err(Busy(0)) } else { Ok(()) };
                async move { result }
            }));
            prop_assert!(ended.map_or_else(|error| error.attempts(), |()| 1) <= 5);
        }
    }
}
