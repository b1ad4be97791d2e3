//! The small patterns that rules are made of. Each is read from text, checked when it is read, and linear in what
//! it looks at.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The largest compiled size of a message pattern, in bytes.
const MAX_PATTERN_SIZE: usize = 256 * 1024;
/// The longest pattern text, in bytes.
const MAX_PATTERN_LEN: usize = 1024;

/// One value or a list of them; one of the list has to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOrMany<T>(Vec<T>);

impl<T> OneOrMany<T> {
    /// The alternatives.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Whether the condition holds for one of the alternatives.
    pub fn any(&self, holds: impl FnMut(&T) -> bool) -> bool {
        self.0.iter().any(holds)
    }
}

impl<T> FromIterator<T> for OneOrMany<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<'a, T> IntoIterator for &'a OneOrMany<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: fmt::Display> fmt::Display for OneOrMany<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.0.iter().enumerate() {
            write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or a list of values")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(text.into_deserializer()).map(|one| OneOrMany(vec![one]))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                T::deserialize(number.into_deserializer()).map(|one| OneOrMany(vec![one]))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                T::deserialize(number.into_deserializer()).map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                if values.is_empty() {
                    return Err(de::Error::custom("an empty list matches nothing; give at least one value"));
                }
                Ok(OneOrMany(values))
            }
        }

        deserializer.deserialize_any(Visitor(PhantomData))
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for OneOrMany<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// A code or a range of codes: `503`, `500-599`, `5xx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRange {
    /// The first code.
    pub first: i32,
    /// The last code, included.
    pub last: i32,
}

impl CodeRange {
    /// The codes from `first` to `last`.
    pub const fn new(first: i32, last: i32) -> Self {
        Self { first, last }
    }

    /// Whether the code is in the range.
    pub const fn contains(self, code: i32) -> bool {
        self.first <= code && code <= self.last
    }
}

/// A text that is no code and no range of codes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a code; expected a number, a range such as 500-599, or 5xx")]
pub struct CodeRangeError(String);

impl FromStr for CodeRange {
    type Err = CodeRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || CodeRangeError(text.chars().take(32).collect());
        if let Some(hundreds) = text.strip_suffix("xx") {
            let hundreds: u8 = hundreds.parse().map_err(|_| refuse())?;
            let first = i32::from(hundreds) * 100;
            return Ok(Self::new(first, first + 99));
        }
        // A minus sign at the start belongs to the number.
        let dash = text.char_indices().skip(1).find(|(_, c)| *c == '-');
        let (first, last) = dash.map_or((text, text), |(at, _)| (&text[..at], &text[at + 1..]));
        let number = |text: &str| text.trim().parse().map_err(|_| refuse());
        let range = Self::new(number(first)?, number(last)?);
        if range.first > range.last { Err(refuse()) } else { Ok(range) }
    }
}

impl fmt::Display for CodeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else if self.first % 100 == 0 && self.last == self.first.saturating_add(99) && self.first > 0 {
            write!(f, "{}xx", self.first / 100)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl Serialize for CodeRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.first == self.last {
            serializer.serialize_i32(self.first)
        } else {
            serializer.collect_str(self)
        }
    }
}

impl<'de> Deserialize<'de> for CodeRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = CodeRange;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a code such as 503, a range such as 500-599, or 5xx")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<CodeRange, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<CodeRange, E> {
                let code = i32::try_from(code).map_err(|_| E::custom(CodeRangeError(code.to_string())))?;
                Ok(CodeRange::new(code, code))
            }

            fn visit_i64<E: de::Error>(self, code: i64) -> Result<CodeRange, E> {
                let code = i32::try_from(code).map_err(|_| E::custom(CodeRangeError(code.to_string())))?;
                Ok(CodeRange::new(code, code))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CodeRange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CodeRange".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                { "type": "integer" },
                { "type": "string", "pattern": "^([0-9]+xx|-?[0-9]+( *- *-?[0-9]+)?)$" }
            ],
            "description": "a code such as 503, a range such as 500-599, or 5xx"
        })
    }
}

/// A regular expression over an error's message: bounded in size, linear in time.
#[derive(Clone)]
pub struct Pattern(regex::Regex);

/// A regular expression that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable regular expression: {0}")]
pub struct PatternError(String);

impl Pattern {
    /// Whether the expression matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_PATTERN_LEN {
            return Err(PatternError(format!("it is longer than {MAX_PATTERN_LEN} bytes")));
        }
        regex::RegexBuilder::new(text)
            .size_limit(MAX_PATTERN_SIZE)
            .dfa_size_limit(MAX_PATTERN_SIZE)
            .nest_limit(32)
            .build()
            .map(Self)
            .map_err(|error| PatternError(error.to_string()))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.0.as_str())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

as_text!(Pattern, "regex", "a regular expression, without look-around and back-references");

/// A text in which `*` stands for any characters: `order.*`, `*-v2`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Glob(Box<str>);

impl Glob {
    /// Whether the whole text fits.
    pub fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(rest) = parts.next().and_then(|head| text.strip_prefix(head)) else { return false };
        let mut rest = rest;
        let mut last = None;
        for part in parts {
            if let Some(middle) = last.replace(part) {
                match rest.find(middle) {
                    Some(at) => rest = &rest[at + middle.len()..],
                    None => return false,
                }
            }
        }
        last.map_or(rest.is_empty(), |tail| rest.ends_with(tail))
    }
}

impl FromStr for Glob {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(Glob, "glob", "a text in which * stands for any characters");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn globs_match_whole_texts() {
        for (glob, text, fits) in [
            ("order.created", "order.created", true),
            ("order.created", "order.created2", false),
            ("order.*", "order.created", true),
            ("*created", "order.created", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("**", "x", true),
        ] {
            assert_eq!(glob.parse::<Glob>().unwrap().matches(text), fits, "{glob} on {text}");
        }
    }

    #[test]
    fn codes_read_and_print() {
        for text in ["503", "500-510", "5xx", "-1", "-3--1"] {
            assert_eq!(text.parse::<CodeRange>().unwrap().to_string(), text);
        }
        for text in ["", "5x", "xx5", "599-500", "5-", "1e3", "99999999999", "ä-1"] {
            assert!(text.parse::<CodeRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn oversized_patterns_are_refused() {
        assert!(r"(\w{100}){100}".parse::<Pattern>().is_err());
        assert!("a".repeat(2_000).parse::<Pattern>().is_err());
        assert!("(".parse::<Pattern>().is_err());
    }

    proptest! {
        #[test]
        fn a_glob_agrees_with_the_same_regular_expression(glob in "[ab*]{0,8}", text in "[ab]{0,10}") {
            let expression = format!("^{}$", glob.replace('*', ".*"));
            let expected = regex::Regex::new(&expression).unwrap().is_match(&text);
            prop_assert_eq!(glob.parse::<Glob>().unwrap().matches(&text), expected);
        }

        #[test]
        fn no_text_panics_a_matcher(text in any::<String>()) {
            let _ = text.parse::<CodeRange>();
            let _ = text.parse::<Pattern>();
            let _ = text.parse::<super::super::SqlPattern>();
            let _ = text.parse::<Glob>().map(|glob| glob.matches(&text));
        }
    }
}
