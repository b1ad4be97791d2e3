//! Calls on the thread of the caller. Their waits are real, and short.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redrive_retry::guard::{BreakerConfig, BreakerState, Rate};
use redrive_retry::{
    Bulkhead, CallBudget, CircuitBreaker, Clock, Jitter, RateLimiter, Retryer, SharedClock, Stop,
};

use crate::clocks::ByHand;
use crate::ms;
use crate::script::Busy;

fn short() -> redrive_retry::Builder {
    Retryer::builder().base(ms(1)).jitter(Jitter::None)
}

#[test]
fn what_fails_is_tried_again_on_this_thread() {
    let mut numbers = Vec::new();
    let answer = short().build().unwrap().call_blocking(|attempt| {
        numbers.push((attempt.number, attempt.time.is_some_and(|time| time <= ms(2_000))));
        if attempt.number < 3 { Err(Busy(attempt.number)) } else { Ok(attempt.number) }
    });
    assert_eq!(answer.unwrap(), 3);
    assert_eq!(numbers, [(1, true), (2, true), (3, true)]);
}

#[test]
fn it_gives_up_like_any_other() {
    let retryer = short().attempts(2).build().unwrap();
    let error = retryer.call_blocking(|attempt| Err::<(), _>(Busy(attempt.number))).unwrap_err();
    assert_eq!((error.stop(), error.history().len(), error.error()), (Stop::Attempts, 2, Some(&Busy(2))));
    let retryer = short().retry_if(|_: &Busy| false).build().unwrap();
    let error = retryer.call_blocking(|_| Err::<(), _>(Busy(1))).unwrap_err();
    assert_eq!(error.stop(), Stop::Final);
    let retryer = short().base(ms(60_000)).cap(ms(60_000)).build().unwrap();
    let error = retryer.call_blocking(|_| Err::<(), _>(Busy(1))).unwrap_err();
    assert!(matches!(error.stop(), Stop::NoTimeToWait { .. }));
}

#[test]
fn guards_and_budgets_hold_here_too() {
    let breaker = CircuitBreaker::new(BreakerConfig { consecutive: 1, ..BreakerConfig::default() }).unwrap();
    let retryer = short().attempts(1).breaker(breaker.clone()).build().unwrap();
    retryer.call_blocking(|_| Err::<(), _>(Busy(1))).unwrap_err();
    assert_eq!(breaker.state(), BreakerState::Open);
    let error = retryer.call_blocking(|_| Ok::<_, Busy>(())).unwrap_err();
    assert!(matches!(error.stop(), Stop::Breaker(_)));

    let budget = CallBudget::new(Some(3), None);
    let error =
        budget.enter(|| short().build().unwrap().call_blocking(|_| Err::<(), _>(Busy(1)))).unwrap_err();
    assert_eq!((error.stop(), error.attempts(), budget.used()), (Stop::CallBudget, 3, 3));
}

/// A clock of which the last call is gone a moment after the first reading.
#[derive(Debug)]
struct Spending(CallBudget, Instant);

impl Clock for Spending {
    fn now(&self) -> Duration {
        if self.1.elapsed() >= ms(15) {
            let _ = self.0.try_take();
        }
        self.1.elapsed()
    }
}

#[test]
fn who_finds_no_call_left_after_its_turn_queues_for_no_place() {
    let budget = CallBudget::new(Some(1), None);
    let clock = SharedClock::given(Arc::new(Spending(budget.clone(), Instant::now())));
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(20)).unwrap(), 1, clock.clone()).unwrap();
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let _held = bulkhead.try_acquire().unwrap();
    limiter.try_acquire().unwrap();
    let retryer = short().rate_limit(limiter).bulkhead(bulkhead).clock(clock).build().unwrap();
    let error = budget.enter(|| retryer.call_blocking(|_| Ok::<_, Busy>(()))).unwrap_err();
    assert_eq!(error.stop(), Stop::CallBudget);
}

