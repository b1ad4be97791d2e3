//! Query parameters, read strictly: a misspelt filter would otherwise select everything.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode;
use redrive_core::duration;

use crate::codes;
use crate::problem::{Problem, brief};

/// The longest value of a parameter, in bytes.
const LONGEST: usize = 4096;

/// The parameters of a request, each known and given once.
#[derive(Debug, Default)]
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    pub(crate) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut found = BTreeMap::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).ok_or_else(not_text)?;
            if !known.contains(&name.as_str()) {
                return Err(unknown(&name, known));
            }
            let value = decode(value).ok_or_else(not_text)?;
            if value.len() > LONGEST {
                return Err(Problem::wrong(&name, format_args!("longer than {LONGEST} bytes")));
            }
            if found.contains_key(&name) {
                return Err(Problem::wrong(&name, "stands twice"));
            }
            found.insert(name, value);
        }
        Ok(Self(found))
    }

    /// For a path that takes none.
    pub(crate) fn none(query: Option<&str>) -> Result<(), Problem> {
        Self::read(query, &[]).map(|_| ())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn parse<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.get(name).map(|text| text.parse().map_err(|why| Problem::wrong(name, why))).transpose()
    }

    pub(crate) fn duration(&self, name: &str) -> Result<Option<Duration>, Problem> {
        self.get(name).map(|text| duration::parse(text).map_err(|why| Problem::wrong(name, why))).transpose()
    }

    /// How many to answer with.
    pub(crate) fn limit(&self, default: usize, range: RangeInclusive<usize>) -> Result<usize, Problem> {
        let limit = self.parse("limit")?.unwrap_or(default);
        if range.contains(&limit) {
            return Ok(limit);
        }
        Err(Problem::wrong("limit", format_args!("expected {} to {}", range.start(), range.end())))
    }
}

pub(crate) fn unknown(name: &str, known: &[&str]) -> Problem {
    let known = if known.is_empty() { "none is taken here".to_owned() } else { known.join(", ") };
    Problem::new(codes::UNKNOWN_NAME, format!("`{}` is not known here", brief(name)))
        .help(format!("known are: {known}"))
        .with("parameter", brief(name))
}

fn not_text() -> Problem {
    Problem::new(codes::UNREADABLE, "the query is not UTF-8")
}

fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode(spaced.as_bytes()).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_and_refuses_by_name() {
        let params = Params::read(Some("key=a%26b+c&id=%C3%A4&&limit=5"), &["key", "id", "limit"]).unwrap();
        assert_eq!((params.get("key"), params.get("id")), (Some("a&b c"), Some("ä")));
        assert_eq!(params.limit(10, 1..=5).unwrap(), 5);
        assert_eq!(params.limit(10, 1..=4).unwrap_err().code(), codes::WRONG_VALUE);
        let code = |query| Params::read(Some(query), &["key"]).unwrap_err().code();
        assert_eq!(code("keys=1"), codes::UNKNOWN_NAME);
        assert_eq!(code("key=1&key=2"), codes::WRONG_VALUE);
        assert_eq!(code("key=%ff"), codes::UNREADABLE);
    }
}
