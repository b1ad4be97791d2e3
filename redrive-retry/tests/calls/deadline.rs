//! The edges of the deadline.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use redrive_retry::guard::{Outcome, Rate};
use redrive_retry::{
    CallBudget, Cause, Judged, RateLimiter, RetryError, SharedClock, Stop, TokioClock, TooLittleTime,
};

use crate::clocks::Lagging;
use crate::script::{Busy, FAIL, OK, Service, Step};
use crate::{known, ms};

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_at_the_deadline_is_not_begun() {
    for (deadline, expected) in [(301, 3), (300, 2), (299, 2)] {
        let service = Service::new([FAIL, FAIL, OK]);
        let retryer = known().deadline(ms(deadline)).build().unwrap();
        let ended = retryer.call(|attempt| service.call(attempt)).await;
        assert_eq!(service.calls(), expected, "deadline {deadline}");
        if expected == 3 {
            assert_eq!(ended.unwrap(), 3);
            continue;
        }
        let error = ended.unwrap_err();
        let left = ms(deadline - 100);
        assert_eq!(error.stop(), Stop::NoTimeToWait { wait: ms(200), left });
        assert_eq!(error.stop().retry_after(), Some(ms(200)));
        assert_eq!(service.elapsed(), ms(100), "it gave up at once");
        assert!(error.to_string().contains("the next wait takes 200ms and the deadline leaves"), "{error}");
    }
}

/// A timer ends with a whole millisecond.
#[tokio::test(start_paused = true)]
async fn a_wait_whose_timer_ends_at_the_deadline_is_not_begun() {
    for (wait, begun) in [(199_000, true), (199_001, false), (199_999, false), (200_000, false)] {
        let wait = Duration::from_micros(wait);
        let service = Service::new([FAIL, OK]);
        let judge = move |result: Result<u32, Busy>| match result {
            Ok(value) => Judged::Done(value),
            Err(error) => Judged::Retry { error, after: Some(wait) },
        };
        let retryer = known().deadline(ms(200)).judge(judge).build().unwrap();
        let ended = retryer.call(|attempt| service.call(attempt)).await;
        let stop = ended.as_ref().err().map(RetryError::stop);
        let expected = (!begun).then_some(Stop::NoTimeToWait { wait, left: ms(200) });
        assert_eq!((stop, service.calls()), (expected, 1 + usize::from(begun)), "{wait:?}");
        assert!(begun || service.elapsed().is_zero(), "{wait:?}: it gave up at once");
    }
}

