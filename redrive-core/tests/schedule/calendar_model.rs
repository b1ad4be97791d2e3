//! Openings against a model that only looks at the clock on the wall, hour after hour.

use std::time::Duration;

use jiff::{ToSpan as _, tz::TimeZone};
use proptest::prelude::*;
use redrive_core::{Calendar, Schedule, SplitMix64, Timestamp};

use crate::generate::{calendar, limits, now};

const HOLIDAYS: [&str; 3] = ["2026-04-06", "2026-12-25", "2028-02-29"];

/// The next quarter past an hour from 9 to 16 on a working day. Both zones are whole hours from UTC and change
/// on Sundays, so every such time exists once.
fn model(zone: &str, after: Timestamp) -> Timestamp {
    let zone = TimeZone::get(zone).unwrap();
    let hour = 3_600_000;
    let millis = after.as_millis();
    let quarter = (millis - 900_000).div_euclid(hour) * hour + 900_000;
    let mut time = jiff::Timestamp::from_millisecond(quarter + hour).unwrap();
    loop {
        let local = zone.to_datetime(time);
        let closed = HOLIDAYS.contains(&local.date().to_string().as_str());
        if (9..17).contains(&local.hour()) && local.weekday().to_monday_zero_offset() < 5 && !closed {
            return Timestamp::from_millis(time.as_millisecond());
        }
        time += 1.hour();
    }
}

proptest! {
    #[test]
    fn office_hours_are_those_of_the_clock_on_the_wall(
        zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York"]),
        // Every hour of 2026 to 2028, and moments around it.
        hours in 0..3 * 366 * 24_i64, offset in prop_oneof![Just(900_000), Just(899_999), 0..3_600_000_i64],
    ) {
        let after = Timestamp::from_millis(1_767_225_600_000 + hours * 3_600_000 + offset);
        let calendar: Calendar =
            format!("mon-fri 09:15-17:00 {zone}, holidays {}", HOLIDAYS.join(" ")).parse().unwrap();
        prop_assert_eq!(calendar.next_opening(after), Some(model(zone, after)));
    }

    #[test]
    fn the_bounds_of_a_calendar_hold_in_the_year_they_were_taken_from(
        calendar in calendar(), times in 1..30_u32, limits in limits(), day in 0..150_i64, ms in 0..86_400_000_i64,
    ) {
        let schedule = Schedule::calendar(calendar).times(times).build().unwrap();
        let start = Timestamp::from_millis(1_767_225_600_000 + day * 86_400_000 + ms);
        let delays: Vec<_> = schedule.iter(start).collect();
        prop_assert!(delays.iter().max() <= Some(&schedule.longest()));
        prop_assert!(delays.iter().sum::<Duration>() <= schedule.total().unwrap());
        let (mut now, mut sum) = (start, Duration::ZERO);
        for step in 0..times {
            let wait = schedule.sample(step, &limits, None, now, &mut SplitMix64::new(1)).unwrap();
            // Past the year the gaps may differ by a change of summer time.
            if now.since(start) > Duration::from_hours(150 * 24) {
                return Ok(());
            }
            prop_assert!(wait <= schedule.longest_with(&limits), "{wait:?} at {now}");
            now = now + wait;
            sum += wait;
        }
        prop_assert!(Some(sum) <= schedule.total_with(&limits));
    }

    #[test]
    fn no_opening_is_skipped_and_none_is_early(calendar in calendar(), now in now(), share in 0.0..1.0_f64) {
        let opening = calendar.next_opening(now).unwrap();
        prop_assert!(opening > now);
        prop_assert!(opening.since(now) <= Duration::from_hours(24 * 20));
        let between = now + opening.since(now).mul_f64(share);
        if between < opening {
            prop_assert_eq!(calendar.next_opening(between), Some(opening));
        }
    }
}
