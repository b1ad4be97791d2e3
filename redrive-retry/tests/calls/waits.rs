//! How long is waited: the schedule, jitter, and what the endpoint asks for.

use std::time::Duration;

use proptest::prelude::*;
use redrive_retry::{Jitter, Judged, Retryer, Stop, TokioClock};

use crate::script::{Busy, FAIL, Service};
use crate::{known, ms};

/// The waits of one call that fails to the end, in milliseconds.
async fn waits(retryer: &Retryer) -> Vec<u64> {
    let service = Service::new([FAIL]);
    retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    service.times().windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn full_jitter_spreads_over_the_whole_wait() {
    let retryer = Retryer::builder().no_budget().seed(7).clock(TokioClock).build().unwrap();
    let mut all = Vec::new();
    for _ in 0..500 {
        all.push(waits(&retryer).await);
    }
    for (step, bound) in [200, 400, 800, 1_600].into_iter().enumerate() {
        let mut of_step: Vec<u64> = all.iter().map(|waits| waits[step]).collect();
        of_step.sort_unstable();
        // A sleep is rounded up to the next millisecond.
        assert!(of_step[499] <= bound + 1, "{of_step:?}");
        assert!(of_step[25] < bound / 10 && of_step[475] > bound * 9 / 10, "{of_step:?}");
        assert!(of_step[250].abs_diff(bound / 2) < bound / 8, "{}", of_step[250]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_repeats_and_no_seed_does_not() {
    let of = |seed: Option<u64>| {
        let builder = Retryer::builder().no_budget().clock(TokioClock);
        seed.map_or(builder.clone(), |seed| builder.seed(seed)).build().unwrap()
    };
    assert_eq!(waits(&of(Some(1))).await, waits(&of(Some(1))).await);
    assert_ne!(waits(&of(Some(1))).await, waits(&of(Some(2))).await);
    assert_ne!(waits(&of(None)).await, waits(&of(None)).await);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_of_any_shape_is_followed_to_its_end() {
    let retryer = Retryer::builder()
        .schedule("100ms x2, 1s, linear(2s, step 1s, times 2)".parse().unwrap())
        .no_deadline()
        .clock(TokioClock)
        .build()
        .unwrap();
    assert_eq!(retryer.attempts(), 6);
    assert_eq!(waits(&retryer).await, [100, 100, 1_000, 2_000, 3_000]);
    let capped = Retryer::builder()
        .schedule("100ms, 5s forever".parse().unwrap())
        .cap(ms(700))
        .clock(TokioClock)
        .build()
        .unwrap();
    assert_eq!(waits(&capped).await, [100, 700, 700, 700]);
}

async fn waits_after(asked: Duration, retryer: redrive_retry::Builder) -> Vec<u64> {
    let service = Service::new([FAIL]);
    let retryer = retryer
        .judge(move |result: Result<u32, Busy>| match result {
            Ok(value) => Judged::Done(value),
            Err(error) => Judged::Retry { error, after: Some(asked) },
        })
        .build()
        .unwrap();
    retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    service.times().windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_endpoint_asks_for_is_waited_within_bounds() {
    let three = || known().attempts(3);
    assert_eq!(waits_after(ms(1_000), three()).await, [1_000, 1_000]);
    assert_eq!(waits_after(ms(60_000), three()).await, [3_000, 3_000], "at most the cap");
    assert_eq!(waits_after(ms(0), three()).await, [100, 200], "at once is no advice");
    let least = three().retry_after(ms(500), ms(3_000));
    assert_eq!(waits_after(ms(1), least).await, [500, 500]);
    assert_eq!(waits_after(ms(1_000), three().retry_after(ms(0), ms(0))).await, [100, 200], "no heed");
    let honest = three().retry_after(ms(0), ms(3_600_000));
    assert_eq!(waits_after(ms(60_000), honest).await, [] as [u64; 0], "there is not so much time");
}

#[tokio::test(start_paused = true)]
async fn what_the_endpoint_asked_for_is_kept_as_it_said_it() {
    let asks = |after: Option<Duration>| {
        known().attempts(2).judge(move |result: Result<u32, Busy>| match result {
            Ok(value) => Judged::Done(value),
            Err(error) => Judged::Retry { error, after },
        })
    };
    for (asked, expected) in [(Some(ms(3_600_000)), Some(ms(3_600_000))), (None, None)] {
        let service = Service::new([FAIL]);
        let retryer = asks(asked).build().unwrap();
        let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
        assert_eq!((error.stop(), error.retry_after()), (Stop::Attempts, expected));
        assert!(error.history().iter().all(|tried| tried.asked == asked));
        assert_eq!(error.map(|_| ()).retry_after(), expected);
    }
    // A wait that there was no time for was held to 3 s; the endpoint said an hour.
    let service = Service::new([FAIL]);
    let retryer = asks(Some(ms(3_600_000))).deadline(ms(1_000)).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!(error.stop().retry_after(), Some(ms(3_000)));
    assert_eq!(error.retry_after(), Some(ms(3_600_000)));
}

#[tokio::test(start_paused = true)]
async fn those_that_were_refused_together_do_not_come_back_together() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let retryer = known().attempts(2).jitter(Jitter::Full).seed(seed * 1_000);
        let waits = waits_after(ms(1_000), retryer).await;
        assert!((1_000..=1_101).contains(&waits[0]), "{waits:?}");
        seen.insert(waits[0]);
    }
    assert!(seen.len() > 20, "{seen:?}");
}

proptest! {
    /// Whatever is configured: no wait is over the cap, no sleep goes past the deadline, no attempt over the limit.
    #[test]
    fn bounds_hold_for_every_configuration(
        attempts in 1u32..8, base in 0u64..2_000, factor in 1.0f64..5.0, cap in 2_000u64..6_000,
        deadline in 1u64..20_000, jitter in prop::sample::select(vec![
            Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated,
            Jitter::Around(redrive_retry::Percent::TEN),
        ]), seed: u64, took in 0u64..3_000,
    ) {
        let factor = (factor * 10.0).round() / 10.0;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let retryer = Retryer::builder().attempts(attempts).base(ms(base)).factor(factor).cap(ms(cap))
                .deadline(ms(deadline)).jitter(jitter).seed(seed).no_budget().clock(TokioClock).build().unwrap();
            let service = Service::new([crate::script::Step::Fail(ms(took))]);
            let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
            let times = service.times();
            prop_assert!(times.len() <= attempts as usize);
            prop_assert!(times.iter().all(|at| *at < deadline));
            // Nothing is waited for in vain, and what is past the deadline is the timer that cut an attempt.
            let last = error.history().last().unwrap();
            prop_assert_eq!(error.took(), last.began + last.took);
            prop_assert_eq!(service.elapsed(), error.took());
            let late = error.took().saturating_sub(ms(deadline));
            let cut = matches!(last.cause, redrive_retry::Cause::TimedOut(_));
            prop_assert!(late.is_zero() || cut && late < ms(1), "{late:?}");
            for pair in error.history().windows(2) {
                let wait = pair[1].began.saturating_sub(pair[0].began + pair[0].took);
                prop_assert!(wait <= ms(cap + 1), "{wait:?}");
            }
            Ok(())
        })?;
    }
}
