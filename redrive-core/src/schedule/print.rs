//! The canonical text of a schedule: what the parser reads back to the same value.

use std::fmt;

use super::calendar::Window;
use super::segment::{Kind, Segment};
use super::{Calendar, Holidays, Jitter, Schedule};
use crate::duration::Period;

pub(super) const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments().iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            segment.fmt(f)?;
        }
        if self.is_unlimited() {
            f.write_str(" forever")?;
        }
        match self.jitter() {
            Jitter::None => Ok(()),
            jitter => write!(f, " jitter {jitter}"),
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Fixed(delay) => write!(f, "{}", Text(*delay))?,
            Kind::Calendar(calendar) => write!(f, "calendar({calendar})")?,
            Kind::Linear { first, step, max } => {
                write!(f, "linear({}, step {}", Text(*first), Text(*step))?;
                return self.close(f, *max);
            }
            Kind::Exponential { first, factor, max } => {
                let factor = f64::from(factor.thousandths()) / 1_000.0;
                write!(f, "exponential({}, factor {factor}", Text(*first))?;
                return self.close(f, *max);
            }
        }
        match self.times {
            Some(times) if times > 1 => write!(f, " x{times}"),
            _ => Ok(()),
        }
    }
}

impl Segment {
    fn close(&self, f: &mut fmt::Formatter<'_>, max: Option<u64>) -> fmt::Result {
        if let Some(max) = max {
            write!(f, ", max {}", Text(max))?;
        }
        if let Some(times) = self.times {
            write!(f, ", times {times}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, window) in self.windows().iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            window.fmt(f)?;
        }
        write!(f, " {}", self.zone())?;
        match self.holidays() {
            Holidays::None => Ok(()),
            Holidays::Named(name) => write!(f, ", holidays {name}"),
            Holidays::Dates(dates) => {
                f.write_str(", holidays")?;
                dates.iter().try_for_each(|date| write!(f, " {date}"))
            }
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut day = 0;
        while day < 7 {
            let run = (day..7).take_while(|d| self.days & (1 << d) != 0).count();
            match run {
                0 => {}
                1 => write!(f, "{} ", DAYS[day])?,
                _ => write!(f, "{}-{} ", DAYS[day], DAYS[day + run - 1])?,
            }
            day += run + 1;
        }
        let clock = |minutes: u16| (minutes / 60, minutes % 60);
        let ((from, from_minute), (to, to_minute)) = (clock(self.opens), clock(self.closes));
        write!(f, "{from:02}:{from_minute:02}-{to:02}:{to_minute:02}")
    }
}

/// Microseconds as the text of a duration.
struct Text(u64);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Period(std::time::Duration::from_micros(self.0)).fmt(f)
    }
}
