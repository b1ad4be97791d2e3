//! Schedules from code, checked like the ones from text.

use std::sync::Arc;
use std::time::Duration;

use super::calendar::MAX_OPENINGS;
use super::segment::{Factor, Kind, Segment};
use super::{Calendar, Jitter, MAX_CALENDARS, MAX_ELEMENTS, Schedule, micros};
use crate::duration::{self, MAX};

/// Why values do not make a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There is no delay in it.
    #[error("at least one delay")]
    Empty,
    /// An element repeats no time.
    #[error("a count of at least 1")]
    ZeroTimes,
    /// More elements than a schedule holds.
    #[error("at most {MAX_ELEMENTS} elements")]
    TooManyElements,
    /// More delays than can be counted.
    #[error("at most 4294967295 delays in all")]
    TooManyDelays,
    /// A delay over [`duration::MAX`].
    #[error("a duration of at most {}", duration::print(MAX))]
    TooLong,
    /// A factor under 1, over 1000, with more than three decimals, or no number.
    #[error("{}", Factor::EXPECTED)]
    Factor,
    /// An exponential schedule that begins at zero stays there.
    #[error("a first delay over 0s")]
    ZeroFirst,
    /// A linear schedule that does not grow.
    #[error("a step over 0s")]
    ZeroStep,
    /// The max is under the first delay.
    #[error("a max that is no shorter than the first delay")]
    MaxUnderFirst,
    /// An element that goes on for ever has another after it.
    #[error("nothing after an element that goes on forever")]
    AfterForever,
    /// More calendars than a schedule holds.
    #[error("at most {MAX_CALENDARS} calendars")]
    TooManyCalendars,
    /// A calendar whose windows begin at too many different times of a day.
    #[error("at most {MAX_OPENINGS} openings a day")]
    TooManyOpenings,
    /// A calendar whose holidays leave no opening for 366 days.
    #[error("an opening within 366 days")]
    NeverOpen,
}

/// A schedule in the making; see [`Schedule::fixed`] and its siblings.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct ScheduleBuilder {
    done: Vec<Element>,
    last: Element,
    jitter: Jitter,
}

#[derive(Debug, Clone)]
struct Element {
    shape: Shape,
    max: Option<Duration>,
    times: Option<u32>,
}

#[derive(Debug, Clone)]
enum Shape {
    Fixed(Duration),
    Linear { first: Duration, step: Duration },
    Exponential { first: Duration, factor: f64 },
    Calendar(Arc<Calendar>),
}

impl Schedule {
    /// The same delay again and again, once unless told how often.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::{Jitter, Schedule};
    ///
    /// let second = Duration::from_secs(1);
    /// let schedule = Schedule::fixed(second)
    ///     .times(2)
    ///     .then(Schedule::exponential(5 * second, 2.0).max(300 * second).forever())
    ///     .jitter(Jitter::Full)
    ///     .build()?;
    /// assert_eq!(schedule.to_string(), "1s x2, exponential(5s, factor 2, max 5m) forever jitter full");
    /// # Ok::<(), redrive_core::ScheduleError>(())
    /// ```
    pub fn fixed(delay: Duration) -> ScheduleBuilder {
        ScheduleBuilder::new(Shape::Fixed(delay))
    }

    /// The delays one after the other.
    pub fn list(delays: impl IntoIterator<Item = Duration>) -> Result<Self, ScheduleError> {
        let mut segments: Vec<Segment> = Vec::new();
        for delay in delays {
            let kind = Kind::Fixed(checked(delay)?);
            let full = segments.len() == MAX_ELEMENTS;
            // Runs are joined here and not at the end, so that a long list of equal delays stays small.
            match segments.last_mut() {
                Some(Segment { kind: last, times: Some(times) }) if *last == kind => {
                    *times = times.checked_add(1).ok_or(ScheduleError::TooManyDelays)?;
                }
                _ if full => return Err(ScheduleError::TooManyElements),
                _ => segments.push(Segment { kind, times: Some(1) }),
            }
        }
        Self::new(segments, Jitter::None)
    }

    /// Delays that grow by the same step: `first`, `first + step`, and so on.
    pub fn linear(first: Duration, step: Duration) -> ScheduleBuilder {
        ScheduleBuilder::new(Shape::Linear { first, step })
    }

    /// Delays that grow by a factor from 1 to 1000, with at most three decimals.
    pub fn exponential(first: Duration, factor: f64) -> ScheduleBuilder {
        ScheduleBuilder::new(Shape::Exponential { first, factor })
    }

    /// Waits until the next working hour.
    pub fn calendar(calendar: Calendar) -> ScheduleBuilder {
        ScheduleBuilder::new(Shape::Calendar(Arc::new(calendar)))
    }
}

impl ScheduleBuilder {
    fn new(shape: Shape) -> Self {
        Self { done: Vec::new(), last: Element { shape, max: None, times: Some(1) }, jitter: Jitter::None }
    }

    /// How many delays the last element gives; 1 unless told.
    pub fn times(mut self, times: u32) -> Self {
        self.last.times = Some(times);
        self
    }

    /// The last element goes on without end.
    pub fn forever(mut self) -> Self {
        self.last.times = None;
        self
    }

    /// Where a linear or exponential element stops growing; a fixed one and a calendar take no heed of it.
    pub fn max(mut self, max: Duration) -> Self {
        self.last.max = Some(max);
        self
    }

    /// How all delays are spread.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Goes on with the elements of another; this one's jitter holds.
    pub fn then(mut self, next: Self) -> Self {
        self.done.push(self.last);
        self.done.extend(next.done);
        self.last = next.last;
        self
    }

    /// The schedule, checked.
    pub fn build(self) -> Result<Schedule, ScheduleError> {
        let mut segments = Vec::with_capacity(self.done.len() + 1);
        for element in self.done.into_iter().chain([self.last]) {
            segments.push(element.build()?);
        }
        Schedule::new(segments, self.jitter)
    }
}

fn checked(delay: Duration) -> Result<u64, ScheduleError> {
    if delay > MAX { Err(ScheduleError::TooLong) } else { Ok(micros(delay)) }
}

impl Element {
    fn build(self) -> Result<Segment, ScheduleError> {
        let max = self.max.map(checked).transpose()?;
        let over_first = |first: u64| {
            if max.is_some_and(|max| max < first) { Err(ScheduleError::MaxUnderFirst) } else { Ok(first) }
        };
        let kind = match self.shape {
            Shape::Fixed(delay) => Kind::Fixed(checked(delay)?),
            Shape::Linear { first, step } => match checked(step)? {
                0 => return Err(ScheduleError::ZeroStep),
                step => Kind::Linear { first: over_first(checked(first)?)?, step, max },
            },
            Shape::Exponential { first, factor } => match checked(first)? {
                0 => return Err(ScheduleError::ZeroFirst),
                first => Kind::Exponential {
                    first: over_first(first)?,
                    factor: Factor::from_f64(factor).ok_or(ScheduleError::Factor)?,
                    max,
                },
            },
            Shape::Calendar(calendar) => Kind::Calendar(calendar),
        };
        Ok(Segment { kind, times: self.times })
    }
}
