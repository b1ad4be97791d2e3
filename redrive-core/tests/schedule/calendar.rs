//! Working hours over weekends, holidays, leap days and changes of summer time.

use std::time::Duration;

use redrive_core::{Calendar, Date, Floor, Limits, Schedule, ScheduleError, SplitMix64, Timestamp};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The openings after a time, one after the other.
fn openings(calendar: &str, after: &str, count: usize) -> Vec<String> {
    let calendar: Calendar = calendar.parse().unwrap();
    let next = |time: &Timestamp| calendar.next_opening(*time);
    std::iter::successors(Some(at(after)), next).skip(1).take(count).map(|time| time.to_string()).collect()
}

#[test]
fn the_next_working_hour_is_strictly_later() {
    let office = "mon-fri 09:00-11:30 Europe/Berlin";
    assert_eq!(
        openings(office, "2026-07-01T06:59:59.999Z", 5),
        [
            "2026-07-01T07:00:00Z",
            "2026-07-01T08:00:00Z",
            "2026-07-01T09:00:00Z",
            "2026-07-02T07:00:00Z",
            "2026-07-02T08:00:00Z"
        ]
    );
    assert_eq!(openings(office, "2026-07-01T07:00:00Z", 1), ["2026-07-01T08:00:00Z"]);
    assert_eq!(openings("wed 09:30-10:00 UTC", "2026-07-01T09:30:00Z", 1), ["2026-07-08T09:30:00Z"]);
}

#[test]
fn a_weekend_and_a_holiday_are_skipped() {
    let office = "mon-fri 09:00-10:00 America/New_York, holidays 2026-07-06";
    // Friday after hours, a weekend, a holiday on Monday.
    assert_eq!(openings(office, "2026-07-03T20:00:00Z", 1), ["2026-07-07T13:00:00Z"]);
    // The holiday is the local day: late on Sunday in New York is Monday in UTC.
    let late = "mon-sun 23:00-24:00 America/New_York, holidays 2026-07-06";
    assert_eq!(openings(late, "2026-07-05T12:00:00Z", 2), ["2026-07-06T03:00:00Z", "2026-07-08T03:00:00Z"]);
}

#[test]
fn windows_of_a_day_are_taken_in_order_of_time() {
    let split = "mon 13:00-15:00 08:00-10:00, mon 13:30-14:00 UTC";
    assert_eq!(
        openings(split, "2026-07-06T00:00:00Z", 6),
        [
            "2026-07-06T08:00:00Z",
            "2026-07-06T09:00:00Z",
            "2026-07-06T13:00:00Z",
            "2026-07-06T13:30:00Z",
            "2026-07-06T14:00:00Z",
            "2026-07-13T08:00:00Z"
        ]
    );
}

#[test]
fn summer_time_moves_the_instant_and_not_the_hour() {
    let berlin = "mon-sun 09:00-10:00 Europe/Berlin";
    assert_eq!(
        openings(berlin, "2026-03-28T00:00:00Z", 3),
        ["2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z", "2026-03-30T07:00:00Z"]
    );
    assert_eq!(openings(berlin, "2026-10-24T00:00:00Z", 2), ["2026-10-24T07:00:00Z", "2026-10-25T08:00:00Z"]);
    let new_york = "mon-sun 09:00-10:00 America/New_York";
    assert_eq!(
        openings(new_york, "2026-03-07T00:00:00Z", 2),
        ["2026-03-07T14:00:00Z", "2026-03-08T13:00:00Z"]
    );
    assert_eq!(
        openings(new_york, "2026-10-31T00:00:00Z", 2),
        ["2026-10-31T13:00:00Z", "2026-11-01T14:00:00Z"]
    );
}

#[test]
fn an_opening_that_the_clock_skips_moves_forward() {
    // 02:30 does not exist on that Sunday; the wall shows 03:30 instead.
    let berlin = "mon-sun 02:30-03:00 Europe/Berlin";
    assert_eq!(openings(berlin, "2026-03-28T12:00:00Z", 2), ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]);
    let new_york = "mon-sun 02:30-03:00 America/New_York";
    assert_eq!(openings(new_york, "2026-03-07T12:00:00Z", 1), ["2026-03-08T07:30:00Z"]);
}

