//! A call that succeeds allocates nothing: what stands around every call must not cost every call.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use redrive_retry::guard::{BreakerConfig, Rate};
use redrive_retry::{Bulkhead, CallBudget, CircuitBreaker, RateLimiter, Retryer, SharedBudget};

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
fn a_call_that_heals_after_a_few_failures_allocates_nothing_either() {
    let retryer = Retryer::builder().schedule("0s x7".parse().unwrap()).no_budget().build().unwrap();
    let call =
        |failures| {
            let fails = |attempt: redrive_retry::Attempt| attempt.number <= failures;
            poll_once(retryer.call(|attempt| {
                std::future::ready(if fails(attempt) { Err(attempt.number) } else { Ok(()) })
            }))
        };
    assert!(call(7).is_ready());
    for (failures, expected) in [(1, 0), (3, 0), (4, 1), (7, 1)] {
        let counted = allocation_counter::measure(|| assert!(matches!(call(failures), Poll::Ready(Ok(())))));
        assert_eq!(counted.count_total, expected, "after {failures} failures");
    }
}

/// Ready when it is asked the second time.
struct Second(bool);

impl Future for Second {
    type Output = Result<u32, u32>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(Ok(1)) } else { Poll::Pending }
    }
}

#[test]
fn an_attempt_that_waits_allocates_nothing_either() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let retryer = Retryer::builder().build().unwrap();
    let call = || {
        let mut call = pin!(retryer.call(|_| Second(false)));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut cx).is_pending());
        assert!(matches!(call.as_mut().poll(&mut cx), Poll::Ready(Ok(1))));
    };
    call();
    let counted = allocation_counter::measure(|| (0..1_000).for_each(|_| call()));
    assert_eq!(counted.count_total, 0);
}

#[test]
fn a_call_within_a_budget_of_calls_allocates_nothing_either() {
    let retryer = Retryer::builder().build().unwrap();
    CallBudget::new(None, None).enter(|| assert_eq!(allocations(&retryer), 0));
}

/// Counters and spans that were asked for, whose recorder counts in atomics as that of Prometheus does. What a subscriber
/// of `tracing` makes of a span is its own.
#[cfg(feature = "telemetry")]
#[test]
fn a_success_that_is_counted_allocates_nothing_either() {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
    use redrive_retry::telemetry::Telemetry;

    struct Atomics;

    impl Recorder for Atomics {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(Arc::new(AtomicU64::new(0)))
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    let telemetry = metrics::with_local_recorder(&Atomics, || Telemetry::new("warehouse"));
    let breaker = CircuitBreaker::new(BreakerConfig::default()).unwrap();
    let retryer = Retryer::builder().breaker(breaker).telemetry(telemetry).build().unwrap();
    assert_eq!(allocations(&retryer), 0);
    assert_eq!(blocking_allocations(&retryer), 0);
}
