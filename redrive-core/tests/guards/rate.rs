use std::time::Duration;

use proptest::prelude::*;
use redrive_core::guard::{Rate, RateLimit};

use super::{Clock, ms, step};

#[test]
fn reads_what_people_write() {
    for (text, count, per, printed) in [
        ("500/s", 500, 1_000, "500/s"),
        ("10/m", 10, 60_000, "10/m"),
        ("10/min", 10, 60_000, "10/m"),
        ("3/h", 3, 3_600_000, "3/h"),
        ("1/day", 1, 86_400_000, "1/d"),
        (" 5 / 10s ", 5, 10_000, "5/10s"),
        ("1/60s", 1, 60_000, "1/m"),
        ("4294967295/ms", u32::MAX, 1, "4294967295/ms"),
    ] {
        let rate: Rate = text.parse().unwrap();
        assert_eq!((rate.count(), rate.per()), (count, ms(per)), "{text}");
        assert_eq!(rate.to_string(), printed, "{text}");
    }
}

#[test]
fn says_what_is_wrong_with_a_rate() {
    let error = |text: &str| text.parse::<Rate>().unwrap_err();
    for (text, character, expected) in [
        ("", 1, "a whole number from 1"),
        ("/s", 1, "a whole number from 1"),
        ("+5/s", 1, "a whole number from 1"),
        (" 0/s", 2, "a whole number from 1"),
        ("4294967296/s", 1, "a whole number from 1"),
        ("500", 4, "`/` and a time"),
        ("0.5/s", 1, "a whole number from 1"),
        ("1.5/s", 2, "`/` and a time"),
        ("5/", 3, "one of ms"),
        ("5/week", 3, "one of ms"),
        ("5/10 s", 5, "one of ms"),
        ("5/0s", 3, "a time from 1ms"),
        ("5/367d", 3, "a time from 1ms"),
        ("5/99999999999999999999s", 3, "a time from 1ms"),
    ] {
        let error = error(text);
        assert!(error.expected().contains(expected), "{text}: {error}");
        assert_eq!(error.character(), character, "{text}: {error}");
    }
    assert_eq!(Rate::new(1, Duration::from_micros(1)), None);
    assert_eq!(Rate::new(0, ms(1)), None);
}

#[test]
fn thirds_do_not_drift() {
    let mut limit = RateLimit::with_burst("3/s".parse().unwrap(), 2).unwrap();
    let mut now = Duration::ZERO;
    let mut taken = 0u64;
    // Always asking again exactly when told to: two at once, then a third of a second each, to the nanosecond.
    while taken < 1_000_000 {
        match limit.try_take(now, 1) {
            Ok(()) => taken += 1,
            Err(wait) => now += wait,
        }
    }
    assert_eq!(now, Duration::from_nanos((999_998 * 1_000_000_000u64).div_ceil(3)));
}

#[test]
fn more_than_the_burst_never_comes() {
    let mut limit = RateLimit::new("2/s".parse().unwrap());
    assert_eq!(limit.burst(), 2);
    assert_eq!(limit.try_take(ms(0), 3), Err(Duration::MAX));
    assert_eq!(limit.try_take(ms(0), 2), Ok(()));
    assert_eq!(limit.try_take(ms(0), 0), Ok(()));
    assert!(RateLimit::with_burst("2/s".parse().unwrap(), 0).is_err());
    assert_eq!(RateLimit::new("2/h".parse().unwrap()).burst(), 1);
}

#[test]
fn the_end_of_time_is_no_overflow() {
    let mut limit = RateLimit::with_burst(Rate::new(u32::MAX, ms(1)).unwrap(), u32::MAX).unwrap();
    for now in [Duration::MAX, Duration::ZERO, Duration::MAX] {
        let _ = limit.try_take(now, u32::MAX);
        let _ = limit.wait(now, u32::MAX);
    }
    let mut slow = RateLimit::with_burst(Rate::new(1, ms(366 * 86_400_000)).unwrap(), u32::MAX).unwrap();
    assert_eq!(slow.try_take(Duration::MAX, u32::MAX), Ok(()));
    assert!(slow.try_take(Duration::MAX, u32::MAX).is_err());
}

proptest! {
    #[test]
    fn passes_what_a_list_of_events_allows(
        count in 1u32..50, per in 1u64..20_000, burst in 1u32..20,
        history in prop::collection::vec((step(), 0u32..5), 0..80),
    ) {
        let mut limit = RateLimit::with_burst(Rate::new(count, ms(per)).unwrap(), burst).unwrap();
        let mut clock = Clock::default();
        // Every token taken, with its time in ms. A request passes when for each earlier event the stretch from
        // there to now stays within burst + rate × t.
        let mut events: Vec<(u64, u32)> = Vec::new();
        for (step, n) in history {
            let (given, now) = clock.pass(step);
            let now_ms = now.as_millis() as u64;
            let fits = |at: u64| {
                let mut starts: Vec<u64> = events.iter().map(|(time, _)| *time).collect();
                starts.push(at);
                starts.into_iter().all(|start| {
                    let taken: u64 = events.iter().filter(|(time, _)| *time >= start).map(|(_, n)| u64::from(*n)).sum();
                    // taken + n ≤ burst + count × t / per, in whole numbers
                    (taken + u64::from(n)) * per <= u64::from(burst) * per + u64::from(count) * (at - start)
                })
            };
            let expected = n == 0 || fits(now_ms);
            let wait = limit.wait(given, n);
            let result = limit.try_take(given, n);
            prop_assert_eq!(result.is_ok(), expected);
            prop_assert_eq!(result.err().unwrap_or_default(), wait);
            match result {
                Ok(()) if n > 0 => events.push((now_ms, n)),
                Err(wait) if wait < Duration::MAX => {
                    // Exactly so long: it passes then, and not a nanosecond before.
                    prop_assert_eq!(limit.wait(now + wait, n), Duration::ZERO);
                    prop_assert!(limit.wait((now + wait).saturating_sub(Duration::from_nanos(1)), n) > Duration::ZERO);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn rates_print_and_parse(count in 1u32.., per in 1u64..31_622_400_000, text: String) {
        let rate = Rate::new(count, ms(per)).unwrap();
        prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        let json = serde_json::to_string(&rate).unwrap();
        prop_assert_eq!(serde_json::from_str::<Rate>(&json).unwrap(), rate);
        if let Ok(rate) = text.parse::<Rate>() {
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }

    #[test]
    fn any_time_is_taken(times in prop::collection::vec((any::<Duration>(), any::<u32>()), 0..20), count in 1u32.., per in 1u64..31_622_400_000, burst in 1u32..) {
        let mut limit = RateLimit::with_burst(Rate::new(count, ms(per)).unwrap(), burst).unwrap();
        for (now, n) in times {
            let before = limit.wait(now, n);
            prop_assert_eq!(limit.try_take(now, n).err().unwrap_or_default(), before);
        }
    }
}