#[test]
fn an_opening_that_the_clock_repeats_counts_once() {
    let berlin = "mon-sun 02:30-03:00 Europe/Berlin";
    assert_eq!(openings(berlin, "2026-10-24T12:00:00Z", 2)[0], "2026-10-25T00:30:00Z");
    let new_york = "mon-sun 01:30-02:00 America/New_York";
    assert_eq!(openings(new_york, "2026-10-31T12:00:00Z", 1), ["2026-11-01T05:30:00Z"]);
}

#[test]
fn hours_across_a_change_are_hours() {
    let night = "sun 00:00-05:00 Europe/Berlin";
    let hours =
        |after: &str| openings(night, after, 7).iter().filter(|time| time.starts_with(&after[..10])).count();
    // From midnight to five, less the skipped hour; the first of them is still Saturday in UTC.
    assert_eq!(hours("2026-03-29T00:00:00Z"), 2);
    assert_eq!(openings(night, "2026-03-28T12:00:00Z", 5)[4][..10], *"2026-04-04");
    // And with the repeated one.
    let autumn = openings(night, "2026-10-24T12:00:00Z", 7);
    assert_eq!(autumn[5], "2026-10-25T03:00:00Z");
    assert_eq!(autumn[6][..10], *"2026-10-31");
}

#[test]
fn a_leap_day_is_a_day() {
    let office = "mon-fri 09:00-10:00 UTC";
    assert_eq!(openings(office, "2028-02-28T12:00:00Z", 2), ["2028-02-29T09:00:00Z", "2028-03-01T09:00:00Z"]);
    let closed = "mon-fri 09:00-10:00 UTC, holidays 2028-02-29";
    assert_eq!(openings(closed, "2028-02-28T12:00:00Z", 1), ["2028-03-01T09:00:00Z"]);
}

#[test]
fn a_schedule_walks_from_opening_to_opening() {
    let schedule: Schedule = "10m, calendar(mon-fri 09:00-11:00 UTC) x3 jitter full".parse().unwrap();
    let hours: Vec<_> = schedule.iter(at("2026-07-03T09:30:00Z")).map(|delay| delay.as_secs() / 60).collect();
    // 09:40 on Friday, 10:00, Monday 09:00, 10:00.
    assert_eq!(hours, [10, 20, 71 * 60, 60]);
    // The longest gap is a weekend: Friday 10:00 to Monday 09:00.
    assert_eq!(schedule.longest(), Duration::from_hours(71));
    // Three openings in a row take at most the weekend, an hour and a night.
    assert_eq!(schedule.total(), Some(Duration::from_mins(10) + Duration::from_hours(71 + 1 + 23)));
}

#[test]
fn a_calendar_step_takes_no_jitter_but_heeds_floor_and_cap() {
    let schedule: Schedule = "calendar(mon-fri 09:00-17:00 UTC) jitter full".parse().unwrap();
    let now = at("2026-07-01T09:58:00Z");
    let wait = |floor, cap| {
        let limits = Limits { floor, cap };
        schedule.sample(0, &limits, None, now, &mut SplitMix64::new(3)).map(|wait| wait.as_secs() / 60)
    };
    assert_eq!(wait(Floor::default(), None), Some(2));
    // The opening in two minutes is too near, so it is the next.
    assert_eq!(wait(Floor::Fixed(Duration::from_mins(10)), None), Some(62));
    assert_eq!(wait(Floor::Fixed(Duration::from_mins(2)), None), Some(2));
    assert_eq!(wait(Floor::default(), Some(Duration::from_mins(1))), Some(1));
}

