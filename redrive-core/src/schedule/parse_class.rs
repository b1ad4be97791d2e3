//! The class-like forms that other retry libraries write in their settings, so that those can be carried over as
//! they stand: `FixedDelayRetryPolicy(5000x3, 15000x5)` counts in milliseconds, the exponential ones in seconds.
//! They print in the plain grammar.

use super::parse::{self, EXPECTED_ELEMENT, Elements};
use super::segment::Kind;
use crate::TextError;
use crate::duration::MAX_MICROS;
use crate::scan::Scanner;

const MILLISECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000;

pub(super) fn element(
    scanner: &mut Scanner<'_>,
    elements: &mut Elements,
    start: usize,
) -> Result<(), TextError> {
    let word = scanner.peek_word();
    match word.to_ascii_lowercase().as_str() {
        "fixeddelayretrypolicy" => {
            parse::open(scanner, word)?;
            fixed(scanner, elements)
        }
        "limitedexponentialretrypolicy" => {
            parse::open(scanner, word)?;
            exponential(scanner, elements, start, true)
        }
        "unlimitedexponentialretrypolicy" | "exponentialretrypolicy" => {
            parse::open(scanner, word)?;
            exponential(scanner, elements, start, false)
        }
        _ => Err(scanner.expected(EXPECTED_ELEMENT)),
    }
}

fn fixed(scanner: &mut Scanner<'_>, elements: &mut Elements) -> Result<(), TextError> {
    loop {
        scanner.skip_space();
        let start = scanner.at();
        let delay = amount(scanner, MILLISECOND, "a delay in milliseconds")?;
        let times = parse::times_suffix(scanner)?;
        elements.push(scanner, start, Kind::Fixed(delay), Some(times))?;
        if scanner.eat_spaced(')') {
            return Ok(());
        }
        if !scanner.eat(',') {
            return Err(scanner.expected("`,`, `x` and a count, or `)`"));
        }
    }
}

/// Initial delay, longest delay, multiplier and, when limited, the number of delays.
fn exponential(
    scanner: &mut Scanner<'_>,
    elements: &mut Elements,
    start: usize,
    limited: bool,
) -> Result<(), TextError> {
    let first_at = scanner.at();
    let first = amount(scanner, SECOND, "the first delay in seconds")?;
    if first == 0 {
        return Err(scanner.expected_at(first_at, "a first delay over 0"));
    }
    comma(scanner, "`,` and the longest delay in seconds")?;
    let max_at = scanner.at();
    let max = amount(scanner, SECOND, "the longest delay in seconds")?;
    if max < first {
        return Err(scanner.expected_at(max_at, "a longest delay that is no shorter than the first"));
    }
    comma(scanner, "`,` and the multiplier")?;
    let factor = parse::scan_factor(scanner)?;
    let mut times = None;
    if limited {
        comma(scanner, "`,` and the number of delays")?;
        times = Some(parse::count(scanner)?);
    }
    if !scanner.eat_spaced(')') {
        return Err(scanner.expected("`)`"));
    }
    elements.push(scanner, start, Kind::Exponential { first, factor, max: Some(max) }, times)?;
    if !limited {
        elements.endless();
    }
    Ok(())
}

fn comma(scanner: &mut Scanner<'_>, expected: &str) -> Result<(), TextError> {
    if !scanner.eat_spaced(',') {
        return Err(scanner.expected(expected));
    }
    scanner.skip_space();
    Ok(())
}

fn amount(scanner: &mut Scanner<'_>, unit: u64, expected: &str) -> Result<u64, TextError> {
    let at = scanner.at();
    match scanner.decimal(expected)?.times(unit) {
        None => Err(scanner.expected_at(at, "a whole number of microseconds")),
        Some(micros) if micros > MAX_MICROS => Err(scanner.expected_at(at, "a delay of at most 366 days")),
        Some(micros) => Ok(micros),
    }
}
