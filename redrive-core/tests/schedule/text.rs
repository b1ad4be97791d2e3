//! The forms that are accepted, and the one form that is printed.

use std::time::Duration;

use redrive_core::{Floor, Jitter, Percent, Schedule, ScheduleError, Timestamp};

#[test]
fn every_form_prints_in_the_plain_grammar() {
    for (text, printed) in [
        ("10s", "10s"),
        ("10s,1m x3", "10s, 1m x3"),
        ("10sx3", "10s x3"),
        ("10s X 3", "10s x3"),
        ("10s×3", "10s x3"),
        ("0s x2, 1s", "0s x2, 1s"),
        ("10s, 10s, 10s x2", "10s x4"),
        ("  PT10S x3 ,\n P1D ", "10s x3, 1d"),
        ("PT10Sx3", "10s x3"),
        ("10s, 1m forever", "10s, 1m forever"),
        ("10s, 1m x3 forever", "10s, 1m forever"),
        ("1m, 1m forever", "1m forever"),
        ("10s x3 jitter full", "10s x3 jitter full"),
        ("10s x3 jitter none", "10s x3"),
        ("10s JITTER Equal", "10s jitter equal"),
        ("10s jitter 10%", "10s jitter 10%"),
        ("10s jitter ±10.50%", "10s jitter 10.5%"),
        ("10s jitter +33%", "10s jitter +33%"),
        ("10s jitter decorrelated forever", "10s forever jitter decorrelated"),
        ("linear(10s, step 10s, times 5)", "linear(10s, step 10s, times 5)"),
        ("linear(0s, max 1m, times 9, step 5s)", "linear(0s, step 5s, max 1m, times 9)"),
        ("linear(10s, step 10s) forever", "linear(10s, step 10s) forever"),
        ("exponential(5s, factor 2, max 5m, times 6)", "exponential(5s, factor 2, max 5m, times 6)"),
        ("exponential(5s, times 6)", "exponential(5s, factor 2, times 6)"),
        ("exponential(5s,factor 1.25,max 5m,forever)", "exponential(5s, factor 1.25, max 5m) forever"),
        ("exponential(5s, times 6) forever", "exponential(5s, factor 2) forever"),
        ("1s x2, exponential(5s, times 2), 1h", "1s x2, exponential(5s, factor 2, times 2), 1h"),
        ("FixedDelayRetryPolicy(500)", "500ms"),
        ("fixeddelayretrypolicy( 5000 x 3 ,15000 ) jitter 10%", "5s x3, 15s jitter 10%"),
        (
            "1s, LimitedExponentialRetryPolicy(0.5,60,1.5,12)",
            "1s, exponential(500ms, factor 1.5, max 1m, times 12)",
        ),
        (
            "UnlimitedExponentialRetryPolicy(1,60,2) jitter full",
            "exponential(1s, factor 2, max 1m) forever jitter full",
        ),
        (
            "calendar(Mon-Fri 9:00-17:00 europe/berlin, holidays de)",
            "calendar(mon-fri 09:00-17:00 Europe/Berlin, holidays de)",
        ),
        (
            "calendar( mon-thu 09:00-17:00; friday 09:00-13:00 UTC ) x3",
            "calendar(mon-thu 09:00-17:00, fri 09:00-13:00 UTC) x3",
        ),
        (
            "calendar(mon,wed,fri 08:00-12:00 13:00-24:00 UTC holidays 2027-01-01, 2026-12-25) forever",
            "calendar(mon wed fri 08:00-12:00, mon wed fri 13:00-24:00 UTC, holidays 2026-12-25 2027-01-01) forever",
        ),
        ("10s, calendar(sat-mon 00:00-24:00 UTC)", "10s, calendar(mon sat-sun 00:00-24:00 UTC)"),
    ] {
        let schedule: Schedule = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(schedule.to_string(), printed);
        assert_eq!(printed.parse(), Ok(schedule), "{printed}");
    }
}

#[test]
fn growth_is_exact() {
    let seconds = |text: &str| -> Vec<f64> {
        let schedule: Schedule = text.parse().unwrap();
        schedule.iter(Timestamp::default()).take(6).map(|delay| delay.as_secs_f64()).collect()
    };
    assert_eq!(seconds("exponential(5s, factor 2, times 4)"), [5.0, 10.0, 20.0, 40.0]);
    assert_eq!(seconds("exponential(5s, factor 1.5, max 12s, times 4)"), [5.0, 7.5, 11.25, 12.0]);
    assert_eq!(seconds("exponential(5s, factor 1.1, times 3)"), [5.0, 5.5, 6.05]);
    assert_eq!(seconds("exponential(5s, factor 1, times 3)"), [5.0, 5.0, 5.0]);
    assert_eq!(seconds("linear(10s, step 5s, max 22s, times 5)"), [10.0, 15.0, 20.0, 22.0, 22.0]);
    assert_eq!(seconds("1s, linear(2s, step 1s, times 2), 9s forever"), [1.0, 2.0, 3.0, 9.0, 9.0, 9.0]);
}

