//! Other spellings of the same headers.
//!
//! The retry topics of a running system already have headers, and its consumers read them. A preset makes
//! Redrive write and read those names as well as its own, so both sides understand each other while one replaces
//! the other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Field;
use crate::ParseNameError;

/// Which names besides Redrive's own are written and read.
///
/// On reading, Redrive's own name comes first; the preset's is asked when that one is absent or unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Spelling {
    /// Redrive's own names only.
    #[default]
    Default,
    /// `x-app-retry-attempt`, `x-app-retry-max`, `x-app-retry-reason`, and `x-app-first-failure-at` in RFC 3339.
    AppPrefixed,
    /// `retry-attempt`, `first-seen-ts`, `origin-topic` and `next-delay-ms`; on a message that waits for nothing
    /// more also `dlq-reason` (the error's type), `dlq-message` and `final-attempt`.
    Plain,
    /// `X_DELAY_ROUTE`, `X_DELAY_COUNTER` and `X_DELAY_REASON`.
    UpperDelay,
}

/// How a preset writes a value that Redrive writes in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As Redrive does.
    Same,
    /// As Redrive does, on a message that waits for nothing more.
    Ended,
    /// A time in RFC 3339.
    Rfc3339,
    /// A due time as the milliseconds from the last failure to it.
    DelayMillis,
}

/// One name of a preset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alias {
    pub(super) name: &'static str,
    pub(super) field: Field,
    pub(super) form: Form,
}

const fn alias(name: &'static str, field: Field, form: Form) -> Alias {
    Alias { name, field, form }
}

static APP_PREFIXED: &[Alias] = &[
    alias("x-app-retry-attempt", Field::RetryAttempt, Form::Same),
    alias("x-app-retry-max", Field::RetryMax, Form::Same),
    alias("x-app-retry-reason", Field::FailureReason, Form::Same),
    alias("x-app-first-failure-at", Field::FirstFailureTimestamp, Form::Rfc3339),
];

static PLAIN: &[Alias] = &[
    alias("retry-attempt", Field::RetryAttempt, Form::Same),
    alias("final-attempt", Field::RetryAttempt, Form::Ended),
    alias("first-seen-ts", Field::FirstAttemptTimestamp, Form::Same),
    alias("origin-topic", Field::OriginalTopic, Form::Same),
    alias("next-delay-ms", Field::ProcessAfter, Form::DelayMillis),
    alias("dlq-reason", Field::LastErrorType, Form::Ended),
    alias("dlq-message", Field::LastErrorMessage, Form::Ended),
];

static UPPER_DELAY: &[Alias] = &[
    alias("X_DELAY_ROUTE", Field::DelayRoute, Form::Same),
    alias("X_DELAY_COUNTER", Field::DelayCounter, Form::Same),
    alias("X_DELAY_REASON", Field::DelayReason, Form::Same),
];

pub(super) const MOST_ALIASES: usize = 7;

impl Spelling {
    /// Every preset, in the order of the documentation.
    pub const ALL: &'static [Self] = &[Self::Default, Self::AppPrefixed, Self::Plain, Self::UpperDelay];

    /// The name as people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AppPrefixed => "app-prefixed",
            Self::Plain => "plain",
            Self::UpperDelay => "upper-delay",
        }
    }

    /// The preset's names in the order in which they are asked.
    pub(super) const fn aliases(self) -> &'static [Alias] {
        match self {
            Self::Default => &[],
            Self::AppPrefixed => APP_PREFIXED,
            Self::Plain => PLAIN,
            Self::UpperDelay => UPPER_DELAY,
        }
    }
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Spelling {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|spelling| spelling.as_str() == text).ok_or_else(|| ParseNameError {
            what: "spelling of headers",
            found: text.chars().take(64).collect(),
            expected: "default, app-prefixed, plain, upper-delay",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_no_preset_outgrows_the_reader() {
        for &spelling in Spelling::ALL {
            assert_eq!(spelling.as_str().parse(), Ok(spelling));
            assert_eq!(serde_json::to_value(spelling).unwrap(), spelling.as_str());
            assert!(spelling.aliases().len() <= MOST_ALIASES);
            assert!(spelling.aliases().iter().all(|alias| Field::of(alias.name).is_none()));
        }
        assert!("Plain".parse::<Spelling>().is_err());
    }
}