#[test]
fn named_holidays_are_asked_for_and_given() {
    let schedule: Schedule = "calendar(mon-fri 09:00-10:00 UTC, holidays de) x2".parse().unwrap();
    assert_eq!(schedule.holidays_wanted().collect::<Vec<_>>(), ["de"]);
    let now = at("2026-12-24T12:00:00Z");
    assert_eq!(schedule.nominal(0, now), Some(Duration::from_hours(21)));
    let dates = [Date::new(2026, 12, 25), Date::new(2026, 12, 26)].into_iter().flatten();
    let given = schedule.with_holidays("de", dates).unwrap();
    assert_eq!(given.holidays_wanted().count(), 0);
    assert_eq!(given.nominal(0, now), Some(Duration::from_hours(21 + 72)));
    assert_eq!(given.longest(), Duration::from_hours(96));
    assert_eq!(given.to_string(), schedule.to_string());
    // Another name changes nothing, and an empty list is an answer too.
    assert_eq!(schedule.with_holidays("fr", []), Ok(schedule.clone()));
    assert_eq!(schedule.with_holidays("de", []).map(|s| s.holidays_wanted().count()), Ok(0));
}

#[test]
fn a_calendar_that_never_opens_is_refused() {
    let schedule: Schedule = "calendar(mon-sun 09:00-10:00 UTC, holidays all)".parse().unwrap();
    let day = |n: u16| Date::new(2026 + n / 336, (1 + n / 28 % 12) as u8, (1 + n % 28) as u8);
    let closed = (0..1_000).filter_map(day);
    // The 29th to the 31st are left, so it does open.
    assert!(schedule.with_holidays("all", closed.clone()).is_ok());
    let rest = (2026..2029).flat_map(|year| (1..=12).map(move |month| (year, month)));
    let rest = rest.flat_map(|(year, month)| (29..=31).filter_map(move |day| Date::new(year, month, day)));
    assert_eq!(schedule.with_holidays("all", closed.chain(rest)), Err(ScheduleError::NeverOpen));
}

#[test]
fn the_work_of_a_calendar_is_bounded() {
    // 32 windows of a whole day, each a minute later than the last.
    let windows: Vec<_> = (0..32).map(|n| format!("mon-sun 00:{n:02}-24:00")).collect();
    let error = format!("{} UTC", windows.join(", ")).parse::<Calendar>().unwrap_err();
    assert_eq!(error.expected(), "at most 96 openings a day");
    assert!(format!("{} UTC", windows[..4].join(", ")).parse::<Calendar>().is_ok());
    // Windows that say the same again open no more often.
    let same = vec!["mon-sun 00:00-24:00"; 32].join(", ");
    assert!(format!("{same} UTC").parse::<Calendar>().is_ok());

    let calendars: Vec<_> = (0..9).map(|n| format!("calendar(mon 09:0{n}-10:00 UTC)")).collect();
    assert!(calendars[..8].join(", ").parse::<Schedule>().is_ok());
    let error = calendars.join(", ").parse::<Schedule>().unwrap_err();
    assert_eq!((error.expected(), error.at()), ("at most 8 calendars", 8 * 31));
    let built = calendars.iter().map(|text| text[9..text.len() - 1].parse().unwrap());
    let built = built.map(Schedule::calendar).reduce(redrive_core::ScheduleBuilder::then).unwrap();
    assert_eq!(built.build(), Err(ScheduleError::TooManyCalendars));
}

#[test]
fn holidays_far_apart_and_summer_time_are_in_the_longest_gap() {
    let longest = |text: &str| text.parse::<Schedule>().unwrap().longest();
    // A day off four years after another one, on a calendar with an opening every hour.
    let far = "calendar(mon-sun 00:00-24:00 UTC, holidays 2025-02-03 2029-05-01 2029-05-02)";
    assert_eq!(longest(far), Duration::from_hours(49));
    // The night in which the clock is set back is an hour longer.
    assert_eq!(longest("calendar(mon-sun 09:00-10:00 Europe/Berlin)"), Duration::from_hours(25));
}

#[test]
fn the_ends_of_time_do_not_panic() {
    let schedule: Schedule = "calendar(mon-fri 09:00-17:00 Pacific/Kiritimati) forever".parse().unwrap();
    for now in [Timestamp::MIN, Timestamp::MAX] {
        assert!(schedule.nominal(0, now).is_some());
        assert_eq!(schedule.iter(now).take(10).count(), 10);
    }
}
