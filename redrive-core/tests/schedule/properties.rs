//! What holds for every schedule, every limit and every text.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::{Calendar, Date, Floor, Jitter, Limits, Percent, Schedule, SplitMix64, duration};

use crate::generate::{delay, limits, now, schedule};

/// Steps near the beginning and anywhere up to the last that can be counted.
fn step() -> impl Strategy<Value = u32> {
    prop_oneof![0..100_u32, any::<u32>(), Just(u32::MAX)]
}

proptest! {
    #[test]
    fn a_wait_is_within_floor_and_cap(
        schedule in schedule(u32::MAX / 4), limits in limits(), step in step(), now in now(),
        previous in prop::option::of(delay()), seed in any::<u64>(),
    ) {
        let wait = schedule.sample(step, &limits, previous, now, &mut SplitMix64::new(seed));
        let nominal = schedule.nominal(step, now);
        prop_assert_eq!(wait.is_some(), nominal.is_some());
        prop_assert_eq!(wait.is_some(), schedule.len().is_none_or(|len| step < len));
        let (Some(wait), Some(nominal)) = (wait, nominal) else { return Ok(()) };
        let cap = limits.cap.unwrap_or(duration::MAX);
        prop_assert!(wait <= cap, "{wait:?} is over the cap");
        prop_assert!(nominal <= duration::MAX);
        let floor = match limits.floor {
            Floor::Fixed(floor) => floor,
            // Rounded down to the microsecond; a decorrelated or calendar wait has the same floor.
            Floor::Share(share) => {
                let delay = nominal.min(cap).as_micros() as u64;
                Duration::from_micros(delay * u64::from(share.hundredths()) / 10_000)
            }
        };
        // A fixed floor gives way to an element's own max, which is never under the step's delay.
        let lowered = if schedule.to_string().contains("max ") { nominal } else { duration::MAX };
        prop_assert!(wait >= floor.min(cap).min(lowered), "{wait:?} is under the floor");
        if !has_calendar(&schedule) {
            prop_assert!(nominal <= schedule.longest());
            prop_assert!(wait <= schedule.longest_with(&limits), "{wait:?} is over the longest");
        }
    }

    #[test]
    fn the_range_holds_every_wait_of_a_run(
        schedule in schedule(40), limits in limits(), now in now(), seed in any::<u64>(),
    ) {
        let mut rng = SplitMix64::new(seed);
        let mut previous = None;
        let mut now = now;
        let mut sum = Duration::ZERO;
        for step in 0..schedule.len().unwrap_or(60) {
            let range = schedule.range(step, &limits, now).unwrap();
            let wait = schedule.sample(step, &limits, previous, now, &mut rng).unwrap();
            prop_assert!(range.min <= wait && wait <= range.max, "step {step}: {wait:?} is outside {range:?}");
            prop_assert!(range.min <= range.mean && range.mean <= range.max, "step {step}: {range:?}");
            previous = Some(wait);
            now = now + wait;
            sum += wait;
        }
        if let Some(total) = schedule.total_with(&limits) && !has_calendar(&schedule) {
            prop_assert!(sum <= total, "{sum:?} is over {total:?}");
        }
    }

    #[test]
    fn the_total_is_the_sum_of_the_delays(schedule in schedule(200), now in now()) {
        let Some(total) = schedule.total() else {
            prop_assert!(schedule.is_unlimited());
            return Ok(());
        };
        if has_calendar(&schedule) {
            return Ok(());
        }
        prop_assert_eq!(schedule.iter(now).sum::<Duration>(), total);
        prop_assert_eq!(schedule.iter(now).max(), Some(schedule.longest()));
        prop_assert_eq!(schedule.iter(now).count(), schedule.len().unwrap() as usize);
        prop_assert_eq!(schedule.clone().with_jitter(Jitter::None).total_with(&Limits::NONE), Some(total));
    }

    #[test]
    fn delays_never_fall_within_an_element(first in delay(), factor in 1_000..5_000_u32, step in any::<u32>()) {
        let first = first.max(Duration::from_micros(1));
        let schedule = Schedule::exponential(first, f64::from(factor) / 1_000.0).forever().build().unwrap();
        let now = redrive_core::Timestamp::default();
        prop_assert!(schedule.nominal(step, now) <= schedule.nominal(step.saturating_add(1), now));
        prop_assert!(schedule.nominal(step, now) >= Some(first));
    }

    #[test]
    fn what_is_printed_reads_back(schedule in schedule(u32::MAX / 4)) {
        let text = schedule.to_string();
        let read: Schedule = text.parse().unwrap();
        prop_assert_eq!(&read, &schedule);
        prop_assert_eq!(read.to_string(), text.clone());
        let json = serde_json::to_string(&schedule).unwrap();
        prop_assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule);
    }

    #[test]
    fn what_is_printed_as_a_duration_reads_back(delay in delay()) {
        prop_assert_eq!(duration::parse(&duration::print(delay).to_string()), Ok(delay));
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn no_text_of_the_grammar_makes_a_parser_panic(tokens in prop::collection::vec(token(), 0..24)) {
        read(&tokens.concat())?;
    }
}

/// A calendar's delays depend on the time; its bounds have tests of their own.
fn has_calendar(schedule: &Schedule) -> bool {
    schedule.to_string().contains("calendar(")
}

fn token() -> impl Strategy<Value = String> {
    let words = "0 1 3 10 2.5 .5 1e9 NaN inf 99999999999999999999 4294967296 s ms us µs m h d w P PT T 1D M Y x × * , ; ( ) - + % ± \
                 10s 1m PT5M x3 x0 forever jitter none full equal decorrelated 10% +33% linear( exponential( calendar( step factor max \
                 times mon fri mon-fri 09:00-17:00 24:00 Europe/Berlin UTC holidays de 2026-12-25 2026-02-30 FixedDelayRetryPolicy( \
                 LimitedExponentialRetryPolicy( UnlimitedExponentialRetryPolicy( 5000x3 1,60,2,120";
    let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    words.extend([" ", " ", ", ", "\n", "\u{0}", "ä", "\u{202e}"].map(str::to_owned));
    prop::sample::select(words)
}

/// Reads a text with every parser; what one accepts, it must print and read again, and each error is in place.
fn read(text: &str) -> Result<(), TestCaseError> {
    let mut errors = Vec::new();
    match text.parse::<Schedule>() {
        Ok(schedule) => prop_assert_eq!(schedule.to_string().parse::<Schedule>(), Ok(schedule)),
        Err(error) => errors.push(error),
    }
    match text.parse::<Calendar>() {
        Ok(calendar) => prop_assert_eq!(calendar.to_string().parse::<Calendar>(), Ok(calendar)),
        Err(error) => errors.push(error),
    }
    match duration::parse(text) {
        Ok(delay) => prop_assert!(delay <= duration::MAX),
        Err(error) => errors.push(error),
    }
    errors.extend(text.parse::<Jitter>().err());
    errors.extend(text.parse::<Floor>().err());
    errors.extend(text.parse::<Percent>().err());
    errors.extend(text.parse::<Date>().err());
    for error in errors {
        prop_assert!(text.is_char_boundary(error.at()), "{error:?}");
        prop_assert!(error.input().len() <= 1024);
        prop_assert_eq!(error.caret().to_string().lines().count(), 2);
        prop_assert!(!error.to_string().contains('\n'));
    }
    Ok(())
}
