//! Reading a schedule from one line of text.
//!
//! ```text
//! schedule = element { "," element } [ "forever" ] [ "jitter" jitter ]
//! element  = duration [ "x" count ]
//!          | "linear(" duration { "," ( "step" duration | "max" duration | "times" count | "forever" ) } ")"
//!          | "exponential(" duration { "," ( "factor" n | "max" duration | "times" count | "forever" ) } ")"
//!          | "calendar(" hours zone [ "," "holidays" ( name | date { date } ) ] ")" [ "x" count ]
//!          | a class-like form, see `parse_class`
//! ```

use std::str::FromStr;
use std::sync::Arc;

use super::segment::{Factor, Kind, Segment};
use super::{Jitter, MAX_CALENDARS, MAX_ELEMENTS, Schedule, ScheduleError, parse_calendar, parse_class};
use crate::scan::Scanner;
use crate::{TextError, duration};

/// Longer than any schedule that a person would write, with room for a calendar's inline holidays.
const MAX_TEXT: usize = 16 * 1024;
pub(super) const EXPECTED_ELEMENT: &str = "a delay such as 10s, or linear(…), exponential(…) or calendar(…)";
const EXPECTED_COUNT: &str = "a count from 1 to 4294967295";

impl FromStr for Schedule {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut scanner = Scanner::new(text);
        if text.len() > MAX_TEXT {
            return Err(scanner.expected_at(MAX_TEXT, format!("a schedule of at most {MAX_TEXT} bytes")));
        }
        let mut elements = Elements::default();
        loop {
            element(&mut scanner, &mut elements)?;
            if !scanner.eat_spaced(',') {
                break;
            }
        }
        let (forever, jitter) = tail(&mut scanner, &elements)?;
        elements.finish(&scanner, forever, jitter)
    }
}

/// The elements read so far, and where each began.
#[derive(Debug, Default)]
pub(super) struct Elements {
    segments: Vec<Segment>,
    starts: Vec<usize>,
    /// Where an element said that it goes on for ever.
    endless: bool,
    /// Where an element without `times` closed.
    open_at: Option<usize>,
    count: u64,
}

impl Elements {
    pub(super) fn push(
        &mut self,
        scanner: &Scanner<'_>,
        start: usize,
        kind: Kind,
        times: Option<u32>,
    ) -> Result<(), TextError> {
        if self.endless {
            return Err(scanner.expected_at(start, "nothing after an element that goes on forever"));
        }
        if let Some(at) = self.open_at {
            return Err(scanner.expected_at(at, "`, times` and a count before the `)`"));
        }
        if self.segments.len() == MAX_ELEMENTS {
            return Err(scanner.expected_at(start, format!("at most {MAX_ELEMENTS} elements")));
        }
        self.count += u64::from(times.unwrap_or(0));
        if self.count > u64::from(u32::MAX) {
            return Err(scanner.expected_at(start, "at most 4294967295 delays in all"));
        }
        self.segments.push(Segment { kind, times });
        self.starts.push(start);
        Ok(())
    }

    pub(super) fn endless(&mut self) {
        self.endless = true;
    }

    fn finish(mut self, scanner: &Scanner<'_>, forever: bool, jitter: Jitter) -> Result<Schedule, TextError> {
        if forever || self.endless {
            if let Some(last) = self.segments.last_mut() {
                last.times = None;
            }
        } else if let Some(at) = self.open_at {
            return Err(scanner.expected_at(at, "`, times` and a count, or `, forever`, before the `)`"));
        }
        let start = self.starts.first().copied().unwrap_or(0);
        Schedule::new(self.segments, jitter).map_err(|error| scanner.expected_at(start, error.to_string()))
    }
}

fn element(scanner: &mut Scanner<'_>, elements: &mut Elements) -> Result<(), TextError> {
    scanner.skip_space();
    let start = scanner.at();
    let word = scanner.peek_word();
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    if scanner.peek().is_some_and(|c| c.is_ascii_digit()) || is_iso(scanner) {
        let delay = duration::scan(scanner)?;
        let times = times_suffix(scanner)?;
        return elements.push(scanner, start, Kind::Fixed(delay), Some(times));
    }
    if is("calendar") {
        // Before it is read, since reading it is the work that is bounded.
        if elements.segments.iter().filter(|segment| segment.is_calendar()).count() == MAX_CALENDARS {
            return Err(scanner.expected(ScheduleError::TooManyCalendars.to_string()));
        }
        open(scanner, word)?;
        let calendar = parse_calendar::calendar(scanner)?;
        close(scanner)?;
        let times = times_suffix(scanner)?;
        return elements.push(scanner, start, Kind::Calendar(Arc::new(calendar)), Some(times));
    }
    if is("linear") || is("exponential") {
        open(scanner, word)?;
        return growing(scanner, elements, start, is("linear"));
    }
    parse_class::element(scanner, elements, start)
}

fn is_iso(scanner: &Scanner<'_>) -> bool {
    matches!(scanner.peek(), Some('P' | 'p'))
        && scanner.peek_second().is_some_and(|c| c.is_ascii_digit() || matches!(c, 'T' | 't'))
}

