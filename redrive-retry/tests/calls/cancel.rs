//! A call that is dropped at any of its awaits leaves nothing behind.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use redrive_retry::guard::{BreakerConfig, BreakerState, Rate, RetryBudgetConfig};
use redrive_retry::{Bulkhead, CircuitBreaker, RateLimiter, SharedBudget, TokioClock};

use crate::script::{Busy, FAIL, OK, Service, Step};
use crate::{known, ms};

/// Polls a future so often, and drops it; says whether it came to its end before.
async fn drop_after<F: Future>(polls: usize, future: F) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(cx).map(|_| true)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn at_every_await_nothing_is_held_any_more() {
    let mut polls = 0;
    loop {
        let bulkhead = Bulkhead::new(1, 5).unwrap();
        let limiter = RateLimiter::with_clock(Rate::new(5, ms(1_000)).unwrap(), 1, TokioClock).unwrap();
        let config = BreakerConfig { half_open_probes: 1, ..BreakerConfig::default() };
        let breaker = CircuitBreaker::with_clock(config, TokioClock).unwrap();
        breaker.force_open();
        breaker.auto();
        let builder = known().bulkhead(bulkhead.clone()).rate_limit(limiter).breaker(breaker.clone());
        let retryer = builder.build().unwrap();
        // Every kind of await is on the way: a seat, a place, a turn, a wait, an attempt that is cut.
        let held = bulkhead.acquire().await.unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(ms(20)).await;
            drop(held);
        });
        let service = Service::new([Step::Fail(ms(30)), Step::Hang, Step::Fail(ms(1)), Step::Answer(ms(5))]);
        let ended = drop_after(polls, retryer.call(|attempt| service.call(attempt))).await;
        if ended {
            assert!(polls > 6, "the awaits were not all seen: {polls}");
            assert_eq!(breaker.state(), BreakerState::Closed);
            break;
        }
        tokio::time::sleep(ms(50)).await;
        assert_eq!((bulkhead.running(), bulkhead.waiting()), (0, 0), "after {polls} polls");
        let snapshot = breaker.snapshot();
        assert_eq!((snapshot.state, snapshot.calls), (BreakerState::HalfOpen, 0), "after {polls} polls");
        // The one place of a probe is free again, and so is the one in the bulkhead.
        let good = Service::new([OK]);
        assert_eq!(retryer.call(|attempt| good.call(attempt)).await.unwrap(), 1);
        assert_eq!(breaker.state(), BreakerState::Closed);
        polls += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_panics_gives_back_what_the_call_had() {
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let config = BreakerConfig { half_open_probes: 1, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, TokioClock).unwrap();
    breaker.force_open();
    breaker.auto();
    let retryer = known().bulkhead(bulkhead.clone()).breaker(breaker.clone()).build().unwrap();
    let theirs = retryer.clone();
    let panicked = tokio::spawn(async move {
        theirs.call(|_| async { if true { panic!("no such warehouse") } else { Ok::<(), Busy>(()) } }).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    let ours = retryer.clone();
    let blocking = std::thread::spawn(move || {
        let _ = ours.call_blocking(|_| if true { panic!("again") } else { Ok::<(), Busy>(()) });
    });
    assert!(blocking.join().is_err());
    assert_eq!(bulkhead.running(), 0);
    assert_eq!(retryer.call(|_| async { Ok::<_, Busy>(1) }).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_retry_that_a_dropped_call_waited_for_stays_spent() {
    let config = RetryBudgetConfig { share: 0.5, floor: None, ..RetryBudgetConfig::default() };
    let budget = SharedBudget::with_clock(config, TokioClock).unwrap();
    let retryer = known().budget(budget.clone()).build().unwrap();
    budget.deposit();
    let service = Service::new([FAIL]);
    // The two calls so far pay for one retry.
    let waiting = retryer.call(|attempt| service.call(attempt));
    assert!(tokio::time::timeout(ms(50), waiting).await.is_err());
    assert_eq!(service.calls(), 1);
    assert!(!budget.try_spend(), "nobody made it, and it is spent");
}

#[tokio::test(start_paused = true)]
async fn what_was_never_polled_did_nothing() {
    let retryer = known().build().unwrap();
    let service = Service::new([OK]);
    drop(retryer.call(|attempt| service.call(attempt)));
    assert_eq!(service.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_seat_or_a_place_that_is_given_up_goes_to_the_next() {
    let bulkhead = Bulkhead::new(1, 3).unwrap();
    let held = bulkhead.acquire().await.unwrap();
    let mut first = pin!(bulkhead.acquire());
    let mut second = Box::pin(bulkhead.acquire());
    let mut third = pin!(bulkhead.acquire());
    for _ in 0..2 {
        assert!(futures_poll(first.as_mut()).await.is_none());
        assert!(futures_poll(second.as_mut()).await.is_none());
        assert!(futures_poll(third.as_mut()).await.is_none());
    }
    assert_eq!(bulkhead.waiting(), 3);
    assert!(bulkhead.try_acquire().is_none());
    drop(held);
    let place = futures_poll(first.as_mut()).await.unwrap().unwrap();
    drop(place); // it is the second's now
    assert!(bulkhead.try_acquire().is_none(), "nobody goes before those that wait");
    drop(second);
    assert!(futures_poll(third.as_mut()).await.unwrap().is_ok());
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_bulkhead_can_be_made_larger_and_smaller_while_calls_run() {
    let bulkhead = Bulkhead::new(1, 5).unwrap();
    let one = bulkhead.acquire().await.unwrap();
    let mut two = pin!(bulkhead.acquire());
    assert!(futures_poll(two.as_mut()).await.is_none());
    bulkhead.resize(2).unwrap();
    let two = futures_poll(two.as_mut()).await.unwrap().unwrap();
    bulkhead.resize(1).unwrap();
    let mut three = pin!(bulkhead.acquire());
    assert!(futures_poll(three.as_mut()).await.is_none());
    drop(two);
    assert!(futures_poll(three.as_mut()).await.is_none(), "two ran, and one may");
    drop(one);
    assert!(futures_poll(three.as_mut()).await.unwrap().is_ok());
    assert!(bulkhead.resize(0).is_err());
}

/// What a future says when it is polled once.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
