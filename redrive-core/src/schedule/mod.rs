//! When to try again: delays as a value that can be read, printed, walked through and asked how long it takes.
//!
//! A schedule says nothing about why something is retried and knows no clock: the time and the random numbers are
//! arguments, so that a decision can be repeated and an hour of waiting tested in a microsecond. Each step is found
//! in constant time and without allocation, however far along a message is.

mod bounds;
mod builder;
mod calendar;
mod date;
mod iter;
mod jitter;
mod limits;
mod parse;
mod parse_calendar;
mod parse_class;
mod percent;
mod print;
mod segment;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use builder::{ScheduleBuilder, ScheduleError};
pub use calendar::{Calendar, Holidays};
pub use date::Date;
pub use iter::Delays;
pub use jitter::Jitter;
pub use limits::{Floor, Limits, WaitRange};
pub use percent::Percent;
use segment::{Kind, Segment};

use crate::Timestamp;
use crate::duration::MAX_MICROS;

/// More than this nobody writes by hand, and nobody could read.
const MAX_ELEMENTS: usize = 64;
/// Calendars cost work when they are read, and a schedule goes through few of them.
const MAX_CALENDARS: usize = 8;

/// The delays between attempts, in order, and how they are spread. Cloning is cheap.
///
/// As text, a schedule is a list of elements, then `forever` if the last goes on without end, then the [`Jitter`]:
///
/// | element | delays |
/// |---|---|
/// | `10s`, `1m x3`, `PT5M x3` | a fixed delay, once or so often |
/// | `linear(10s, step 10s, max 1m, times 5)` | 10 s, 20 s, and so on; `max` may be left out |
/// | `exponential(5s, factor 2, max 5m, times 6)` | 5 s, 10 s, 20 s, and so on; `max` may be left out, and `factor`, which is then 2 |
/// | `calendar(mon-fri 09:00-17:00 Europe/Berlin, holidays NAME) x2` | until the next working hour; see [`Calendar`] |
/// | `FixedDelayRetryPolicy(5000x3, 15000x5)` | milliseconds and counts |
/// | `LimitedExponentialRetryPolicy(1,60,2,120)` | first and longest delay in seconds, multiplier, number of delays |
/// | `UnlimitedExponentialRetryPolicy(1,60,2)` | the same without end |
///
/// With `forever` an exponential or linear element grows to its `max` (366 days without one) and stays there, and
/// a count that was given for the last element has no meaning.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::{Schedule, Timestamp};
///
/// let schedule: Schedule = "10s, 1m, PT5M x3 jitter 10%".parse()?;
/// assert_eq!(schedule.to_string(), "10s, 1m, 5m x3 jitter 10%");
/// assert_eq!(schedule.len(), Some(5));
/// assert_eq!(schedule.nominal(1, Timestamp::default()), Some(Duration::from_secs(60)));
/// assert_eq!(schedule.total(), Some(Duration::from_secs(10 + 60 + 900)));
///
/// let unlimited: Schedule = "UnlimitedExponentialRetryPolicy(1,60,2)".parse()?;
/// assert_eq!(unlimited.to_string(), "exponential(1s, factor 2, max 1m) forever");
/// # Ok::<(), redrive_core::TextError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule {
    shape: Arc<Shape>,
    jitter: Jitter,
}

/// What follows from the elements alone; the derived values are worked out once.
#[derive(PartialEq, Eq)]
struct Shape {
    segments: Vec<Segment>,
    /// The number of steps up to the end of each element.
    ends: Vec<u64>,
    longest: u64,
    /// The longest delay, calendars left aside.
    longest_plain: u64,
    /// The first delay, calendars left aside.
    base: u64,
    total: Option<Duration>,
}

/// A duration in whole microseconds, rounded up so that a wait is never cut short.
fn micros(duration: Duration) -> u64 {
    let part = u64::from(duration.subsec_nanos()).div_ceil(1_000);
    duration.as_secs().saturating_mul(1_000_000).saturating_add(part)
}

impl Schedule {
    fn new(written: Vec<Segment>, jitter: Jitter) -> Result<Self, ScheduleError> {
        let segments = joined(written)?;
        let mut ends = Vec::with_capacity(segments.len());
        let mut end = 0_u64;
        let mut total = Some(0_u128);
        for (i, segment) in segments.iter().enumerate() {
            match segment.times {
                Some(0) => return Err(ScheduleError::ZeroTimes),
                Some(times) => end += u64::from(times),
                None if i + 1 < segments.len() => return Err(ScheduleError::AfterForever),
                None => end = u64::MAX,
            }
            if segment.times.is_some() && end > u64::from(u32::MAX) {
                return Err(ScheduleError::TooManyDelays);
            }
            ends.push(end);
            total = total.zip(segment.times).map(|(sum, times)| sum.saturating_add(segment.kind.sum(times)));
        }
        let plain = || segments.iter().filter(|segment| !segment.is_calendar());
        let shape = Shape {
            longest: segments.iter().map(Segment::longest).max().ok_or(ScheduleError::Empty)?,
            longest_plain: plain().map(Segment::longest).max().unwrap_or(0),
            base: plain().find_map(|segment| segment.kind.plain(0)).unwrap_or(0),
            total: total.map(bounds::saturated),
            ends,
            segments,
        };
        Ok(Self { shape: Arc::new(shape), jitter })
    }