/// A timer that ends late must not leave the attempt with less than its time.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_timer_may_cost_the_attempt_its_time_is_not_taken() {
    for (deadline, taken) in [(435, true), (434, false), (433, false)] {
        // The next turn comes in 333 ms and a third, and the attempt takes 100.
        let limiter = RateLimiter::with_clock(Rate::new(3, ms(1_000)).unwrap(), 1, TokioClock).unwrap();
        limiter.try_acquire().unwrap();
        let settings = known().deadline(ms(deadline)).attempt_timeout(ms(100));
        let retryer = settings.rate_limit(limiter).build().unwrap();
        let service = Service::new([OK]);
        let ended = retryer.call(|attempt| service.call(attempt)).await;
        let stop = ended.as_ref().err().map(RetryError::stop);
        assert_eq!((service.calls(), stop.is_none()), (usize::from(taken), taken), "{deadline}: {stop:?}");
        assert!(taken || matches!(stop, Some(Stop::Rate(_))), "{deadline}: {stop:?}");
        assert!(taken || service.elapsed().is_zero(), "{deadline}: it gave up at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_lags_lets_no_wait_end_past_the_deadline() {
    // The call began ten milliseconds before its time by such a reading, and by the exact one 2,990 ms are left.
    let clock = Arc::new(Lagging);
    let by = || known().attempts(2).deadline(ms(3_000)).clock(Arc::clone(&clock));
    for (wait, begun) in [(2_989, true), (2_990, false), (2_995, false)] {
        let service = Service::new([FAIL, OK]);
        let ended = by().base(ms(wait)).build().unwrap().call(|attempt| service.call(attempt)).await;
        let stop = ended.as_ref().err().map(RetryError::stop);
        let expected = (!begun).then_some(Stop::NoTimeToWait { wait: ms(wait), left: ms(2_990) });
        assert_eq!((stop, service.calls()), (expected, 1 + usize::from(begun)), "{wait}");
    }
    // An attempt of a second leaves 1,989 of these for a turn.
    for (wait, begun) in [(1_989, true), (1_990, false), (1_995, false)] {
        let limiter =
            RateLimiter::with_clock(Rate::new(1, ms(wait)).unwrap(), 1, Arc::clone(&clock)).unwrap();
        limiter.try_acquire().unwrap();
        let service = Service::new([OK]);
        let limited = by().attempt_timeout(ms(1_000)).rate_limit(limiter).build().unwrap();
        let ended = limited.call(|attempt| service.call(attempt)).await;
        assert_eq!(ended.is_ok(), begun, "{wait}: {ended:?}");
        assert!(begun || service.elapsed().is_zero(), "{wait}: it gave up at once");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_there_is_an_attempt_until_the_last_moment() {
    let service = Service::new([Step::Fail(ms(2)), OK]);
    let retryer = known().base(ms(0)).deadline(Duration::from_micros(2_500)).build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_cut_at_the_deadline() {
    let service = Service::new([Step::Fail(ms(1_500)), Step::Hang]);
    let retryer = known().deadline(ms(2_000)).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.took(), service.elapsed()), (Stop::Deadline, ms(2_000), ms(2_000)));
    assert_eq!(error.last(), Some(&Cause::TimedOut(ms(400))), "what was left after the wait");
    assert_eq!(service.attempts()[1].time, Some(ms(400)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_last_moment_counts() {
    let service = Service::new([Step::Answer(ms(1_999))]);
    let retryer = known().deadline(ms(2_000)).build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
    // Both at one moment: the answer is looked at first.
    let service = Service::new([Step::Answer(ms(2_000))]);
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
    let service = Service::new([Step::Answer(ms(2_001))]);
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.took()), (Stop::Deadline, ms(2_000)));
}

#[tokio::test(start_paused = true)]
async fn a_failure_at_the_deadline_is_the_last() {
    let service = Service::new([Step::Fail(ms(2_000)), OK]);
    let retryer = known().deadline(ms(2_000)).base(ms(0)).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts()), (Stop::Deadline, 1));
}

#[tokio::test(start_paused = true)]
async fn without_waits_the_deadline_still_ends_it() {
    let service = Service::new([Step::Fail(ms(30))]);
    let retryer = known().base(ms(0)).attempts(1_000).no_budget().deadline(ms(1_000)).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.took()), (Stop::Deadline, 34, ms(1_000)));
}

#[tokio::test(start_paused = true)]
async fn the_earlier_deadline_of_a_message_holds() {
    let clocks = [SharedClock::from(TokioClock), SharedClock::given(Arc::new(Lagging))];
    for clock in clocks {
        let retryer = known().clock(clock.clone()).build().unwrap();
        for (message, expected) in [(250, 250), (1, 1), (20_000, 8_000)] {
            let service = Service::new([Step::Hang]);
            let until = tokio::time::Instant::now() + ms(message);
            let budget = CallBudget::new(None, Some(until));
            let error = budget.scope(retryer.call(|attempt| service.call(attempt))).await.unwrap_err();
            assert_eq!((error.stop(), service.elapsed()), (Stop::Deadline, ms(expected)), "{clock:?}");
            assert_eq!(error.history()[0].cause, Cause::TimedOut(ms(expected.min(2_000))), "{clock:?}");
            // What little the message had left says nothing about the endpoint.
            let shown = (message >= 2_000).then_some(Outcome::Failure);
            assert_eq!(error.outcome(), shown, "{clock:?} {message}");
            let source = error.source().unwrap();
            assert_eq!(source.is::<TooLittleTime>(), shown.is_none(), "{clock:?} {message}: {source}");
        }
        let passed = CallBudget::new(None, Some(tokio::time::Instant::now()));
        let service = Service::new([OK]);
        let error = passed.scope(retryer.call(|attempt| service.call(attempt))).await.unwrap_err();
        assert_eq!((error.stop(), service.calls()), (Stop::Deadline, 0), "{clock:?}");
    }
}
