//! Arbitrary schedules and limits, of every kind and size that can be written.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::{
    Calendar, Floor, Jitter, Limits, Percent, Schedule, ScheduleBuilder, Timestamp, duration,
};

pub(crate) const MAX_MICROS: u64 = 366 * 86_400 * 1_000_000;

/// Durations of every order of magnitude; a plain range would hardly ever be under a day.
pub(crate) fn delay() -> impl Strategy<Value = Duration> {
    let micros = prop_oneof![
        Just(0),
        Just(MAX_MICROS),
        0..1_000_u64,
        0..1_000_000_u64,
        (0..3_600_u64).prop_map(|seconds| seconds * 1_000_000),
        0..=MAX_MICROS,
    ];
    micros.prop_map(Duration::from_micros)
}

pub(crate) fn times(most: u32) -> impl Strategy<Value = u32> {
    prop_oneof![3 => 1..=20.min(most), 1 => 1..=most]
}

fn percent() -> impl Strategy<Value = Percent> {
    (0..=10_000_u16).prop_map(|hundredths| Percent::from_hundredths(hundredths).unwrap())
}

pub(crate) fn jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        percent().prop_map(Jitter::Around),
        percent().prop_map(Jitter::Above),
        Just(Jitter::Decorrelated),
    ]
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    let floor = prop_oneof![percent().prop_map(Floor::Share), delay().prop_map(Floor::Fixed)];
    (floor, prop::option::of(delay())).prop_map(|(floor, cap)| Limits { floor, cap })
}

pub(crate) fn now() -> impl Strategy<Value = Timestamp> {
    // The years 2000 to 2060, where the rules of all zones are known.
    (946_684_800_000..2_840_140_800_000_i64).prop_map(Timestamp::from_millis)
}

pub(crate) fn calendar() -> impl Strategy<Value = Calendar> {
    let days = prop::sample::select(vec!["mon-fri", "sat-sun", "wed", "mon wed fri", "sun-tue", "mon-sun"]);
    let window = (days, 0..24 * 60_u32).prop_flat_map(|(days, opens)| {
        (opens + 1..=24 * 60).prop_map(move |closes| {
            format!("{days} {:02}:{:02}-{:02}:{:02}", opens / 60, opens % 60, closes / 60, closes % 60)
        })
    });
    let zones = vec!["Europe/Berlin", "America/New_York", "UTC", "Australia/Lord_Howe", "Asia/Kathmandu"];
    let holidays =
        vec!["", ", holidays de", ", holidays 2026-12-25 2027-01-01", ", holidays 2028-02-29 2028-03-01"];
    (prop::collection::vec(window, 1..4), prop::sample::select(zones), prop::sample::select(holidays))
        .prop_map(|(windows, zone, holidays)| {
            format!("{} {zone}{holidays}", windows.join(", ")).parse().unwrap()
        })
}

fn max(first: Duration) -> impl Strategy<Value = Option<Duration>> {
    prop::option::of(delay().prop_map(move |max| max.max(first)))
}

fn with_max(builder: ScheduleBuilder, max: Option<Duration>) -> ScheduleBuilder {
    match max {
        Some(max) => builder.max(max),
        None => builder,
    }
}

/// An element, repeated at most so often.
fn element(most: u32) -> impl Strategy<Value = ScheduleBuilder> {
    let micro = Duration::from_micros(1);
    let fixed = delay().prop_map(Schedule::fixed);
    let linear = (delay(), delay())
        .prop_flat_map(|(first, step)| (Just(first), Just(step), max(first)))
        .prop_map(move |(first, step, max)| with_max(Schedule::linear(first, step.max(micro)), max));
    let factor =
        prop_oneof![Just(2_000), Just(1_000), Just(1_001), 1_000..=10_000_u32, 1_000..=1_000_000_u32];
    let exponential = (delay(), factor)
        .prop_map(move |(first, factor)| (first.max(micro), f64::from(factor) / 1_000.0))
        .prop_flat_map(|(first, factor)| (Just(first), Just(factor), max(first)))
        .prop_map(|(first, factor, max)| with_max(Schedule::exponential(first, factor), max));
    let calendar = calendar().prop_map(Schedule::calendar);
    let any = prop_oneof![4 => fixed, 3 => linear, 4 => exponential, 1 => calendar];
    (any, times(most)).prop_map(|(builder, times)| builder.times(times))
}

/// A schedule of up to four elements, each repeated at most so often; one in four has no end.
pub(crate) fn schedule(most: u32) -> impl Strategy<Value = Schedule> {
    let elements = prop::collection::vec(element(most), 1..=4);
    (elements, prop::bool::weighted(0.25), jitter()).prop_map(|(elements, forever, jitter)| {
        let all = elements.into_iter().reduce(ScheduleBuilder::then).unwrap();
        let all = if forever { all.forever() } else { all };
        all.jitter(jitter).build().unwrap()
    })
}

#[test]
fn the_longest_duration_is_what_the_generators_think() {
    assert_eq!(duration::MAX, Duration::from_micros(MAX_MICROS));
}
