//! The texts of the file that have a grammar of their own, each with the parser that the rest of Redrive uses.

use std::fmt::Display;
use std::str::FromStr;

use redrive_core::classify::{CodeRange, Glob, Pattern, SqlPattern};
use redrive_core::duration::Period;
use redrive_core::guard::Rate;
use redrive_core::{Date, FactSource, Floor, Handling, Reason, Schedule, TextError};

use super::OrderBy;

/// What is wrong with a text, and where in it, if that is known.
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) at: Option<usize>,
}

pub(super) type Check = fn(&str) -> Result<(), Wrong>;

/// The parser of each type of the schema that is text with a grammar.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("CodeRange", whole::<CodeRange>),
    ("Date", pointed::<Date>),
    ("FactSource", whole::<FactSource>),
    ("Floor", pointed::<Floor>),
    ("Glob", whole::<Glob>),
    ("OrderBy", whole::<OrderBy>),
    ("Pattern", whole::<Pattern>),
    ("Period", pointed::<Period>),
    ("Rate", pointed::<Rate>),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_with_a_grammar_has_its_parser() {
        let definitions = crate::config::schema()["$defs"].as_object().unwrap();
        for (name, schema) in definitions {
            let grammar = schema.get("pattern").or_else(|| schema.get("format")).is_some();
            if grammar && schema["type"] == "string" {
                assert!(check_of(name).is_some(), "{name}");
            }
        }
        for (name, _) in CHECKS {
            assert!(definitions.contains_key(*name), "{name} is no type of the file");
        }
    }
}
