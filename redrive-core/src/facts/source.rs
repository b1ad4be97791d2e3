//! Where one fact is found, as people write it.

use std::fmt;
use std::str::FromStr;

use super::{MAX_FACT, header};
use crate::pointer::{self, Pointer, PointerError};
use crate::{Headers, Text};

/// Where a fact is found: `header:NAME`, `json:/pointer`, or a text that is the fact itself.
///
/// A constant that would read as one of the others is written with `text:` in front.
///
/// ```
/// use redrive_core::FactSource;
///
/// assert!(matches!("header:type".parse(), Ok(FactSource::Header(_))));
/// assert!(matches!("json:/order/id".parse(), Ok(FactSource::Json(_))));
/// assert!(matches!("checkout-api".parse(), Ok(FactSource::Constant(_))));
///
/// let error = "json:order".parse::<FactSource>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`json:order`: expected a JSON pointer that begins with `/`, such as `/order/id`",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FactSource {
    /// The last value of the header of that exact name.
    Header(Text),
    /// The scalar that the pointer points at in the body: a string as it is, a number or a boolean as JSON prints
    /// it, nothing for null. Of a repeated key the last value counts. A number beyond 64 bits is rounded, so an id
    /// of that length belongs in a string.
    Json(Pointer),
    /// Always this.
    Constant(Text),
}

/// A text that names no place of a fact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}`: {expected}")]
pub struct FactSourceError {
    /// The text that was found, cut to 64 characters.
    pub found: String,
    /// What was expected in its place.
    pub expected: &'static str,
}

const EXPECTED: &str =
    "expected `header:NAME`, `json:/pointer`, or the fact itself (`text:…` if it has a colon)";

impl FactSource {
    /// The fact of one message; nothing when it is not there, not text, or the body is not JSON.
    pub fn find(&self, headers: &Headers, body: Option<&[u8]>) -> Option<Text> {
        match self {
            Self::Header(name) => header(headers, name),
            Self::Json(pointer) => {
                let found = pointer::find(body?, &[pointer], MAX_FACT).ok()?;
                found.into_iter().next().flatten().filter(|text| !text.is_empty())
            }
            Self::Constant(text) => Some(text.clone()),
        }
    }
}

impl FromStr for FactSource {
    type Err = FactSourceError;

    fn from_str(text: &str) -> Result<Self, FactSourceError> {
        let refuse = |expected| Err(FactSourceError { found: text.chars().take(64).collect(), expected });
        if let Some(name) = text.strip_prefix("header:") {
            return match Text::from(name).into_id(MAX_FACT) {
                Some(name) => Ok(Self::Header(name)),
                None => refuse("expected the name of a header after `header:`, such as `header:type`"),
            };
        }
        if let Some(pointer) = text.strip_prefix("json:") {
            return match pointer.parse() {
                Ok(pointer) => Ok(Self::Json(pointer)),
                Err(PointerError::NoSlash) => {
                    refuse("expected a JSON pointer that begins with `/`, such as `/order/id`")
                }
                Err(PointerError::Tilde) => {
                    refuse("expected `~0` (for `~`) or `~1` (for `/`) in a JSON pointer")
                }
                Err(PointerError::TooLong) => {
                    refuse("expected a JSON pointer of at most 512 bytes and 32 steps")
                }
            };
        }
        let constant = match text.strip_prefix("text:") {
            Some(constant) => constant,
            // A slip such as `headers:type` or `$.order.id` would otherwise become a constant that nobody meant.
            None if text.contains(':') || text.starts_with(['/', '$']) => return refuse(EXPECTED),
            None => text,
        };
        match Text::from(constant).into_id(MAX_FACT) {
            Some(constant) => Ok(Self::Constant(constant)),
            None => refuse("expected a constant of 1 to 256 characters on one line"),
        }
    }
}

impl fmt::Display for FactSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Json(pointer) => write!(f, "json:{pointer}"),
            Self::Constant(text) if text.contains(':') || text.starts_with(['/', '$']) => {
                write!(f, "text:{text}")
            }
            Self::Constant(text) => f.write_str(text),
        }
    }
}

as_text!(
    FactSource,
    "fact-source",
    "where a fact is found: `header:NAME`, `json:/pointer`, or the fact itself"
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slips_say_what_was_expected() {
        let error = |text: &str| text.parse::<FactSource>().unwrap_err().to_string();
        insta::assert_snapshot!(error("headers:type"), @"`headers:type`: expected `header:NAME`, `json:/pointer`, or the fact itself (`text:…` if it has a colon)");
        insta::assert_snapshot!(error("header:"), @"`header:`: expected the name of a header after `header:`, such as `header:type`");
        insta::assert_snapshot!(error("json:/a~b"), @"`json:/a~b`: expected `~0` (for `~`) or `~1` (for `/`) in a JSON pointer");
        insta::assert_snapshot!(error(""), @"``: expected a constant of 1 to 256 characters on one line");
        assert!("$.order.id".parse::<FactSource>().is_err());
        assert_eq!("text:urn:a".parse(), Ok(FactSource::Constant("urn:a".into())));
    }

    proptest! {
        #[test]
        fn sources_print_and_read_back(text: String, prefix in "(header:|json:/|text:|)") {
            if let Ok(source) = format!("{prefix}{text}").parse::<FactSource>() {
                prop_assert_eq!(source.to_string().parse(), Ok(source));
            }
        }
    }
}