#[test]
fn the_last_step_that_can_be_counted_is_found() {
    let schedule: Schedule = "1s x4294967294, 2s".parse().unwrap();
    assert_eq!(schedule.len(), Some(u32::MAX));
    let now = Timestamp::default();
    assert_eq!(schedule.nominal(u32::MAX - 2, now), Some(Duration::from_secs(1)));
    assert_eq!(schedule.nominal(u32::MAX - 1, now), Some(Duration::from_secs(2)));
    assert_eq!(schedule.nominal(u32::MAX, now), None);
    let days = |days: u64| Some(Duration::from_hours(days * 24));
    let unlimited: Schedule = "exponential(1s, factor 1000, forever)".parse().unwrap();
    assert_eq!(unlimited.nominal(u32::MAX, now), days(366));
    let linear: Schedule = "linear(1d, step 1d, forever)".parse().unwrap();
    assert_eq!([0, 364, 365, u32::MAX].map(|step| linear.nominal(step, now)), [1, 365, 366, 366].map(days));
    let sum: Schedule = "366d x4294967295".parse().unwrap();
    assert_eq!(sum.total(), Some(Duration::from_micros(u64::MAX)));
}

#[test]
fn an_unlimited_iterator_goes_on() {
    let schedule: Schedule = "1s, 2s forever".parse().unwrap();
    assert_eq!(schedule.iter(Timestamp::default()).size_hint(), (usize::MAX, None));
    assert_eq!(schedule.iter(Timestamp::default()).nth(10_000), Some(Duration::from_secs(2)));
}

#[test]
fn code_is_checked_like_text() {
    let second = Duration::from_secs(1);
    let none: [Duration; 0] = [];
    assert_eq!(Schedule::list(none), Err(ScheduleError::Empty));
    assert_eq!(Schedule::list([second, second, 2 * second]).map(|s| s.to_string()), Ok("1s x2, 2s".into()));
    assert_eq!(Schedule::list((0..65).map(|n| n * second)), Err(ScheduleError::TooManyElements));
    assert_eq!(Schedule::list(vec![second; 1_000]).map(|s| s.len()), Ok(Some(1_000)));
    assert_eq!(Schedule::fixed(second).times(0).build(), Err(ScheduleError::ZeroTimes));
    assert_eq!(Schedule::fixed(Duration::MAX).build(), Err(ScheduleError::TooLong));
    for factor in [0.999, 0.0, -1.0, f64::NAN, f64::INFINITY, 1.00005, 1_001.0] {
        assert_eq!(Schedule::exponential(second, factor).build(), Err(ScheduleError::Factor), "{factor}");
    }
    assert_eq!(Schedule::exponential(Duration::ZERO, 2.0).build(), Err(ScheduleError::ZeroFirst));
    assert_eq!(Schedule::linear(second, Duration::ZERO).build(), Err(ScheduleError::ZeroStep));
    assert_eq!(Schedule::linear(2 * second, second).max(second).build(), Err(ScheduleError::MaxUnderFirst));
    let endless = || Schedule::fixed(second).forever();
    assert_eq!(endless().then(Schedule::fixed(2 * second)).build(), Err(ScheduleError::AfterForever));
    assert_eq!(endless().then(Schedule::fixed(second)).build(), Err(ScheduleError::AfterForever));
    let most = Schedule::fixed(second).times(u32::MAX);
    assert_eq!(most.clone().then(Schedule::fixed(second)).build(), Err(ScheduleError::TooManyDelays));
    assert_eq!(most.then(Schedule::fixed(2 * second)).build(), Err(ScheduleError::TooManyDelays));
    assert_eq!(Schedule::fixed(Duration::from_nanos(1)).build().map(|s| s.to_string()), Ok("1us".into()));
}

#[test]
fn the_small_types_are_text_in_json() {
    assert_eq!(serde_json::from_str::<Jitter>("\"+33%\"").unwrap().to_string(), "+33%");
    assert_eq!(serde_json::to_string(&Jitter::Around(Percent::TEN)).unwrap(), "\"10%\"");
    assert_eq!(serde_json::to_string(&Floor::Fixed(Duration::from_secs(1))).unwrap(), "\"1s\"");
    assert_eq!(serde_json::from_str::<Floor>("\"12.5%\"").unwrap().to_string(), "12.5%");
    assert!(serde_json::from_str::<Floor>("\"soon\"").is_err());
}

#[cfg(feature = "schema")]
#[test]
fn the_schemas_name_their_format() {
    let format = |schema: schemars::Schema| schema.get("format").cloned();
    assert_eq!(format(schemars::schema_for!(Schedule)), Some("schedule-text".into()));
    assert_eq!(format(schemars::schema_for!(redrive_core::duration::Period)), Some("duration-text".into()));
}
