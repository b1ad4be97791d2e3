//! What the queues of a client's own leave of a call, and that the endpoint is not blamed for it.

use std::sync::Arc;
use std::time::Duration;

use redrive_retry::guard::{BreakerConfig, BreakerState, Outcome, Rate};
use redrive_retry::{
    Builder, Bulkhead, Cause, CircuitBreaker, RateLimiter, RetryError, SharedClock, Stop, TokioClock,
};

use crate::clocks::Lagging;
use crate::script::{Busy, OK, Service, Step};
use crate::{known, ms};

/// A breaker that one failure opens.
fn brittle(clock: &SharedClock) -> CircuitBreaker {
    let config = BreakerConfig { consecutive: 1, ..BreakerConfig::default() };
    CircuitBreaker::with_clock(config, clock.clone()).unwrap()
}

/// A bulkhead whose one place is free after this time.
fn taken_for(time: Duration) -> Bulkhead {
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let place = bulkhead.try_acquire().unwrap();
    tokio::spawn(async move {
        tokio::time::sleep(time).await;
        drop(place);
    });
    bulkhead
}

/// A rate limit whose next turn comes after this time.
fn next_after(time: Duration) -> RateLimiter {
    let limiter = RateLimiter::with_clock(Rate::new(1, time).unwrap(), 1, TokioClock).unwrap();
    limiter.try_acquire().unwrap();
    limiter
}

async fn hangs(settings: Builder) -> RetryError<Busy> {
    let service = Service::new([Step::Hang]);
    settings.build().unwrap().call(|attempt| service.call(attempt)).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_a_queue_has_cut_short_says_nothing_about_the_endpoint() {
    let clock = SharedClock::from(TokioClock);
    let breaker = brittle(&clock);
    let queues: [fn(Builder) -> Builder; 2] = [
        |settings| settings.bulkhead(taken_for(ms(500))),
        |settings| settings.rate_limit(next_after(ms(500))),
    ];
    for queue in queues {
        let settings = known().deadline(ms(2_000)).no_attempt_timeout().breaker(breaker.clone());
        let error = hangs(queue(settings)).await;
        assert_eq!((error.stop(), error.last()), (Stop::Deadline, Some(&Cause::TimedOut(ms(1_500)))));
        assert_eq!((error.outcome(), breaker.state()), (None, BreakerState::Closed));
    }
    // One that had all its time does, however long it had queued before.
    let error = hangs(known().attempts(1).breaker(breaker.clone()).bulkhead(taken_for(ms(5_900)))).await;
    assert_eq!((error.last(), error.outcome()), (Some(&Cause::TimedOut(ms(2_000))), Some(Outcome::Failure)));
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn guards_that_let_it_pass_at_once_take_nothing_from_an_attempt() {
    for clock in [SharedClock::from(TokioClock), SharedClock::given(Arc::new(Lagging))] {
        let breaker = brittle(&clock);
        let limiter = RateLimiter::with_clock(Rate::per_second(10).unwrap(), 10, clock.clone()).unwrap();
        let settings = known().clock(clock.clone()).deadline(ms(2_000)).no_attempt_timeout();
        let settings = settings.rate_limit(limiter).bulkhead(Bulkhead::new(1, 0).unwrap());
        let error = hangs(settings.breaker(breaker.clone())).await;
        assert_eq!((error.outcome(), breaker.state()), (Some(Outcome::Failure), BreakerState::Open));
    }
}

#[tokio::test(start_paused = true)]
async fn what_attempts_before_it_have_shown_stands() {
    let service = Service::new([Step::Fail(ms(1_000)), Step::Hang]);
    let retryer = known().deadline(ms(2_000)).no_attempt_timeout().build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.last(), error.attempts()), (Some(&Cause::TimedOut(ms(900))), 2));
    assert_eq!(error.outcome(), Some(Outcome::Failure));
}

/// So much of 8 s may be waited for a turn, by the time of an attempt; a timer is up to a millisecond late.
const LONGEST: [(Option<u64>, u64); 3] = [(Some(2_000), 5_999), (Some(6_000), 3_999), (None, 3_999)];

fn with_attempts_of(millis: Option<u64>) -> Builder {
    match millis {
        Some(millis) => known().attempt_timeout(ms(millis)),
        None => known().no_attempt_timeout(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_leaves_too_little_for_an_attempt_is_refused_at_once() {
    for (attempt, longest) in LONGEST {
        let service = Service::new([OK]);
        let retryer = with_attempts_of(attempt).rate_limit(next_after(ms(longest))).build().unwrap();
        assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1, "{attempt:?}");
        assert_eq!(service.times(), [longest], "{attempt:?}");
        let retryer = with_attempts_of(attempt).rate_limit(next_after(ms(longest + 1))).build().unwrap();
        let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
        let Stop::Rate(late) = error.stop() else { panic!("{attempt:?}: {:?}", error.stop()) };
        assert_eq!((late.wait, late.longest), (ms(longest + 1), ms(longest)), "{attempt:?}");
        assert_eq!((error.took(), error.outcome()), (ms(0), None), "{attempt:?}: it gave up at once");
    }
}

/// A turn is waited for outside of the bulkhead: a place that nobody works in would be lost for the others.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_turn_takes_no_place() {
    let (service, bulkhead) = (Service::new([Step::Answer(ms(200))]), Bulkhead::new(1, 0).unwrap());
    let settings = known().rate_limit(next_after(ms(500))).bulkhead(bulkhead.clone());
    let retryer = settings.build().unwrap();
    let looks = async {
        tokio::time::sleep(ms(400)).await;
        assert!(bulkhead.try_acquire().is_some(), "it waits for its turn");
        tokio::time::sleep(ms(200)).await;
        assert!(bulkhead.try_acquire().is_none(), "it works");
    };
    let (called, ()) = tokio::join!(retryer.call(|attempt| service.call(attempt)), looks);
    assert_eq!(called.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_seat_is_given_up_when_too_little_would_be_left_for_an_attempt() {
    for (attempt, longest) in LONGEST {
        let service = Service::new([OK]);
        let retryer = with_attempts_of(attempt).bulkhead(taken_for(ms(longest - 1))).build().unwrap();
        assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1, "{attempt:?}");
        let bulkhead = taken_for(ms(longest + 1));
        let retryer = with_attempts_of(attempt).bulkhead(bulkhead.clone()).build().unwrap();
        let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
        let Stop::Bulkhead(full) = error.stop() else { panic!("{attempt:?}: {:?}", error.stop()) };
        assert_eq!((full.places, full.waiting, bulkhead.waiting()), (1, 1, 0), "{attempt:?}");
        assert_eq!((error.took(), error.outcome()), (ms(longest), None), "{attempt:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_seat_is_kept_for_as_long_as_it_takes() {
    let service = Service::new([OK]);
    let retryer = known().no_deadline().bulkhead(taken_for(ms(3_600_000))).build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
    assert_eq!(service.times(), [3_600_000]);
}
