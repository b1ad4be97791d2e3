//! Rules as data: what a person writes to say what an error means.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::matcher::{CodeRange, Glob, OneOrMany, Pattern};
use super::{IoKind, Seen, SqlPattern};
use crate::{Class, Exit, Handling, Reason};

/// One rule: when it matches, what the failure is.
///
/// ```
/// use redrive_core::classify::Rule;
///
/// let rule: Rule = serde_json::from_str(
///     r#"{ "when": { "status": 409, "body": "already shipped" },
///          "class": "PERMANENT_BUSINESS", "reason": "ORDER_ALREADY_SHIPPED", "then": "reject" }"#,
/// )?;
/// assert_eq!(rule.reason().as_str(), "ORDER_ALREADY_SHIPPED");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A name for logs and `because`; left out, its conditions take its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The conditions; all that are given have to hold.
    pub when: When,
    /// The class of the failure.
    pub class: Class,
    /// The reason code; left out, it is the class's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// A handling in place of the class's: that layer's schedule alone, then the exit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handling: Option<Handling>,
    /// The exit when nothing is left to try, in place of the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Exit>,
    /// Whose fault it is, when it may not be the message's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// Whose fault a failure is, when it is not the message's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The endpoint's, as with expired credentials: the breaker counts it, and while no call has succeeded lately the
    /// message goes back uncharged.
    Endpoint,
    /// The endpoint's while no call has succeeded lately, and the message's after: what is not there may be the address
    /// or the thing that the message is about.
    Unproven,
    /// Nobody's: the endpoint was not asked, as when a limit of the handler's own refused the call. The breaker is told
    /// nothing, also by a probe; the message is charged like any other.
    NotAsked,
}

/// The conditions of a rule. A list holds when one of its values does; the conditions given have to hold together;
/// no condition at all matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// HTTP status: `503`, `5xx`, `500-510`, or a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<OneOrMany<CodeRange>>,
    /// An error type anywhere in the cause chain: its full name or the part after the last dot or `::`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<OneOrMany<String>>,
    /// A regular expression that matches a message anywhere in the cause chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Pattern>,
    /// A text that stands in the answer's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<OneOrMany<String>>,
    /// A SQLSTATE, with wildcards: `40P01`, `08*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<OneOrMany<SqlPattern>>,
    /// A kind of I/O error: `connection_refused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<OneOrMany<IoKind>>,
    /// A command's exit code or a range of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<OneOrMany<CodeRange>>,
    /// Whether the attempt ran out of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<bool>,
    /// Whether the handler panicked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panic: Option<bool>,
    /// At least so many attempts have been made, this one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The message was in flight in at least so many crashes of its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crashes: Option<u32>,
    /// The message's type; `*` stands for any characters.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub message_type: Option<OneOrMany<Glob>>,
    /// The schema version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<OneOrMany<Glob>>,
    /// The producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer: Option<OneOrMany<Glob>>,
    /// Headers and the values they have to have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, Glob>,
}

impl Rule {
    /// A rule with a name and a class.
    pub fn new(name: &str, class: Class, reason: Reason, when: When) -> Self {
        Self {
            name: Some(name.to_owned()),
            when,
            class,
            reason: Some(reason),
            handling: None,
            then: None,
            fault: None,
        }
    }

    /// The reason it gives.
    pub fn reason(&self) -> Reason {
        self.reason.clone().unwrap_or(Reason::from_static(self.class.as_str()))
    }
}

/// Which facts are there to match on, one bit each: a rule whose facts are missing is passed over in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Present(u16);

impl Present {
    const STATUS: u16 = 1;
    const ERROR: u16 = 1 << 1;
    const MESSAGE: u16 = 1 << 2;
    const BODY: u16 = 1 << 3;
    const SQLSTATE: u16 = 1 << 4;
    const IO: u16 = 1 << 5;
    const EXIT: u16 = 1 << 6;
    const TIMEOUT: u16 = 1 << 7;
    const PANIC: u16 = 1 << 8;
    const CRASHES: u16 = 1 << 9;
    const TYPE: u16 = 1 << 10;
    const SCHEMA: u16 = 1 << 11;
    const PRODUCER: u16 = 1 << 12;
    const HEADERS: u16 = 1 << 13;

    fn from_flags(flags: &[(bool, u16)]) -> Self {
        Self(flags.iter().fold(0, |bits, (there, bit)| if *there { bits | bit } else { bits }))
    }

    pub(super) fn of(seen: &Seen<'_>) -> Self {
        let Seen { subject, history, failure } = seen;
        Self::from_flags(&[
            (failure.status().is_some(), Self::STATUS),
            (failure.chain().iter().any(|link| !link.kind.is_empty()), Self::ERROR),
            (!failure.chain().is_empty(), Self::MESSAGE),
            (failure.body().is_some(), Self::BODY),
            (failure.sqlstate().is_some(), Self::SQLSTATE),
            (failure.io().is_some(), Self::IO),
            (failure.exit_code().is_some(), Self::EXIT),
            (failure.timed_out(), Self::TIMEOUT),
            (failure.panicked(), Self::PANIC),
            (history.crashes > 0, Self::CRASHES),
            (subject.message_type.is_some(), Self::TYPE),
            (subject.schema.is_some(), Self::SCHEMA),
            (subject.producer.is_some(), Self::PRODUCER),
            (subject.headers.is_some(), Self::HEADERS),
        ])
    }

