//! The tables and settings that people bring along, worked out.

use std::time::Duration;

use redrive_core::{Floor, Limits, Schedule, SplitMix64, Timestamp};

fn seconds(text: &str) -> Vec<u64> {
    let schedule: Schedule = text.parse().unwrap();
    schedule.iter(Timestamp::default()).map(|delay| delay.as_secs()).collect()
}

#[test]
fn the_kafka_time_line() {
    let schedule: Schedule = "exponential(5s, factor 2, times 3) jitter 10%".parse().unwrap();
    let ranges: Vec<_> = (0..4)
        .map_while(|step| schedule.range(step, &Limits::default(), Timestamp::default()))
        .map(|range| [range.min, range.mean, range.max].map(|wait| wait.as_millis()))
        .collect();
    assert_eq!(ranges, [[4_500, 5_000, 5_500], [9_000, 10_000, 11_000], [18_000, 20_000, 22_000]]);
    assert_eq!(schedule.total(), Some(Duration::from_secs(35)));
    assert_eq!(schedule.total_with(&Limits::default()), Some(Duration::from_millis(38_500)));
    assert_eq!(schedule.longest_with(&Limits::default()), Duration::from_secs(22));
}

#[test]
fn a_least_and_a_longest_delay_in_milliseconds_are_floor_and_cap() {
    let schedule: Schedule = "exponential(100ms, factor 10, times 5)".parse().unwrap();
    let limits = Limits { floor: Floor::Fixed(Duration::from_secs(1)), cap: Some(Duration::from_mins(1)) };
    let mut rng = SplitMix64::new(1);
    let waits: Vec<_> = (0..5)
        .filter_map(|step| schedule.sample(step, &limits, None, Timestamp::default(), &mut rng))
        .map(|wait| wait.as_secs())
        .collect();
    assert_eq!(waits, [1, 1, 10, 60, 60]);
    assert_eq!(schedule.total_with(&limits), Some(Duration::from_secs(132)));
}

#[test]
fn compute_backoff() {
    let schedule: Schedule = "2s, 4s, 8s, 16s, 32s, 64s forever jitter +33.33%".parse().unwrap();
    for attempt in 1..=40_u32 {
        let base = 1_000_u128 << attempt.min(6);
        let range = schedule.range(attempt - 1, &Limits::default(), Timestamp::default()).unwrap();
        assert_eq!(range.min.as_millis(), base);
        let (longest, third) = (range.max.as_millis(), base / 3);
        assert!(longest <= base + third && longest + 10 >= base + third, "attempt {attempt}: {longest}");
    }
    let same: Schedule = "exponential(2s, factor 2, max 64s, forever)".parse().unwrap();
    let now = Timestamp::default();
    assert!((0..100).all(|step| same.nominal(step, now) == schedule.nominal(step, now)));
}

#[test]
fn a_limited_exponential_policy() {
    let text = "LimitedExponentialRetryPolicy(1,60,2,120)";
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(schedule.to_string(), "exponential(1s, factor 2, max 1m, times 120)");
    assert_eq!(schedule.len(), Some(120));
    let delays = seconds(text);
    assert_eq!(delays[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(schedule.total(), Some(Duration::from_secs(63 + 114 * 60)));
}

#[test]
fn a_fixed_delay_policy() {
    let text = "FixedDelayRetryPolicy(5000x3, 15000x5, 60000x10, 120000x15)";
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(schedule.to_string(), "5s x3, 15s x5, 1m x10, 2m x15");
    assert_eq!(schedule.len(), Some(33));
    assert_eq!(schedule.total(), Some(Duration::from_secs(15 + 75 + 600 + 1_800)));
    assert_eq!(seconds(text)[2..9], [5, 15, 15, 15, 15, 15, 60]);
}

#[test]
fn unlimited_exponential_policies() {
    for text in ["UnlimitedExponentialRetryPolicy(1,60,2)", "exponentialretrypolicy( 1 , 60 , 2 )"] {
        let schedule: Schedule = text.parse().unwrap();
        assert_eq!(schedule.to_string(), "exponential(1s, factor 2, max 1m) forever");
        assert_eq!((schedule.len(), schedule.total()), (None, None));
        assert_eq!(schedule.nominal(u32::MAX, Timestamp::default()), Some(Duration::from_mins(1)));
        assert_eq!(schedule.longest(), Duration::from_mins(1));
    }
}

#[test]
fn the_full_jitter_policy_of_half_a_second_and_a_minute() {
    assert_eq!(
        Schedule::exponential(Duration::from_millis(500), 2.0)
            .max(Duration::from_mins(1))
            .times(5)
            .build()
            .unwrap()
            .iter(Timestamp::default())
            .map(|delay| delay.as_millis())
            .collect::<Vec<_>>(),
        [500, 1_000, 2_000, 4_000, 8_000]
    );
}
