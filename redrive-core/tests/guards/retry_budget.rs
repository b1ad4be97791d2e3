use std::time::Duration;

use proptest::prelude::*;
use redrive_core::guard::{Rate, RetryBudget, RetryBudgetConfig};

use super::{Clock, ms, step};

#[test]
fn refuses_settings_under_which_nothing_passes() {
    let of = |share, floor, window| RetryBudget::new(RetryBudgetConfig { share, floor, window });
    for share in [f64::NAN, -0.1, 10.1, f64::INFINITY] {
        assert_eq!(of(share, None, ms(1)).unwrap_err().field, "share");
    }
    assert_eq!(of(0.0, None, ms(1)).unwrap_err().field, "share");
    assert_eq!(of(0.3, None, ms(0)).unwrap_err().field, "window");
    assert!(of(0.0, Rate::per_second(1), Duration::MAX).is_ok());
}

#[test]
fn a_backlog_of_retries_drains_at_the_floor() {
    let mut budget = RetryBudget::default();
    let passed = (0..60_000).filter(|millis| budget.try_spend(ms(*millis))).count();
    // One second's worth at once, then ten a second.
    assert_eq!(passed, 10 + 10 * 60 - 1);
}

#[test]
fn traffic_pays_for_retries_and_stops_paying() {
    let mut budget = RetryBudget::new(RetryBudgetConfig { floor: None, ..Default::default() }).unwrap();
    for _ in 0..100 {
        budget.deposit(ms(0));
    }
    assert_eq!((0..100).filter(|_| budget.try_spend(ms(5_000))).count(), 30);
    assert_eq!(budget.next_at(ms(5_000)), None);
    assert!(!budget.try_spend(ms(20_000)));
    budget.deposit(ms(20_000));
    assert!(!budget.try_spend(ms(20_000)), "a third of a retry is none");
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    First,
    FromShare,
    FromFloor,
}

proptest! {
    #[test]
    fn passes_what_a_list_of_events_allows(
        share in 0u64..=2_000, floor in prop::option::of((1u32..30, 1u64..5_000)), window in 1u64..20_000,
        history in prop::collection::vec((step(), any::<bool>()), 0..120),
    ) {
        let config = RetryBudgetConfig {
            share: share as f64 / 1_000.0,
            floor: floor.and_then(|(count, per)| Rate::new(count, ms(per))),
            window: ms(window),
        };
        let Ok(mut budget) = RetryBudget::new(config.clone()) else {
            prop_assert!(share == 0 && floor.is_none());
            return Ok(());
        };
        let mut clock = Clock::default();
        let mut events: Vec<(Duration, Event)> = Vec::new();
        let width = (window * 1_000_000).div_ceil(10);
        for (step, is_first) in history {
            let (given, now) = clock.pass(step);
            if is_first {
                budget.deposit(given);
                events.push((now, Event::First));
                continue;
            }
            let bucket = |time: Duration| time.as_nanos() as u64 / width;
            let count = |kind| {
                events.iter().filter(|(at, event)| *event == kind && bucket(now) - bucket(*at) < 10).count() as u64
            };
            let by_share = (count(Event::FromShare) + 1) * 1_000 <= share * count(Event::First);
            let burst = u64::from(config.floor.map_or(0, Rate::one_second));
            let by_floor = floor.is_some_and(|(rate, per)| {
                let taken: Vec<u64> = events.iter().filter(|(_, event)| *event == Event::FromFloor)
                    .map(|(at, _)| at.as_millis() as u64).collect();
                let at = now.as_millis() as u64;
                taken.iter().copied().chain([at]).all(|start| {
                    let since = taken.iter().filter(|time| **time >= start).count() as u64;
                    (since + 1) * per <= burst * per + u64::from(rate) * (at - start)
                })
            });
            let next = budget.next_at(given);
            let passed = budget.clone().try_spend(given);
            prop_assert_eq!(passed, by_share || by_floor);
            prop_assert_eq!(next == Some(now), passed);
            match next {
                Some(next) if next > now => {
                    prop_assert!(budget.clone().try_spend(next));
                    prop_assert!(!budget.clone().try_spend(next.saturating_sub(Duration::from_nanos(1))));
                }
                Some(_) => {}
                None => prop_assert!(!budget.clone().try_spend(now + ms(10 * window))),
            }
            prop_assert_eq!(budget.try_spend(given), passed);
            if passed {
                events.push((now, if by_share { Event::FromShare } else { Event::FromFloor }));
                // The promise itself, over the whole window that ends here.
                let recent = |event: &&(Duration, Event), end: Duration| {
                    event.0 <= end && bucket(end) - bucket(event.0) < 10
                };
                let in_window: Vec<_> = events.iter().filter(|event| recent(event, now)).collect();
                let retries = in_window.iter().filter(|(_, event)| *event != Event::First).count() as f64;
                let last = in_window.iter().rfind(|(_, event)| *event == Event::FromShare);
                let firsts = last.map_or(0, |(end, _)| {
                    let first = |event: &&(Duration, Event)| event.1 == Event::First && recent(event, *end);
                    events.iter().filter(first).count()
                }) as f64;
                let rate = floor.map_or(0.0, |(count, per)| f64::from(count) / per as f64);
                let allowed = share as f64 / 1_000.0 * firsts + rate * window as f64 + burst as f64;
                prop_assert!(retries <= allowed + 1e-6, "{retries} over {allowed}");
            }
        }
    }

    #[test]
    fn any_time_is_taken(
        times in prop::collection::vec((any::<Duration>(), any::<bool>()), 0..30),
        share in 0.0f64..=10.0, window in any::<Duration>(),
    ) {
        let floor = Rate::per_second(10);
        let Ok(mut budget) = RetryBudget::new(RetryBudgetConfig { share, floor, window }) else {
            prop_assert!(window.is_zero());
            return Ok(());
        };
        for (now, is_first) in times {
            if is_first {
                budget.deposit(now);
            } else if !budget.try_spend(now) {
                prop_assert!(budget.next_at(now).is_some());
            }
        }
    }
}