    /// The number of delays; `None` when there is no end. A schedule is never empty.
    #[expect(clippy::len_without_is_empty, reason = "there is no empty schedule")]
    pub fn len(&self) -> Option<u32> {
        let end = self.shape.ends.last().copied().unwrap_or(0);
        u32::try_from(end).ok()
    }

    /// Whether the delays go on without end.
    pub fn is_unlimited(&self) -> bool {
        self.len().is_none()
    }

    /// Whether a delay of it depends on the time of day.
    pub fn follows_calendar(&self) -> bool {
        self.segments().iter().any(Segment::is_calendar)
    }

    /// How the delays are spread.
    pub fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// The same delays, spread in another way.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The delay of a step, counted from 0, before jitter; `None` past the end. Only a calendar looks at the time.
    pub fn nominal(&self, step: u32, now: Timestamp) -> Option<Duration> {
        let (kind, local) = self.find(step)?;
        let delay = kind.plain(local).unwrap_or_else(|| calendar_wait(kind, now, 0));
        Some(Duration::from_micros(delay))
    }

    /// The delays before jitter, from `now` on; each calendar step counts from the end of the wait before.
    ///
    /// ```
    /// use redrive_core::{Schedule, Timestamp};
    ///
    /// let schedule: Schedule = "exponential(5s, factor 2, times 3)".parse()?;
    /// let seconds: Vec<_> = schedule.iter(Timestamp::default()).map(|delay| delay.as_secs()).collect();
    /// assert_eq!(seconds, [5, 10, 20]);
    /// # Ok::<(), redrive_core::TextError>(())
    /// ```
    pub fn iter(&self, now: Timestamp) -> Delays<'_> {
        Delays::new(self, now)
    }

    /// The names of lists of holidays that the calendars ask for and that [`with_holidays`](Self::with_holidays)
    /// has not given yet. Until then such a calendar knows no holidays.
    pub fn holidays_wanted(&self) -> impl Iterator<Item = &str> {
        self.segments().iter().filter_map(|segment| match &segment.kind {
            Kind::Calendar(calendar) => calendar.wanted(),
            _ => None,
        })
    }

    /// Says which dates a name of holidays stands for. A name that no calendar asks for changes nothing; the text
    /// keeps the name.
    pub fn with_holidays(
        &self,
        name: &str,
        dates: impl IntoIterator<Item = Date>,
    ) -> Result<Self, ScheduleError> {
        let mut dates: Vec<Date> = dates.into_iter().collect();
        dates.sort_unstable();
        dates.dedup();
        let dates = Arc::from(dates);
        let mut segments = self.segments().to_vec();
        for segment in &mut segments {
            if let Kind::Calendar(calendar) = &mut segment.kind {
                *calendar = Arc::new(calendar.with_closed(name, &dates)?);
            }
        }
        Self::new(segments, self.jitter)
    }

    fn segments(&self) -> &[Segment] {
        &self.shape.segments
    }

    /// The element of a step, and the step counted from that element's beginning.
    fn find(&self, step: u32) -> Option<(&Kind, u32)> {
        let shape = &*self.shape;
        let index = shape.ends.partition_point(|end| *end <= u64::from(step));
        let start = index.checked_sub(1).map_or(0, |before| shape.ends[before]);
        shape.segments.get(index).map(|segment| (&segment.kind, step - start as u32))
    }
}

/// The wait until the first opening that is no earlier than `floor` from now; 0 for what is no calendar.
fn calendar_wait(kind: &Kind, now: Timestamp, floor: u64) -> u64 {
    let Kind::Calendar(calendar) = kind else { return 0 };
    let floor_ms = floor.min(MAX_MICROS).div_ceil(1_000);
    let after = now + Duration::from_millis(floor_ms.saturating_sub(1));
    let opening = calendar.next_opening(after).map(|opening| micros(opening.since(now)));
    opening.unwrap_or(MAX_MICROS).min(MAX_MICROS)
}

/// Joins equal delays that stand side by side, so that one meaning has one text.
fn joined(written: Vec<Segment>) -> Result<Vec<Segment>, ScheduleError> {
    let mut segments: Vec<Segment> = Vec::with_capacity(written.len());
    for segment in written {
        let repeats = matches!(segment.kind, Kind::Fixed(_) | Kind::Calendar(_));
        match segments.last_mut().filter(|last| repeats && last.kind == segment.kind) {
            Some(last) => {
                last.times = match (last.times, segment.times) {
                    (Some(a), Some(b)) => Some(a.checked_add(b).ok_or(ScheduleError::TooManyDelays)?),
                    (Some(_), None) => None,
                    (None, _) => return Err(ScheduleError::AfterForever),
                }
            }
            None => segments.push(segment),
        }
    }
    if segments.len() > MAX_ELEMENTS {
        return Err(ScheduleError::TooManyElements);
    }
    let calendars = segments.iter().filter(|segment| segment.is_calendar()).count();
    if calendars > MAX_CALENDARS { Err(ScheduleError::TooManyCalendars) } else { Ok(segments) }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({self})")
    }
}

as_text!(
    Schedule,
    "schedule-text",
    "delays between attempts, such as `10s, 1m x3 jitter 10%` or `exponential(5s, factor 2, max 5m, times 6)`"
);