/// Steps over the name of a form and its `(`.
pub(super) fn open(scanner: &mut Scanner<'_>, name: &str) -> Result<(), TextError> {
    scanner.eat_word(name);
    if scanner.eat_spaced('(') {
        scanner.skip_space();
        return Ok(());
    }
    Err(scanner.expected("`(`"))
}

fn close(scanner: &mut Scanner<'_>) -> Result<(), TextError> {
    if scanner.eat_spaced(')') { Ok(()) } else { Err(scanner.expected("`)`")) }
}

fn growing(
    scanner: &mut Scanner<'_>,
    elements: &mut Elements,
    start: usize,
    linear: bool,
) -> Result<(), TextError> {
    let first_at = scanner.at();
    let first = duration::scan(scanner)?;
    if first == 0 && !linear {
        return Err(scanner.expected_at(first_at, "a first delay over 0s"));
    }
    let (mut step, mut factor, mut max, mut times, mut forever) = (None, None, None, None, false);
    let close_at = loop {
        scanner.skip_space();
        let close_at = scanner.at();
        if scanner.eat(')') {
            break close_at;
        }
        if !scanner.eat(',') {
            return Err(scanner.expected("`,` or `)`"));
        }
        scanner.skip_space();
        let bounded = times.is_some() || forever;
        if linear && step.is_none() && scanner.eat_word("step") {
            step = Some(positive(scanner)?);
        } else if !linear && factor.is_none() && scanner.eat_word("factor") {
            scanner.skip_space();
            factor = Some(scan_factor(scanner)?);
        } else if max.is_none() && scanner.eat_word("max") {
            scanner.skip_space();
            let at = scanner.at();
            let bound = duration::scan(scanner)?;
            if bound < first {
                return Err(scanner.expected_at(at, "a max that is no shorter than the first delay"));
            }
            max = Some(bound);
        } else if !bounded && scanner.eat_word("times") {
            scanner.skip_space();
            times = Some(count(scanner)?);
        } else if !bounded && scanner.eat_word("forever") {
            forever = true;
        } else {
            let all = [
                (linear && step.is_none(), "step"),
                (!linear && factor.is_none(), "factor"),
                (max.is_none(), "max"),
                (!bounded, "times"),
                (!bounded, "forever"),
            ];
            let left: Vec<_> = all.iter().filter(|(open, _)| *open).map(|(_, name)| *name).collect();
            let expected = if left.is_empty() { "nothing more before `)`".into() } else { left.join(" or ") };
            return Err(scanner.expected(expected));
        }
    };
    let kind = if linear {
        let Some(step) = step else {
            return Err(scanner.expected_at(close_at, "`, step` and a duration before the `)`"));
        };
        Kind::Linear { first, step, max }
    } else {
        Kind::Exponential { first, factor: factor.unwrap_or(Factor::TWO), max }
    };
    elements.push(scanner, start, kind, times)?;
    if forever {
        elements.endless();
    } else if times.is_none() {
        elements.open_at = Some(close_at);
    }
    Ok(())
}

fn positive(scanner: &mut Scanner<'_>) -> Result<u64, TextError> {
    scanner.skip_space();
    let at = scanner.at();
    match duration::scan(scanner)? {
        0 => Err(scanner.expected_at(at, "a step over 0s")),
        step => Ok(step),
    }
}

pub(super) fn scan_factor(scanner: &mut Scanner<'_>) -> Result<Factor, TextError> {
    let at = scanner.at();
    let number = scanner.decimal(Factor::EXPECTED)?;
    let factor = number.times(1_000).and_then(Factor::from_thousandths);
    factor.ok_or_else(|| scanner.expected_at(at, Factor::EXPECTED))
}

/// `x3`, `x 3` or `×3`; once when there is none.
pub(super) fn times_suffix(scanner: &mut Scanner<'_>) -> Result<u32, TextError> {
    scanner.skip_space();
    if !matches!(scanner.peek(), Some('x' | 'X' | '×')) {
        return Ok(1);
    }
    scanner.next();
    scanner.skip_space();
    count(scanner)
}

pub(super) fn count(scanner: &mut Scanner<'_>) -> Result<u32, TextError> {
    let at = scanner.at();
    let digits = scanner.take_while(|c| c.is_ascii_digit());
    match digits.parse::<u32>() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(scanner.expected_at(at, EXPECTED_COUNT)),
    }
}

/// What may follow the elements: `forever` and `jitter`, each once, in any order.
fn tail(scanner: &mut Scanner<'_>, elements: &Elements) -> Result<(bool, Jitter), TextError> {
    let (mut forever, mut jitter) = (false, None);
    loop {
        scanner.skip_space();
        if scanner.at_end() {
            return Ok((forever, jitter.unwrap_or_default()));
        }
        if !forever && scanner.eat_word("forever") {
            forever = true;
        } else if jitter.is_none() && scanner.eat_word("jitter") {
            scanner.skip_space();
            jitter = Some(Jitter::scan(scanner)?);
        } else {
            return Err(scanner.expected(match (forever || elements.endless, jitter.is_some()) {
                (false, false) => "`,`, `x` and a count, `forever`, `jitter` or the end",
                (true, false) => "`jitter` or the end",
                (false, true) => "`forever` or the end",
                (true, true) => "the end",
            }));
        }
    }
}
