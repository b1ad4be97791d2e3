//! Each way in which a call can end.

use std::error::Error as _;

use redrive_retry::guard::{BreakerConfig, BreakerState, Rate, RetryBudgetConfig};
use redrive_retry::{
    Bulkhead, CallBudget, Cause, CircuitBreaker, Judged, RateLimiter, SharedBudget, Stop, TokioClock,
};

use crate::script::{Busy, FAIL, OK, Service, Step};
use crate::{known, ms};

#[tokio::test(start_paused = true)]
async fn a_success_is_handed_on_at_once() {
    let service = Service::new([OK]);
    let retryer = known().build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
    assert_eq!((service.calls(), service.elapsed()), (1, ms(0)));
    let attempt = service.attempts()[0];
    assert!(attempt.is_first() && !attempt.is_last());
    assert_eq!(attempt.time, Some(ms(2_000)));
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_after_growing_waits() {
    let service = Service::new([FAIL, Step::Fail(ms(50)), FAIL, OK]);
    let retryer = known().build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 4);
    assert_eq!(service.times(), [0, 100, 350, 750]);
}

#[tokio::test(start_paused = true)]
async fn attempts_end() {
    let service = Service::new([FAIL]);
    let retryer = known().build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!(error.stop(), Stop::Attempts);
    assert_eq!(service.times(), [0, 100, 300, 700, 1_500]);
    assert!(service.attempts()[4].is_last());
    assert_eq!(error.error(), Some(&Busy(5)));
    assert_eq!(error.source().unwrap().to_string(), "busy for the 5. time");
    assert_eq!(
        error.to_string(),
        "gave up after 5 attempts in 1.5s: all attempts are used up; last: busy for the 5. time"
    );
    let history: Vec<_> = error
        .history()
        .iter()
        .map(|tried| (tried.number, tried.began.as_millis(), tried.cause.clone()))
        .collect();
    let expected: Vec<_> = [(1, 0), (2, 100), (3, 300), (4, 700), (5, 1_500)]
        .into_iter()
        .map(|(number, at)| (number, at, Cause::Error(Busy(number))))
        .collect();
    assert_eq!(history, expected);
}

#[tokio::test(start_paused = true)]
async fn one_attempt_is_no_retry() {
    let service = Service::new([FAIL]);
    let retryer = known().attempts(1).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), service.calls()), (Stop::Attempts, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_final_ends_it() {
    let service = Service::new([FAIL]);
    let retryer = known().retry_if(|error: &Busy| error.0 < 2).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts()), (Stop::Final, 2));
    assert_eq!(error.into_error(), Some(Busy(2)));
}

#[tokio::test(start_paused = true)]
async fn a_value_can_be_a_failure_and_an_error_a_success() {
    let service = Service::new([OK, OK, OK, FAIL]);
    let retryer = known()
        .judge(|result: Result<u32, Busy>| match result {
            Ok(value) => Judged::retry(format!("{value} is not enough")),
            Err(Busy(number)) => Judged::Done(number * 100),
        })
        .build()
        .unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 400);
    let error = known()
        .attempts(2)
        .judge(|result: Result<u32, Busy>| Judged::<u32, _>::retry(result))
        .build()
        .unwrap()
        .call(|_| async { Ok(7) })
        .await
        .unwrap_err();
    assert_eq!(error.into_error(), Some(Ok(7)), "the value that was refused is not lost");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_is_dropped_and_tried_again() {
    let service = Service::new([Step::Hang, OK]);
    let retryer = known().build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 2);
    assert_eq!(service.times(), [0, 2_100]);
    let service = Service::new([Step::Hang]);
    let error = known().attempts(2).build().unwrap().call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!(error.last(), Some(&Cause::TimedOut(ms(2_000))));
    assert_eq!(
        error.to_string(),
        "gave up after 2 attempts in 4.1s: all attempts are used up; last: no answer within 2s"
    );
    assert_eq!(error.into_error(), None);
}

