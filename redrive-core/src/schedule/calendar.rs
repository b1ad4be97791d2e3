//! Working hours: a retry that is worth nothing before people are back waits until they are.
//!
//! Opening and closing times are local to an IANA time zone from the database in this binary, so that a change of
//! summer time moves the instant and not the hour on the wall.

use std::fmt;
use std::sync::Arc;

use jiff::civil;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{Date, ScheduleError};
use crate::Timestamp;
use crate::duration::MAX_MICROS;

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;
const MAX_MS: i64 = (MAX_MICROS / 1_000).cast_signed();
/// The time that the longest gap is looked for in, when no holiday says otherwise. Any full year does.
const REFERENCE: civil::Date = civil::date(2026, 1, 1);
const REFERENCE_DAYS: i64 = 372;
/// Holidays further apart than this do not make the search longer.
const SEARCH_DAYS: i64 = 5 * 366;
/// One every quarter of an hour. More openings in a day are no working hours any more.
pub(super) const MAX_OPENINGS: usize = 96;
/// So many openings are kept of the time after the first year.
const KEPT_OPENINGS: usize = 10_000;

/// Working hours in a time zone, less holidays.
///
/// An opening is the beginning of a working hour: the time a window opens, and each hour after that until it
/// closes. Where summer time skips an opening it moves forward with the clock, where it repeats one the first
/// counts. A day has at most 96 openings, and a schedule at most 8 calendars.
///
/// ```
/// use redrive_core::Calendar;
///
/// let hours: Calendar = "mon-thu 09:00-17:00, fri 09:00-13:00 Europe/Berlin, holidays 2026-12-25".parse()?;
/// let friday_noon = "2026-07-03T10:15:00Z".parse()?;
/// let opening = hours.next_opening(friday_noon).map(|time| time.to_string());
/// assert_eq!(opening.as_deref(), Some("2026-07-06T07:00:00Z"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Calendar {
    windows: Vec<Window>,
    zone: TimeZone,
    holidays: Holidays,
    /// The dates behind the holidays, sorted.
    closed: Arc<[Date]>,
    /// The holidays have a name, and nobody has said yet what dates it stands for.
    unresolved: bool,
    /// The openings of a sample of at least a year, from which the longest waits are read.
    sample: Arc<[i64]>,
    longest_gap: u64,
}

/// The days on which a calendar stays closed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Holidays {
    /// Every day that has a window is a working day.
    #[default]
    None,
    /// A list that is kept elsewhere under this name; see [`Schedule::with_holidays`](super::Schedule::with_holidays).
    Named(Arc<str>),
    /// The dates themselves.
    Dates(Arc<[Date]>),
}

/// Opening hours on some days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// Bit 0 is Monday.
    pub(super) days: u8,
    /// Minutes after midnight.
    pub(super) opens: u16,
    /// Minutes after midnight, at most 24:00 and after the opening.
    pub(super) closes: u16,
}

pub(super) fn zone(name: &str) -> Option<TimeZone> {
    // Not `TimeZone::get`, which reads the machine's files when another crate turns that feature on.
    TimeZoneDatabase::bundled().get(name).ok()
}

impl Calendar {
    pub(super) fn new(
        windows: Vec<Window>,
        zone: TimeZone,
        holidays: Holidays,
    ) -> Result<Self, ScheduleError> {
        let closed = match &holidays {
            Holidays::Dates(dates) => Arc::clone(dates),
            Holidays::None | Holidays::Named(_) => Arc::default(),
        };
        let unresolved = matches!(holidays, Holidays::Named(_));
        let sample = Arc::default();
        Self { windows, zone, holidays, closed, unresolved, sample, longest_gap: 0 }.sampled()
    }

    /// The time zone's name.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The holidays as they were given.
    pub fn holidays(&self) -> &Holidays {
        &self.holidays
    }

