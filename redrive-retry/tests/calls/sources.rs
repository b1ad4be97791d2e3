//! What the chain of causes of a failed call holds, for whoever reads that alone.

use std::error::Error;
use std::io;

use redrive_retry::guard::{BreakerConfig, BreakerOpen, BulkheadFull, Rate, RateSpent};
use redrive_retry::{
    Builder, Bulkhead, CallBudget, CallBudgetSpent, CircuitBreaker, RateLimiter, RetryError, Stop,
    TokioClock, TooLittleTime,
};
use tokio::time::Instant;

use crate::script::{Busy, FAIL, OK, Service, Step};
use crate::{known, ms};

async fn fails(settings: Builder, budget: CallBudget, service: &Service) -> RetryError<Busy> {
    let retryer = settings.build().unwrap();
    budget.scope(retryer.call(|attempt| service.call(attempt))).await.unwrap_err()
}

fn source<T: Error + 'static>(error: &RetryError<Busy>) -> Option<&T> {
    error.source().and_then(|source| source.downcast_ref())
}

#[tokio::test(start_paused = true)]
async fn what_was_not_attempted_has_the_word_of_what_refused_it() {
    let unlimited = || CallBudget::new(None, None);
    let good = Service::new([OK]);
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    breaker.force_open();
    let error = fails(known().breaker(breaker), unlimited(), &good).await;
    assert_eq!(source(&error), Some(&BreakerOpen { retry_after: None }));

    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let _place = bulkhead.try_acquire().unwrap();
    let error = fails(known().bulkhead(bulkhead), unlimited(), &good).await;
    assert_eq!(source(&error), Some(&BulkheadFull { places: 1, waiting: 0 }));

    let limiter = RateLimiter::with_clock(Rate::new(1, ms(60_000)).unwrap(), 1, TokioClock).unwrap();
    limiter.try_acquire().unwrap();
    let error = fails(known().rate_limit(limiter), unlimited(), &good).await;
    assert_eq!(source(&error), Some(&RateSpent { wait: ms(60_000), longest: ms(5_999) }));

    let error = fails(known(), CallBudget::new(Some(0), None), &good).await;
    assert!(source::<CallBudgetSpent>(&error).is_some(), "{error:?}");
    let error = fails(known(), CallBudget::new(None, Some(Instant::now())), &good).await;
    assert!(source::<TooLittleTime>(&error).is_some(), "{error:?}");
    assert_eq!(good.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_is_an_io_error() {
    let error = fails(known().attempts(1), CallBudget::new(None, None), &Service::new([Step::Hang])).await;
    let timed_out = source::<io::Error>(&error).expect("it had its time");
    assert_eq!(
        (timed_out.kind(), timed_out.to_string()),
        (io::ErrorKind::TimedOut, "no answer within 2s".to_owned())
    );
    let mapped = error.map(|Busy(number)| io::Error::other(number.to_string()));
    assert_eq!(mapped.source().expect("the same").to_string(), "no answer within 2s");
}

#[tokio::test(start_paused = true)]
async fn one_that_was_cut_short_is_none() {
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let place = bulkhead.try_acquire().unwrap();
    tokio::spawn(async move {
        tokio::time::sleep(ms(100)).await;
        drop(place);
    });
    let settings = known().deadline(ms(1_000)).no_attempt_timeout().bulkhead(bulkhead);
    let error = fails(settings, CallBudget::new(None, None), &Service::new([Step::Hang])).await;
    assert_eq!((error.stop(), error.attempts()), (Stop::Deadline, 1));
    assert!(source::<TooLittleTime>(&error).is_some(), "{error:?}");
}

/// Whatever ends a call after attempts, the last of them says what went wrong.
#[tokio::test(start_paused = true)]
async fn after_attempts_it_is_the_last_ones_error() {
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(60_000)).unwrap(), 1, TokioClock).unwrap();
    let unlimited = || CallBudget::new(None, None);
    for (settings, budget) in [
        (known(), unlimited()),
        (known().rate_limit(limiter), unlimited()),
        (known(), CallBudget::new(Some(2), None)),
        (known().deadline(ms(150)), unlimited()),
    ] {
        let error = fails(settings, budget, &Service::new([FAIL])).await;
        assert_eq!(source(&error), error.error(), "{error:?}");
        assert!(source::<Busy>(&error).is_some(), "{error:?}");
    }
}
