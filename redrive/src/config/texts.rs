//! The texts of the file that have a grammar of their own, each with the parser that the rest of Redrive uses.

use std::fmt::Display;
use std::str::FromStr;

use redrive_core::classify::{Glob, Pattern, SqlPattern};
use redrive_core::duration::Period;
use redrive_core::guard::Rate;
use redrive_core::{Date, FactSource, Floor, Handling, Reason, Schedule, TextError};

use super::order::OrderBy;

/// What is wrong with a text, and where in it, if that is known.
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) at: Option<usize>,
}

type Check = fn(&str) -> Result<(), Wrong>;

/// The parser of each type of the schema that is text with a grammar.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("Date", whole::<Date>),
    ("FactSource", whole::<FactSource>),
    ("Floor", pointed::<Floor>),
    ("Glob", whole::<Glob>),
    ("OrderBy", whole::<OrderBy>),
    ("Pattern", whole::<Pattern>),
    ("Period", pointed::<Period>),
    ("Rate", whole::<Rate>),
    ("Reason", reason),
    ("Schedule", pointed::<Schedule>),
    ("SqlPattern", whole::<SqlPattern>),
];

/// The parser of a type of the schema.
pub(super) fn check_of(name: &str) -> Option<Check> {
    CHECKS.iter().find(|(known, _)| *known == name).map(|(_, check)| *check)
}

/// Whether a closed vocabulary knows a name that its schema leaves out, such as the short names of handlings.
pub(super) fn is_other_name(vocabulary: &str, text: &str) -> bool {
    vocabulary == "Handling" && text.parse::<Handling>().is_ok()
}

fn pointed<T: FromStr<Err = TextError>>(text: &str) -> Result<(), Wrong> {
    let parsed = text.parse::<T>();
    parsed.map(drop).map_err(|error| Wrong { message: error.to_string(), at: Some(error.at()) })
}

fn whole<T: FromStr<Err: Display>>(text: &str) -> Result<(), Wrong> {
    text.parse::<T>().map(drop).map_err(|error| Wrong { message: error.to_string(), at: None })
}

fn reason(text: &str) -> Result<(), Wrong> {
    Reason::new(text).map(drop).map_err(|error| Wrong { message: error.to_string(), at: None })
}
