//! The spread itself, over many seeded samples: that a jitter is uniform cannot be seen in one wait.

use std::time::Duration;

use redrive_core::{Limits, Schedule, SplitMix64, Timestamp};

const SAMPLES: usize = 100_000;
const BUCKETS: usize = 50;
/// Far beyond what 49 degrees of freedom give by chance: the 99.99th percentile is 91.
const CHI_SQUARE: f64 = 110.0;

fn samples(text: &str, step: u32, limits: &Limits) -> Vec<f64> {
    let schedule: Schedule = text.parse().unwrap();
    let mut rng = SplitMix64::new(0x5eed);
    let mut wait = || schedule.sample(step, limits, None, Timestamp::default(), &mut rng).unwrap();
    (0..SAMPLES).map(|_| wait().as_secs_f64()).collect()
}

/// How far the waits are from uniform between `low` and `high` seconds.
fn chi_square(waits: &[f64], low: f64, high: f64) -> f64 {
    let mut counts = [0_u32; BUCKETS];
    for wait in waits {
        assert!((low..=high).contains(wait), "{wait} is not within {low} to {high}");
        let bucket = (wait - low) / (high - low) * BUCKETS as f64;
        counts[(bucket as usize).min(BUCKETS - 1)] += 1;
    }
    let expected = waits.len() as f64 / BUCKETS as f64;
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

fn assert_uniform(waits: &[f64], low: f64, high: f64) {
    let found = chi_square(waits, low, high);
    assert!(found < CHI_SQUARE, "chi square {found} between {low} and {high}");
}

#[test]
fn full_jitter_is_uniform_from_floor_to_delay() {
    assert_uniform(&samples("10s jitter full", 0, &Limits::NONE), 0.0, 10.0);
    assert_uniform(&samples("10s jitter full", 0, &Limits::default()), 1.0, 10.0);
}

#[test]
fn ten_percent_is_ten_percent_either_way() {
    assert_uniform(&samples("10s jitter 10%", 0, &Limits::default()), 9.0, 11.0);
}

#[test]
fn equal_jitter_is_uniform_over_the_upper_half() {
    assert_uniform(&samples("10s jitter equal", 0, &Limits::default()), 5.0, 10.0);
}

#[test]
fn additive_jitter_is_uniform_above_the_delay() {
    assert_uniform(&samples("9s jitter +33%", 0, &Limits::default()), 9.0, 11.97);
}

#[test]
fn decorrelated_jitter_is_uniform_up_to_three_times_the_delay_before() {
    assert_uniform(&samples("1s, 100s jitter decorrelated", 0, &Limits::default()), 1.0, 3.0);
}

#[test]
fn the_range_of_decorrelated_jitter_grows_with_the_waits_before() {
    let range = |text: &str, step| {
        let schedule: Schedule = text.parse().unwrap();
        let range = schedule.range(step, &Limits::default(), Timestamp::default()).unwrap();
        (range.min.as_secs(), range.max.as_secs())
    };
    let steep = "exponential(1s, factor 1000, times 5) jitter decorrelated";
    assert_eq!(range(steep, 0), (1, 3));
    // A tenth of 1000 s is the second step's floor, and 300 s are the third's three times that.
    assert_eq!(range(steep, 1), (100, 100));
    assert_eq!(range("1s x5, 1h jitter decorrelated", 3), (1, 81));
    // After a calendar any wait may have been the last, so only the longest delay bounds it.
    assert_eq!(range("1s, calendar(mon 09:00-10:00 UTC), 10s, 1h jitter decorrelated", 2), (1, 3600));
    assert_eq!(range("1s x1000, 1h jitter decorrelated", 999), (1, 3600));
}

#[test]
fn a_cap_cuts_the_range_and_piles_nothing_up() {
    let limits = Limits { cap: Some(Duration::from_secs(10)), ..Limits::default() };
    assert_uniform(&samples("10s jitter 10%", 0, &limits), 9.0, 10.0);
}

#[test]
fn a_skewed_spread_would_be_noticed() {
    let uniform = samples("10s jitter full", 0, &Limits::NONE);
    let skewed: Vec<_> = uniform.iter().map(|wait| (wait / 10.0).powf(1.05) * 10.0).collect();
    assert!(chi_square(&skewed, 0.0, 10.0) > CHI_SQUARE);
}

#[test]
fn the_mean_of_the_range_is_the_mean_of_the_waits() {
    for (text, step) in
        [("10s jitter full", 0), ("10s jitter 10%", 0), ("10s jitter equal", 0), ("4s jitter +33%", 0)]
    {
        let schedule: Schedule = text.parse().unwrap();
        let range = schedule.range(step, &Limits::default(), Timestamp::default()).unwrap();
        let waits = samples(text, step, &Limits::default());
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        assert!((mean - range.mean.as_secs_f64()).abs() < 0.03, "{text}: {mean} and {range:?}");
    }
}