#[test]
fn threads_take_places_in_turn() {
    let bulkhead = Bulkhead::new(2, 100).unwrap();
    let retryer = short().bulkhead(bulkhead.clone()).deadline(Duration::from_mins(1)).build().unwrap();
    let (running, most) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let done = retryer.call_blocking(|_| {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        Ok::<_, Busy>(())
                    });
                    assert!(done.is_ok());
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 2);
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (0, 0));
}

#[test]
fn a_thread_waits_for_a_place_no_longer_than_it_may() {
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let held = bulkhead.try_acquire().unwrap();
    assert!(bulkhead.acquire_blocking(ms(1)).unwrap().is_none());
    let retryer = short().bulkhead(bulkhead.clone()).deadline(ms(20)).build().unwrap();
    let error = retryer.call_blocking(|_| Ok::<_, Busy>(())).unwrap_err();
    assert!(matches!(error.stop(), Stop::Bulkhead(_)), "{:?}", error.stop());
    assert_eq!((error.attempts(), error.outcome()), (0, None));
    drop(held);
    assert!(bulkhead.acquire_blocking(ms(1)).unwrap().is_some());
}

/// The time since a test began, without a recent reading that would lag behind it.
#[derive(Debug)]
struct Since(Instant);

impl Clock for Since {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[test]
fn a_thread_waits_for_its_turn_and_no_longer_than_it_may() {
    let (turn, clock) = (ms(20), Arc::new(Since(Instant::now())));
    let limiter = RateLimiter::with_clock(Rate::new(1, turn).unwrap(), 1, Arc::clone(&clock)).unwrap();
    let patient = short().deadline(Duration::from_mins(1)).clock(Arc::clone(&clock));
    let retryer = patient.attempts(3).rate_limit(limiter).build().unwrap();
    let mut began = Vec::new();
    let error = retryer
        .call_blocking(|attempt| {
            began.push(clock.now());
            Err::<(), _>(Busy(attempt.number))
        })
        .unwrap_err();
    assert_eq!((error.stop(), began.len()), (Stop::Attempts, 3));
    assert!(began[1] >= turn && began[2] >= 2 * turn, "no attempt begins before its turn: {began:?}");

    let limiter = RateLimiter::with_burst(Rate::new(1, Duration::from_hours(1)).unwrap(), 1).unwrap();
    let retryer = short().rate_limit(limiter).build().unwrap();
    assert!(retryer.call_blocking(|_| Ok::<_, Busy>(())).is_ok());
    let error = retryer.call_blocking(|_| Ok::<_, Busy>(())).unwrap_err();
    assert!(matches!(error.stop(), Stop::Rate(_)), "{:?}", error.stop());
    assert_eq!((error.attempts(), error.outcome()), (0, None));
}

/// Nobody can stop an operation that blocks. It has 2 s, and all of them together 8.
#[test]
fn an_operation_that_comes_back_late_is_a_success_or_fails_as_far_as_the_deadline_lets_it() {
    for (late, attempts, stop) in
        [(3_000, 3, Stop::Deadline), (9_000, 1, Stop::Deadline), (1_000, 5, Stop::Attempts)]
    {
        let clock = Arc::new(ByHand::default());
        let config = BreakerConfig { consecutive: 1, ..BreakerConfig::default() };
        let breaker = CircuitBreaker::with_clock(config, Arc::clone(&clock)).unwrap();
        let settings = short().base(ms(0)).no_budget().clock(Arc::clone(&clock)).breaker(breaker.clone());
        let retryer = settings.build().unwrap();
        let answer = retryer.call_blocking(|attempt| {
            clock.set(late);
            Ok::<_, Busy>(attempt.number)
        });
        assert_eq!((answer.unwrap(), breaker.state()), (1, BreakerState::Closed), "{late}");
        clock.set(0);
        let error = retryer
            .call_blocking(|attempt| {
                clock.set(late * u64::from(attempt.number));
                Err::<(), _>(Busy(attempt.number))
            })
            .unwrap_err();
        assert_eq!((error.attempts(), error.stop()), (attempts, stop), "{late}");
        assert_eq!(
            (error.took(), error.error()),
            (ms(late * u64::from(attempts)), Some(&Busy(attempts))),
            "{late}"
        );
        assert_eq!(breaker.state(), BreakerState::Open, "{late}: it failed");
    }
}
