//! A call that succeeds allocates nothing: what stands around every call must not cost every call.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use redrive_retry::guard::{BreakerConfig, Rate};
use redrive_retry::{Bulkhead, CircuitBreaker, RateLimiter, Retryer, SharedBudget};

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn allocations(retryer: &Retryer) -> u64 {
    let call = || poll_once(retryer.call(|_| std::future::ready(Ok::<u32, u32>(1))));
    // A thread's place and the budget's first slice are made once.
    assert!(matches!(call(), Poll::Ready(Ok(1))));
    let counted = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            assert!(matches!(call(), Poll::Ready(Ok(1))));
        }
    });
    counted.count_total
}

#[test]
fn a_success_allocates_nothing() {
    let bare = Retryer::builder().build().unwrap();
    assert_eq!(allocations(&bare), 0);
    let guarded = Retryer::builder()
        .budget(SharedBudget::default())
        .breaker(CircuitBreaker::new(BreakerConfig::default()).unwrap())
        .build()
        .unwrap();
    assert_eq!(allocations(&guarded), 0);
    let limited = Retryer::builder()
        .rate_limit(RateLimiter::with_burst(Rate::per_second(1_000_000).unwrap(), 1_000_000).unwrap())
        .bulkhead(Bulkhead::new(10, 10).unwrap())
        .build()
        .unwrap();
    assert_eq!(allocations(&limited), 0);
    assert_eq!(blocking_allocations(&guarded), 0);
}

fn blocking_allocations(retryer: &Retryer) -> u64 {
    let counted = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            assert!(retryer.call_blocking(|_| Ok::<u32, u32>(1)).is_ok());
        }
    });
    counted.count_total
}

#[test]
fn a_failure_allocates_the_history_once() {
    let retryer = Retryer::builder().schedule("0s x4".parse().unwrap()).no_budget().build().unwrap();
    let mut failures = 0;
    let mut call = || {
        poll_once(retryer.call(|attempt| {
            failures += 1;
            std::future::ready(if attempt.number < 4 { Err(attempt.number) } else { Ok(()) })
        }))
    };
    assert!(call().is_ready());
    let counted = allocation_counter::measure(|| assert!(matches!(call(), Poll::Ready(Ok(())))));
    assert_eq!((counted.count_total, failures), (1, 8));
}