    pub(super) const fn contains(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }
}

impl When {
    pub(super) fn needs(&self) -> Present {
        Present::from_flags(&[
            (self.status.is_some(), Present::STATUS),
            (self.error.is_some(), Present::ERROR),
            (self.message.is_some(), Present::MESSAGE),
            (self.body.is_some(), Present::BODY),
            (self.sqlstate.is_some(), Present::SQLSTATE),
            (self.io.is_some(), Present::IO),
            (self.exit.is_some(), Present::EXIT),
            (self.timeout == Some(true), Present::TIMEOUT),
            (self.panic == Some(true), Present::PANIC),
            (self.crashes.is_some_and(|n| n > 0), Present::CRASHES),
            (self.message_type.is_some(), Present::TYPE),
            (self.schema.is_some(), Present::SCHEMA),
            (self.producer.is_some(), Present::PRODUCER),
            (!self.header.is_empty(), Present::HEADERS),
        ])
    }

    /// Whether it has no condition, and so matches everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all conditions hold.
    pub fn matches(&self, seen: &Seen<'_>) -> bool {
        let Seen { subject, history, failure } = seen;
        let code = |codes: &Option<OneOrMany<CodeRange>>, code: Option<i32>| {
            holds(codes.as_ref(), |codes| code.is_some_and(|code| codes.any(|range| range.contains(code))))
        };
        let text = |globs: &Option<OneOrMany<Glob>>, text: Option<&str>| {
            holds(globs.as_ref(), |globs| text.is_some_and(|text| globs.any(|glob| glob.matches(text))))
        };
        code(&self.status, failure.status().map(i32::from))
            && code(&self.exit, failure.exit_code())
            && holds(self.timeout, |wanted| failure.timed_out() == wanted)
            && holds(self.panic, |wanted| failure.panicked() == wanted)
            && holds(self.attempts, |least| history.attempts >= least)
            && holds(self.crashes, |least| history.crashes >= least)
            && holds(self.io.as_ref(), |kinds| failure.io().is_some_and(|io| kinds.any(|kind| *kind == io)))
            && holds(self.sqlstate.as_ref(), |patterns| {
                failure.sqlstate().is_some_and(|state| patterns.any(|pattern| pattern.matches(state)))
            })
            && text(&self.message_type, subject.message_type)
            && text(&self.schema, subject.schema)
            && text(&self.producer, subject.producer)
            && holds(self.error.as_ref(), |names| {
                failure.chain().iter().any(|link| names.any(|name| is_type(&link.kind, name)))
            })
            && holds(self.body.as_ref(), |texts| {
                failure.body().is_some_and(|body| texts.any(|text| body.contains(text.as_str())))
            })
            && self.header.iter().all(|(name, glob)| {
                let value = subject.headers.and_then(|headers| headers.get(name));
                value
                    .and_then(|value| std::str::from_utf8(value).ok())
                    .is_some_and(|value| glob.matches(value))
            })
            && holds(self.message.as_ref(), |pattern| {
                failure.chain().iter().any(|link| pattern.is_match(&link.message))
            })
    }
}

/// The conditions in one short line: `status 409, body already shipped`.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(serde_json::Value::Object(given)) = serde_json::to_value(self) else { return Err(fmt::Error) };
        if given.is_empty() {
            return f.write_str("everything");
        }
        let mut text = String::new();
        for (key, value) in given {
            let value = match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            let _ = write!(text, "{}{key} {value}", if text.is_empty() { "" } else { ", " });
        }
        match text.char_indices().nth(MAX_LINE) {
            Some((end, _)) => write!(f, "{}…", &text[..end]),
            None => f.write_str(&text),
        }
    }
}

/// The longest line that conditions are shown in, in characters.
const MAX_LINE: usize = 80;

/// A condition that is not given holds.
fn holds<T>(condition: Option<T>, check: impl FnOnce(T) -> bool) -> bool {
    condition.is_none_or(check)
}

/// Whether `name` is the type's full name or its last parts: `SocketTimeoutException` is
/// `java.net.SocketTimeoutException`.
fn is_type(kind: &str, name: &str) -> bool {
    match kind.strip_suffix(name) {
        Some("") => !name.is_empty(),
        Some(path) => path.ends_with(['.', ':', '$', '\\']) && !name.is_empty(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_named_whole_or_by_its_last_part() {
        assert!(is_type("java.net.SocketTimeoutException", "java.net.SocketTimeoutException"));
        assert!(is_type("java.net.SocketTimeoutException", "SocketTimeoutException"));
        assert!(is_type("serde_json::error::Error", "error::Error"));
        assert!(!is_type("java.net.SocketTimeoutException", "TimeoutException"));
        assert!(!is_type("java.net.SocketTimeoutException", ""));
        assert!(!is_type("", ""));
    }
}