#[tokio::test(start_paused = true)]
async fn without_a_timeout_of_its_own_an_attempt_has_the_whole_deadline() {
    let service = Service::new([Step::Answer(ms(7_999))]);
    let retryer = known().no_attempt_timeout().build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
    let service = Service::new([Step::Answer(ms(3_600_000))]);
    let retryer = known().no_attempt_timeout().no_deadline().build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
    assert_eq!(service.attempts()[0].time, None);
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_ends_it_and_costs_no_wait() {
    let config = RetryBudgetConfig { share: 0.5, floor: None, ..RetryBudgetConfig::default() };
    let budget = SharedBudget::with_clock(config, TokioClock).unwrap();
    let one = known().budget(budget.clone()).build().unwrap();
    let two = known().budget(budget.clone()).build().unwrap();
    let good = Service::new([OK]);
    assert_eq!(one.call(|attempt| good.call(attempt)).await.unwrap(), 1);
    // Two calls pay for one retry, whichever client makes it.
    let service = Service::new([FAIL]);
    let error = two.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), service.elapsed()), (Stop::Budget, 2, ms(100)));
    assert!(one.budget().unwrap().is(two.budget().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_attempted_pays_for_no_retry() {
    let config = RetryBudgetConfig { share: 1.0, floor: None, ..RetryBudgetConfig::default() };
    let budget = SharedBudget::with_clock(config, TokioClock).unwrap();
    let (full, limiter) = (
        Bulkhead::new(1, 0).unwrap(),
        RateLimiter::with_clock(Rate::new(1, ms(60_000)).unwrap(), 1, TokioClock).unwrap(),
    );
    let _place = full.try_acquire().unwrap();
    limiter.try_acquire().unwrap();
    let (no_calls, no_time) =
        (CallBudget::new(Some(0), None), CallBudget::new(None, Some(tokio::time::Instant::now())));
    let settings = || known().budget(budget.clone());
    for (settings, of) in [
        (settings().bulkhead(full), CallBudget::new(None, None)),
        (settings().rate_limit(limiter), CallBudget::new(None, None)),
        (settings(), no_calls),
        (settings(), no_time),
    ] {
        let retryer = settings.build().unwrap();
        let error = of.scope(retryer.call(|_| async { Ok::<_, Busy>(()) })).await.unwrap_err();
        assert_eq!(error.attempts(), 0);
        let blocking = of.enter(|| retryer.call_blocking(|_| Ok::<_, Busy>(()))).unwrap_err();
        assert_eq!(blocking.attempts(), 0);
        assert!(!budget.try_spend(), "{}", error.stop());
    }
    // A call that is made pays, in whichever way it is begun.
    let within = CallBudget::new(None, None);
    settings().build().unwrap().call(|_| async { Ok::<_, Busy>(()) }).await.unwrap();
    within.scope(settings().build().unwrap().call(|_| async { Ok::<_, Busy>(()) })).await.unwrap();
    assert_eq!((budget.try_spend(), budget.try_spend(), budget.try_spend()), (true, true, false));
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_and_ends_retries_under_way() {
    let config = BreakerConfig { consecutive: 1, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, TokioClock).unwrap();
    let retryer = known().breaker(breaker.clone()).build().unwrap();
    let waits = Service::new([Step::Fail(ms(10))]);
    let waiting = retryer.call(|attempt| waits.call(attempt));
    let slow = Service::new([Step::Fail(ms(80))]);
    let running = retryer.call(|attempt| slow.call(attempt));
    let trips = async {
        tokio::time::sleep(ms(50)).await;
        let once = known().attempts(1).breaker(breaker.clone()).build().unwrap();
        let error = once.call(|_| async { Err::<(), _>(Busy(0)) }).await.unwrap_err();
        assert_eq!(error.stop(), Stop::Attempts);
    };
    let (waited, ran, ()) = tokio::join!(waiting, running, trips);
    for error in [waited.unwrap_err(), ran.unwrap_err()] {
        assert!(matches!(error.stop(), Stop::Breaker(_)), "{:?}", error.stop());
        assert_eq!(error.attempts(), 1);
    }
    assert_eq!((waits.calls(), slow.calls()), (1, 1), "no attempt began while it was open");
    let refused = retryer.call(|attempt| slow.call(attempt)).await.unwrap_err();
    assert_eq!((refused.attempts(), refused.history().len()), (0, 0));
    assert_eq!(refused.stop().retry_after(), Some(ms(10_000 - 60)));
    assert_eq!(refused.to_string(), "not attempted: the circuit breaker is open, ask again in 9.94s");
    tokio::time::advance(ms(10_000)).await;
    let good = Service::new([OK]);
    for _ in 0..2 {
        retryer.call(|attempt| good.call(attempt)).await.unwrap();
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_takes_no_turn_and_no_place() {
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(1_000)).unwrap(), 2, TokioClock).unwrap();
    let retryer = known().breaker(breaker.clone()).rate_limit(limiter.clone()).build().unwrap();
    let service = Service::new([FAIL]);
    let opens = async {
        tokio::time::sleep(ms(50)).await;
        breaker.force_open();
    };
    let (ended, ()) = tokio::join!(retryer.call(|attempt| service.call(attempt)), opens);
    let error = ended.unwrap_err();
    assert_eq!((error.attempts(), error.retry_after()), (1, None), "it is open by order");
    assert!(matches!(error.stop(), Stop::Breaker(_)));
    assert!(limiter.try_acquire().is_ok(), "the second turn is still there");
}

#[tokio::test(start_paused = true)]
async fn the_breaker_sees_one_verdict_for_the_whole_call() {
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    let retryer = known().breaker(breaker.clone()).build().unwrap();
    let heals = Service::new([FAIL, FAIL, OK]);
    retryer.call(|attempt| heals.call(attempt)).await.unwrap();
    let shown = breaker.snapshot();
    assert_eq!((shown.calls, shown.failures), (1, 0));
    let fails = Service::new([FAIL]);
    retryer.call(|attempt| fails.call(attempt)).await.unwrap_err();
    let shown = breaker.snapshot();
    assert_eq!((shown.calls, shown.failures), (2, 1));
    // What the caller did wrong says nothing about the endpoint.
    let wrong = known().breaker(breaker.clone()).retry_if(|_: &Busy| false).build().unwrap();
    wrong.call(|attempt| fails.call(attempt)).await.unwrap_err();
    assert_eq!(breaker.snapshot().calls, 2);
}

#[tokio::test(start_paused = true)]
async fn slow_successes_open_the_breaker() {
    let config = BreakerConfig {
        slow_call: Some(ms(500)),
        slow_share: 0.5,
        min_calls: 4,
        consecutive: 0,
        ..BreakerConfig::default()
    };
    let breaker = CircuitBreaker::with_clock(config, TokioClock).unwrap();
    let retryer = known().breaker(breaker.clone()).build().unwrap();
    let service = Service::new([OK, Step::Answer(ms(100)), Step::Answer(ms(600)), Step::Answer(ms(700)), OK]);
    for _ in 0..4 {
        retryer.call(|attempt| service.call(attempt)).await.unwrap();
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    assert_eq!(breaker.snapshot().cause, Some(redrive_retry::guard::TripCause::SlowShare));
}

#[tokio::test(start_paused = true)]
async fn every_attempt_takes_a_turn() {
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(1_000)).unwrap(), 1, TokioClock).unwrap();
    let retryer = known().rate_limit(limiter).build().unwrap();
    let service = Service::new([FAIL, FAIL, OK]);
    retryer.call(|attempt| service.call(attempt)).await.unwrap();
    assert_eq!(service.times(), [0, 1_000, 2_000]);
    // Each was 100 and 200 ms late for its own turn, which the rate does not forget.
    let last = Service::new([OK]);
    retryer.call(|attempt| last.call(attempt)).await.unwrap();
    assert_eq!(last.times(), [1_000]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_too_late_is_not_waited_for() {
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(10_000)).unwrap(), 1, TokioClock).unwrap();
    let retryer = known().rate_limit(limiter.clone()).build().unwrap();
    let service = Service::new([FAIL]);
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    let Stop::Rate(spent) = error.stop() else { panic!("{:?}", error.stop()) };
    assert_eq!((spent.wait, error.attempts(), service.elapsed()), (ms(9_900), 1, ms(100)));
    // Nothing was taken by the one that gave up.
    assert_eq!(limiter.try_acquire().unwrap_err().wait, ms(9_900));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_held_by_an_attempt_and_not_by_a_wait() {
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let retryer = known().bulkhead(bulkhead.clone()).build().unwrap();
    let service = Service::new([Step::Fail(ms(50)), Step::Answer(ms(50))]);
    let call = retryer.call(|attempt| service.call(attempt));
    let watch = async {
        for (at, running) in [(25, 1), (100, 0), (175, 1), (225, 0)] {
            tokio::time::sleep(ms(at).saturating_sub(service.elapsed())).await;
            assert_eq!(bulkhead.running(), running, "after {at} ms");
        }
    };
    let (answer, ()) = tokio::join!(call, watch);
    assert_eq!(answer.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ended_holds_no_place_even_before_it_is_dropped() {
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let retryer = known().bulkhead(bulkhead.clone()).build().unwrap();
    let service = Service::new([OK]);
    let budget = CallBudget::new(Some(1), None);
    let mut call = std::pin::pin!(retryer.call(|attempt| service.call(attempt)));
    let held = bulkhead.try_acquire().unwrap();
    // It has its place when it finds that no call is left: another took the last one while it queued.
    let other = async {
        tokio::time::sleep(ms(10)).await;
        assert_eq!(bulkhead.waiting(), 1);
        assert!(budget.try_take());
        drop(held);
        assert_eq!(bulkhead.running(), 1, "the place is its own by now");
    };
    let (ended, ()) = tokio::join!(budget.scope(call.as_mut()), other);
    let error = ended.unwrap_err();
    assert_eq!((error.stop(), error.took()), (Stop::CallBudget, ms(10)));
    assert_eq!((bulkhead.running(), service.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_call_left_it_takes_no_turn_and_queues_for_no_place() {
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(1_000)).unwrap(), 1, TokioClock).unwrap();
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let _held = bulkhead.try_acquire().unwrap();
    let retryer = known().rate_limit(limiter.clone()).bulkhead(bulkhead.clone()).build().unwrap();
    let none = CallBudget::new(Some(0), None);
    let error = none.scope(retryer.call(|_| async { Ok::<_, Busy>(()) })).await.unwrap_err();
    assert_eq!((error.stop(), error.took(), error.outcome()), (Stop::CallBudget, ms(0), None));
    let blocking = none.enter(|| retryer.call_blocking(|_| Ok::<_, Busy>(()))).unwrap_err();
    assert_eq!((blocking.stop(), blocking.took()), (Stop::CallBudget, ms(0)));
    assert!(limiter.try_acquire().is_ok(), "the turn is there for another");
    // One whose last call another takes while it waits for its turn queues for no place after that.
    let one = CallBudget::new(Some(1), None);
    let call = one.scope(retryer.call(|_| async { Ok::<_, Busy>(()) }));
    let (ended, ()) = tokio::join!(call, async {
        tokio::time::sleep(ms(500)).await;
        assert!(one.try_take());
    });
    let error = ended.unwrap_err();
    assert_eq!((error.stop(), error.took()), (Stop::CallBudget, ms(1_000)));
}

#[tokio::test(start_paused = true)]
async fn a_full_bulkhead_refuses_at_once_and_a_seat_is_given_up_in_time() {
    let bulkhead = Bulkhead::new(1, 1).unwrap();
    let retryer = known().bulkhead(bulkhead.clone()).build().unwrap();
    let held = bulkhead.acquire().await.unwrap();
    let service = Service::new([OK]);
    let waits = async { retryer.call(|attempt| service.call(attempt)).await.unwrap_err() };
    let refused = async {
        tokio::task::yield_now().await;
        retryer.call(|attempt| service.call(attempt)).await.unwrap_err()
    };
    let (waited, refused) = tokio::join!(waits, refused);
    assert!(matches!(waited.stop(), Stop::Bulkhead(_)), "{:?}", waited.stop());
    assert_eq!(waited.took(), ms(5_999), "an attempt takes 2 s, and 8 s are all there is");
    let Stop::Bulkhead(full) = refused.stop() else { panic!("{:?}", refused.stop()) };
    assert_eq!((full.places, full.waiting, refused.took()), (1, 1, ms(0)));
    assert_eq!((bulkhead.running(), bulkhead.waiting(), service.calls()), (1, 0, 0));
    drop(held);
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_budget_of_calls_holds_for_every_retryer_below() {
    let (one, two) = (known().build().unwrap(), known().build().unwrap());
    let service = Service::new([FAIL, OK, FAIL]);
    let budget = CallBudget::new(Some(4), None);
    budget
        .scope(async {
            assert_eq!(one.call(|attempt| service.call(attempt)).await.unwrap(), 2);
            let error = two.call(|attempt| service.call(attempt)).await.unwrap_err();
            assert_eq!((error.stop(), error.attempts()), (Stop::CallBudget, 2));
            let error = one.call(|attempt| service.call(attempt)).await.unwrap_err();
            assert_eq!((error.stop(), error.attempts()), (Stop::CallBudget, 0));
        })
        .await;
    assert_eq!((budget.used(), budget.left(), service.calls()), (4, Some(0), 4));
    assert!(one.call(|attempt| service.call(attempt)).await.is_err_and(|error| error.attempts() == 5));
    assert_eq!(budget.used(), 4, "outside the scope nothing is charged");
}

#[tokio::test(start_paused = true)]
async fn of_two_budgets_of_calls_the_inner_one_holds() {
    let (outer, inner) = (CallBudget::new(Some(1), None), CallBudget::new(Some(3), None));
    let service = Service::new([FAIL]);
    let retryer = known().build().unwrap();
    let error = outer.scope(inner.scope(retryer.call(|attempt| service.call(attempt)))).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts()), (Stop::CallBudget, 3));
    assert_eq!((outer.used(), inner.used()), (0, 3));
}

/// As documented: nothing tells that an outer attempt called nobody but through the inner retryer.
#[tokio::test(start_paused = true)]
async fn a_retryer_inside_another_takes_from_the_budget_of_calls_too() {
    let (outer, inner) = (known().attempts(2).build().unwrap(), known().attempts(3).build().unwrap());
    let service = Service::new([FAIL]);
    let budget = CallBudget::new(None, None);
    let nested = outer.call(|_| inner.call(|attempt| service.call(attempt)));
    assert_eq!(budget.scope(nested).await.unwrap_err().attempts(), 2);
    assert_eq!((service.calls(), budget.used()), (6, 8));
}

#[tokio::test(start_paused = true)]
async fn what_a_guard_refused_is_not_charged() {
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let _held = bulkhead.acquire().await.unwrap();
    let retryer = known().bulkhead(bulkhead).build().unwrap();
    let budget = CallBudget::new(None, None);
    let call = retryer.call(|_| async { Ok::<_, Busy>(()) });
    budget.scope(call).await.unwrap_err();
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_made_is_not_charged() {
    let service = Service::new([FAIL]);
    let retryer = known()
        .judge(|result: Result<u32, Busy>| match result {
            Ok(value) => Judged::Done(value),
            Err(Busy(3)) => Judged::NotMade("no address"),
            Err(_) => Judged::retry("busy"),
        })
        .build()
        .unwrap();
    let budget = CallBudget::new(Some(3), None);
    let error = budget.scope(retryer.call(|attempt| service.call(attempt))).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.into_error()), (Stop::Final, 3, Some("no address")));
    assert_eq!((budget.used(), budget.left()), (2, Some(1)));
    budget.enter(|| retryer.call_blocking(|_| Err(Busy(3)))).unwrap_err();
    assert_eq!((budget.used(), budget.left()), (2, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_sees_why() {
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    breaker.force_open();
    let retryer = known().breaker(breaker).build().unwrap();
    let answer = retryer
        .call(|_| async { Ok::<_, Busy>(1) })
        .fallback(|error| async move {
            assert!(matches!(error.stop(), Stop::Breaker(open) if open.retry_after.is_none()));
            tokio::time::sleep(ms(10)).await;
            Ok::<_, ()>(2)
        })
        .await;
    assert_eq!(answer, Ok(2));
}
