//! Reading working hours: `mon-thu 09:00-17:00, fri 09:00-13:00 Europe/Berlin, holidays NAME`.

use std::str::FromStr;
use std::sync::Arc;

use super::calendar::{Window, zone};
use super::print::DAYS;
use super::{Calendar, Date, Holidays};
use crate::TextError;
use crate::scan::Scanner;

const MAX_WINDOWS: usize = 32;
const EXPECTED_DAY: &str = "a day such as mon or mon-fri";
const EXPECTED_TIME: &str = "a time such as 09:00";
const EXPECTED_ZONE: &str = "an IANA time zone such as Europe/Berlin";

impl FromStr for Calendar {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        let calendar = calendar(&mut scanner)?;
        scanner.skip_space();
        if scanner.at_end() { Ok(calendar) } else { Err(scanner.expected("the end")) }
    }
}

pub(super) fn calendar(scanner: &mut Scanner<'_>) -> Result<Calendar, TextError> {
    let start = scanner.at();
    let mut windows = Vec::new();
    if day_here(scanner).is_none() {
        return Err(scanner.expected(EXPECTED_DAY));
    }
    while day_here(scanner).is_some() {
        let days = days(scanner)?;
        while scanner.peek().is_some_and(|c| c.is_ascii_digit()) {
            if windows.len() == MAX_WINDOWS {
                return Err(scanner.expected(format!("at most {MAX_WINDOWS} windows")));
            }
            let (opens, closes) = hours(scanner)?;
            windows.push(Window { days, opens, closes });
            skip_separators(scanner);
        }
    }
    let zone_at = scanner.at();
    let name = scanner.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+'));
    let zone = zone(name).filter(|zone| zone.iana_name().is_some());
    let zone = zone.ok_or_else(|| scanner.expected_at(zone_at, EXPECTED_ZONE))?;
    let holidays = holidays(scanner)?;
    Calendar::new(windows, zone, holidays).map_err(|error| scanner.expected_at(start, error.to_string()))
}

fn skip_separators(scanner: &mut Scanner<'_>) {
    scanner.take_while(|c| c.is_whitespace() || matches!(c, ',' | ';'));
}

/// The index of the day whose name stands here, and the length of the name.
fn day_here(scanner: &Scanner<'_>) -> Option<(usize, usize)> {
    const FULL: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let rest = scanner.rest();
    let word = rest.find(|c: char| !c.is_ascii_alphabetic()).map_or(rest, |end| &rest[..end]);
    let among = |names: [&str; 7]| names.iter().position(|name| word.eq_ignore_ascii_case(name));
    let day = among(DAYS).or_else(|| among(FULL))?;
    Some((day, word.len()))
}

fn day(scanner: &mut Scanner<'_>) -> Result<usize, TextError> {
    let Some((day, length)) = day_here(scanner) else {
        return Err(scanner.expected(EXPECTED_DAY));
    };
    for _ in 0..length {
        scanner.next();
    }
    Ok(day)
}

/// Days and ranges of days, up to the hours.
fn days(scanner: &mut Scanner<'_>) -> Result<u8, TextError> {
    let mut days = 0_u8;
    while day_here(scanner).is_some() {
        let first = day(scanner)?;
        days |= 1 << first;
        if scanner.eat_spaced('-') {
            scanner.skip_space();
            let last = day(scanner)?;
            let mut next = first;
            while next != last {
                next = (next + 1) % 7;
                days |= 1 << next;
            }
        }
        skip_separators(scanner);
    }
    if scanner.peek().is_some_and(|c| c.is_ascii_digit()) {
        Ok(days)
    } else {
        Err(scanner.expected(EXPECTED_TIME))
    }
}

fn hours(scanner: &mut Scanner<'_>) -> Result<(u16, u16), TextError> {
    let opens_at = scanner.at();
    let opens = time(scanner)?;
    if opens == 24 * 60 {
        return Err(scanner.expected_at(opens_at, "an opening time before 24:00"));
    }
    if !scanner.eat_spaced('-') {
        return Err(scanner.expected("`-` and a closing time"));
    }
    scanner.skip_space();
    let closes_at = scanner.at();
    let closes = time(scanner)?;
    if closes <= opens {
        let hint = "a closing time after the opening (over midnight, write two windows: 22:00-24:00 and 00:00-06:00)";
        return Err(scanner.expected_at(closes_at, hint));
    }
    Ok((opens, closes))
}

/// A time of the day in minutes, `24:00` included.
fn time(scanner: &mut Scanner<'_>) -> Result<u16, TextError> {
    let at = scanner.at();
    let hour = scanner.take_while(|c| c.is_ascii_digit());
    let colon = scanner.eat(':');
    let minute = scanner.take_while(|c| c.is_ascii_digit());
    let parsed = match (hour.parse::<u16>(), minute.parse::<u16>()) {
        (Ok(hour), Ok(minute)) if colon && minute < 60 && in_day(hour, minute) => Some(hour * 60 + minute),
        _ => None,
    };
    parsed.filter(|_| minute.len() == 2).ok_or_else(|| scanner.expected_at(at, EXPECTED_TIME))
}

fn in_day(hour: u16, minute: u16) -> bool {
    hour < 24 || (hour == 24 && minute == 0)
}

fn holidays(scanner: &mut Scanner<'_>) -> Result<Holidays, TextError> {
    scanner.skip_space();
    let comma = scanner.eat(',');
    scanner.skip_space();
    if !scanner.eat_word("holidays") {
        return if comma { Err(scanner.expected("holidays")) } else { Ok(Holidays::None) };
    }
    scanner.skip_space();
    let at = scanner.at();
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !scanner.peek().is_some_and(|c| c.is_ascii_digit()) {
        let name = scanner.take_while(part);
        return match name.len() {
            1..=64 => Ok(Holidays::Named(name.into())),
            _ => Err(scanner.expected_at(at, "the name of a list of holidays, or dates such as 2026-12-25")),
        };
    }
    let mut dates = Vec::new();
    while scanner.peek().is_some_and(|c| c.is_ascii_digit()) {
        let at = scanner.at();
        let date = scanner.take_while(part).parse::<Date>();
        dates.push(date.map_err(|error| scanner.expected_at(at, error.expected()))?);
        skip_separators(scanner);
    }
    dates.sort_unstable();
    dates.dedup();
    Ok(Holidays::Dates(Arc::from(dates)))
}
