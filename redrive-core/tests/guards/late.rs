//! What counters beside a guard add up now and then counts as if it had been told at once.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::guard::{
    Breaker, BreakerConfig, Outcome, Rate, RateLimit, RetryBudget, RetryBudgetConfig, Window,
};

use super::ms;

proptest! {
    #[test]
    fn first_attempts_told_late_pay_as_long(
        window in 10u64..5_000,
        history in prop::collection::vec((0u64..400, 0u8..10), 0..300),
    ) {
        let config = RetryBudgetConfig { share: 0.5, floor: None, window: ms(window) };
        let mut at_once = RetryBudget::new(config.clone()).unwrap();
        let mut late = RetryBudget::new(config).unwrap();
        let mut now = Duration::ZERO;
        let (mut kept, mut turns) = (0, late.turns_at(now));
        for (step, act) in history {
            now += ms(step);
            let is_retry = act < 3;
            if now >= turns || is_retry {
                late.deposit_many(turns.saturating_sub(Duration::from_nanos(1)).min(now), kept);
                (kept, turns) = (0, late.turns_at(now));
            }
            if is_retry {
                prop_assert_eq!(late.try_spend(now), at_once.try_spend(now));
            } else {
                at_once.deposit(now);
                kept += 1;
            }
        }
    }

    #[test]
    fn successes_told_late_are_judged_alike(
        window in prop_oneof![(50u64..5_000).prop_map(|time| Window::Time(ms(time))), (4u32..30).prop_map(Window::Count)],
        failure in 1u32..=10, min_calls in 1u32..4, consecutive in 0u32..5, slow: bool,
        history in prop::collection::vec((0u64..400, 0u8..20), 0..400),
    ) {
        let config = BreakerConfig {
            failure_share: f64::from(failure) / 10.0,
            min_calls,
            window,
            open: ms(700),
            slow_call: slow.then_some(ms(100)),
            consecutive,
            ..BreakerConfig::default()
        };
        let mut at_once = Breaker::new(config.clone()).unwrap();
        let mut late = Breaker::new(config).unwrap();
        let mut now = Duration::ZERO;
        let (mut kept, mut turns) = (0, late.turns_at(now));
        for (step, act) in history {
            now += ms(step);
            let (outcome, took) = match act {
                0 => (Outcome::Failure, ms(1)),
                1 => (Outcome::Success, ms(200)),
                2 => (Outcome::Ignored, ms(1)),
                _ => (Outcome::Success, ms(1)),
            };
            if let Some(permit) = at_once.admit(now).permit() {
                at_once.record(now, permit, outcome, took);
            }
            let beside = outcome == Outcome::Success && act > 2 && late.is_quiet(now);
            if !beside || turns.is_some_and(|turns| now >= turns) {
                let at = turns.map_or(now, |turns| turns.saturating_sub(Duration::from_nanos(1)).min(now));
                let before = late.generation();
                prop_assert_eq!(late.record_successes(now, at, kept), None, "nothing but failures opens it");
                prop_assert_eq!(late.generation(), before);
                (kept, turns) = (0, late.turns_at(now));
            }
            if beside {
                kept += 1;
                continue;
            }
            if let Some(permit) = late.admit(now).permit() {
                late.record(now, permit, outcome, took);
            }
            prop_assert_eq!(late.snapshot(now), at_once.snapshot(now));
            prop_assert_eq!(late.next_at(now), at_once.next_at(now));
            prop_assert!(late.succeeded_in_window(now) || !at_once.succeeded_in_window(now));
        }
    }

    #[test]
    fn whoever_waits_for_a_reserved_token_keeps_the_rate(
        count in 1u32..50, per in 1u64..5_000, burst in 1u32..10, longest in 0u64..5_000,
        history in prop::collection::vec(0u64..200, 0..80),
    ) {
        let mut limit = RateLimit::with_burst(Rate::new(count, ms(per)).unwrap(), burst).unwrap();
        let mut now = Duration::ZERO;
        let mut starts: Vec<Duration> = Vec::new();
        for step in history {
            now += ms(step);
            match limit.reserve(now, 1, ms(longest)) {
                Ok(wait) => {
                    prop_assert!(wait <= ms(longest));
                    starts.push(now + wait);
                }
                Err(wait) => prop_assert!(wait > ms(longest)),
            }
        }
        prop_assert!(starts.is_sorted(), "first come, first served");
        for (first, begin) in starts.iter().enumerate() {
            for (behind, end) in starts[first..].iter().enumerate() {
                let earned = end.saturating_sub(*begin).as_nanos() * u128::from(count);
                let allowed = u128::from(burst) * u128::from(per) * 1_000_000 + earned;
                // Each wait is rounded up to the nanosecond, so two starts can be that much closer.
                let rounding = u128::from(count);
                prop_assert!((behind as u128 + 1) * u128::from(per) * 1_000_000 <= allowed + rounding);
            }
        }
    }
}

#[test]
fn successes_while_open_prove_the_endpoint_and_nothing_more() {
    let mut breaker = Breaker::new(BreakerConfig { consecutive: 1, ..BreakerConfig::default() }).unwrap();
    let permit = breaker.admit(ms(0)).permit().unwrap();
    breaker.record(ms(0), permit, Outcome::Failure, ms(1));
    assert!(!breaker.succeeded_in_window(ms(1)));
    assert_eq!(breaker.record_successes(ms(1), ms(1), 100), None);
    assert!(breaker.succeeded_in_window(ms(1)));
    assert_eq!((breaker.snapshot(ms(1)).calls, breaker.is_quiet(ms(1))), (1, false));
}

#[test]
fn a_reservation_beyond_the_burst_or_the_wait_takes_nothing() {
    let mut limit = RateLimit::with_burst("1/s".parse().unwrap(), 2).unwrap();
    assert_eq!(limit.reserve(ms(0), 3, Duration::MAX), Err(Duration::MAX));
    assert_eq!(limit.reserve(ms(0), 2, ms(0)), Ok(ms(0)));
    assert_eq!(limit.reserve(ms(0), 1, ms(999)), Err(ms(1_000)));
    assert_eq!(limit.reserve(ms(0), 1, ms(1_000)), Ok(ms(1_000)));
    assert_eq!(limit.reserve(ms(0), 0, ms(0)), Err(ms(1_000)), "what was reserved ahead is taken");
    assert_eq!(limit.try_take(ms(1_000), 1), Err(ms(1_000)));
}