    /// The first opening strictly after a time, if there is one within 366 days.
    pub fn next_opening(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.as_millis();
        let local = self.zone.to_datetime(Timestamp::from_millis(after).to_jiff()).date();
        // From the day before, since a skipped hour can move an opening past midnight.
        let first = local.yesterday().unwrap_or(local);
        let mut day = first;
        for _ in 0..=368 {
            if let Some(opening) = self.openings(day).filter_map(|window| window.next(after)).min() {
                return (opening - after <= MAX_MS).then(|| Timestamp::from_millis(opening));
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    pub(super) fn longest_gap(&self) -> u64 {
        self.longest_gap
    }

    /// The name of the list of holidays that is still missing.
    pub(super) fn wanted(&self) -> Option<&str> {
        match &self.holidays {
            Holidays::Named(name) if self.unresolved => Some(name),
            _ => None,
        }
    }

    pub(super) fn with_closed(&self, name: &str, dates: &Arc<[Date]>) -> Result<Self, ScheduleError> {
        match &self.holidays {
            Holidays::Named(own) if **own == *name => {
                Self { closed: Arc::clone(dates), unresolved: false, ..self.clone() }.sampled()
            }
            _ => Ok(self.clone()),
        }
    }

    /// The longest time that so many openings in a row can take, counted from right after an opening.
    pub(super) fn longest_run(&self, times: u32) -> u128 {
        let sample = &self.sample;
        let per_turn = sample.len().saturating_sub(1).max(1);
        let (turns, rest) = (times as usize / per_turn, times as usize % per_turn);
        let run = |count: usize| {
            let ends = sample.iter().skip(count);
            ends.zip(sample.iter()).map(|(end, start)| end - start).max().unwrap_or(0)
        };
        (run(per_turn) as u128 * turns as u128 + run(rest) as u128) * 1_000
    }

    fn openings(&self, day: civil::Date) -> impl Iterator<Item = Hours> + '_ {
        let bit = 1 << day.weekday().to_monday_zero_offset();
        let open = self.closed.binary_search(&Date(day)).is_err();
        let windows = self.windows.iter().filter(move |window| open && window.days & bit != 0);
        windows.filter_map(move |window| {
            Some(Hours { opens: self.instant(day, window.opens)?, closes: self.instant(day, window.closes)? })
        })
    }

    fn instant(&self, day: civil::Date, minutes: u16) -> Option<i64> {
        let (day, minutes) = if minutes == 24 * 60 { (day.tomorrow().ok()?, 0) } else { (day, minutes) };
        let time = civil::Time::new((minutes / 60) as i8, (minutes % 60) as i8, 0, 0).ok()?;
        Some(self.zone.to_timestamp(day.to_datetime(time)).ok()?.as_millisecond())
    }

    /// Looks for the longest gap in a year and around every holiday, and keeps the openings of a year or more.
    ///
    /// The work is bounded whatever the windows and holidays are, because anybody may write them: a day costs one
    /// look at the time zone, and openings are kept up to a number.
    fn sampled(mut self) -> Result<Self, ScheduleError> {
        let week = self.week()?;
        let margin = jiff::Span::new().days(10);
        let (first, mut last) = match (self.closed.first(), self.closed.last()) {
            (Some(first), Some(last)) => {
                (REFERENCE.min(first.0.saturating_sub(margin)), last.0.saturating_add(margin))
            }
            _ => (REFERENCE, REFERENCE),
        };
        last = last.max(days_after(REFERENCE, REFERENCE_DAYS)).min(days_after(first, SEARCH_DAYS));
        let year = days_after(first, REFERENCE_DAYS);
        let (mut sample, mut of_day): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        let (mut gap, mut before) = (0, None);
        let mut day = first;
        let mut midnight = self.instant(day, 0);
        while day <= last {
            let Ok(next) = day.tomorrow() else { break };
            let next_midnight = self.instant(next, 0);
            of_day.clear();
            if self.closed.binary_search(&Date(day)).is_err() {
                let opens = &week[usize::from(day.weekday().to_monday_zero_offset().unsigned_abs())];
                match midnight.filter(|midnight| next_midnight == Some(midnight + 24 * HOUR_MS)) {
                    Some(midnight) => {
                        of_day.extend(opens.iter().map(|minutes| midnight + i64::from(*minutes) * MINUTE_MS));
                    }
                    None => self.openings(day).for_each(|hours| hours.all(&mut of_day)),
                }
            }
            of_day.sort_unstable();
            for opening in &of_day {
                gap = gap.max(before.map_or(0, |before| opening - before));
                before = Some(*opening);
            }
            if day <= year || sample.len() < KEPT_OPENINGS {
                sample.extend_from_slice(&of_day);
            }
            (day, midnight) = (next, next_midnight);
        }
        sample.sort_unstable();
        sample.dedup();
        if gap == 0 || gap > MAX_MS {
            return Err(ScheduleError::NeverOpen);
        }
        self.longest_gap = gap.unsigned_abs() * 1_000;
        self.sample = sample.into();
        Ok(self)
    }

    /// The openings of each day of the week, in minutes after midnight, for days of 24 hours.
    fn week(&self) -> Result<[Vec<u16>; 7], ScheduleError> {
        let mut week: [Vec<u16>; 7] = Default::default();
        for (day, opens) in week.iter_mut().enumerate() {
            for window in self.windows.iter().filter(|window| window.days & (1 << day) != 0) {
                opens.extend((window.opens..window.closes).step_by(60));
            }
            opens.sort_unstable();
            opens.dedup();
            if opens.len() > MAX_OPENINGS {
                return Err(ScheduleError::TooManyOpenings);
            }
        }
        Ok(week)
    }
}

fn days_after(day: civil::Date, days: i64) -> civil::Date {
    day.saturating_add(jiff::Span::new().days(days))
}

/// A window of one day, in unix milliseconds.
struct Hours {
    opens: i64,
    closes: i64,
}

impl Hours {
    /// Adds each opening of the window.
    fn all(&self, openings: &mut Vec<i64>) {
        let mut opening = self.opens;
        openings.push(opening);
        while opening + HOUR_MS < self.closes {
            opening += HOUR_MS;
            openings.push(opening);
        }
    }

    fn next(&self, after: i64) -> Option<i64> {
        if self.opens > after {
            return Some(self.opens);
        }
        let opening = self.opens + ((after - self.opens) / HOUR_MS + 1) * HOUR_MS;
        (opening < self.closes).then_some(opening)
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({self})")
    }
}
